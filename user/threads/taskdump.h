/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TASKDUMP_H
#define PYPERF_TASKDUMP_H
/*
 * Reads the asyncio tasks of a process and names their frames. Does not stop the process, which
 * need not run: reads everything from its memory.
 */
#include "process/process.h"
#include "profile/profile.h"
#include "threads/tasks.h"
#include "threads/threadlist.h"

/*
 * `p` is a process of `pt`. `list` gives threads their numbers. Adds strings and frames to
 * `profile`, which `forest` borrows. 0, or negative errno after a message. Call task_forest__free()
 * in any case.
 */
int taskdump__read(const struct process_table *pt, const struct process *p, struct threadlist *list,
		   struct profile *profile, struct task_forest *forest);

/*
 * Where the tasks of a process are, for pytasks__read(): `debug` is filled in, and borrowed by
 * `src`. False: its interpreter is not known well enough. Takes some milliseconds from 3.14 on.
 */
bool taskdump__find(const struct process_table *pt, const struct process *p,
		    struct pytasks_source *src, struct pytasks_debug *debug);
/* What reads names of code objects: `mem` as pycodes has it, read through `ctx`. */
struct pymem taskdump__mem(const struct pytasks_source *src,
			   int (*read)(void *ctx, void *dst, size_t size, uint64_t at), void *ctx);

#endif /* PYPERF_TASKDUMP_H */
