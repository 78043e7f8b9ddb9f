/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/idmap.h"

#define LINKS_MAX (1U << 26)

/* ---- frames ---------------------------------------------------------------------------------- */

uint32_t task_frame_cnt(const struct task_forest *f, const struct forest_task *t)
{
	return t->stack < 0 ? 0 : f->p->stacks[t->stack].cnt;
}

const struct sym *task_frame(const struct task_forest *f, const struct forest_task *t, uint32_t i)
{
	const struct profile_stack *st = &f->p->stacks[t->stack];

	return &f->p->syms[f->p->frames[st->first + st->cnt - 1 - i]];
}

/* ---- adding ---------------------------------------------------------------------------------- */

static enum task_state state_of(const struct pytask *t)
{
	switch ((enum pycoro_state)t->coro.state) {
	case PYCORO_NEW:
		return TASK_NEW;
	case PYCORO_RUNS:
		return TASK_RUNNING;
	case PYCORO_WAITS:
		return t->waiter ? TASK_WAITING : TASK_READY;
	case PYCORO_DONE:
	case PYCORO_UNKNOWN:
		break;
	}
	return t->waiter ? TASK_WAITING : TASK_UNKNOWN;
}

int task_forest__add(struct task_forest *f, const struct pytask *t, int stack)
{
	if (ARRAY_GROW(f->tasks, f->task_cap, f->task_cnt, PYTASKS_MAX) ||
	    array_grow(&f->awaiter_addrs, &f->awaiter_cap, f->awaiter_cnt, t->awaiter_cnt,
		       sizeof(*f->awaiter_addrs), LINKS_MAX))
		return -ENOMEM;
	f->tasks[f->task_cnt++] = (struct forest_task){
		.addr = t->addr,
		.loop_addr = t->loop,
		.name = profile__intern(f->p, t->name, t->name_len),
		.state = state_of(t),
		.tid = t->coro.tid,
		.stack = stack,
		.changing = t->changing,
		.cut = t->coro.cut,
		.awaiters_cut = t->awaiters_cut,
		.first_awaiter = (uint32_t)f->awaiter_cnt,
		.awaiter_cnt = t->awaiter_cnt,
	};
	for (uint32_t i = 0; i < t->awaiter_cnt; i++)
		f->awaiter_addrs[f->awaiter_cnt++] = t->awaiters[i];
	return 0;
}

/* ---- linking --------------------------------------------------------------------------------- */

