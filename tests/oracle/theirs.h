/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ORACLE_THEIRS_H
#define PYPERF_ORACLE_THEIRS_H
/*
 * The stack of a stopped thread as libdwfl (elfutils) takes it. The caller is its tracer.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define THEIR_FRAMES 8192

struct theirs;

struct their_stack {
	uint32_t cnt;
	uint64_t addr[THEIR_FRAMES]; /* innermost first; of callers, the last byte of the call */
	bool whole;		     /* ends at a root: a return address that is undefined or 0 */
	const char *why;	     /* ... or why not. Borrowed until the next walk */
};

struct theirs *theirs__new(pid_t pid);
void theirs__free(struct theirs *t);
/* The mappings have changed. */
int theirs__refresh(struct theirs *t);
void theirs__walk(struct theirs *t, pid_t tid, struct their_stack *out);
/* The name of the function at an address, or "?". Borrowed until the next refresh. */
const char *theirs__symbol(struct theirs *t, uint64_t addr);

#endif /* PYPERF_ORACLE_THEIRS_H */
