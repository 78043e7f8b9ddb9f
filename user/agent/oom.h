/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_OOM_H
#define PYPERF_AGENT_OOM_H
/*
 * When the kernel kills a process for lack of memory, one page in the state directory says who
 * grew. The evidence is kept beforehand: the resident memory of the Python processes, each
 * OOM_APART_S for OOM_POINTS readings. The kernel's count of such kills (oom_kill in /proc/vmstat,
 * Linux 4.13) tells that one happened, not who it was: those are listed that ended at that time.
 *
 *	o = oom__new("");
 *	oom__look(o, procs, now_s);		each second
 *	if (oom__is_due(o, now_s))
 *		oom__write(o, dir, how, unix_s);	a log line, and DIR/oom-TIME.txt, mode 0600
 *
 * Of the pages the last OOM_PAGES are kept. Of more than OOM_PROCESSES processes the rest is not
 * read. Names are those of the processes, safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "process/process.h"

#define OOM_PROCESSES 256
#define OOM_POINTS    60
#define OOM_APART_S   5
#define OOM_SETTLE_S  2 /* after a kill, until those that end have ended */
#define OOM_PAGES     20

struct oom;

/* `root`: "" but in tests, where below it are proc/vmstat and proc/PID/statm. NULL: no memory. */
struct oom *oom__new(const char *root);
void oom__free(struct oom *o);
/* `now_s` never goes back. */
void oom__look(struct oom *o, const struct process_table *procs, uint64_t now_s);
/* A process, as oom__look() finds it in the table; `ended`: it is known to have. */
void oom__note(struct oom *o, uint32_t space, uint32_t tgid, const char *name, bool ended);
/* The readings of a second: the processes were noted. */
void oom__read(struct oom *o, uint64_t now_s);
bool oom__is_due(const struct oom *o, uint64_t now_s);
/*
 * `how`: a sentence on where the functions are that grew. 0 or negative errno, printed. It is not
 * due any more in both cases.
 */
int oom__write(struct oom *o, const char *dir, const char *how, uint64_t unix_s);

#endif /* PYPERF_AGENT_OOM_H */
