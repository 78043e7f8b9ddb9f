/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CLOCK_H
#define PYPERF_CLOCK_H
/* Monotonic time, as bpf_ktime_get_ns() counts it, in ns or ms. */
#include <stdint.h>
#include <time.h>

#define NS_PER_S  1000000000ULL
#define NS_PER_MS 1000000ULL

static inline uint64_t timespec_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return timespec_ns(t);
}

/* CPU time of the calling thread. */
static inline uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return timespec_ns(t);
}

static inline uint64_t now_ms(void)
{
	return now_ns() / NS_PER_MS;
}

/*
 * When the next of rounds that are due each step_ns begins: always later than now_ns. Those that
 * were missed are left out, so that between two rounds there is time for signals.
 */
static inline uint64_t next_round(uint64_t last_ns, uint64_t step_ns, uint64_t now_ns)
{
	return last_ns + step_ns > now_ns ? last_ns + step_ns : now_ns + step_ns;
}

#endif /* PYPERF_CLOCK_H */
