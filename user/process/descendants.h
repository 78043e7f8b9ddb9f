/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_DESCENDANTS_H
#define PYPERF_DESCENDANTS_H
/*
 * Visits the descendants of processes, by the kernel's lists of children
 * (/proc/PID/task/TID/children). Reads nothing of other processes, however many there are. May miss
 * a child whose sibling ends meanwhile.
 *
 *	err = descendants__visit(&pid, 1, visit, ctx);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Called for each process. > 0: visit its children, too; 0: do not; negative errno ends the visit.
 */
typedef int (*descendants_fn)(void *ctx, uint32_t tgid);

/* Does the kernel have these lists? They need CONFIG_PROC_CHILDREN, which distributions set. */
bool descendants__are_listed(void);
/*
 * Visits the processes `pids` and their descendants, each once, parents before children. Stops
 * after 2^20 processes (-E2BIG). 0 or negative errno.
 */
int descendants__visit(const pid_t *pids, size_t cnt, descendants_fn visit, void *ctx);

#endif /* PYPERF_DESCENDANTS_H */
