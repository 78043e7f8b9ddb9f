/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sources/event.h"

#include <linux/perf_event.h>
#include <string.h>

#define SOFTWARE(what) .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_##what
#define HARDWARE(what) .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_##what, .hardware = true

static const struct event events[EVENT_CNT] = {
	[EVENT_CPU_CLOCK] = { "cpu-clock", "sample", "samples", SOFTWARE(CPU_CLOCK),
			      .clock = true },
	[EVENT_TASK_CLOCK] = { "task-clock", "sample", "samples", SOFTWARE(TASK_CLOCK),
			       .clock = true },
	[EVENT_CYCLES] = { "cycles", "cycle", "cycles", HARDWARE(CPU_CYCLES) },
	[EVENT_INSTRUCTIONS] = { "instructions", "instruction", "instructions",
				 HARDWARE(INSTRUCTIONS) },
	[EVENT_CACHE_MISSES] = { "cache-misses", "cache miss", "cache misses",
				 HARDWARE(CACHE_MISSES) },
	[EVENT_BRANCH_MISSES] = { "branch-misses", "branch miss", "branch misses",
				  HARDWARE(BRANCH_MISSES) },
	[EVENT_PAGE_FAULTS] = { "page-faults", "page fault", "page faults", SOFTWARE(PAGE_FAULTS) },
	[EVENT_MINOR_FAULTS] = { "minor-faults", "minor fault", "minor faults",
				 SOFTWARE(PAGE_FAULTS_MIN) },
	[EVENT_MAJOR_FAULTS] = { "major-faults", "major fault", "major faults",
				 SOFTWARE(PAGE_FAULTS_MAJ) },
	[EVENT_CONTEXT_SWITCHES] = { "context-switches", "context switch", "context switches",
				     SOFTWARE(CONTEXT_SWITCHES) },
	[EVENT_CPU_MIGRATIONS] = { "cpu-migrations", "migration", "migrations",
				   SOFTWARE(CPU_MIGRATIONS) },
};

const struct event *event__get(uint32_t id)
{
	return &events[id < EVENT_CNT ? id : EVENT_CPU_CLOCK];
}

uint32_t event__find(const char *name, uint32_t len)
{
	uint32_t i = 0;

	while (i < EVENT_CNT &&
	       (strlen(events[i].name) != len || memcmp(events[i].name, name, len)))
		i++;
	return i;
}
