/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VALUE_H
#define PYPERF_VALUE_H
/*
 * What the stacks of a profile are counted in: a value type. Everything that prints a unit, a noun or a name of a column
 * takes it from here.
 *
 * Invariant: `frequency_hz` is set exactly if one stands for 1 / frequency_hz seconds. A type of an event of ours has that
 * event's names; one of another program's profile (event VALUE_FOREIGN) brings its own.
 *
 * Valid when all zero: samples of the CPU clock, at a frequency that is not known.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"

#define VALUES_MAX     8 /* of a profile. SAMPLED_MAX of them can be sampled at once */
#define VALUE_NAME_MAX 40
#define VALUE_UNIT_MAX 16
#define VALUE_FOREIGN  UINT32_MAX

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

struct value_type {
	uint32_t event;	       /* enum event_id, or VALUE_FOREIGN */
	uint32_t frequency_hz; /* of a clock: one stands for 1 / frequency_hz seconds; else 0 */
	uint32_t rate_hz;      /* samples that were asked for of another event; 0: see period */
	uint64_t period;       /* events per sample, if that was asked for; else 0 */
	/* Of VALUE_FOREIGN: as pprof has them, sanitised. */
	char name[VALUE_NAME_MAX];
	char unit[VALUE_UNIT_MAX];
};

/* Each is borrowed from `v`, or for ever. */
const char *
value_type__name(const struct value_type *v); /* "page-faults", as -e and --value have it */
const char *
value_type__unit(const struct value_type *v); /* of `count`: "samples", "count", "bytes" */
const char *value_type__noun(const struct value_type *v,
			     uint64_t count); /* "page fault", "page faults" */
/* Counted in samples: of these, `count` and `samples` of a stack say the same. */
bool value_type__is_clock(const struct value_type *v);
bool value_type__is_bytes(const struct value_type *v);
/* Of an event of ours; one that is not known is as the default. */
const char *event_name(uint32_t event);
bool event_is_clock(uint32_t event);
/* The event that is called so; EVENT_CNT: none. */
uint32_t value_type__find_event(const char *name, size_t len);
/* Do both count the same thing? Rates may differ. */
bool value_type__same(const struct value_type *a, const struct value_type *b);

#endif /* PYPERF_VALUE_H */
