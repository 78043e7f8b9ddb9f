/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREAD_NAMES_H
#define PYPERF_THREAD_NAMES_H
/*
 * The threads of traced processes, for lines that have more of them than a number: each has the
 * command name that the kernel had for it when it was first asked for, and what the caller keeps of
 * it. At most 65,536 at a time. A zeroed struct thread_names is empty.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"

#define THREAD_NAME_SIZE 16 /* TASK_COMM_LEN */

struct thread_name {
	uint32_t tgid, tid;
	char name[THREAD_NAME_SIZE]; /* of the process's own choice: not sanitised */
	/* Of the caller, at first 0. */
	bool told;
	uint64_t tracks;
};

struct thread_names {
	struct thread_name *all;
	size_t cnt, cap;
	struct idmap numbers; /* one more than the number in `all`, by thread */
};

/* NULL: no room. Valid until the next call. */
struct thread_name *thread_names__of(struct thread_names *t, uint32_t tgid, uint32_t tid);
/* Others may have the numbers of its threads from now on. */
void thread_names__end_process(struct thread_names *t, uint32_t tgid);
void thread_names__free(struct thread_names *t);

#endif /* PYPERF_THREAD_NAMES_H */
