/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/loops.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/view.h"
#include "profile/waits.h"

/* "/lib/asyncio/events.py" has the component "asyncio/". */
static bool is_of(const struct profile *p, const struct sym *s, const char *component)
{
	const char *file = profile__str(p, s->file), *at = strstr(file, component);

	return at && (at == file || at[-1] == '/');
}

/* Is it the function that runs an iteration of the loop? */
static bool is_iteration(const struct profile *p, const struct sym *s)
{
	const char *func = profile__str(p, s->func), *dot = strrchr(func, '.');

	if (s->kind == SYM_NATIVE)
		return !strcmp(func, "uv_run");
	return s->kind == SYM_PYTHON && !strcmp(dot ? dot + 1 : func, "_run_once") &&
	       is_of(p, s, "asyncio/base_events.py");
}

/* Other Python code than the loop's own. */
static bool is_called_by_loop(const struct profile *p, const struct sym *s)
{
	return s->kind == SYM_PYTHON && !is_of(p, s, "asyncio/") && !is_of(p, s, "selectors.py");
}

/* Waiting for a CPU or for the GIL is done to a loop, not by it. */
static bool is_blocking_wait(const struct profile *p, const struct sym *leaf)
{
	size_t len;
	const char *reason = wait_reason(profile__str(p, leaf->func), &len);

	return reason && !wait_is_for_cpu(reason, len) &&
	       !(len == strlen("GIL") && !memcmp(reason, "GIL", len));
}

static bool blocks(const struct profile *p, const struct profile_stack *s)
{
	uint32_t cnt = profile__stack_frames(p, s);
	const uint32_t *syms = p->frame_syms + s->first;
	bool called = false;

	if (!cnt || !is_blocking_wait(p, export_sym(p, syms[cnt - 1])))
		return false;
	for (uint32_t i = cnt - 1; i-- > 0;) {
		const struct sym *sym = export_sym(p, syms[i]);

		if (is_iteration(p, sym))
			return called;
		called |= is_called_by_loop(p, sym);
	}
	return false;
}

static struct profile *empty_view(const struct profile *p)
{
	struct profile *v = malloc(sizeof(*v));

	if (!v)
		return NULL;
	*v = *p;
	v->stack_cnt = 0;
	v->stacks = calloc(p->stack_cnt + 1, sizeof(*v->stacks));
	if (v->stacks)
		return v;
	free(v);
	return NULL;
}

int loops__init(struct loops *l, const struct profile *p)
{
	uint32_t event = p->stats.values[0].event;
	struct profile *v;

	*l = (struct loops){ .blocked = NULL };
	if (!p->frame_syms || (event != EVENT_WALL && event != EVENT_OFF_CPU))
		return 0;
	v = empty_view(p);
	if (!v)
		return -ENOMEM;
	l->blocked = v;
	for (size_t i = 0; i < p->stack_cnt; i++) {
		if (!blocks(p, &p->stacks[i]))
			continue;
		v->stacks[v->stack_cnt++] = p->stacks[i];
		l->count += p->stacks[i].count;
		l->samples += p->stacks[i].samples;
	}
	if (!l->count)
		loops__free(l, p);
	return 0;
}

void loops__free(struct loops *l, const struct profile *p)
{
	profile__free_view(l->blocked, p);
	*l = (struct loops){ .blocked = NULL };
}

/* ---- Iterations ---- */

bool loops_is_event_loop(const struct profile *p, const struct profile_loop *l)
{
	for (uint32_t i = l->poll.cnt; i-- > 0;) {
		const struct sym *s = export_sym(p, p->loop_syms[l->poll.first + i]);

		if (is_iteration(p, s))
			return true;
		if (is_called_by_loop(p, s))
			return false;
	}
	return !l->poll.cnt && l->kind == LOOP_EVENT;
}

void loops_find_slow(const struct profile *p, struct loops_slow *out)
{
	*out = (struct loops_slow){ .longest = NULL };
	for (size_t i = 0; i < p->loop_cnt; i++) {
		const struct profile_loop *l = &p->loops[i];

		if (!loops_is_event_loop(p, l))
			continue;
		out->cnt += l->slow_cnt;
		out->ns += l->slow_ns;
		for (uint32_t k = 0; k < l->longest_cnt; k++) {
			const struct profile_stretch *s = &l->longest[k];

			if (s->ns < LOOP_SLOW_NS)
				break;
			out->cnt += s->open;
			out->ns += s->open ? s->ns : 0;
			if (!out->longest || s->ns > out->longest->ns)
				out->longest = s;
			if (s->stack_cnt && (!out->sampled || s->ns > out->sampled->ns))
				out->sampled = s;
		}
	}
}

static const struct sym *leaf_of(const struct profile *p, const struct profile_loop_stack *s)
{
	return s->cnt ? export_sym(p, p->loop_syms[s->first + s->cnt - 1]) : NULL;
}

