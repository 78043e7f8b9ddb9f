/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CHECK_H
#define PYPERF_CHECK_H
/*
 * Does it work here, and if not, why? Asks what can be asked (kernel, rights, limits) and tries the
 * rest: the programs are loaded, the processes analysed, and a moment is sampled. A line on stdout
 * for each thing:
 *
 *	ok    ...			it is there
 *	note  ... (remedy)		it works without, less well
 *	FAIL  ... (remedy)		it does not work without
 */
#include <sys/types.h>

struct check_opts {
	pid_t pid; /* explain this process; 0: the machine only */
};

/*
 * 0: all essential things are there, and the process (if any) is walked; 1: not so; said on stdout.
 */
int check(const struct check_opts *o);

#endif /* PYPERF_CHECK_H */
