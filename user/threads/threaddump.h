/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREADDUMP_H
#define PYPERF_THREADDUMP_H
/*
 * What every thread of a process does now: its state, its stack, who has the GIL. Without stopping
 * it.
 *
 *	list of threads (threadlist)
 *	|-- not on a CPU --> stack read from outside (hostwalk) --> list again: did not run? -->
 *	done
 *	   |                                                             `-- it did: again
 *	`-- on a CPU ------> the sampler of record, until it has a sample of the thread ----> done
 *
 * So each stack is one that the thread really had, but the threads are looked at one after the
 * other, in some milliseconds. A thread that is never caught keeps its last stack, marked as such.
 */
#include <stdbool.h>
#include <sys/types.h>

struct threaddump_opts {
	pid_t pid;
	bool json;
	bool native; /* all frames; and processes without Python are not refused */
};

/* Writes to stdout. The exit status: 0; 1 after a message. */
int threaddump(const struct threaddump_opts *o);

#endif /* PYPERF_THREADDUMP_H */
