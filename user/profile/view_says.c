/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/export_text.h"
#include "profile/view.h"

#define SENTENCES_MAX  3
#define STANDS_OUT     20 /* percent: less is one function among many */
#define IMPORTS_MIN    10
#define LIBRARY_MIN    10
#define COLLECTOR_MIN  5
#define OF_MANY_MIN    50 /* of one process, one thread */
#define BUSY_MAX       60 /* who is on a CPU for more of the time does not wait for much */
/* Of a function's samples that a call from it must have, to be its cause */
#define STEP_PERCENT   80
#define PATH_SHOWN     3
#define PATH_MAX_STEPS 64

/* Sentences so far. */
struct speech {
	const struct view *v;
	struct strbuf *b;
	unsigned cnt, room;
};

/* Before a sentence; false: there is no room for one more. */
static bool begin(struct speech *s)
{
	if (s->cnt == s->room)
		return false;
	strbuf__addz(s->b, s->cnt++ ? "\n" : "");
	return true;
}

static bool is_share(const struct view *v, uint64_t count, unsigned percent)
{
	return count && text_percent(count, v->total) >= percent;
}

static void add_share(const struct speech *s, uint64_t count)
{
	strbuf__addf(s->b, "%.0f%%", text_percent(count, s->v->total));
}

/* "of the CPU time", "of the page faults" */
static void add_whole(const struct speech *s)
{
	const struct value_type *t = &s->v->p->stats.values[0];

	strbuf__addf(s->b, " of the %s",
		     value_type__is_clock(t) && t->frequency_hz ? "CPU time"
								: value_type__noun(t, 2));
}

static void say_function(const struct speech *s, uint32_t function)
{
	const struct sym *sym = export_sym(s->v->p, s->v->functions[function].sym);

	text_add_func(s->b, s->v->p, sym, "code without a name");
}

static void say_place(const struct speech *s, uint32_t function, uint32_t line)
{
	size_t before = s->b->len;

	strbuf__addz(s->b, " (");
	view_add_place(s->b, s->v, function, line);
	if (s->b->len == before + 2) /* it has none */
		strbuf__cut(s->b, before);
	else
		strbuf__addc(s->b, ')');
}

/* ---- The function of the application that has the most time ---- */

/* The calls out of a function that nearly all of its samples go through. */
struct path {
	uint32_t function, line;
	uint32_t steps[PATH_MAX_STEPS];
	uint32_t step_cnt;
	uint64_t charged; /* of the function */
	uint64_t count;	  /* of all steps */
};

/* Own code first. Where there is none, whatever has most own time. */
static uint32_t find_hottest(const struct view *v)
{
	uint32_t best = UINT32_MAX;
	uint64_t count = 0;

	for (uint32_t i = 0; i < v->functions_of.cnt; i++) {
		if (v->functions[i].charged > count) {
			count = v->functions[i].charged;
			best = i;
		}
	}
	for (uint32_t i = 0; best == UINT32_MAX && i < v->functions_of.cnt; i++)
		count = v->functions[i].own > count ? v->functions[i].own : count;
	for (uint32_t i = 0; best == UINT32_MAX && i < v->functions_of.cnt; i++)
		best = count && v->functions[i].own == count ? i : best;
	return best;
}

/* Where the samples of a function leave it: stacks, and how deep in them. */
struct leaving {
	size_t *stacks;
	uint32_t *depths;
	size_t cnt;
	uint64_t *weights; /* by function, all 0 between uses */
};

static uint32_t function_in(const struct view *v, const struct flat_stack *s, uint32_t depth)
{
	return v->places[v->stacks.elems[s->first + depth]].function;
}

/* The depth behind a stack's innermost function of own code, if that is `function`; else 0. */
static uint32_t charged_depth(const struct view *v, const struct flat_stack *s, uint32_t function)
{
	uint32_t depth = s->cnt;

	while (depth && function_in(v, s, depth - 1) != function &&
	       v->functions[function_in(v, s, depth - 1)].muted)
		depth--;
	return depth && function_in(v, s, depth - 1) == function ? depth : 0;
}

static void find_leaving(const struct view *v, uint32_t function, struct leaving *l)
{
	for (size_t i = 0; i < v->stacks.cnt; i++) {
		uint32_t depth = charged_depth(v, &v->stacks.stacks[i], function);

		if (!depth)
			continue;
		l->stacks[l->cnt] = i;
		l->depths[l->cnt++] = depth;
	}
}

