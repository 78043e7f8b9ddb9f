/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_TAPS_H
#define PYPERF_AGENT_TAPS_H
/*
 * Profiles of the next seconds for whoever asks, by a tap on what is drained anyway: no second
 * sampler, and windows do not notice.
 *
 *	any thread				the main thread
 *	taps__profile(t, 30, fd, f)		taps__due(t, now)	then it drains at once
 *	   waits				taps__add(t, drained)	after each drain
 *	   ...					taps__turn(t, now)	begins and ends them
 *	   writes
 *
 * All samples of one weigh the same: when the frequency changes, those that run end early, and say
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

/* wake_fd (an eventfd; borrowed) is written to when one is asked for. NULL: out of memory. */
struct taps *taps__new(int wake_fd);
/* Nobody is in taps__profile() any more. */
void taps__free(struct taps *t);

/* See agent__profile(). */
int taps__profile(struct taps *t, unsigned seconds, int client_fd, FILE *f);

/* For the main thread. Times are those of now_ns(). */
/* The time of the next end, UINT64_MAX: none. */
uint64_t taps__wake_ns(struct taps *t);
/* One is to begin or to end. */
bool taps__due(struct taps *t, uint64_t now);
/* When the oldest that runs began, UINT64_MAX: none does. */
uint64_t taps__oldest_ns(struct taps *t);
/* One that finds no memory ends at its time, with an error. */
void taps__add(struct taps *t, const struct profile *drained, const struct period_limits *limits);
/*
 * Directly after a drain: begins those that wait for it, and ends those that are due; `name` makes
 * the names.
 */
void taps__turn(struct taps *t, const struct clocks *now, uint32_t frequency_hz, uint32_t cpus,
		int (*name)(void *ctx, struct profile *p), void *ctx);
/* The same, for all that run: the frequency is about to change. */
void taps__cut(struct taps *t, const struct clocks *now, uint32_t frequency_hz, uint32_t cpus,
	       int (*name)(void *ctx, struct profile *p), void *ctx);
/*
 * All end now, with what they have, and no other one begins until taps__resume(). Returns when
 * nobody waits any more.
 */
void taps__end(struct taps *t, const struct clocks *now, uint32_t frequency_hz, uint32_t cpus,
	       int (*name)(void *ctx, struct profile *p), void *ctx);

void taps__resume(struct taps *t);

#endif /* PYPERF_AGENT_TAPS_H */