/* Task-2 before Task-10. */
static int by_name(const void *a_, const void *b_, void *profile)
{
	const struct forest_task *a = a_, *b = b_;
	int order = strverscmp(profile__str(profile, a->name), profile__str(profile, b->name));

	if (order)
		return order;
	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

/* Awaiters that there are no more are left out. links: awaiters first, then children. */
static int resolve(struct task_forest *f)
{
	struct idmap by_addr = { 0 };
	uint32_t *links = calloc(2 * f->awaiter_cnt + 1, sizeof(*links));
	uint32_t cnt = 0;
	int err = links ? 0 : -ENOMEM;

	for (size_t i = 0; i < f->task_cnt && !err; i++)
		err = idmap__set(&by_addr, f->tasks[i].addr, &f->tasks[i]);
	for (size_t i = 0; i < f->task_cnt && !err; i++) {
		struct forest_task *t = &f->tasks[i];
		uint32_t first = cnt;

		for (uint32_t k = 0; k < t->awaiter_cnt; k++) {
			uint64_t addr = f->awaiter_addrs[t->first_awaiter + k];
			struct forest_task *by = idmap__get(&by_addr, addr);

			if (!by)
				continue;
			by->child_cnt++;
			links[cnt++] = (uint32_t)(by - f->tasks);
		}
		t->first_awaiter = first;
		t->awaiter_cnt = cnt - first;
	}
	idmap__free(&by_addr);
	f->links = links;
	return err;
}

static void link_children(struct task_forest *f)
{
	uint32_t at = 0;

	for (size_t i = 0; i < f->task_cnt; i++)
		at += f->tasks[i].awaiter_cnt;
	for (size_t i = 0; i < f->task_cnt; i++) {
		f->tasks[i].first_child = at;
		at += f->tasks[i].child_cnt;
		f->tasks[i].child_cnt = 0;
	}
	for (size_t i = 0; i < f->task_cnt; i++) {
		for (uint32_t k = 0; k < f->tasks[i].awaiter_cnt; k++) {
			struct forest_task *by = &f->tasks[task_awaiters(f, &f->tasks[i])[k]];

			f->links[by->first_child + by->child_cnt++] = (uint32_t)i;
		}
	}
}

/* ---- rings ----------------------------------------------------------------------------------- */

/*
 * Takes away tasks that nothing is left beside, on the one side or the other, until there are none
 * such. `left`: how many a task still awaits, or is awaited by; UINT32_MAX: it is taken away.
 */
static void peel(const struct task_forest *f, uint32_t *left, uint32_t *queue, bool from_below)
{
	size_t cnt = 0;

	for (size_t i = 0; i < f->task_cnt; i++)
		if (!left[i])
			queue[cnt++] = (uint32_t)i;
	while (cnt) {
		const struct forest_task *t = &f->tasks[queue[--cnt]];
		const uint32_t *next = from_below ? task_awaiters(f, t) : task_children(f, t);
		uint32_t next_cnt = from_below ? t->awaiter_cnt : t->child_cnt;

		left[t - f->tasks] = UINT32_MAX;
		for (uint32_t i = 0; i < next_cnt; i++)
			if (left[next[i]] != UINT32_MAX && !--left[next[i]])
				queue[cnt++] = next[i];
	}
}

/* The remaining tasks are in a ring, or between two rings. */
static int find_rings(struct task_forest *f)
{
	uint32_t *left = calloc(f->task_cnt + 1, sizeof(*left));
	uint32_t *queue = calloc(f->task_cnt + 1, sizeof(*queue));
	int err = left && queue ? 0 : -ENOMEM;

	for (size_t i = 0; i < f->task_cnt && !err; i++)
		left[i] = f->tasks[i].child_cnt;
	if (!err)
		peel(f, left, queue, true);
	for (size_t i = 0; i < f->task_cnt && !err; i++) {
		uint32_t cnt = 0;

		for (uint32_t k = 0; k < f->tasks[i].awaiter_cnt; k++)
			cnt += left[task_awaiters(f, &f->tasks[i])[k]] != UINT32_MAX;
		f->tasks[i].in_ring = left[i] != UINT32_MAX;
		queue[i] = cnt;
	}
	if (!err) {
		for (size_t i = 0; i < f->task_cnt; i++)
			left[i] = f->tasks[i].in_ring ? queue[i] : UINT32_MAX;
		peel(f, left, queue, false);
	}
	for (size_t i = 0; i < f->task_cnt && !err; i++) {
		f->tasks[i].in_ring = left[i] != UINT32_MAX;
		f->ring_cnt += f->tasks[i].in_ring;
	}
	free(left);
	free(queue);
	return err;
}

/* ---- roots ----------------------------------------------------------------------------------- */

/* Marks all below a task; each once, so the stack never holds more than there are tasks. */
static void mark(const struct task_forest *f, uint8_t *reached, uint32_t *stack, uint32_t from)
{
	size_t cnt = 0;

	reached[from] = 1;
	stack[cnt++] = from;
	while (cnt) {
		const struct forest_task *t = &f->tasks[stack[--cnt]];

		for (uint32_t i = 0; i < t->child_cnt; i++) {
			uint32_t child = task_children(f, t)[i];

			if (!reached[child])
				stack[cnt++] = child;
			reached[child] = 1;
		}
	}
}

/*
 * Upwards from a task that no root leads to, until a task comes again: that one is in a ring. All
 * below it will be reached from there, so no task is passed in two walks. `passed` has 1 + the
 * number of the walk.
 */
static uint32_t find_ring(const struct task_forest *f, uint32_t *passed, uint32_t from)
{
	uint32_t walk = from + 1;

	while (passed[from] != walk) {
		passed[from] = walk;
		from = task_awaiters(f, &f->tasks[from])[0];
	}
	return from;
}

static int find_roots(struct task_forest *f)
{
	uint8_t *reached = calloc(f->task_cnt + 1, 1);
	uint32_t *stack = calloc(f->task_cnt + 1, sizeof(*stack));
	uint32_t *passed = calloc(f->task_cnt + 1, sizeof(*passed));
	int err = reached && stack && passed ? 0 : -ENOMEM;

	for (size_t i = 0; i < f->task_cnt && !err; i++) {
		f->tasks[i].is_root = !f->tasks[i].awaiter_cnt;
		if (f->tasks[i].is_root)
			mark(f, reached, stack, (uint32_t)i);
	}
	for (size_t i = 0; i < f->task_cnt && !err; i++) {
		uint32_t root;

		if (reached[i])
			continue;
		root = find_ring(f, passed, (uint32_t)i);
		f->tasks[root].is_root = true;
		mark(f, reached, stack, root);
	}
	free(passed);
	free(reached);
	free(stack);
	return err;
}

static int number_loops(struct task_forest *f, const struct pytask_loop *loops, size_t loop_cnt)
{
	f->loops = calloc(loop_cnt + 1, sizeof(*f->loops));
	if (!f->loops)
		return -ENOMEM;
	for (size_t i = 0; i < loop_cnt; i++)
		f->loops[i] = (struct task_loop){ .addr = loops[i].addr, .tid = loops[i].tid };
	f->loop_cnt = loop_cnt;
	for (size_t i = 0; i < f->task_cnt; i++) {
		struct forest_task *t = &f->tasks[i];

		while (t->loop < loop_cnt && f->loops[t->loop].addr != t->loop_addr)
			t->loop++;
		if (t->loop < loop_cnt)
			f->loops[t->loop].task_cnt++;
	}
	return 0;
}

int task_forest__link(struct task_forest *f, const struct pytask_loop *loops, size_t loop_cnt)
{
	int err;

	if (f->task_cnt)
		qsort_r(f->tasks, f->task_cnt, sizeof(*f->tasks), by_name, f->p);
	err = resolve(f);
	if (err)
		return err;
	link_children(f);
	err = find_rings(f);
	if (!err)
		err = find_roots(f);
	return err ? err : number_loops(f, loops, loop_cnt);
}

void task_forest__free(struct task_forest *f)
{
	free(f->tasks);
	free(f->loops);
	free(f->awaiter_addrs);
	free(f->links);
	*f = (struct task_forest){ 0 };
}
