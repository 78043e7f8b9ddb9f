/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/export_groups.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_INDENT 4
#define PROCS_NAMED  8 /* of a group */
#define PLACES_TOLD  4 /* groups that the summary names */

/* One thread of one process, with its stack and its state as text. */
struct member {
	const struct dumped_process *d;
	const struct dumped_thread *t;
	char *stack, *state;
};

struct groups {
	struct member *members; /* those of a group side by side, after sort() */
	size_t cnt;
	size_t *begins; /* index of the first of each group; the commonest first */
	size_t group_cnt;
};

static char *text_of(void (*add)(struct strbuf *b, const struct member *m), const struct member *m)
{
	struct strbuf b = { 0 };
	char *text;

	add(&b, m);
	text = b.err ? NULL : strdup(b.len ? b.s : "");
	strbuf__free(&b);
	return text;
}

static void add_stack(struct strbuf *b, const struct member *m)
{
	thread_add_stack(b, m->d, m->t);
}

static void add_state(struct strbuf *b, const struct member *m)
{
	thread_add_state(b, m->t);
}

static int collect(struct groups *g, const struct dumped_process *all, size_t cnt)
{
	size_t threads = 0;

	for (size_t i = 0; i < cnt; i++)
		threads += all[i].thread_cnt;
	g->members = calloc(threads + 1, sizeof(*g->members));
	g->begins = calloc(threads + 1, sizeof(*g->begins));
	if (!g->members || !g->begins)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		for (size_t k = 0; k < all[i].thread_cnt; k++) {
			struct member *m = &g->members[g->cnt++];

			*m = (struct member){ .d = &all[i], .t = &all[i].threads[k] };
			m->stack = text_of(add_stack, m);
			m->state = text_of(add_state, m);
			if (!m->stack || !m->state)
				return -ENOMEM;
		}
	}
	return 0;
}

static uint32_t tgid_of(const struct member *m)
{
	return m->d->p->procs[0].tgid;
}

static int cmp_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int by_stack = strcmp(x->stack, y->stack);

	if (by_stack)
		return by_stack;
	if (tgid_of(x) != tgid_of(y))
		return tgid_of(x) < tgid_of(y) ? -1 : 1;
	return x->t->tid < y->t->tid ? -1 : x->t->tid > y->t->tid;
}

/* Index behind the last member of the group that begins at `first`. */
static size_t end_of(const struct groups *g, size_t first)
{
	size_t end = first + 1;

	while (end < g->cnt && !strcmp(g->members[end].stack, g->members[first].stack))
		end++;
	return end;
}

