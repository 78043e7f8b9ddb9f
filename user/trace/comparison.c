/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/comparison.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CALLED_FIRST 4
#define UNKNOWN	     0	/* in `stacks` */
#define BYTES_INDEX  16 /* of an entry, at most */

/* ---- sums ------------------------------------------------------------------------------------ */

static void add_spent(struct spent *s, const struct pairs_times *times)
{
	s->cnt++;
	s->total_ns += times->total_ns;
	s->own_ns += times->own_ns;
	if (times->cpu_ns == PAIRS_CPU_UNKNOWN)
		return;
	s->cpu_cnt++;
	s->cpu_total_ns += times->total_ns;
	s->cpu_ns += times->cpu_ns;
}

static void add_waits(struct waits *w, const struct pairs_times *times)
{
	for (size_t i = 0; i < TRACE_REASON_CNT; i++)
		w->us[i] += times->waits.us[i];
}

struct pairs_times comparison__average(const struct comparison *c, enum comparison_side side)
{
	const struct spent *s = &c->spent[side];
	struct pairs_times t = { .cpu_ns = PAIRS_CPU_UNKNOWN };

	if (!s->cnt)
		return t;
	t.total_ns = s->total_ns / s->cnt;
	t.own_ns = s->own_ns / s->cnt;
	if (s->cpu_total_ns)
		t.cpu_ns = (uint64_t)((double)t.total_ns * (double)s->cpu_ns /
				      (double)s->cpu_total_ns);
	for (size_t i = 0; i < TRACE_REASON_CNT; i++)
		t.waits.us[i] = (uint32_t)(c->waits[side].us[i] / s->cnt);
	return t;
}

/* What is left of `*rest` for so much. */
static uint64_t take(uint64_t *rest, uint64_t ns)
{
	ns = ns < *rest ? ns : *rest;
	*rest -= ns;
	return ns;
}

/* What all the time of a call was for. Where the clocks contradict each other, waits come first. */
static void split(const struct pairs_times *times, uint64_t ns[SPENT_ON_CNT])
{
	uint64_t rest = times->total_ns;

	memset(ns, 0, SPENT_ON_CNT * sizeof(*ns));
	for (size_t i = 0; i < TRACE_REASON_CNT; i++)
		ns[i] = take(&rest, 1000ULL * times->waits.us[i]);
	if (times->cpu_ns == PAIRS_CPU_UNKNOWN) {
		ns[SPENT_SOMEHOW] = rest;
		return;
	}
	ns[SPENT_CPU] = take(&rest, times->cpu_ns);
	ns[SPENT_WAITING] = rest;
}

/* ---- what a call has called ------------------------------------------------------------------ */

/* Room for one more. The block may move. */
static int grow_called(struct called **c)
{
	uint32_t cnt = *c ? (*c)->cnt : 0, cap = cnt ? 2 * cnt : CALLED_FIRST;
	struct called *grown;

	if (*c && cnt < (*c)->cap)
		return 0;
	grown = realloc(*c, sizeof(*grown) + cap * sizeof(*grown->all));
	if (!grown)
		return -ENOMEM;
	grown->cnt = cnt;
	grown->cap = cap;
	*c = grown;
	return 0;
}

static int add_callee(struct called **c, uint32_t who, uint32_t on, uint64_t cnt, uint64_t ns)
{
	struct callee *at;
	uint32_t i = 0;

	while (*c && i < (*c)->cnt && ((*c)->all[i].who != who || (*c)->all[i].on != on))
		i++;
	if (!*c || i == (*c)->cnt) {
		if (i >= CALLEES_MAX && who != CALLEE_OTHERS)
			return add_callee(c, CALLEE_OTHERS, on, cnt, ns);
		if (grow_called(c))
			return -ENOMEM;
		(*c)->all[(*c)->cnt++] = (struct callee){ .who = who, .on = on };
	}
	at = &(*c)->all[i];
	at->cnt += cnt;
	at->ns += ns;
	return 0;
}

int called__add(struct called **c, uint32_t who, const struct pairs_times *times)
{
	uint32_t counted = times->cpu_ns == PAIRS_CPU_UNKNOWN ? SPENT_SOMEHOW : SPENT_CPU;
	uint64_t ns[SPENT_ON_CNT];
	int err;

	split(times, ns);
	err = add_callee(c, who, counted, 1, ns[counted]);
	for (uint32_t i = 0; i < SPENT_ON_CNT && !err; i++)
		if (ns[i] && i != counted)
			err = add_callee(c, who, i, 0, ns[i]);
	return err;
}

/*
 * What a call spent its own time on: what is left of all when that of the functions called is
 * taken away. Their CPU time may be inexact by a tick; what is missing then is a wait.
 */