/* The heaviest call at `step` behind the function; UINT32_MAX: none. */
static uint32_t heaviest_step(const struct view *v, const struct leaving *l, uint32_t step,
			      uint64_t *count)
{
	uint32_t best = UINT32_MAX;

	*count = 0;
	for (size_t i = 0; i < l->cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[l->stacks[i]];

		if (l->depths[i] + step < s->cnt)
			l->weights[function_in(v, s, l->depths[i] + step)] += s->count;
	}
	for (size_t i = 0; i < l->cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[l->stacks[i]];
		uint32_t f;

		if (l->depths[i] + step >= s->cnt)
			continue;
		f = function_in(v, s, l->depths[i] + step);
		if (l->weights[f] > *count) {
			*count = l->weights[f];
			best = f;
		}
		l->weights[f] = 0;
	}
	return best;
}

static void keep_step(const struct view *v, struct leaving *l, uint32_t step, uint32_t function)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[l->stacks[i]];

		if (l->depths[i] + step >= s->cnt ||
		    function_in(v, s, l->depths[i] + step) != function)
			continue;
		l->stacks[kept] = l->stacks[i];
		l->depths[kept++] = l->depths[i];
	}
	l->cnt = kept;
}

static void follow(const struct view *v, struct leaving *l, struct path *path)
{
	while (path->step_cnt < PATH_MAX_STEPS) {
		uint64_t count;
		uint32_t f = heaviest_step(v, l, path->step_cnt, &count);

		if (f == UINT32_MAX || count * 100 < path->charged * STEP_PERCENT)
			return;
		keep_step(v, l, path->step_cnt, f);
		path->steps[path->step_cnt++] = f;
		path->count = count;
	}
}

/* 0 or -ENOMEM; path->function is UINT32_MAX when there is none. */
static int find_path(const struct view *v, struct path *path)
{
	struct leaving l = { 0 };
	const struct view_function *f;
	int err = -ENOMEM;

	*path = (struct path){ .function = find_hottest(v) };
	if (path->function == UINT32_MAX)
		return 0;
	f = &v->functions[path->function];
	path->line = f->charged ? f->charged_line : f->own_line;
	path->charged = path->count = f->charged ? f->charged : f->own;
	if (!f->charged)
		return 0;
	l.stacks = calloc(v->stacks.cnt + 1, sizeof(*l.stacks));
	l.depths = calloc(v->stacks.cnt + 1, sizeof(*l.depths));
	l.weights = calloc(v->functions_of.cnt + 1, sizeof(*l.weights));
	if (l.stacks && l.depths && l.weights) {
		find_leaving(v, path->function, &l);
		follow(v, &l, path);
		err = 0;
	}
	free(l.stacks);
	free(l.depths);
	free(l.weights);
	return err;
}

/* " in libcrypto": nearly all own time of the path's last function. */
static void add_path_library(const struct speech *s, const struct path *path)
{
	uint32_t last = path->step_cnt ? path->steps[path->step_cnt - 1] : path->function;
	const struct view_function *f = &s->v->functions[last];
	const struct view_part *part = &s->v->parts[f->first_part];

	if (!s->v->has_native || !f->part_cnt || part->library < VIEW_FIRST_LIBRARY ||
	    part->count * 100 < path->count * STEP_PERCENT)
		return;
	strbuf__addz(s->b, ", in ");
	view_add_library(s->b, s->v, part->library);
}

static void say_path(struct speech *s, const struct path *path)
{
	bool stands_out = is_share(s->v, path->count, STANDS_OUT);

	if (path->function == UINT32_MAX || !begin(s))
		return;
	if (!stands_out)
		strbuf__addz(s->b, "No function stands out: the most, ");
	add_share(s, path->count);
	add_whole(s);
	strbuf__addz(s->b, stands_out ? " is in " : ", is in ");
	say_function(s, path->function);
	say_place(s, path->function, path->line);
	for (uint32_t i = 0; i < path->step_cnt; i++) {
		if (path->step_cnt > PATH_SHOWN && i == 1) {
			strbuf__addz(s->b, " -> ...");
			i = path->step_cnt - 2;
			continue;
		}
		strbuf__addz(s->b, " -> ");
		say_function(s, path->steps[i]);
	}
	add_path_library(s, path);
	strbuf__addc(s->b, '.');
}

