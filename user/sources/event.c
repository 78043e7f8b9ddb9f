/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sources/event.h"

#include <linux/perf_event.h>

#define SOFTWARE(what) .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_##what
#define HARDWARE(what) .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_##what, .hardware = true

static const struct event events[EVENT_CNT] = {
	[EVENT_CPU_CLOCK] = { SOFTWARE(CPU_CLOCK) },
	[EVENT_TASK_CLOCK] = { SOFTWARE(TASK_CLOCK) },
	[EVENT_CYCLES] = { HARDWARE(CPU_CYCLES) },
	[EVENT_INSTRUCTIONS] = { HARDWARE(INSTRUCTIONS) },
	[EVENT_CACHE_MISSES] = { HARDWARE(CACHE_MISSES) },
	[EVENT_BRANCH_MISSES] = { HARDWARE(BRANCH_MISSES) },
	[EVENT_PAGE_FAULTS] = { SOFTWARE(PAGE_FAULTS) },
	[EVENT_MINOR_FAULTS] = { SOFTWARE(PAGE_FAULTS_MIN) },
	[EVENT_MAJOR_FAULTS] = { SOFTWARE(PAGE_FAULTS_MAJ) },
	[EVENT_CONTEXT_SWITCHES] = { SOFTWARE(CONTEXT_SWITCHES) },
	[EVENT_CPU_MIGRATIONS] = { SOFTWARE(CPU_MIGRATIONS) },
};

const struct event *event__get(uint32_t id)
{
	return &events[id < EVENT_CNT ? id : EVENT_CPU_CLOCK];
}
