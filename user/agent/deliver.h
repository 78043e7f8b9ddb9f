/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_DELIVER_H
#define PYPERF_AGENT_DELIVER_H
/*
 * The delivery thread takes finished periods from a queue, makes windows of them, and stores and
 * sends each. Sampling never waits for it: when the queue is full, the oldest period is dropped,
 * counted and reported.
 *
 * Each sample of a period that it took is in a window or in dropped_samples.
 *
 *	d = deliver__new(group, put, ctx);
 *	deliver__start(d);
 *	deliver__put(d, period);		main thread
 *	deliver__call(d, change, ctx);		change(ctx) runs between two periods
 *	deliver__finish(d);			delivers all that is queued
 *	deliver__close(d, &stats);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/period.h"
#include "agent/split.h"
#include "base/clock.h"

#define DELIVER_QUEUE	    4 /* periods */
/*
 * How long one window may take. For so long a disk that stands still loses nothing: one period is
 * being delivered, and the others wait. A supervisor that ended the agent earlier would lose what
 * it holds, and restart it on the same disk.
 */
#define DELIVER_PATIENCE_NS ((DELIVER_QUEUE + 1) * 60 * NS_PER_S)

struct deliver_stats {
	uint64_t periods, windows, samples; /* delivered */
	uint64_t dropped;		    /* periods, for which there was no room */
	uint64_t dropped_samples;	    /* in these, and in windows that could not be made */
	uint64_t left_out_samples;	    /* by rules */
	uint64_t failed;		    /* windows that could not be made or put */
	uint32_t queued, services;
	uint64_t end_unix_ns; /* of the last period; 0: none */
	uint64_t cpu_ns;      /* of the thread */
	pid_t tid;	      /* its; 0: it was not started */
	uint64_t moved_ns;    /* when it began its current work, or put a window; 0: it waits */
};

struct deliver;

/* `group`: see split.h. `put` reports its own failures. NULL: out of memory. */
struct deliver *deliver__new(const char *const *group, split_fn put, void *ctx);
/* 0 or negative errno, printed. */
int deliver__start(struct deliver *d);
/*
 * Has the delivery thread call fn(ctx) before it takes the next period, without waiting for that.
 * Calls run in the order in which they were requested. 0; -EBUSY: eight wait already, because one
 * period takes long.
 */
int deliver__call(struct deliver *d, void (*fn)(void *ctx), void *ctx);
/* In such a call: changes the grouping labels. 0 or -ENOMEM. */
int deliver__regroup(struct deliver *d, const char *const *group);
/* Before the start, or after deliver__regroup() in the same call: see splitter__set_small(). */
void deliver__set_small(struct deliver *d, uint32_t samples);
/* Takes ownership of the period. */
void deliver__put(struct deliver *d, struct period *p);
void deliver__stats(struct deliver *d, struct deliver_stats *out);
/*
 * Does it hang at the time `now` (now_ns())? One that completes a window in DELIVER_PATIENCE_NS is
 * only slow.
 */
bool deliver__hangs(const struct deliver_stats *s, uint64_t now);
/* Waits until all is delivered, and ends the thread. Puts nothing after that. NULL is fine. */
void deliver__finish(struct deliver *d);
/* After deliver__finish(), or instead of it. `last`, unless NULL, gets the final statistics. */
void deliver__close(struct deliver *d, struct deliver_stats *last);

#endif /* PYPERF_AGENT_DELIVER_H */
