/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VALUE_H
#define PYPERF_VALUE_H
/*
 * Value types: what the stacks of a profile count. All code that prints a unit, a noun or the name
 * of a column takes it from here.
 *
 * Invariant: `frequency_hz` is set exactly if one count stands for 1 / frequency_hz seconds. A type
 * with an event of ours has the names of that event; a type of another program's profile (event
 * VALUE_FOREIGN) has its own.
 *
 * Valid when all zero: samples of the CPU clock, at an unknown frequency.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"

struct strbuf;

#define VALUES_MAX     8 /* per profile. SAMPLED_MAX of them can be sampled at once */
#define VALUE_NAME_MAX 40
#define VALUE_UNIT_MAX 16
#define VALUE_FOREIGN  UINT32_MAX

/* The units of value types: value_type__unit(). */
#define UNIT_SAMPLES   "samples" /* of a clock: 1 / frequency_hz seconds each */
#define UNIT_COUNT     "count"
#define UNIT_NS	       "nanoseconds"
#define UNIT_BYTES     "bytes"

/* Words for time: its sum, the columns of seconds and of percent, what a thread does meanwhile. */
#define IS_CPU_TIME    "CPU time", "CPU s", "CPU%", "on a CPU"
#define IS_NO_TIME     NULL, NULL, NULL, NULL

/*
 * Our events: name (as perf has it), unit, singular, plural, what is counted, words for time. Their
 * numbers leave the process (pprof): append, never reuse. 0 is the default. sources/ implements
 * them.
 */
#define PYPERF_EVENTS(X)                                                                           \
	X(CPU_CLOCK, "cpu-clock", UNIT_SAMPLES, "sample", "samples", "time on a CPU", IS_CPU_TIME) \
	X(TASK_CLOCK, "task-clock", UNIT_SAMPLES, "sample", "samples",                             \
	  "time on a CPU, as the task counts it", IS_CPU_TIME)                                     \
	X(CYCLES, "cycles", UNIT_COUNT, "cycle", "cycles", "cycles of the CPU", IS_NO_TIME)        \
	X(INSTRUCTIONS, "instructions", UNIT_COUNT, "instruction", "instructions",                 \
	  "instructions that the CPU finished", IS_NO_TIME)                                        \
	X(CACHE_MISSES, "cache-misses", UNIT_COUNT, "cache miss", "cache misses",                  \
	  "reads of memory that no cache had", IS_NO_TIME)                                         \
	X(BRANCH_MISSES, "branch-misses", UNIT_COUNT, "branch miss", "branch misses",              \
	  "branches that the CPU guessed wrong", IS_NO_TIME)                                       \
	X(PAGE_FAULTS, "page-faults", UNIT_COUNT, "page fault", "page faults",                     \
	  "accesses to pages that are not mapped yet", IS_NO_TIME)                                 \
	X(MINOR_FAULTS, "minor-faults", UNIT_COUNT, "minor fault", "minor faults",                 \
	  "page faults without input or output", IS_NO_TIME)                                       \
	X(MAJOR_FAULTS, "major-faults", UNIT_COUNT, "major fault", "major faults",                 \
	  "page faults that read from a disk", IS_NO_TIME)                                         \
	X(CONTEXT_SWITCHES, "context-switches", UNIT_COUNT, "context switch", "context switches",  \
	  "times that a thread left its CPU", IS_NO_TIME)                                          \
	X(CPU_MIGRATIONS, "cpu-migrations", UNIT_COUNT, "migration", "migrations",                 \
	  "times that a thread went to another CPU", IS_NO_TIME)                                   \
	X(OFF_CPU, "off-cpu", UNIT_NS, "nanosecond", "nanoseconds", "time in which threads wait",  \
	  "waiting time", "WAIT s", "WAIT%", "waiting")                                            \
	X(WALL, "wall", UNIT_NS, "nanosecond", "nanoseconds",                                      \
	  "time of threads, running or waiting", "thread time", "THREAD s", "THREAD%", NULL)       \
	X(GROWTH, "growth", UNIT_BYTES, "byte", "bytes", "memory that was touched and stays",      \
	  "growth", NULL, NULL, NULL)                                                              \
	X(GIL, "gil", UNIT_NS, "nanosecond", "nanoseconds",                                        \
	  "time in which threads wait for a GIL", "time waited for the GIL", "GIL s", "GIL%",      \
	  "waiting for the GIL")                                                                   \
	X(GIL_HELD, "gil-held", UNIT_NS, "nanosecond", "nanoseconds",                              \
	  "what holders do while others wait for the GIL", "others' wait for the GIL", "HELD s",   \
	  "HELD%", "that others have waited for the GIL")                                          \
	X(INUSE_SPACE, "inuse_space", UNIT_BYTES, "byte", "bytes",                                 \
	  "memory that was allocated and not freed", "memory in use", NULL, NULL, NULL)            \
	X(INUSE_OBJECTS, "inuse_objects", UNIT_COUNT, "block", "blocks", "blocks in use",          \
	  "blocks in use", NULL, NULL, NULL)                                                       \
	X(ALLOC_SPACE, "alloc_space", UNIT_BYTES, "byte", "bytes", "memory that was allocated",    \
	  "allocated memory", NULL, NULL, NULL)                                                    \
	X(ALLOC_OBJECTS, "alloc_objects", UNIT_COUNT, "block", "blocks",                           \
	  "blocks that were allocated", "allocated blocks", NULL, NULL, NULL)                      \
	X(WAKERS, "wakers", UNIT_NS, "nanosecond", "nanoseconds",                                  \
	  "others' waits that a thread has ended", "time that threads have waited for others",     \
	  "ENDED s", "ENDED%", "that threads have waited for others")                              \
	X(REFS_TAKEN, "refs_taken", UNIT_COUNT, "reference", "references",                         \
	  "references to the object that were taken", "references taken", NULL, NULL, NULL)        \
	X(REFS_DROPPED, "refs_dropped", UNIT_COUNT, "reference", "references",                     \
	  "references to the object that were dropped", "references dropped", NULL, NULL, NULL)    \
	X(PEAK_SPACE, "peak_space", UNIT_BYTES, "byte", "bytes",                                   \
	  "memory in use at the highest resident memory", "memory in use at the peak", NULL, NULL, \
	  NULL)

