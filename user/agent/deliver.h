/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_DELIVER_H
#define PYPERF_AGENT_DELIVER_H
/*
 * The delivery thread: takes finished periods from a queue, makes windows of them, and puts each
 * where windows go. Sampling never waits for it: when the queue is full its oldest period is
 * dropped, counted, and said.
 *
 * Of the samples of a period that it took, each is in a window or in dropped_samples.
 *
 *	d = deliver__new(group, put, ctx);
 *	deliver__start(d);
 *	deliver__put(d, period);		main thread
 *	deliver__call(d, change, ctx);		change(ctx) runs between two periods
 *	deliver__finish(d);			all that is queued is delivered
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
 * For how long one window may be on its way. So long a disk that stands still costs nothing: one
 * period is in hand, and the others wait. Whoever ended the agent earlier would lose what it holds,
 * and have it begin anew on the same disk.
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
	uint64_t moved_ns;    /* when it took up what it is at, or put a window; 0: it waits */
};

struct deliver;

/* `group`: see split.h. `put` has said itself why it failed. NULL: out of memory. */
struct deliver *deliver__new(const char *const *group, split_fn put, void *ctx);
/* 0 or negative errno, printed. */
int deliver__start(struct deliver *d);
/*
 * Has the delivery thread call fn(ctx) before it takes the next period; does not wait for that. One
 * that was asked for before and was not called yet is called first. 0; -EBUSY: eight wait already,
 * as one period takes its time.
 */
int deliver__call(struct deliver *d, void (*fn)(void *ctx), void *ctx);
/* In such a call: other grouping labels from now on. 0 or -ENOMEM. */
int deliver__regroup(struct deliver *d, const char *const *group);
/* Before the start, or after deliver__regroup() in the same call: see splitter__set_small(). */
void deliver__set_small(struct deliver *d, uint32_t samples);
/* Takes the period over. */
void deliver__put(struct deliver *d, struct period *p);
void deliver__stats(struct deliver *d, struct deliver_stats *out);
/*
 * It hangs, at the time `now` (now_ns()): slow is what gets a window done in DELIVER_PATIENCE_NS.
 */
bool deliver__hangs(const struct deliver_stats *s, uint64_t now);
/* Waits until all is delivered, and ends the thread. Nothing is put after that. NULL is fine. */
void deliver__finish(struct deliver *d);
/* After deliver__finish(), or in its place. `last`, unless NULL, gets the final statistics. */
void deliver__close(struct deliver *d, struct deliver_stats *last);

#endif /* PYPERF_AGENT_DELIVER_H */
