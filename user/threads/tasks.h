/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TASKS_H
#define PYPERF_TASKS_H
/*
 * The asyncio tasks of a process as a forest: roots, and below each task the tasks that it awaits.
 *
 *	pytasks (memory) -> struct task_forest -> export_tasks (text, JSON)
 *
 * Several tasks may await the same one, and tasks may await each other in a ring. No task of a ring
 * is a root by itself, so the first one becomes one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "python/pytasks.h"

enum task_state {
	TASK_UNKNOWN = 0, /* its coroutine is not a Python one */
	TASK_RUNNING = 1,
	TASK_WAITING = 2,
	TASK_READY = 3, /* its loop will run it when it has its turn */
	TASK_NEW = 4,	/* the same for the first time */
};

struct forest_task {
	uint64_t addr, loop_addr;
	str_id name;
	enum task_state state;
	uint32_t tid;  /* of the thread that runs it; 0: none, or not known */
	uint32_t loop; /* index in loops */
	int stack;     /* index in the profile's stacks, whose words are indexes of syms; -1 */
	bool changing; /* no two readings were equal */
	bool cut;      /* frames are missing */
	bool awaiters_cut;
	bool is_root;
	bool in_ring;			     /* it awaits itself through others */
	uint32_t first_awaiter, awaiter_cnt; /* in links */
	uint32_t first_child, child_cnt;
};

struct task_loop {
	uint64_t addr;
	uint32_t tid; /* 0: not known */
	uint32_t task_cnt;
};

struct task_forest {
	struct profile *p;	   /* borrowed: its strings, syms and stacks */
	struct forest_task *tasks; /* by name */
	size_t task_cnt, task_cap;
	struct task_loop *loops;
	size_t loop_cnt;
	uint64_t *awaiter_addrs; /* of the tasks at hand, until task_forest__link() */
	size_t awaiter_cnt, awaiter_cap;
	uint32_t *links; /* indexes of tasks: awaiters, and children */
	size_t ring_cnt; /* tasks that are in rings */
	bool cut;	 /* some tasks are missing */
	bool cycle;	 /* the process's own list leads back into itself */
};

/* Adds a task; `stack` as above. 0 or -ENOMEM. */
int task_forest__add(struct task_forest *f, const struct pytask *t, int stack);
/*
 * Sorts and links the tasks; call it after the last one was added. `loops`: those that pytasks
 * found. 0 or -ENOMEM.
 */
int task_forest__link(struct task_forest *f, const struct pytask_loop *loops, size_t loop_cnt);
void task_forest__free(struct task_forest *f);

/* Frame i of a task's stack, from the innermost one. */
const struct sym *task_frame(const struct task_forest *f, const struct forest_task *t, uint32_t i);
uint32_t task_frame_cnt(const struct task_forest *f, const struct forest_task *t);

/* The links of a task: the tasks that await it, and those that it awaits. */
static inline const uint32_t *task_awaiters(const struct task_forest *f,
					    const struct forest_task *t)
{
	return f->links + t->first_awaiter;
}

static inline const uint32_t *task_children(const struct task_forest *f,
					    const struct forest_task *t)
{
	return f->links + t->first_child;
}

#endif /* PYPERF_TASKS_H */
