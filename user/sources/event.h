/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EVENT_H
#define PYPERF_EVENT_H
/*
 * What samples are taken of (-e): a clock, or something that happens.
 *
 * A clock is sampled so many times a second, and a sample stands for the time between two. Of other events a sample
 * stands for a number of them: the kernel chooses it so that there are -F samples a second, or -c says it. The
 * kernel tells the program with each sample (its period), so sums are right whatever the rate was. With -F it tells
 * the number of those until the next sample: docs/internals/sample.md, "Events".
 */
#include <stdbool.h>
#include <stdint.h>

/* They leave the process (pprof): appended to, never reused. 0 is the default. */
enum event_id {
	EVENT_CPU_CLOCK = 0,
	EVENT_TASK_CLOCK = 1,
	EVENT_CYCLES = 2,
	EVENT_INSTRUCTIONS = 3,
	EVENT_CACHE_MISSES = 4,
	EVENT_BRANCH_MISSES = 5,
	EVENT_PAGE_FAULTS = 6,
	EVENT_MINOR_FAULTS = 7,
	EVENT_MAJOR_FAULTS = 8,
	EVENT_CONTEXT_SWITCHES = 9,
	EVENT_CPU_MIGRATIONS = 10,
	EVENT_CNT
};

struct event {
	const char *name; /* as perf calls it; the sample type of pprof */
	const char *one, *many;
	uint32_t type; /* of struct perf_event_attr */
	uint64_t config;
	bool clock;    /* its values are nanoseconds */
	bool hardware; /* counted by the CPU, and its samples are taken in NMI */
};

/* Never NULL: a number that is not known is the default. */
const struct event *event__get(uint32_t id);
/* EVENT_CNT: there is none of this name. */
uint32_t event__find(const char *name, uint32_t len);

#endif /* PYPERF_EVENT_H */