/* ---- Imports ---- */

struct imports {
	uint64_t *by_function; /* samples below the <module> that was imported outermost */
	uint64_t total;
	uint32_t module; /* the function of most of them; UINT32_MAX: not known */
	uint64_t count;	 /* of its package */
};

static bool is_called(const struct view *v, uint32_t function, const char *name)
{
	const struct sym *s = export_sym(v->p, v->functions[function].sym);

	return !strcmp(profile__str(v->p, s->func), name);
}

static bool of_package(const struct view *v, uint32_t a, uint32_t b)
{
	size_t la, lb;
	const char *pa = view_package(v, a, &la), *pb = view_package(v, b, &lb);

	return la == lb && !memcmp(pa, pb, la);
}

static int find_imports(const struct view *v, struct imports *im)
{
	*im = (struct imports){ .module = UINT32_MAX };
	im->by_function = calloc(v->functions_of.cnt + 1, sizeof(*im->by_function));
	if (!im->by_function)
		return -ENOMEM;
	for (size_t i = 0; i < v->stacks.cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[i];

		im->total += s->key != VIEW_NO_IMPORT ? s->count : 0;
		if (s->key >= VIEW_FIRST_MODULE)
			im->by_function[s->key - VIEW_FIRST_MODULE] += s->count;
	}
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (im->by_function[i] &&
		    (im->module == UINT32_MAX || im->by_function[i] > im->by_function[im->module]))
			im->module = i;
	for (uint32_t i = 0; i < v->functions_of.cnt && im->module != UINT32_MAX; i++)
		if (im->by_function[i] && of_package(v, i, im->module))
			im->count += im->by_function[i];
	free(im->by_function);
	im->by_function = NULL;
	return 0;
}

/* The path is the import itself: to say it twice tells nothing. */
static bool is_import_path(const struct view *v, const struct imports *im, const struct path *path)
{
	return path->function != UINT32_MAX && is_called(v, path->function, "<module>") &&
	       im->total * 100 >= path->charged * STEP_PERCENT;
}

/* `at`: the code that imports, or NULL. */
static void say_imports(struct speech *s, const struct imports *im, const struct path *at)
{
	bool one = im->count * 100 >= im->total * STEP_PERCENT;
	const char *name;
	size_t len;

	if (!is_share(s->v, im->total, IMPORTS_MIN) || !begin(s))
		return;
	add_share(s, one ? im->count : im->total);
	add_whole(s);
	strbuf__addz(s->b, one ? " is importing " : " is importing modules");
	if (im->module != UINT32_MAX) {
		strbuf__addz(s->b, one ? "" : ", most of it ");
		name = view_package(s->v, im->module, &len);
		str_sanitise(s->b, name, len, TEXT_NAME_MAX);
	}
	if (at)
		say_place(s, at->function, at->line);
	strbuf__addc(s->b, '.');
}

/* ---- What kind of code ---- */

/* "46% is in the interpreter itself", then ", 20% in libcrypto" */
static void add_kind(struct speech *s, unsigned *cnt, uint64_t count, unsigned least,
		     const char *text)
{
	if (!is_share(s->v, count, least) || (!*cnt && !begin(s)))
		return;
	strbuf__addz(s->b, *cnt ? ", " : "");
	add_share(s, count);
	strbuf__addf(s->b, " %sin %s", (*cnt)++ ? "" : "is ", text);
}

static void say_kinds(struct speech *s)
{
	const struct view *v = s->v;
	struct strbuf name = { 0 };
	uint32_t top = VIEW_FIRST_LIBRARY;
	unsigned cnt = 0;

	if (!v->has_native)
		return;
	for (uint32_t i = VIEW_FIRST_LIBRARY; i < v->library_cnt; i++)
		if (v->libraries[i] > v->libraries[top])
			top = i;
	add_kind(s, &cnt, v->libraries[VIEW_INTERPRETER], LIBRARY_MIN, "the interpreter itself");
	add_kind(s, &cnt, v->collecting, COLLECTOR_MIN, "garbage collection");
	if (top < v->library_cnt) {
		view_add_library(&name, v, top);
		add_kind(s, &cnt, v->libraries[top], LIBRARY_MIN, name.err ? "" : name.s);
	}
	add_kind(s, &cnt, v->libraries[VIEW_KERNEL], LIBRARY_MIN, "the kernel");
	s->b->err = s->b->err ? s->b->err : name.err;
	strbuf__free(&name);
	if (cnt)
		strbuf__addc(s->b, '.');
}