enum event_id {
#define X(id, ...) EVENT_##id,
	PYPERF_EVENTS(X)
#undef X
		EVENT_CNT
};

struct value_type {
	uint32_t event; /* enum event_id, or VALUE_FOREIGN */
	/* of a clock: one count stands for 1 / frequency_hz seconds; else 0 */
	uint32_t frequency_hz;
	/* samples per second that were asked for, of another event; 0: see period */
	uint32_t rate_hz;
	uint64_t period; /* events per sample, if that was asked for; else 0 */
	/* For VALUE_FOREIGN: name and unit of the pprof file, sanitised. */
	char name[VALUE_NAME_MAX];
	char unit[VALUE_UNIT_MAX];
};

/* Results are borrowed from `v`, or valid for ever. */
/* "page-faults", as -e and --value have it. */
const char *value_type__name(const struct value_type *v);
/* The unit: UNIT_SAMPLES ..., or that of another program's profile. */
const char *value_type__unit(const struct value_type *v);
/* "page fault", "page faults" */
const char *value_type__noun(const struct value_type *v, uint64_t count);
/* What is counted: "time on a CPU"; of another program's profile, the name. */
const char *value_type__counts(const struct value_type *v);
/* The name of the sum: "CPU time", "page faults" */
const char *value_type__whole(const struct value_type *v);
/* Is that name a plural ("page faults are"), or an amount ("CPU time is")? */
bool value_type__is_plural(const struct value_type *v);
/* The whole of which shares are given: "samples" of a clock, else the name of the sum */
const char *value_type__shared(const struct value_type *v);
/* Titles of columns: of seconds or counts ("CPU s", "COUNT"), and of them per second ("CPU%") */
const char *value_type__column(const struct value_type *v);
const char *value_type__rate_column(const struct value_type *v);
/* Names of value types that no source has: time of calls that were all seen, or their number. */
#define VALUE_CALL_TIME "call-time"
#define VALUE_CALLS	"calls"
/* Is it one of these, by its name, which a file has, too? Its samples are calls. */
bool value_type__is_calls(const struct value_type *v);
/* What one sample of it is: "sample"; where each event is counted, that: "hit", "page faults" */
const char *value_type__sample(const struct value_type *v, uint64_t count);
/* The same for samples of all these types together. Where they differ: "sample" */
const char *value_types__sample(const struct value_type *values, uint32_t cnt, uint64_t count);
/* What a table has of it: "own time", "page faults: own", for the part "own" */
void value_type__add_part(struct strbuf *b, const struct value_type *v, const char *part);
/* What a thread does while such time passes: "on a CPU". "": not known, or no time. */
const char *value_type__doing(const struct value_type *v);
/* The name and the unit of the sum in a pprof file: "cpu" in "nanoseconds" */
const char *value_type__pprof_name(const struct value_type *v);
const char *value_type__pprof_unit(const struct value_type *v);
/* The count that is a second; 0: not time, or its frequency is not known. */
uint64_t value_type__per_second(const struct value_type *v);
/* The seconds that `count` stands for; 0 where value_type__per_second() is. */
double value_type__seconds(const struct value_type *v, uint64_t count);
/* Is it counted in samples? Then `count` and `samples` of a stack are equal. */
bool value_type__is_clock(const struct value_type *v);
bool value_type__is_bytes(const struct value_type *v);
/* Is it an event of ours that counts nanoseconds, not samples? */
bool value_type__is_time(const struct value_type *v);
/* Is each event counted, none drawn? Then shares have no error. */
bool value_type__is_exact(const struct value_type *v);
/* Name and is_clock of an event of ours; an unknown one is treated like the default. */
const char *event_name(uint32_t event);
bool event_is_clock(uint32_t event);
/* The event with this name; EVENT_CNT: none. */
uint32_t value_type__find_event(const char *name, size_t len);
/* Do both count the same thing? Rates may differ. */
bool value_type__same(const struct value_type *a, const struct value_type *b);

#endif /* PYPERF_VALUE_H */
