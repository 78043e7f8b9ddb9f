/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYTASKS_H
#define PYPERF_PYTASKS_H
/*
 * Reads all asyncio tasks of a process, and which task awaits which, from its memory while it runs.
 *
 *	up to 3.11   asyncio.tasks._all_tasks, a WeakSet
 *	3.12, 3.13   ..._scheduled_tasks, and the set _eager_tasks
 *	3.14 on      a list for each thread, and one for each interpreter, of threads that have
 *		     ended; the section .AsyncioDebug of the module _asyncio says where (struct
 *		     pytasks_debug)
 *
 * From 3.14 on a task names its awaiters. Before, its callbacks do: the wake-up of the task that
 * awaits it; the task that made a TaskGroup; for gather(), wait(), wait_for() and shield() a future
 * between the two.
 *
 * The helper for memory does all reading (reader.h). It reads a task twice, and again until two
 * readings are equal. Nothing that is read is believed: objects that are not tasks are left out,
 * lists that lead back into themselves end there, and all numbers are bounded.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "python/pycoro.h"

#define PYTASKS_MAX	  100000
#define PYTASK_BYTES	  512 /* of a task object */
#define PYTASK_AWAITERS	  64
#define PYTASK_NAME_CHARS 128
#define PYTASK_NAME_BYTES (4 * PYTASK_NAME_CHARS)

/* The 13 words of the section: Modules/_asynciomodule.c. */
struct pytasks_debug {
	uint64_t task_size, task_name, task_awaited_by, task_is_task, task_awaited_by_is_set,
		task_coro, task_node;
	uint64_t interp_size, interp_tasks_head;
	uint64_t thread_size, thread_running_loop, thread_running_task, thread_tasks_head;
};

struct pytask {
	uint64_t addr, loop;
	uint64_t waiter;   /* the future that it awaits; 0: none */
	uint32_t changing; /* no two readings were equal */
	uint32_t awaiter_cnt, awaiters_cut;
	uint32_t name_len;
	uint64_t awaiters[PYTASK_AWAITERS]; /* tasks that await it */
	char name[PYTASK_NAME_BYTES];	    /* UTF-8 of any content */
	struct pycoro coro;
};

/* An event loop that a thread runs. */
struct pytask_loop {
	uint64_t addr;
	uint64_t task; /* the running one, from 3.14 on; 0: none, not known */
	uint32_t tid;  /* as the process sees it; 0: not known */
	uint32_t pad;
};

struct pytasks_source {
	struct readers *readers; /* helpers that read its memory; or NULL */
	const struct py_binary *bin;
	const struct pytasks_debug *debug; /* from 3.14 on */
	uint64_t bias;
	uint64_t patience_ns; /* after so long the rest is cut; 0: a minute */
	uint32_t tgid;
};

typedef int (*pytask_fn)(void *ctx, const struct pytask *t);

struct pytasks_found {
	bool cut;   /* there are more than PYTASKS_MAX, or a list could not be read to its end */
	bool cycle; /* a list of tasks leads back into itself */
	struct pytask_loop *loops; /* owned */
	size_t loop_cnt, loop_cap;
};

/*
 * Calls `fn` for each task; the first negative errno that it returns ends the reading. 0; -ENOTSUP:
 * not known for this version; or negative errno. Call pytasks__free() in any case.
 */
int pytasks__read(const struct pytasks_source *src, pytask_fn fn, void *ctx,
		  struct pytasks_found *out);
void pytasks__free(struct pytasks_found *found);

#endif /* PYPERF_PYTASKS_H */
