/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CHILD_H
#define PYPERF_CHILD_H
/*
 * A process of our own for work that must not be trusted to end, or to end well: it is given a
 * time, and what it writes is all that it can do to us.
 *
 *	pid = child__fork(file, pipe[1]);
 *	if (!pid) {
 *		work(CHILD_IN, CHILD_OUT);
 *		_exit(0);
 *	}
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_IN  3
#define CHILD_OUT 4

/*
 * fork(). In the child `in` (-1: none) and `out` have these numbers, and all other descriptors but
 * the first three are closed; signals do what they do by default; it ends with its parent. It may
 * call anything: the C library makes its own locks good. -errno: there is none.
 */
pid_t child__fork(int in, int out);
/* Ends it first, if `kill_it`. Its wait status. */
int child__wait(pid_t pid, bool kill_it);
/*
 * Waits until there is something to read from `fd`: 0, or -ETIMEDOUT when now_ms() is `until_ms`.
 */
int child__poll(int fd, uint64_t until_ms);

#endif /* PYPERF_CHILD_H */
