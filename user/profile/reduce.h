/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_REDUCE_H
#define PYPERF_REDUCE_H
/* Reduces a saved profile to what it would have if it had been recorded with narrower options. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "profile/profile.h"

struct reduction {
	bool no_native, no_kernel; /* leave frames of these kinds out */
	const pid_t *pids;	   /* only these processes, if there are any */
	size_t pid_cnt;
	const char *comm; /* only processes whose name matches this pattern; NULL: all */
};

/*
 * Changes a complete and named profile in place; nothing may be added after it. Stacks that become
 * equal stay apart, because exporters add them up. Samples that are left out count as hidden, so
 * the account of the samples stays true.
 */
void profile__reduce(struct profile *p, const struct reduction *n);

#endif /* PYPERF_REDUCE_H */
