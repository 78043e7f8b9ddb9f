/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TASKBOOK_H
#define PYPERF_TASKBOOK_H
/*
 * What asyncio tasks wait for, while a profile is recorded: all tasks are read some times a second
 * (pytasks.h), and a place is counted in each look in which a task waits there. A place is the
 * innermost function of the application that awaits, and its line; without one, the innermost of
 * all.
 *
 *	b = taskbook__new(session__procs(s));
 *	taskbook__look(b);			every taskbook__due_ns()
 *	taskbook__fill(b, p);			once the profile is named
 *	taskbook__free(b);
 *
 * Tasks that wait for other tasks are not counted: those are. Looks come five times a second, more
 * seldom if they would take more than some hundredths of a CPU, or a fifth of the time; a look ends
 * after 150 ms, and says so.
 */
#include <stdint.h>

#include "process/process.h"
#include "profile/profile.h"

struct taskbook;

/* `pt` is borrowed, for taskbook__look(). NULL: no memory. */
struct taskbook *taskbook__new(const struct process_table *pt);
void taskbook__free(struct taskbook *b);
void taskbook__look(struct taskbook *b);
uint64_t taskbook__due_ns(const struct taskbook *b);
/* 0 or -ENOMEM. */
int taskbook__fill(const struct taskbook *b, struct profile *p);

#endif /* PYPERF_TASKBOOK_H */
