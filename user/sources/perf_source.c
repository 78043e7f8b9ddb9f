/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The perf events of the kernel, one row each. */
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <unistd.h>

#include "follow/perf.h"
#include "sources/sources.h"

static const char *check(const struct source *s)
{
	int fd = perf__open(s->kind, s->config, sched_getcpu(), 1, 0);

	if (fd >= 0) {
		close(fd);
		return NULL;
	}
	if (fd == -EACCES || fd == -EPERM)
		return "not permitted: ask as root";
	return s->nmi ? "no counter here" : "not in this kernel";
}

#define EVENT(id)      .type = { .event = EVENT_##id }, .check = check
#define SOFTWARE(what) .kind = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_##what
#define HARDWARE(what) .kind = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_##what, .nmi = true

const struct source perf_sources[] = {
	{ EVENT(CPU_CLOCK), SOFTWARE(CPU_CLOCK) },
	{ EVENT(TASK_CLOCK), SOFTWARE(TASK_CLOCK) },
	{ EVENT(CYCLES), HARDWARE(CPU_CYCLES) },
	{ EVENT(INSTRUCTIONS), HARDWARE(INSTRUCTIONS) },
	{ EVENT(CACHE_MISSES), HARDWARE(CACHE_MISSES) },
	{ EVENT(BRANCH_MISSES), HARDWARE(BRANCH_MISSES) },
	{ EVENT(PAGE_FAULTS), SOFTWARE(PAGE_FAULTS) },
	{ EVENT(MINOR_FAULTS), SOFTWARE(PAGE_FAULTS_MIN) },
	{ EVENT(MAJOR_FAULTS), SOFTWARE(PAGE_FAULTS_MAJ) },
	{ EVENT(CONTEXT_SWITCHES), SOFTWARE(CONTEXT_SWITCHES) },
	{ EVENT(CPU_MIGRATIONS), SOFTWARE(CPU_MIGRATIONS) },
	{ .check = NULL },
};
