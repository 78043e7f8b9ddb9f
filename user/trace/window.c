/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define STACK_BUCKETS	 4096 /* a power of two */
#define ALLOCATION_BYTES 16   /* what malloc() needs beside a block */

/* Equal stacks of calls, of all windows. */
struct shared_stack {
	struct pairs_stack stack;
	struct shared_stack *next; /* in its bucket */
	uint64_t hash;
	size_t users;
};

#define STACK_BYTES (sizeof(struct shared_stack) + ALLOCATION_BYTES)

struct kept {
	struct kept *newer;
	struct ended_call call;
	struct shared_stack *stack; /* NULL: it is not known */
	struct called called;	    /* the last member */
};

struct window {
	struct windows *all;
	size_t at; /* in the list of all */
	struct kept *oldest, *newest;
	size_t cnt;
	size_t had; /* calls, with those that have gone */
	uint64_t limit_ns;
	size_t limit_at; /* calls that it has to have for the limit to be told anew */
	bool cut;
};

struct windows {
	struct window **list; /* first those that have enough calls to give some up */
	size_t cnt, cap;
	size_t rich_cnt;
	size_t next; /* of these, who gives up calls */
	size_t bytes;
	struct shared_stack *stacks[STACK_BUCKETS];
	uint64_t *totals; /* WINDOW_CALLS, scratch */
};

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Without memory there is none. */
static struct shared_stack *share_stack(struct windows *all, const struct ended_call *call)
{
	uint64_t hash = call->stack_hash;
	struct shared_stack **bucket = &all->stacks[hash & (STACK_BUCKETS - 1)], *s = *bucket;

	while (s && (s->hash != hash || !pairs_stack__is_same(&s->stack, call->stack)))
		s = s->next;
	if (!s) {
		s = malloc(sizeof(*s));
		if (!s)
			return NULL;
		*s = (struct shared_stack){ .stack = *call->stack, .next = *bucket, .hash = hash };
		*bucket = s;
		all->bytes += STACK_BYTES;
	}
	s->users++;
	return s;
}

static void leave_stack(struct windows *all, struct shared_stack *s)
{
	struct shared_stack **at;

	if (!s || --s->users)
		return;
	at = &all->stacks[s->hash & (STACK_BUCKETS - 1)];
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	all->bytes -= STACK_BYTES;
	free(s);
}

/* ---- windows --------------------------------------------------------------------------------- */

struct windows *windows__new(void)
{
	struct windows *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->totals = calloc(WINDOW_CALLS, sizeof(*all->totals));
	if (all->totals)
		return all;
	free(all);
	return NULL;
}

struct window *window__new(struct windows *all)
{
	struct window *w = calloc(1, sizeof(*w));

	if (!w || ARRAY_GROW(all->list, all->cap, all->cnt, SIZE_MAX / 64)) {
		free(w);
		return NULL;
	}
	*w = (struct window){ .all = all, .at = all->cnt, .limit_ns = UINT64_MAX };
	return all->list[all->cnt++] = w;
}

static size_t bytes_of(uint32_t called_cnt)
{
	return sizeof(struct kept) + called_cnt * sizeof(struct callee) + ALLOCATION_BYTES;
}

static void move_to(struct window *w, size_t at)
{
	struct windows *all = w->all;
	struct window *other = all->list[at];

	all->list[w->at] = other;
	other->at = w->at;
	all->list[at] = w;
	w->at = at;
}

static void drop_oldest(struct window *w)
{
	struct kept *k = w->oldest;

	if (w->cnt == WINDOW_ENOUGH + 1)
		move_to(w, --w->all->rich_cnt);

	w->oldest = k->newer;
	if (!w->oldest)
		w->newest = NULL;
	w->cnt--;
	w->all->bytes -= bytes_of(k->called.cnt);
	leave_stack(w->all, k->stack);
	free(k);
}

/* Takes calls from windows that have enough, `w` first. False: none has. */
static bool make_room(struct window *w)
{
	struct windows *all = w->all;

	if (w->cnt <= WINDOW_ENOUGH) {
		if (!all->rich_cnt)
			return false;
		all->next = (all->next + 1) % all->rich_cnt;
		w = all->list[all->next];
	}
	w->cut = true;
	drop_oldest(w);
	return true;
}

