/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ARRIVALS_H
#define PYPERF_ARRIVALS_H
/*
 * Numbers for what is kept on disk in the order in which it came, and dropped when it is old. A
 * number is the time of arrival, in milliseconds, by a clock that runs while its owner does and
 * that nobody can set; or one more than the last number, if several come in one millisecond. The
 * last number that is on disk is all that has to be known to go on.
 *
 * Invariant: whatever the wall clock says or said, order is the order of arrival, and nothing
 * counts as older than the time for which it was kept (but for a millisecond for each that came in
 * the same one). It may count as younger: while no owner runs, no time goes by.
 *
 *	arrivals__begin(&a, highest number on disk);
 *	number = arrivals__next(&a);
 *	... drop what is below arrivals__since(&a, max_age_ms) ...
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

/* Numbers below it are older than that. */
static inline uint64_t arrivals__since(const struct arrivals *a, uint64_t age_ms)
{
	uint64_t now = arrivals__now(a);

	return now > age_ms ? now - age_ms : 0;
}

#endif /* PYPERF_ARRIVALS_H */
