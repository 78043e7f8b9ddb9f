/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ARRIVALS_H
#define PYPERF_ARRIVALS_H
/*
 * Numbers the records that an owner keeps on disk in order of arrival and drops when they are old.
 * A number is the time of arrival in milliseconds, by a clock that runs only while the owner runs
 * and that nobody can set. If several records arrive in one millisecond, each gets the number after
 * the last one. The highest number on disk is all that the owner has to know to go on.
 *
 * Invariant: whatever the wall clock says, the order of the numbers is the order of arrival. No
 * record counts as older than the time for which it was kept, except for one millisecond per record
 * that arrived in the same one. A record may count as younger, because the clock stands still while
 * no owner runs.
 *
 *	arrivals__begin(&a, highest number on disk);
 *	number = arrivals__next(&a);
 *	... drop the records below arrivals__since(&a, max_age_ms) ...
 */
#include <stdint.h>

#include "base/clock.h"

struct arrivals {
	uint64_t begin_ms; /* CLOCK_BOOTTIME less the time that is in the numbers */
	uint64_t last;
};

/* CLOCK_BOOTTIME also counts while the machine sleeps. */
static inline uint64_t arrivals__boot_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return timespec_ns(t) / NS_PER_MS;
}

static inline uint64_t arrivals__now(const struct arrivals *a)
{
	return arrivals__boot_ms() - a->begin_ms;
}

/* `last`: the highest number there is; 0: none. May be called again. */
static inline void arrivals__begin(struct arrivals *a, uint64_t last)
{
	a->last = last;
	a->begin_ms = arrivals__boot_ms() - last;
}

static inline uint64_t arrivals__next(struct arrivals *a)
{
	uint64_t now = arrivals__now(a);

	a->last = now > a->last ? now : a->last + 1;
	return a->last;
}

static inline uint64_t arrivals__age_ms(const struct arrivals *a, uint64_t number)
{
	uint64_t now = arrivals__now(a);

	return now > number ? now - number : 0;
}

/* The lowest number of a record that is not older than `age_ms`. */
static inline uint64_t arrivals__since(const struct arrivals *a, uint64_t age_ms)
{
	uint64_t now = arrivals__now(a);

	return now > age_ms ? now - age_ms : 0;
}

#endif /* PYPERF_ARRIVALS_H */