bool loops_blocks(const struct profile *p, const struct profile_stretch *s)
{
	uint64_t blocked = 0, sum = 0;

	for (uint32_t i = 0; i < s->stack_cnt; i++) {
		const struct sym *leaf = leaf_of(p, &s->stacks[i]);

		sum += s->stacks[i].ns;
		blocked += leaf && is_blocking_wait(p, leaf) ? s->stacks[i].ns : 0;
	}
	return blocked > sum / 2;
}

/* A profile of nothing but these stacks, to be freed by free_stacks_view(). NULL: no memory. */
static struct profile *stacks_view(const struct profile *p, const struct profile_loop_stack *stacks,
				   uint32_t cnt)
{
	struct profile *v = malloc(sizeof(*v));

	if (!v)
		return NULL;
	*v = *p;
	v->frames = NULL;
	v->frame_syms = p->loop_syms;
	v->frame_cnt = p->loop_sym_cnt;
	v->stack_cnt = 0;
	v->loop_cnt = v->await_cnt = 0;
	v->stacks = calloc(cnt + 1, sizeof(*v->stacks));
	if (!v->stacks) {
		free(v);
		return NULL;
	}
	for (uint32_t i = 0; i < cnt; i++)
		if (stacks[i].cnt)
			v->stacks[v->stack_cnt++] =
				(struct profile_stack){ .first = stacks[i].first,
							.cnt = stacks[i].cnt,
							.count = stacks[i].ns,
							.samples = 1 };
	return v;
}

static void free_stacks_view(struct profile *v)
{
	free(v->stacks);
	free(v);
}

static int add_path_of(struct strbuf *b, const struct profile *p,
		       const struct profile_loop_stack *stacks, uint32_t cnt)
{
	struct profile *v = stacks_view(p, stacks, cnt);
	struct view view = { 0 };
	int err;

	if (!v)
		return -ENOMEM;
	err = view__init(&view, v, true);
	if (!err && v->stack_cnt)
		err = view_add_path(b, &view);
	view__free(&view);
	free_stacks_view(v);
	return err;
}

int loops_add_path(struct strbuf *b, const struct profile *p, const struct profile_stretch *s)
{
	return add_path_of(b, p, s->stacks, s->stack_cnt);
}

#define REASONS_SHOWN 3

/* "net", or "on CPU". */
static const char *reason_of(const struct profile *p, const struct profile_loop_stack *s,
			     size_t *len)
{
	const struct sym *leaf = leaf_of(p, s);
	const char *reason = leaf ? wait_reason(profile__str(p, leaf->func), len) : NULL;

	if (!reason) {
		reason = "on CPU";
		*len = strlen(reason);
	} else if (wait_is_for_cpu(reason, *len)) {
		reason = "run queue";
		*len = strlen(reason);
	}
	return reason;
}

void loops_add_reasons(struct strbuf *b, const struct profile *p, const struct profile_stretch *s)
{
	struct {
		const char *name;
		size_t len;
		uint64_t ns;
	} by[LOOP_STACKS], most;
	uint64_t sum = 0;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < s->stack_cnt && i < LOOP_STACKS; i++) {
		size_t len;
		const char *name = reason_of(p, &s->stacks[i], &len);
		uint32_t at = 0;

		while (at < cnt && (by[at].len != len || memcmp(by[at].name, name, len) != 0))
			at++;
		if (at == cnt) {
			by[cnt].name = name;
			by[cnt].len = len;
			by[cnt++].ns = 0;
		}
		by[at].ns += s->stacks[i].ns;
		sum += s->stacks[i].ns;
	}
	for (uint32_t n = 0; n < REASONS_SHOWN && n < cnt; n++) {
		uint32_t best = n;

		for (uint32_t i = n; i < cnt; i++)
			best = by[i].ns > by[best].ns ? i : best;
		most = by[best];
		by[best] = by[n];
		strbuf__addz(b, n ? ", " : "");
		str_sanitise(b, most.name, most.len, most.len);
		strbuf__addf(b, " %.0f%%", 100.0 * (double)most.ns / (double)(sum ? sum : 1));
	}
}

/* "128 us", "1.02 ms" */
static void add_bound(struct strbuf *b, uint64_t us)
{
	if (us < 1000)
		strbuf__addf(b, "%u us", (unsigned)us);
	else if (us < 1000000)
		strbuf__addf(b, "%.3g ms", (double)us / 1e3);
	else
		strbuf__addf(b, "%.3g s", (double)us / 1e6);
}

void loops_add_bucket(struct strbuf *b, unsigned bucket)
{
	if (bucket)
		add_bound(b, 1ULL << bucket);
	else
		strbuf__addc(b, '0');
	strbuf__addz(b, " - ");
	add_bound(b, 2ULL << bucket);
}

unsigned loops_buckets(const struct profile_loop *l, unsigned *first)
{
	unsigned end = LOOP_BUCKETS;

	while (end && !l->hist[end - 1])
		end--;
	*first = 0;
	while (*first < end && !l->hist[*first])
		++*first;
	return end;
}