static int cmp_groups(const void *a, const void *b, void *ctx)
{
	const struct groups *g = ctx;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	size_t nx = end_of(g, x) - x, ny = end_of(g, y) - y;

	if (nx != ny)
		return nx > ny ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void sort(struct groups *g)
{
	qsort(g->members, g->cnt, sizeof(*g->members), cmp_members);
	for (size_t i = 0; i < g->cnt; i = end_of(g, i))
		g->begins[g->group_cnt++] = i;
	qsort_r(g->begins, g->group_cnt, sizeof(*g->begins), cmp_groups, g);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put(struct text_out *o, const char *sgr, struct strbuf *b)
{
	if (b->err)
		o->line.err = b->err;
	else if (b->len)
		text_out__put(o, sgr, b->s, b->len);
	strbuf__clear(b);
}

static void put_summary(struct text_out *o, const struct groups *g, size_t procs)
{
	struct strbuf b = { 0 };

	strbuf__addf(&b, "%zu process%s, %zu thread%s, most recent call first", procs,
		     procs == 1 ? "" : "es", g->cnt, g->cnt == 1 ? "" : "s");
	put(o, NULL, &b);
	text_out__newline(o);
	for (size_t i = 0; i < g->group_cnt && i < PLACES_TOLD; i++) {
		const struct member *m = &g->members[g->begins[i]];

		strbuf__addf(&b, "%s%zu of %zu in ", i ? "; " : "",
			     end_of(g, g->begins[i]) - g->begins[i], g->cnt);
		thread_add_place(&b, m->d, m->t);
	}
	if (g->group_cnt > PLACES_TOLD)
		strbuf__addf(&b, "; %zu more", g->group_cnt - PLACES_TOLD);
	put(o, SGR_BOLD, &b);
	text_out__newline(o);
	strbuf__free(&b);
}

static int cmp_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "running (3), sleeping in futex (60)" */
static void add_states(struct strbuf *b, const struct groups *g, size_t first, size_t end)
{
	size_t cnt = end - first, same;
	const char **states = calloc(cnt, sizeof(*states));

	if (!states) {
		b->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < cnt; i++)
		states[i] = g->members[first + i].state;
	qsort(states, cnt, sizeof(*states), cmp_texts);
	for (size_t i = 0; i < cnt; i += same) {
		for (same = 1; i + same < cnt && !strcmp(states[i], states[i + same]); same++)
			;
		strbuf__addf(b, "%s%s", i ? ", " : "", states[i]);
		if (same < cnt)
			strbuf__addf(b, " (%zu)", same);
	}
	free(states);
}

static void add_one(struct strbuf *b, const struct member *m)
{
	const struct profile *p = m->d->p;

	strbuf__addf(b, "process %" PRIu32 " (", tgid_of(m));
	text_add_name(b, p, profile_proc__name(&p->procs[0]), "?");
	strbuf__addf(b, "), thread %" PRIu32 " \"", m->t->tid);
	text_add_name(b, p, m->t->name, "");
	strbuf__addc(b, '"');
}

static bool is_of_new_process(const struct groups *g, size_t first, size_t i)
{
	return i == first || tgid_of(&g->members[i]) != tgid_of(&g->members[i - 1]);
}

static void add_processes(struct strbuf *b, const struct groups *g, size_t first, size_t end)
{
	size_t procs = 0, named = 0;

	for (size_t i = first; i < end; i++)
		procs += is_of_new_process(g, first, i);
	strbuf__addz(b, procs == 1 ? "process" : "processes");
	for (size_t i = first; i < end && named < PROCS_NAMED; i++)
		if (is_of_new_process(g, first, i))
			strbuf__addf(b, "%s %" PRIu32, named++ ? "," : "", tgid_of(&g->members[i]));
	if (procs > named)
		strbuf__addf(b, " and %zu more", procs - named);
}

static void put_group(struct text_out *o, const struct groups *g, size_t first)
{
	const struct member *m = &g->members[first];
	size_t end = end_of(g, first);
	struct strbuf b = { 0 };

	text_out__newline(o);
	strbuf__addf(&b, "%zu of %zu threads: ", end - first, g->cnt);
	put(o, SGR_BOLD, &b);
	add_states(&b, g, first, end);
	put(o, NULL, &b);
	text_out__newline(o);
	text_out__skip_to(o, FRAME_INDENT);
	if (end - first == 1)
		add_one(&b, m);
	else
		add_processes(&b, g, first, end);
	put(o, SGR_DIM, &b);
	text_out__newline(o);
	thread_put_frames(o, m->d, m->t);
	strbuf__free(&b);
}

int export_groups__text(FILE *f, const struct dumped_process *all, size_t cnt, bool color)
{
	struct groups g = { 0 };
	struct text_out o;
	int err = collect(&g, all, cnt);

	if (!err) {
		sort(&g);
		text_out__begin(&o, f, 0, color); /* a path that is cut is of no use */
		put_summary(&o, &g, cnt);
		for (size_t i = 0; i < g.group_cnt; i++)
			put_group(&o, &g, g.begins[i]);
		err = text_out__end(&o);
	}
	for (size_t i = 0; i < g.cnt; i++) {
		free(g.members[i].stack);
		free(g.members[i].state);
	}
	free(g.members);
	free(g.begins);
	return err;
}
