/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NARROW_H
#define PYPERF_NARROW_H
/*
 * A profile as if it had been recorded with options that show less: a saved profile can be read in
 * other ways than the one in which it was recorded.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "profile/profile.h"

struct narrowing {
	bool no_native, no_kernel; /* leave frames of these kinds out */
	const pid_t *pids;	   /* only these processes, if there are any */
	size_t pid_cnt;
	const char *comm; /* only processes whose name matches this pattern; NULL: all */
};

/*
 * In place, of a profile that is complete and named: nothing may be added after it. Stacks that
 * became equal stay apart, as exporters add them up. Samples that are left out count as hidden:
 * what became of samples stays true.
 */
void profile__narrow(struct profile *p, const struct narrowing *n);

#endif /* PYPERF_NARROW_H */