static int cmp_loops(const void *a, const void *b)
{
	const struct profile_loop *la = *(const struct profile_loop *const *)a;
	const struct profile_loop *lb = *(const struct profile_loop *const *)b;

	if (la->slow_ns != lb->slow_ns)
		return la->slow_ns > lb->slow_ns ? -1 : 1;
	if (la->busy_ns != lb->busy_ns)
		return la->busy_ns > lb->busy_ns ? -1 : 1;
	return (la->tid > lb->tid) - (la->tid < lb->tid);
}

size_t loops_list(const struct profile *p, const struct profile_loop **out)
{
	size_t cnt = 0;

	for (size_t i = 0; i < p->loop_cnt; i++)
		if ((p->loops[i].cnt || p->loops[i].longest_cnt) &&
		    loops_is_event_loop(p, &p->loops[i]))
			out[cnt++] = &p->loops[i];
	if (cnt)
		qsort(out, cnt, sizeof(*out), cmp_loops);
	return cnt;
}

void loops_add_title(struct strbuf *b, const struct profile *p, const struct profile_loop *l)
{
	int proc = profile__find_proc(p, l->space);

	text_add_process(b, p, proc >= 0 ? &p->procs[proc] : NULL, 0);
	if (proc < 0 || p->procs[proc].tgid != l->tid)
		strbuf__addf(b, ", thread %" PRIu32, l->tid);
	strbuf__addf(b, ": %" PRIu64 " iterations, %.2f s in all; ", l->cnt,
		     (double)l->busy_ns / NS_PER_S);
	strbuf__addf(b, "%" PRIu64 " of %u ms or more", l->slow_cnt,
		     (unsigned)(LOOP_SLOW_NS / NS_PER_MS));
	if (l->slow_cnt)
		strbuf__addf(b, ", %.2f s", (double)l->slow_ns / NS_PER_S);
}

/* ---- Tasks ---- */

#define TASKS_SHOWN 3
#define TASKS_LEAST 5 /* percent of the looks */
#define LOOKS_LEAST 3

int loops_add_await(struct strbuf *b, const struct profile *p, const struct profile_await *a)
{
	struct profile_loop_stack s = a->stack;

	s.ns = 1;
	return add_path_of(b, p, &s, 1);
}

void loops_add_looks(struct strbuf *b, const struct profile *p)
{
	uint32_t least = p->awaits[0].of, most = least;
	uint32_t cut_least = p->awaits[0].cut, cut = cut_least;

	for (size_t i = 0; i < p->await_cnt; i++) {
		const struct profile_await *a = &p->awaits[i];

		least = a->of < least ? a->of : least;
		most = a->of > most ? a->of : most;
		cut_least = a->cut < cut_least ? a->cut : cut_least;
		cut = a->cut > cut ? a->cut : cut;
	}
	strbuf__addf(b, "in ");
	if (least < most)
		strbuf__addf(b, "%" PRIu32 " to ", least);
	strbuf__addf(b, "%" PRIu32 " looks%s", most, least < most ? " at each process" : "");
	if (cut)
		strbuf__addf(b, ", %s%" PRIu32 " of them at a part of the tasks",
			     least < most || cut_least < cut ? "up to " : "", cut);
}

bool loops_await_stands(const struct profile_await *a)
{
	return !a->came && a->looks == a->of && a->of >= LOOKS_LEAST;
}

static bool is_told(const struct profile_await *a, bool stands)
{
	return a->own && loops_await_stands(a) == stands &&
	       (uint64_t)a->looks * 100 >= (uint64_t)a->of * TASKS_LEAST;
}

/* Each process has looks of its own. `of`: the number that was named last. */
static void add_looks(struct strbuf *b, const struct profile_await *a, uint32_t of)
{
	strbuf__addf(b, "%.0f%% ", 100.0 * a->looks / a->of);
	if (a->of != of)
		strbuf__addf(b, "of %" PRIu32 " looks ", a->of);
}

static int add_tasks(struct strbuf *b, const struct profile *p, bool stand)
{
	unsigned cnt = 0;
	uint32_t of = 0;
	int err = 0;

	for (size_t i = 0; i < p->await_cnt && cnt < TASKS_SHOWN && !err; i++) {
		const struct profile_await *a = &p->awaits[i];

		if (!is_told(a, stand))
			continue;
		strbuf__addf(b, "%s", cnt ? ", in " : "In ");
		add_looks(b, a, of);
		if (!cnt)
			strbuf__addf(b, "%s awaited ", stand ? "the same tasks" : "tasks");
		strbuf__addf(b, "in ");
		of = a->of;
		err = loops_add_await(b, p, a);
		strbuf__addf(b, " (%.1f on average)", (double)a->tasks / a->looks);
		cnt++;
	}
	if (cnt)
		strbuf__addc(b, '.');
	return err;
}

int loops_add_tasks(struct strbuf *b, const struct profile *p)
{
	size_t before = b->len;
	int err = add_tasks(b, p, false);

	return err || b->len > before ? err : add_tasks(b, p, true);
}
