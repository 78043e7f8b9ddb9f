/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VALUE_H
#define PYPERF_VALUE_H
/*
 * What the stacks of a profile are counted in: a value type. Everything that prints a unit, a noun
 * or a name of a column takes it from here.
 *
 * Invariant: `frequency_hz` is set exactly if one stands for 1 / frequency_hz seconds. A type of an
 * event of ours has that event's names; one of another program's profile (event VALUE_FOREIGN)
 * brings its own.
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

/*
 * The events of ours: name (as perf has it), whether it is a clock, what one and several are
 * called, what is counted. Their numbers leave the process (pprof): appended to, never reused. 0 is
 * the default. sources/ has where they come from.
 */
#define PYPERF_EVENTS(X)                                                                           \
	X(CPU_CLOCK, "cpu-clock", true, "sample", "samples", "time on a CPU")                      \
	X(TASK_CLOCK, "task-clock", true, "sample", "samples",                                     \
	  "time on a CPU, as the task counts it")                                                  \
	X(CYCLES, "cycles", false, "cycle", "cycles", "cycles of the CPU")                         \
	X(INSTRUCTIONS, "instructions", false, "instruction", "instructions",                      \
	  "instructions that the CPU finished")                                                    \
	X(CACHE_MISSES, "cache-misses", false, "cache miss", "cache misses",                       \
	  "reads of memory that no cache had")                                                     \
	X(BRANCH_MISSES, "branch-misses", false, "branch miss", "branch misses",                   \
	  "branches that the CPU guessed wrong")                                                   \
	X(PAGE_FAULTS, "page-faults", false, "page fault", "page faults",                          \
	  "accesses to pages that are not mapped yet")                                             \
	X(MINOR_FAULTS, "minor-faults", false, "minor fault", "minor faults",                      \
	  "page faults without input or output")                                                   \
	X(MAJOR_FAULTS, "major-faults", false, "major fault", "major faults",                      \
	  "page faults that read from a disk")                                                     \
	X(CONTEXT_SWITCHES, "context-switches", false, "context switch", "context switches",       \
	  "times that a thread left its CPU")                                                      \
	X(CPU_MIGRATIONS, "cpu-migrations", false, "migration", "migrations",                      \
	  "times that a thread went to another CPU")

enum event_id {
#define X(id, ...) EVENT_##id,
	PYPERF_EVENTS(X)
#undef X
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
/* "page-faults", as -e and --value have it. */
const char *value_type__name(const struct value_type *v);
/* Of `count`: "samples", "count", "bytes", or what another program's profile says. */
const char *value_type__unit(const struct value_type *v);
/* "page fault", "page faults" */
const char *value_type__noun(const struct value_type *v, uint64_t count);
/* What is counted: "time on a CPU"; of another program's profile, the name. */
const char *value_type__counts(const struct value_type *v);
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