int window__add(struct window *w, const struct ended_call *call, const struct called *called)
{
	uint32_t called_cnt = called ? called->cnt : 0;
	struct kept *k;

	w->had++;
	if (w->cnt == WINDOW_CALLS)
		drop_oldest(w);
	while (w->all->bytes + bytes_of(called_cnt) + STACK_BYTES > WINDOWS_BYTES) {
		if (make_room(w))
			continue;
		w->cut = true;
		if (!w->cnt)
			return 0;
		drop_oldest(w);
	}
	k = malloc(bytes_of(called_cnt));
	if (!k)
		return -ENOMEM;
	*k = (struct kept){ .call = *call, .called = { .cnt = called_cnt } };
	k->stack = call->stack ? share_stack(w->all, call) : NULL;
	k->call.stack = k->stack ? &k->stack->stack : NULL;
	if (called_cnt)
		memcpy(k->called.all, called->all, called_cnt * sizeof(*k->called.all));
	if (w->newest)
		w->newest->newer = k;
	else
		w->oldest = k;
	w->newest = k;
	if (++w->cnt == WINDOW_ENOUGH + 1)
		move_to(w, w->all->rich_cnt++);
	w->all->bytes += bytes_of(called_cnt);
	return 0;
}

void window__free(struct window *w)
{
	struct windows *all = w ? w->all : NULL;

	if (!w)
		return;
	while (w->cnt)
		drop_oldest(w);
	all->list[w->at] = all->list[--all->cnt];
	all->list[w->at]->at = w->at;
	free(w);
}

void windows__free(struct windows *all)
{
	if (!all)
		return;
	while (all->cnt)
		window__free(all->list[all->cnt - 1]);
	free(all->list);
	free(all->totals);
	free(all);
}

size_t windows__bytes(const struct windows *all)
{
	return all->bytes;
}

size_t window__cnt(const struct window *w)
{
	return w->had;
}

bool window__is_cut(const struct window *w)
{
	return w->cut && w->cnt < WINDOW_CALLS;
}

/* ---- the slowest ----------------------------------------------------------------------------- */

/* So that it is at `k` what it would be if all were in order, the greatest first. */
static uint64_t select_nth(uint64_t *v, size_t cnt, size_t k)
{
	size_t low = 0, high = cnt - 1;

	while (low < high) {
		uint64_t pivot = v[low + (high - low) / 2];
		size_t i = low, j = high;

		while (true) {
			while (v[i] > pivot)
				i++;
			while (v[j] < pivot)
				j--;
			if (i >= j)
				break;
			uint64_t swap = v[i];

			v[i++] = v[j];
			v[j--] = swap;
		}
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return v[k];
}

/* As many are the slowest, at least one. */
static size_t slow_cnt(const struct window *w, double percentile)
{
	size_t cnt = (size_t)((double)w->cnt * (100 - percentile) / 100 + 1e-6);

	return cnt ? cnt : 1;
}

static uint64_t find_limit(const struct window *w, double percentile)
{
	size_t cnt = 0;

	for (const struct kept *k = w->oldest; k; k = k->newer)
		w->all->totals[cnt++] = k->call.times.total_ns;
	return select_nth(w->all->totals, cnt, slow_cnt(w, percentile) - 1);
}

uint64_t window__limit(struct window *w, double percentile)
{
	if (w->cnt < WINDOW_ENOUGH)
		return UINT64_MAX;
	if (w->had >= w->limit_at) {
		w->limit_ns = find_limit(w, percentile);
		w->limit_at = w->had + w->cnt / 100;
	}
	return w->limit_ns;
}

static size_t count_above(const struct window *w, uint64_t limit_ns)
{
	size_t cnt = 0;

	for (const struct kept *k = w->oldest; k; k = k->newer)
		cnt += k->call.times.total_ns > limit_ns;
	return cnt;
}

int window__split(const struct window *w, double percentile, struct comparison *c,
		  uint64_t *limit_ns)
{
	size_t equal;
	int err = 0;

	if (w->cnt < WINDOW_ENOUGH)
		return -EAGAIN;
	*limit_ns = find_limit(w, percentile);
	/* Of calls that took equally long, the first ones are among the slowest. */
	equal = slow_cnt(w, percentile) - count_above(w, *limit_ns);
	for (const struct kept *k = w->oldest; k && !err; k = k->newer) {
		bool is_equal = k->call.times.total_ns == *limit_ns;
		bool slow = k->call.times.total_ns > *limit_ns || (is_equal && equal);

		err = comparison__add(c, slow ? SIDE_SLOW : SIDE_OTHERS, &k->call, &k->called);
		equal -= is_equal && equal;
	}
	return err;
}