/* ---- Who ---- */

/* Samples of one process or one thread. */
struct runner {
	uint32_t proc, tid;
	uint64_t count;
};

static int runner_cmp(const void *a, const void *b)
{
	const struct runner *ra = a, *rb = b;

	if (ra->proc != rb->proc)
		return ra->proc < rb->proc ? -1 : 1;
	return ra->tid < rb->tid ? -1 : ra->tid > rb->tid;
}

/* Adds up equal ones; the new count. *top: the index of the largest. */
static size_t merge_runners(struct runner *r, size_t cnt, size_t *top)
{
	size_t kept = 0;

	*top = 0;
	if (cnt)
		qsort(r, cnt, sizeof(*r), runner_cmp);
	for (size_t i = 0; i < cnt; i++) {
		if (kept && !runner_cmp(&r[kept - 1], &r[i]))
			r[kept - 1].count += r[i].count;
		else
			r[kept++] = r[i];
	}
	for (size_t i = 0; i < kept; i++)
		*top = r[i].count > r[*top].count ? i : *top;
	return kept;
}

static size_t find_runners(const struct profile *p, struct runner *r, bool threads, size_t *top)
{
	size_t cnt = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];

		if (s->count && s->proc < p->proc_cnt)
			r[cnt++] = (struct runner){ s->proc, threads ? s->tid : 0, s->count };
	}
	return merge_runners(r, cnt, top);
}

static void say_runner(struct speech *s, const struct runner *r, const char *what)
{
	if (!begin(s))
		return;
	strbuf__addf(s->b, "One %s, ", what);
	text_add_process(s->b, s->v->p, &s->v->p->procs[r->proc], r->tid);
	strbuf__addz(s->b, ", has ");
	add_share(s, r->count);
	strbuf__addc(s->b, '.');
}

/* Of the only process: who is seldom on a CPU waits, and this profile does not show for what. */
static void say_waiting(struct speech *s)
{
	const struct profile_stats *st = &s->v->p->stats;
	const struct value_type *t = &st->values[0];
	double busy;

	if (!value_type__is_clock(t) || !t->frequency_hz || !st->duration_ns)
		return;
	busy = 100.0 * (double)s->v->total / t->frequency_hz / ((double)st->duration_ns / 1e9);
	if (busy >= BUSY_MAX || !begin(s))
		return;
	strbuf__addf(s->b, "It was on a CPU for %.*f%% of the time; the rest it waited.",
		     busy < 1 ? 1 : 0, busy);
}

static int say_who(struct speech *s)
{
	const struct profile *p = s->v->p;
	struct runner *r = calloc(p->stack_cnt + 1, sizeof(*r));
	size_t top, procs, threads;

	if (!r)
		return -ENOMEM;
	procs = find_runners(p, r, false, &top);
	if (procs > 1 && is_share(s->v, r[top].count, OF_MANY_MIN))
		say_runner(s, &r[top], "process");
	threads = find_runners(p, r, true, &top);
	if (threads > procs && r[top].tid && is_share(s->v, r[top].count, OF_MANY_MIN))
		say_runner(s, &r[top], "thread");
	if (procs == 1)
		say_waiting(s);
	free(r);
	return 0;
}

/* ---- All of it ---- */

int view_add_sentences(struct strbuf *b, const struct view *v)
{
	unsigned points = view_error_points(v);
	struct speech s = { v, b, 0, points ? SENTENCES_MAX - 1 : SENTENCES_MAX };
	struct imports im;
	struct path path;
	bool imports;
	int err;

	if (!v->total)
		return 0;
	err = find_path(v, &path);
	if (!err)
		err = find_imports(v, &im);
	if (err)
		return err;
	imports = is_share(v, im.total, OF_MANY_MIN);
	if (imports)
		say_imports(&s, &im, is_import_path(v, &im, &path) ? &path : NULL);
	if (!imports || !is_import_path(v, &im, &path))
		say_path(&s, &path);
	if (!imports)
		say_imports(&s, &im, NULL);
	say_kinds(&s);
	err = say_who(&s);
	s.room = SENTENCES_MAX;
	if (points && begin(&s))
		strbuf__addf(b, "Few samples: +-%u points; use -d or -F for more.", points);
	return err ? err : b->err;
}
