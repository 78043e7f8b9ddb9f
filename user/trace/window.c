/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/window.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define STACK_BUCKETS	 4096 /* a power of two */
#define DIFFERENCES_MAX	 256  /* functions called that are told apart */
#define CALLED_FIRST	 4
#define ALLOCATION_BYTES 16 /* what malloc() needs beside a block */

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
	struct window_call call;
	struct shared_stack *stack; /* NULL: it is not known */
	uint32_t called_cnt;
	struct callee called[];
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
	struct hash_key key;
	uint64_t *totals; /* WINDOW_CALLS, scratch */
};

/* ---- sums ------------------------------------------------------------------------------------ */

void spent__add(struct spent *s, const struct pairs_times *times)
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

void spent__sum(struct spent *sum, const struct spent *s)
{
	sum->cnt += s->cnt;
	sum->total_ns += s->total_ns;
	sum->own_ns += s->own_ns;
	sum->cpu_cnt += s->cpu_cnt;
	sum->cpu_total_ns += s->cpu_total_ns;
	sum->cpu_ns += s->cpu_ns;
}

struct pairs_times spent__average(const struct spent *s)
{
	struct pairs_times t = { .cpu_ns = PAIRS_CPU_UNKNOWN };

	if (!s->cnt)
		return t;
	t.total_ns = s->total_ns / s->cnt;
	t.own_ns = s->own_ns / s->cnt;
	if (s->cpu_total_ns)
		t.cpu_ns = (uint64_t)((double)t.total_ns * (double)s->cpu_ns /
				      (double)s->cpu_total_ns);
	return t;
}

void waits__add(struct waits *w, const struct pairs_times *times)
{
	for (size_t i = 0; i < TRACE_REASON_CNT; i++)
		w->us[i] += times->waits.us[i];
}

void waits__sum(struct waits *sum, const struct waits *w)
{
	for (size_t i = 0; i < TRACE_REASON_CNT; i++)
		sum->us[i] += w->us[i];
}

struct pairs_times calls__average(const struct spent *s, const struct waits *w)
{
	struct pairs_times t = spent__average(s);

