/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TEST_COST_H
#define PYPERF_TEST_COST_H
/*
 * How CPU time grows with what is given. A ratio, because no machine is like another: four times as
 * much may take six times as long, but where each element is compared with each other one it takes
 * sixteen times. Behind cmocka.h.
 *
 *	static uint64_t cost_of_sorting(size_t n)
 *	{
 *		... make n numbers ...
 *		begin = cpu_ns();
 *		... sort them ...
 *		return cpu_ns() - begin;
 *	}
 *	assert_not_quadratic(cost_of_sorting, 5000);
 */
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

#define COST_TRIES 3 /* of which the best counts: a busy machine makes some dearer, none cheaper */

static inline uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return timespec_ns(t);
}

static inline uint64_t least_cost(uint64_t (*cost)(size_t n), size_t n)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < COST_TRIES; i++) {
		uint64_t ns = cost(n);

		least = ns < least ? ns : least;
	}
	return least;
}

static inline void assert_not_quadratic(uint64_t (*cost)(size_t n), size_t n)
{
	uint64_t small = least_cost(cost, n), large = least_cost(cost, 4 * n);

	if (large > 9 * small)
		fail_msg("%zu: %.3f ms, %zu: %.3f ms", n, (double)small / 1e6, 4 * n,
			 (double)large / 1e6);
}

#endif /* PYPERF_TEST_COST_H */
