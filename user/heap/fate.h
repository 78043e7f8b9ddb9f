/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_FATE_H
#define PYPERF_HEAP_FATE_H
/*
 * Checks whether a process is still the one that was opened. It may have ended, or run another
 * program by exec: then its memory is gone, and a reading in progress is worthless.
 *
 *	struct heap_life life;
 *
 *	heap_life__note(&life, proc_fd);
 *	... read its memory ...
 *	if (heap_life__fate(&life, proc_fd) == HEAP_RUNS)
 *		the data are this program's
 *
 * Uses /proc/PID/stat, which does not wait for the process's memory. Without address randomisation
 * a process that executes the same program again looks unchanged.
 */
#include <stdint.h>

#define HEAP_LIFE_WORDS 3

struct heap_life {
	/* startcode, startstack, start_brk: an exec chooses all of them at random */
	uint64_t words[HEAP_LIFE_WORDS];
};

enum heap_fate {
	HEAP_RUNS,
	HEAP_ENDED,
	HEAP_EXECED,
};

void heap_life__note(struct heap_life *l, int proc_fd);
enum heap_fate heap_life__fate(const struct heap_life *l, int proc_fd);

/* A descriptor that is readable once the process has ended; -1: the kernel has none (5.3). */
int heap_life__watch(int pid);

#endif /* PYPERF_HEAP_FATE_H */
