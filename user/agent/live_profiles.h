/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LIVE_PROFILES_H
#define PYPERF_LIVE_PROFILES_H
/*
 * Profiles of the next seconds on demand, of what is drained anyway: no second sampler,
 * and no effect on windows.
 *
 * Any thread:
 *	live_profiles__profile(l, 30, fd, f)	waits, and writes
 *
 * The main thread:
 *	live_profiles__due(l, now)		then it drains at once
 *	live_profiles__add(l, drained)		after each drain
 *	live_profiles__turn(l, now)		begins and ends them
 *
 * All samples of one weigh the same: when the frequency changes, running ones end early, and say
 * how long they are.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/period.h"

#define LIVE_PROFILES_MAX	8
#define LIVE_PROFILE_MAX_S	600
#define LIVE_PROFILE_PATIENCE_S 60 /* for a main thread that stands still */

struct live_profiles;

/* wake_fd (an eventfd; borrowed) is written to for each request. NULL: out of memory. */
struct live_profiles *live_profiles__new(int wake_fd);
/* Only when nobody is in live_profiles__profile() any more. */
void live_profiles__free(struct live_profiles *t);

/* See agent__profile(). */
int live_profiles__profile(struct live_profiles *t, unsigned seconds, int client_fd, FILE *f);

/* For the main thread. Times are those of now_ns(). */
/* The time of the next end, UINT64_MAX: none. */
uint64_t live_profiles__wake_ns(struct live_profiles *t);
/* Is a live profile to begin or to end? */
bool live_profiles__due(struct live_profiles *t, uint64_t now);
/* When the oldest running one began; UINT64_MAX: none runs. */
uint64_t live_profiles__oldest_ns(struct live_profiles *t);
/* One without memory ends at its time, with an error. */
void live_profiles__add(struct live_profiles *t, const struct profile *drained,
			const struct period_limits *limits);
/*
 * Directly after a drain: begins the waiting ones, and ends those that are due; `name` makes the
 * names.
 */
void live_profiles__turn(struct live_profiles *t, const struct clocks *now, uint32_t frequency_hz,
			 uint32_t cpus, int (*name)(void *ctx, struct profile *p), void *ctx);
/* The same for all running ones: the frequency is about to change. */
void live_profiles__cut(struct live_profiles *t, const struct clocks *now, uint32_t frequency_hz,
			uint32_t cpus, int (*name)(void *ctx, struct profile *p), void *ctx);
/*
 * Ends all now, with what they have; none begins until live_profiles__resume(). Returns when
 * nobody waits any more.
 */
void live_profiles__end(struct live_profiles *t, const struct clocks *now, uint32_t frequency_hz,
			uint32_t cpus, int (*name)(void *ctx, struct profile *p), void *ctx);

void live_profiles__resume(struct live_profiles *t);

#endif /* PYPERF_LIVE_PROFILES_H */
