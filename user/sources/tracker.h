/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACKER_H
#define PYPERF_TRACKER_H
/*
 * The thread of a source of memory that keeps what is in use over time, by stack, and what was in
 * use when the processes had most resident memory.
 *
 *	t = tracker__start(&opts);		the source's start()
 *	tracker__lock(t);			the source's window()
 *	...
 *	tracker__end_window(t, &tables, type);	what is in use then stays so
 *	tracker__unlock(t);
 *	tracker__stop(t);			the source's stop(): the last point
 *	c = tracker__curves(t);			after the last window
 *	tracker__free(t);
 *
 * Resident memory is read every TRACKER_TICK_MS (/proc/PID/statm, which waits for no lock of the
 * process). A point is taken where it is 5% more than at the highest one so far, or more at all a
 * second after that one; a peak that is shorter than a tick, or than it takes to read the tables,
 * is missed, and one that is hit may be 5% too low. Other points are taken at even distances. When
 * CURVE_POINTS are full, every other one is dropped, and the distance doubles. The peak is added at
 * the end. Reading the tables takes at most a twentieth of the time.
 *
 * Processes that are there at the beginning count with all of their resident memory, those that
 * begin later with what it grew by since they were first seen: the rest is their parent's.
 *
 * All functions take NULL, and do nothing then.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/pyperf.h"
#include "sources/sources.h"

#define TRACKER_TICK_MS 25
#define CURVE_POINTS	96
#define CURVE_STACKS	8192 /* others are not kept; see curves.more */

struct curve_point {
	uint64_t at_ns; /* since the beginning */
	uint64_t rss;
};

struct curve_value {
	uint64_t bytes, samples;
};

/* One stack. */
struct curve {
	struct count_key key; /* without the number of the value type */
	uint64_t *words;      /* outermost first; NULL: its window has not ended */
	uint32_t cnt;
	struct curve_value settled; /* of windows that have ended */
	struct curve_value peak;
	uint64_t bytes[CURVE_POINTS];
};

struct curves {
	struct curve *at; /* owned by the tracker */
	size_t cnt;
	struct curve_point points[CURVE_POINTS];
	uint32_t point_cnt;
	struct curve_point peak; /* at_ns 0: nobody had any */
	uint64_t begin_rss;
	uint64_t high_rss; /* of the only process, by the kernel; 0: it was no higher than before */
	bool more;	   /* there were more stacks than CURVE_STACKS */
};

/* What is in use by one stack; several of one key add up, and may be negative. */
struct in_use {
	struct count_key key;
	int64_t bytes, samples;
};

struct in_use_list {
	struct in_use *at;
	size_t cnt, cap;
};

/* 0 or -ENOMEM. The number of the value type in `key` does not matter. */
int in_use_list__add(struct in_use_list *l, const struct count_key *key, int64_t bytes,
		     int64_t samples);

struct tracker_opts {
	const char *event; /* for messages */
	const pid_t *pids; /* borrowed until tracker__start() returns */
	size_t pid_cnt;
	bool children;
	/*
	 * What of the window `window`, 0 or 1, is in use now. In the tracker's thread, or that of
	 * tracker__stop(), with the lock held. 0 or negative errno.
	 */
	int (*in_use)(void *ctx, uint32_t window, struct in_use_list *out);
	/* The number of the window that programs write to. */
	uint32_t (*window)(void *ctx);
	void *ctx;
};

struct tracker;

/* NULL after a message: nothing is kept. */
struct tracker *tracker__start(const struct tracker_opts *o);
void tracker__lock(struct tracker *t);
void tracker__unlock(struct tracker *t);
/* With the lock held: `tables` are those of the window that has ended. */
void tracker__end_window(struct tracker *t, const struct source_tables *tables, uint32_t type);
/* May be called again. */
void tracker__stop(struct tracker *t);
/* After tracker__stop() and the last window. NULL: there are none. Borrowed. */
const struct curves *tracker__curves(const struct tracker *t);
void tracker__free(struct tracker *t);

#endif /* PYPERF_TRACKER_H */
