/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREADBOOK_H
#define PYPERF_THREADBOOK_H
/*
 * Keeps the names of threads of the sampled processes. Counts are read every few seconds, and a
 * thread may have ended by then, so its name is noted while it lives:
 *
 *	b = threadbook__new(procs);
 *	threadbook__look(b);			every threadbook__due_ns()
 *	name = threadbook__find(b, process, tid);	while a window is read
 *	threadbook__end_window(b);		after it
 *
 * A name is Python's (threadnames.h), else MainThread for the main thread of a Python process, as
 * threading calls it, else the kernel's. It is the last name that was seen.
 *
 * Looking takes at most 1 / 200 of a CPU. A thread that lives for less than the time between two
 * looks, a tenth of a second where there are few threads, may stay without a name.
 */
#include <stdint.h>

#include "process/process.h"

#define MAIN_THREAD_NAME "MainThread"

struct threadbook;

/* `pt` is borrowed. NULL: no memory. */
struct threadbook *threadbook__new(const struct process_table *pt);
void threadbook__free(struct threadbook *b);
/* Looks at the threads of processes with Python, for some milliseconds at most. */
void threadbook__look(struct threadbook *b);
/* When the next look is due. now_ns(). */
uint64_t threadbook__due_ns(const struct threadbook *b);
/*
 * The name of a thread, by its number as /proc has it, or NULL. For an unknown thread of a living
 * process, it reads the names again, once in a window. Borrowed until the next call.
 */
const char *threadbook__find(struct threadbook *b, const struct process *p, uint32_t tid);
/* A window was read: threads that were not seen since the one before are forgotten. */
void threadbook__end_window(struct threadbook *b);

#endif /* PYPERF_THREADBOOK_H */
