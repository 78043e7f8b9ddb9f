/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STAND_IN_H
#define PYPERF_STAND_IN_H
/*
 * Finds the Python process that a wrapper stands for: `sh -c`, timeout, sudo, tini and poetry wait
 * for the Python process that they started. For commands that look at one process.
 *
 *	struct stand_ins s;
 *
 *	stand_ins__find(&s, rs, pid);
 *	if (s.cnt == 1 && s.pids[0] != pid)	`pid` is a wrapper of s.pids[0]
 *
 * Invariant: pids[] ascend in distance from `pid`. The descendants of a Python process are not
 * searched, because its workers are its own affair.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reader.h"

#define STAND_INS_MAX	   8   /* the search stops after so many */
#define STAND_INS_SEARCHED 256 /* processes: those of a large build are not read one by one */

struct stand_ins {
	pid_t pids[STAND_INS_MAX]; /* `pid` itself alone if it is Python */
	size_t cnt, searched;
	struct readers *rs; /* borrowed during the search */
};

/* Ignores processes that cannot be read or do not answer. */
void stand_ins__find(struct stand_ins *s, struct readers *rs, pid_t pid);
/* Has this process an interpreter? False also if it has ended or does not answer. */
bool stand_ins__is_python(struct readers *rs, uint32_t tgid);

#endif /* PYPERF_STAND_IN_H */
