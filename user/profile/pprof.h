/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PPROF_H
#define PYPERF_PPROF_H
/* What export_pprof.c and import_pprof.c agree on beyond profile.proto. */

/* The comment of a file of ours begins with this. */
#define PPROF_COMMENT	 "pyperf-bpf: "
/* String PPROF_RUN_STRING is this and " name=value..." of profile_stats__print(). */
#define PPROF_RUN	 "pyperf-bpf-run:"
#define PPROF_RUN_STRING 1
/* Mappings of code that is in no file. */
#define PPROF_PYTHON	 "[python]"
#define PPROF_KERNEL	 "[kernel]"
/* Functions without a name. */
#define PPROF_ANON	 "[anon]"

#endif /* PYPERF_PPROF_H */