static void split_own(const struct pairs_times *times, const struct called *called,
		      uint64_t ns[SPENT_ON_CNT])
{
	uint32_t last = times->cpu_ns == PAIRS_CPU_UNKNOWN ? SPENT_SOMEHOW : SPENT_WAITING;
	uint64_t rest = times->own_ns;

	split(times, ns);
	for (uint32_t i = 0; called && i < called->cnt; i++)
		take(&ns[called->all[i].on], called->all[i].ns);
	for (uint32_t i = 0; i < SPENT_ON_CNT; i++)
		ns[i] = take(&rest, ns[i]);
	ns[last] += rest;
}

/* ---- stacks and parts ------------------------------------------------------------------------ */

void comparison__init(struct comparison *c, size_t *room)
{
	*c = (struct comparison){ .room = room };
}

void comparison__free(struct comparison *c)
{
	if (c->room)
		*c->room += c->taken;
	hash_index__free(&c->by_stack);
	hash_index__free(&c->by_part);
	free(c->stacks);
	free(c->parts);
	*c = (struct comparison){ .part_cnt = 0 };
}

static bool take_room(struct comparison *c, size_t bytes)
{
	if (*c->room < bytes)
		return false;
	*c->room -= bytes;
	c->taken += bytes;
	return true;
}

static int new_stack(struct comparison *c, const struct pairs_stack *stack)
{
	if (ARRAY_GROW(c->stacks, c->stack_cap, c->stack_cnt, HASH_NONE - 1))
		return -ENOMEM;
	c->stacks[c->stack_cnt++] = (struct compared_stack){ .stack = *stack };
	return 0;
}

/* Its number in `stacks`, UNKNOWN without room, or -ENOMEM. */
static int find_stack(struct comparison *c, const struct ended_call *call)
{
	static const struct pairs_stack none = { .cnt = 0 };
	const struct pairs_stack *stack = call->stack;
	uint32_t i;

	if (!c->stack_cnt && new_stack(c, &none))
		return -ENOMEM;
	if (!stack || !stack->cnt)
		return UNKNOWN;
	for (size_t at = 0;
	     (i = hash_index__next(&c->by_stack, call->stack_hash, &at)) != HASH_NONE;)
		if (pairs_stack__is_same(&c->stacks[i].stack, stack))
			return (int)i;
	if (!take_room(c, sizeof(*c->stacks) + BYTES_INDEX))
		return UNKNOWN;
	if (new_stack(c, stack) ||
	    hash_index__add(&c->by_stack, call->stack_hash, (uint32_t)c->stack_cnt - 1))
		return -ENOMEM;
	return (int)c->stack_cnt - 1;
}

/* These numbers are ours and ascend, so nobody can choose them to be equal here. */
static uint64_t hash_part(uint32_t stack, uint32_t who, uint32_t on)
{
	uint64_t hash = (((uint64_t)stack << 32 | who) * SPENT_ON_CNT + on) * 0x9e3779b97f4a7c15ULL;

	return hash ^ hash >> 32;
}

/* NULL: no memory. */
static struct compared_part *find_part(struct comparison *c, uint32_t stack, uint32_t who,
				       uint32_t on)
{
	uint64_t hash = hash_part(stack, who, on);
	bool is_least = stack == UNKNOWN && who == CALLEE_OTHERS;
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&c->by_part, hash, &at)) != HASH_NONE;)
		if (c->parts[i].stack == stack && c->parts[i].who == who && c->parts[i].on == on)
			return &c->parts[i];
	/* These few are always there. */
	if (!is_least && !take_room(c, sizeof(*c->parts) + BYTES_INDEX))
		return find_part(c, UNKNOWN, CALLEE_OTHERS, on);
	if (ARRAY_GROW(c->parts, c->part_cap, c->part_cnt, HASH_NONE - 1) ||
	    hash_index__add(&c->by_part, hash, (uint32_t)c->part_cnt))
		return NULL;
	c->parts[c->part_cnt] = (struct compared_part){ .stack = stack, .who = who, .on = on };
	return &c->parts[c->part_cnt++];
}

static int add_part(struct comparison *c, enum comparison_side side, const struct callee *add,
		    uint32_t stack)
{
	struct compared_part *part = find_part(c, stack, add->who, add->on);

	if (!part)
		return -ENOMEM;
	part->cnt[side] += add->cnt;
	part->ns[side] += add->ns;
	return 0;
}

/* Keeps it if it is one of the slowest. */
static void keep(struct comparison *c, const struct ended_call *call)
{
	size_t at = c->slowest_cnt;

	while (at && c->slowest[at - 1].call.times.total_ns < call->times.total_ns)
		at--;
	if (at == SLOWEST)
		return;
	if (c->slowest_cnt < SLOWEST)
		c->slowest_cnt++;
	memmove(&c->slowest[at + 1], &c->slowest[at],
		(c->slowest_cnt - 1 - at) * sizeof(*c->slowest));
	c->slowest[at].call = *call;
	c->slowest[at].stack = call->stack ? *call->stack : (struct pairs_stack){ .cnt = 0 };
	for (size_t i = at; i < c->slowest_cnt; i++)
		if (c->slowest[i].call.stack)
			c->slowest[i].call.stack = &c->slowest[i].stack;
}

