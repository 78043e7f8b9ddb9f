/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_TAPS_H
#define PYPERF_AGENT_TAPS_H
/*
 * Profiles of the next seconds on demand, by a tap on what is drained anyway: no second sampler,
 * and no effect on windows.
 *
 *	any thread				the main thread
 *	taps__profile(t, 30, fd, f)		taps__due(t, now)	then it drains at once
 *	   waits				taps__add(t, drained)	after each drain
 *	   ...					taps__turn(t, now)	begins and ends them
 *	   writes
 *
 * All samples of a tap weigh the same: when the frequency changes, running taps end early, and say
 * how long they are.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/period.h"

#define TAPS_MAX	8
#define TAPS_MAX_S	600
#define TAPS_PATIENCE_S 60 /* for a main thread that stands still */

struct taps;

/* wake_fd (an eventfd; borrowed) is written to for each request. NULL: out of memory. */
struct taps *taps__new(int wake_fd);
/* Only when nobody is in taps__profile() any more. */
void taps__free(struct taps *t);

/* See agent__profile(). */
int taps__profile(struct taps *t, unsigned seconds, int client_fd, FILE *f);

/* For the main thread. Times are those of now_ns(). */
/* The time of the next end, UINT64_MAX: none. */
uint64_t taps__wake_ns(struct taps *t);
/* Is a tap to begin or to end? */
bool taps__due(struct taps *t, uint64_t now);
/* When the oldest running tap began; UINT64_MAX: none runs. */
uint64_t taps__oldest_ns(struct taps *t);
/* A tap without memory ends at its time, with an error. */
void taps__add(struct taps *t, const struct profile *drained, const struct period_limits *limits);
/*
 * Directly after a drain: begins the waiting taps, and ends those that are due; `name` makes the
 * names.
 */
void taps__turn(struct taps *t, const struct clocks *now, uint32_t frequency_hz, uint32_t cpus,
		int (*name)(void *ctx, struct profile *p), void *ctx);
/* The same for all running taps: the frequency is about to change. */
void taps__cut(struct taps *t, const struct clocks *now, uint32_t frequency_hz, uint32_t cpus,
	       int (*name)(void *ctx, struct profile *p), void *ctx);
/*
 * Ends all taps now, with what they have; none begins until taps__resume(). Returns when nobody
 * waits any more.
 */
void taps__end(struct taps *t, const struct clocks *now, uint32_t frequency_hz, uint32_t cpus,
	       int (*name)(void *ctx, struct profile *p), void *ctx);

void taps__resume(struct taps *t);

#endif /* PYPERF_AGENT_TAPS_H */
