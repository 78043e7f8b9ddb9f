/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RESOURCES_H
#define PYPERF_RESOURCES_H
/* The priority of a process, and limits for what it uses up (sys/resource.h). */
#include <sys/resource.h>
#include <sys/types.h>

/* Sets the nice value of a process, 0: of this one. 0 or negative errno. */
int resources__set_nice(pid_t pid, int nice);
/*
 * Has this process run before others: it must look at a process while that is as it was. A failure
 * is logged and costs only speed.
 */
void resources__hurry(void);

/* Lowers both the soft and the hard limit to `value` at most; see setrlimit(2). */
void resources__limit(int what, rlim_t value);

#endif /* PYPERF_RESOURCES_H */
