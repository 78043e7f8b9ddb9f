/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_DELIVER_H
#define PYPERF_AGENT_DELIVER_H
/*
 * The delivery thread: takes finished periods from a queue, makes windows of them, and gives each window to all
 * sinks, one after the other. Sampling never waits for it: when the queue is full its oldest period is dropped,
 * counted, and said.
 *
 *	d = deliver__new(group);
 *	deliver__set_sinks(d, sinks, cnt);
 *	deliver__start(d);
 *	deliver__put(d, period);		main thread
 *	deliver__close(d);			all that is queued is delivered
 */
#include <stddef.h>
#include <stdint.h>

#include "agent/period.h"
#include "agent/window.h"

#define DELIVER_QUEUE 4 /* periods */
#define DELIVER_SINKS 32

/* Where windows go. `put` says why it failed itself. */
struct sink {
	const char *name; /* borrowed */
	int (*put)(void *ctx, const struct window *w);
	void *ctx;
};

struct deliver_stats {
	uint64_t periods, windows, samples; /* delivered */
	uint64_t dropped, dropped_samples;  /* periods */
	uint64_t failed; /* windows that a sink did not take, or that could not be made */
	uint32_t queued, services;
	uint64_t end_unix_ns; /* of the last period; 0: none */
	uint64_t busy_ns;     /* since when it is at the period in hand, by now_ns(); 0: it waits */
};

struct deliver;

/* `group`: see split.h. NULL: out of memory. */
struct deliver *deliver__new(const char *const *group);
/* 0 or negative errno, printed. */
int deliver__start(struct deliver *d);
/* From the next period on; returns when nobody uses the old ones any more. Copied. NULL `group`: as before. */
int deliver__set(struct deliver *d, const char *const *group, const struct sink *sinks, size_t cnt);
/* Takes the period over. */
void deliver__put(struct deliver *d, struct period *p);
void deliver__stats(struct deliver *d, struct deliver_stats *out);
/* Waits until all is delivered. The sinks are not used after that. `last`, unless NULL, gets the final statistics. */
void deliver__close(struct deliver *d, struct deliver_stats *last);

#endif /* PYPERF_AGENT_DELIVER_H */
