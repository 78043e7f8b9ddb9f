/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PPROF_H
#define PYPERF_PPROF_H
/* Constants that export_pprof.c and import_pprof.c share, beyond profile.proto. */

/* Comments of our own files begin with this. */
#define PPROF_COMMENT	   "pyperf-bpf: "
/* String PPROF_RUN_STRING is this and " name=value..." of profile_stats__print(). */
#define PPROF_RUN	   "pyperf-bpf-run:"
#define PPROF_RUN_STRING   1
/*
 * String PPROF_LOOPS_STRING, where there are event loops or places of tasks, is this and numbers,
 * each behind a blank. STACK is NS, the number of frames, and their location ids, outermost first;
 * SAMPLE is the number of a sample of the process, from 0 on. Before NAME... comes how many they
 * are.
 *
 *	1 SAMPLE TID CNT BUSY_NS SLOW_CNT SLOW_NS HIST... STACK (of its poll) STRETCH...
 *	2 SAMPLE OWN LOOKS OF CUT TASKS CAME STACK
 *
 *	STRETCH: BEGIN_NS NS OPEN STACK...
 */
#define PPROF_LOOPS	   "pyperf-bpf-loops:"
#define PPROF_LOOPS_STRING 2
#define PPROF_LOOP	   1
#define PPROF_AWAIT	   2
#define PPROF_LOOPS_MAX	   256 /* of each kind: a bound on memory */
/* Mappings of code that is in no file. */
#define PPROF_PYTHON	   "[python]"
#define PPROF_KERNEL	   "[kernel]"
/* Functions without a name; the mapping of generated code that has one. */
#define PPROF_ANON	   "[anon]"

#endif /* PYPERF_PPROF_H */
