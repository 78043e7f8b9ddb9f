/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREADDUMP_H
#define PYPERF_THREADDUMP_H
/*
 * Shows what every thread of a process does now: its state, its stack, who has the GIL. Does not
 * stop it.
 *
 *	list of threads (threadlist)
 *	|-- not on a CPU --> stack read from outside (hostwalk) --> list again: did not run? -> done
 *	|                                                              `-- it did: again
 *	`-- on a CPU ------> the sampler of record, until it has a sample of the thread ----> done
 *
 * So each stack is one that the thread really had, but the threads are read one after the other,
 * within some milliseconds. A thread that never stands still keeps its last stack, marked as such.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct threaddump_opts {
	const pid_t *pids; /* borrowed; one at least */
	size_t pid_cnt;
	bool children;	  /* and their descendants */
	bool python_only; /* those without Python are left out silently */
	bool json;
	bool native; /* all frames; and processes without Python are not refused */
	bool tasks;  /* those of asyncio instead of threads: taskdump.h */
	bool all;    /* each task by itself */
};

/*
 * One process is shown thread by thread, several by equal stacks.
 *
 * Writes to stdout. The exit status: 0; 1 after a message.
 */
int threaddump(const struct threaddump_opts *o);

#endif /* PYPERF_THREADDUMP_H */