int comparison__add(struct comparison *c, enum comparison_side side, const struct ended_call *call,
		    const struct called *called)
{
	int stack = find_stack(c, call), err = 0;
	uint64_t own[SPENT_ON_CNT];

	if (stack < 0)
		return stack;
	add_spent(&c->spent[side], &call->times);
	add_waits(&c->waits[side], &call->times);
	c->stacks[stack].cnt[side]++;
	if (side == SIDE_SLOW)
		keep(c, call);
	split_own(&call->times, called, own);
	for (uint32_t i = 0; i < SPENT_ON_CNT && !err; i++)
		if (own[i])
			err = add_part(
				c, side,
				&(struct callee){ .ns = own[i], .who = CALLEE_ITSELF, .on = i },
				(uint32_t)stack);
	for (uint32_t i = 0; called && i < called->cnt && !err; i++)
		err = add_part(c, side, &called->all[i], (uint32_t)stack);
	return err;
}

/* ---- the difference -------------------------------------------------------------------------- */

static double each(uint64_t n, const struct spent *of)
{
	return of->cnt ? (double)n / (double)of->cnt : 0;
}

static int by_function(const void *a, const void *b, void *ctx)
{
	const struct compared_part *parts = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

	return (parts[i].who > parts[k].who) - (parts[i].who < parts[k].who);
}

static int by_difference(const void *a, const void *b)
{
	const struct callee_difference *x = a, *y = b;

	if ((x->who == CALLEE_ITSELF) != (y->who == CALLEE_ITSELF))
		return x->who == CALLEE_ITSELF ? -1 : 1;
	if (fabs(x->more_ns) != fabs(y->more_ns))
		return fabs(x->more_ns) < fabs(y->more_ns) ? 1 : -1;
	return (x->who > y->who) - (x->who < y->who);
}

static void add_difference(const struct comparison *c, struct callee_difference *d,
			   const struct compared_part *part)
{
	double more = each(part->ns[SIDE_SLOW], &c->spent[SIDE_SLOW]) -
		      each(part->ns[SIDE_OTHERS], &c->spent[SIDE_OTHERS]);

	for (int i = 0; i < SIDES; i++) {
		d->cnt[i] += part->cnt[i];
		d->ns[i] += part->ns[i];
	}
	d->more_ns += more;
	d->more_on[part->on] += more;
}

struct callee_difference *comparison__callees(const struct comparison *c, size_t *cnt)
{
	struct callee_difference *all = calloc(c->part_cnt + 1, sizeof(*all));
	uint32_t *order = calloc(c->part_cnt + 1, sizeof(*order));

	*cnt = 0;
	if (!all || !order) {
		free(all);
		free(order);
		return NULL;
	}
	for (uint32_t i = 0; i < c->part_cnt; i++)
		order[i] = i;
	qsort_r(order, c->part_cnt, sizeof(*order), by_function, c->parts);
	for (size_t i = 0; i < c->part_cnt; i++) {
		const struct compared_part *part = &c->parts[order[i]];

		if (!*cnt || all[*cnt - 1].who != part->who)
			all[(*cnt)++].who = part->who;
		add_difference(c, &all[*cnt - 1], part);
	}
	free(order);
	qsort(all, *cnt, sizeof(*all), by_difference);
	return all;
}

double comparison__share(const struct comparison *c, const struct compared_stack *s,
			 enum comparison_side side)
{
	return each(s->cnt[side], &c->spent[side]);
}

static int by_share(const void *a, const void *b, void *ctx)
{
	const struct compared_stack *x = *(const struct compared_stack *const *)a,
				    *y = *(const struct compared_stack *const *)b;
	const struct comparison *c = ctx;
	double more_x = comparison__share(c, x, SIDE_SLOW) - comparison__share(c, x, SIDE_OTHERS);
	double more_y = comparison__share(c, y, SIDE_SLOW) - comparison__share(c, y, SIDE_OTHERS);

	if (more_x != more_y)
		return more_x < more_y ? 1 : -1;
	return (x > y) - (x < y);
}

const struct compared_stack **comparison__stacks(const struct comparison *c, size_t *cnt)
{
	const struct compared_stack **all = calloc(c->stack_cnt + 1, sizeof(*all));

	*cnt = 0;
	for (size_t i = UNKNOWN + 1; all && i < c->stack_cnt; i++)
		all[(*cnt)++] = &c->stacks[i];
	if (all)
		qsort_r(all, *cnt, sizeof(*all), by_share, (void *)c);
	return all;
}
