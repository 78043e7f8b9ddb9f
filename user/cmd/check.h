/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CHECK_H
#define PYPERF_CHECK_H
/*
 * Checks whether profiling works on this machine, and says why not. Asks the kernel about versions,
 * rights and limits and tries the rest: loads the programs, analyses the processes and samples for
 * a moment. Prints a line on stdout for each item:
 *
 *	ok    ...			it is there
 *	note  ... (remedy)		it is missing, but profiling works, less well
 *	FAIL  ... (remedy)		it is missing, and profiling does not work
 */
#include <sys/types.h>

struct check_opts {
	pid_t pid; /* explain this process; 0: the machine only */
};

/*
 * 0: everything essential is there, and the process (if any) can be walked; 1: not; stdout says
 * why.
 */
int check(const struct check_opts *o);

#endif /* PYPERF_CHECK_H */