	for (size_t i = 0; i < TRACE_REASON_CNT && s->cnt; i++)
		t.waits.us[i] = (uint32_t)(w->us[i] / s->cnt);
	return t;
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

int called__add(struct called **c, uint32_t who, const struct pairs_times *times)
{
	uint32_t cnt = *c ? (*c)->cnt : 0, i = 0;

	while (i < cnt && (*c)->all[i].who != who)
		i++;
	/* The last place is for all that found none. */
	if (i == cnt && cnt >= CALLEES_MAX - 1) {
		who = CALLEE_OTHERS;
		i = cnt == CALLEES_MAX ? CALLEES_MAX - 1 : cnt;
	}
	if (i == cnt) {
		if (grow_called(c))
			return -ENOMEM;
		(*c)->all[(*c)->cnt++] = (struct callee){ .who = who };
	}
	spent__add(&(*c)->all[i].spent, times);
	return 0;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static bool is_same_stack(const struct pairs_stack *a, const struct pairs_stack *b)
{
	return a->cnt == b->cnt && a->cut == b->cut &&
	       !memcmp(a->codes, b->codes, a->cnt * sizeof(*a->codes)) &&
	       !memcmp(a->offsets, b->offsets, a->cnt * sizeof(*a->offsets));
}

static uint64_t hash_stack(const struct windows *all, const struct pairs_stack *s)
{
	uint64_t parts[3] = { hash_bytes(&all->key, s->codes, s->cnt * sizeof(*s->codes)),
			      hash_bytes(&all->key, s->offsets, s->cnt * sizeof(*s->offsets)),
			      s->cnt };

	return hash_bytes(&all->key, parts, sizeof(parts));
}

/* Without memory there is none. */
static struct shared_stack *share_stack(struct windows *all, const struct pairs_stack *stack)
{
	uint64_t hash = hash_stack(all, stack);
	struct shared_stack **bucket = &all->stacks[hash & (STACK_BUCKETS - 1)], *s = *bucket;

	while (s && (s->hash != hash || !is_same_stack(&s->stack, stack)))
		s = s->next;
	if (!s) {
		s = malloc(sizeof(*s));
		if (!s)
			return NULL;
		*s = (struct shared_stack){ .stack = *stack, .next = *bucket, .hash = hash };
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
	all->key = hash_key();
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
	w->all->bytes -= bytes_of(k->called_cnt);
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

int window__add(struct window *w, const struct window_call *call, const struct called *called)
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
	*k = (struct kept){ .call = *call, .called_cnt = called_cnt };
	k->stack = call->stack ? share_stack(w->all, call->stack) : NULL;
	k->call.stack = k->stack ? &k->stack->stack : NULL;
	if (called_cnt)
		memcpy(k->called, called->all, called_cnt * sizeof(*k->called));
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

/* ---- the difference -------------------------------------------------------------------------- */

/* The last one is for all functions that find no place. */
static struct callee_difference *difference_of(struct comparison *c, uint32_t who)
{
	size_t i = 0;

	while (i < c->callee_cnt && c->callees[i].who != who)
		i++;
	if (i == c->callee_cnt && i >= DIFFERENCES_MAX - 1) {
		who = CALLEE_OTHERS;
		i = DIFFERENCES_MAX - 1;
	}
	if (i == c->callee_cnt)
		c->callees[c->callee_cnt++] = (struct callee_difference){ .who = who };
	return &c->callees[i];
}

/* Keeps it if it is one of the slowest. */
static void keep_slowest(struct comparison *c, const struct window_call *call)
{
	size_t at = c->slowest_cnt;

	while (at && c->slowest[at - 1].times.total_ns < call->times.total_ns)
		at--;
	if (at == SLOWEST)
		return;
	if (c->slowest_cnt < SLOWEST)
		c->slowest_cnt++;
	memmove(&c->slowest[at + 1], &c->slowest[at],
		(c->slowest_cnt - 1 - at) * sizeof(*c->slowest));
	c->slowest[at] = *call;
}

static size_t count_above(const struct window *w, uint64_t limit_ns)
{
	size_t cnt = 0;

	for (const struct kept *k = w->oldest; k; k = k->newer)
		cnt += k->call.times.total_ns > limit_ns;
	return cnt;
}

static void add_kept(struct comparison *c, const struct kept *k, bool slow)
{
	spent__add(slow ? &c->slow : &c->others, &k->call.times);
	waits__add(slow ? &c->slow_waits : &c->other_waits, &k->call.times);
	for (uint32_t i = 0; i < k->called_cnt; i++) {
		struct callee_difference *d = difference_of(c, k->called[i].who);

		spent__sum(slow ? &d->slow : &d->others, &k->called[i].spent);
	}
	if (slow)
		keep_slowest(c, &k->call);
}

static double each(uint64_t ns, const struct spent *of)
{
	return of->cnt ? (double)ns / (double)of->cnt : 0;
}

static int by_difference(const void *a, const void *b)
{
	const struct callee_difference *x = a, *y = b;

	if (fabs(x->more_ns) != fabs(y->more_ns))
		return fabs(x->more_ns) < fabs(y->more_ns) ? 1 : -1;
	return (x->who > y->who) - (x->who < y->who);
}

int window__compare(const struct window *w, double percentile, struct comparison *out)
{
	size_t equal;

	*out = (struct comparison){ .cnt = w->cnt };
	if (w->cnt < WINDOW_ENOUGH)
		return -EAGAIN;
	out->callees = calloc(DIFFERENCES_MAX, sizeof(*out->callees));
	if (!out->callees)
		return -ENOMEM;
	out->limit_ns = find_limit(w, percentile);
	/* Of calls that took equally long, the first ones are among the slowest. */
	equal = slow_cnt(w, percentile) - count_above(w, out->limit_ns);
	for (const struct kept *k = w->oldest; k; k = k->newer) {
		bool is_equal = k->call.times.total_ns == out->limit_ns;

		add_kept(out, k, k->call.times.total_ns > out->limit_ns || (is_equal && equal));
		equal -= is_equal && equal;
	}
	for (size_t i = 0; i < out->callee_cnt; i++) {
		struct callee_difference *d = &out->callees[i];

		d->more_ns =
			each(d->slow.total_ns, &out->slow) - each(d->others.total_ns, &out->others);
	}
	qsort(out->callees, out->callee_cnt, sizeof(*out->callees), by_difference);
	return 0;
}

void comparison__free(struct comparison *c)
{
	free(c->callees);
	*c = (struct comparison){ .cnt = 0 };
}
