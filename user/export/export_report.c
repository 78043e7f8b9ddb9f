/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The report: what a person needs at a glance, in lines that fit the terminal.
 *
 *	headline          how much of what was sampled
 *	sentences         what stands out, each with its number (view_says.c)
 *	call tree         the Python functions, heaviest first; code of others folded
 *	                  (view_tree.c)
 *	own time          by function: time in it and in the native and kernel code that it
 *	                  called, and what that is made of; the line is its hottest one
 *	native functions  the innermost ones; code without a name by who called it (inside.h)
 *	processes         their share; equal ones are one row when there are many
 *	samples           what was lost and why, and what the profiler cost; a line when all is
 *	                  well
 *
 * With --native the innermost functions of all kinds come first, in place of the shorter table of
 * native ones.
 *
 * A function is name + file (+ module), whatever the line. Its total time counts a stack once,
 * however often the function is in it. Percentages are of the samples in the profile.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "export/export_report_parts.h"
#include "export/export_summary.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/inside.h"
#include "profile/view.h"
#include "profile/waits.h"

#define TOP_LEAVES     20
#define TOP_FUNCTIONS  15
#define TOP_NATIVE     8
#define TOP_PROCESSES  10
#define TOP_THREADS    10
#define THREAD_COLUMNS 6  /* of a profile without waits */
#define UNNAMED_MIN    10 /* percent */
#define WHOLE_PERCENT  95
#define TREE_INDENT    24 /* columns: deeper rows stand below each other */

/* ---- Small parts ---- */

/* All of its time; "idle" is one of the reasons of waits unless there is nothing else. */
static const struct profile *with_idle(const struct report *r)
{
	return r->idle.busy == r->idle.p ? r->idle.p : r->idle.folded;
}

/* Folded stacks do not say how long a sample is. */
static bool has_time(const struct report *r)
{
	return value_type__per_second(&r->p->stats.values[0]) != 0;
}

/* The title of the column that add_value() fills: "CPU s", "COUNT" */
static const char *amount_title(const struct report *r)
{
	return value_type__column(&r->p->stats.values[0]);
}

static void add_value(struct report *r, struct text_table *t, uint64_t samples)
{
	struct strbuf b = { 0 };

	if (has_time(r)) {
		text_table__addf(t, NULL, "%.2f", summary_seconds(r->p, samples));
		return;
	}
	if (value_type__is_bytes(&r->p->stats.values[0]))
		text_add_bytes(&b, (double)samples);
	else
		text_add_count(&b, samples);
	text_table__add(t, NULL, &b);
}

void report_print_title(struct report *r, const char *title)
{
	text_out__newline(&r->out);
	text_out__puts(&r->out, SGR_BOLD, title);
	text_out__newline(&r->out);
}

/* "Functions by own time", "Functions by page faults: own" */
static void print_functions_title(struct report *r, const char *functions, const char *which)
{
	struct strbuf b = { 0 };

	strbuf__addf(&b, "%s by ", functions);
	value_type__add_part(&b, &r->p->stats.values[0], which);
	if (b.err)
		r->out.line.err = b.err;
	else
		report_print_title(r, b.s);
	strbuf__free(&b);
}

/* Prints the text in `b`, filled to the width, and clears it. */
void report_print_filled(struct report *r, struct strbuf *b, unsigned indent)
{
	if (b->err)
		r->out.line.err = b->err;
	else if (b->len)
		text_out__fill(&r->out, indent, indent + 2, b->s);
	strbuf__clear(b);
}

/* "  ... 12 more (3.4%)": the rows that are not shown and their share. */
static void print_rest(struct report *r, size_t rows, uint64_t samples)
{
	struct strbuf b = { 0 };

	if (!rows)
		return;
	strbuf__addz(&b, "... ");
	text_add_count(&b, rows);
	strbuf__addz(&b, " more (");
	view_add_percent(&b, &r->view, samples);
	strbuf__addc(&b, ')');
	report_print_filled(r, &b, 2);
	strbuf__free(&b);
}

static void add_numbers(struct report *r, struct text_table *t, uint64_t share, uint64_t second,
			bool two)
{
	struct strbuf b = { 0 };

	view_add_percent(&b, &r->view, share);
	text_table__add(t, NULL, &b);
	if (two) {
		view_add_percent(&b, &r->view, second);
		text_table__add(t, NULL, &b);
	}
	add_value(r, t, share);
}

static const char *kind_sgr(uint8_t kind)
{
	switch (kind) {
	case SYM_PYTHON:
		return SGR_GREEN;
	case SYM_NATIVE:
		return SGR_CYAN;
	case SYM_KERNEL:
		return SGR_RED;
	case SYM_PLAIN:
		return NULL;
	default:
		return SGR_YELLOW;
	}
}

static const struct sym *function_sym(const struct report *r, uint32_t function)
{
	return export_sym(r->p, r->view.functions[function].sym);
}

/* The style of a function: own code stands out, and each kind other than Python has a colour. */
static const char *function_sgr(const struct report *r, uint32_t function)
{
	const struct view_function *f = &r->view.functions[function];

	if (f->python)
		return f->muted ? SGR_DIM : SGR_BOLD;
	return kind_sgr(function_sym(r, function)->kind);
}

static void add_function(struct report *r, struct text_table *t, uint32_t function, uint32_t line,
			 unsigned indent)
{
	const struct sym *s = function_sym(r, function);
	struct strbuf b = { 0 };

	strbuf__addf(&b, "%*s", (int)indent, "");
	text_add_func(&b, r->p, s, "(no symbol)");
	if (s->flags & SYM_INLINED)
		strbuf__addz(&b, " [inlined]");
	text_table__add(t, function_sgr(r, function), &b);
	view_add_place(&b, &r->view, function, line);
	text_table__add(t, NULL, &b);
}

static void add_made_of(struct report *r, struct text_table *t, uint32_t function)
{
	struct strbuf b = { 0 };

	view_add_parts(&b, &r->view, function);
	text_table__add(t, SGR_DIM, &b);
	text_table__cut_last(t, CUT_PARTS);
}

/* ---- Processes and threads ---- */

/* Processes (or threads) that are shown as one row. */
struct group {
	uint64_t count;
	uint32_t proc; /* index of one of them */
	uint32_t tid;
	uint32_t members;
};

/* By all that a row shows but the pid: only processes that are equal in it share a row. */
static int cmp_proc_names(const struct profile *p, uint32_t a, uint32_t b)
{
	const struct profile_proc *x = &p->procs[a], *y = &p->procs[b];
	int d = export_str_cmp(p, profile_proc__name(x), profile_proc__name(y));

	if (!d)
		d = export_str_cmp(p, x->exe, y->exe);
	if (!d)
		d = export_str_cmp(p, x->python, y->python);
	return d ? d : export_str_cmp(p, x->native_only, y->native_only);
}

static int cmp_group_names(const void *a, const void *b, void *ctx)
{
	return cmp_proc_names(ctx, ((const struct group *)a)->proc,
			      ((const struct group *)b)->proc);
}

static int cmp_group_ids(const void *a, const void *b)
{
	const struct group *ga = a, *gb = b;

	if (ga->proc != gb->proc)
		return ga->proc < gb->proc ? -1 : 1;
	return ga->tid < gb->tid ? -1 : ga->tid > gb->tid;
}

static int cmp_group_counts(const void *a, const void *b, void *ctx)
{
	const struct group *ga = a, *gb = b;
	const struct profile *p = ctx;
	uint32_t ta = p->procs[ga->proc].tgid, tb = p->procs[gb->proc].tgid;
	int d;

	if (ga->count != gb->count)
		return ga->count > gb->count ? -1 : 1;
	d = cmp_proc_names(p, ga->proc, gb->proc);
	if (d)
		return d;
	if (ta != tb)
		return ta < tb ? -1 : 1;
	return ga->tid < gb->tid ? -1 : ga->tid > gb->tid;
}

/* Adds up neighbours that `same` calls equal; returns how many groups are left. */
static size_t merge_groups(struct group *g, size_t cnt,
			   int (*same)(const void *, const void *, void *), void *ctx)
{
	size_t kept = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (kept && !same(&g[kept - 1], &g[i], ctx)) {
			g[kept - 1].count += g[i].count;
			g[kept - 1].members += g[i].members;
		} else {
			g[kept++] = g[i];
		}
	}
	return kept;
}

/* The processes with samples, largest first. */
static size_t find_processes(struct report *r, struct group *g)
{
	struct profile *p = (struct profile *)r->p; /* qsort_r() passes no const */
	size_t cnt = 0;

	for (size_t i = 0; i < p->proc_cnt; i++)
		g[i] = (struct group){ .proc = (uint32_t)i, .members = 1 };
	for (size_t i = 0; i < p->stack_cnt; i++)
		if (p->stacks[i].proc < p->proc_cnt)
			g[p->stacks[i].proc].count += p->stacks[i].count;
	for (size_t i = 0; i < p->proc_cnt; i++)
		if (g[i].count)
			g[cnt++] = g[i];
	if (cnt > TOP_PROCESSES) {
		/* By count first: the members' order decides whose pid stands for all. */
		qsort_r(g, cnt, sizeof(*g), cmp_group_counts, p);
		qsort_r(g, cnt, sizeof(*g), cmp_group_names, p);
		cnt = merge_groups(g, cnt, cmp_group_names, p);
	}
	qsort_r(g, cnt, sizeof(*g), cmp_group_counts, p);
	return cnt;
}

static void add_process(struct report *r, struct text_table *t, const struct group *g)
{
	const struct profile_proc *proc = &r->p->procs[g->proc];
	bool native = profile__str_len(r->p, proc->native_only) != 0;
	struct strbuf b = { 0 };

	add_numbers(r, t, g->count, 0, false);
	if (g->members == 1 && proc->tgid)
		text_table__addf(t, NULL, "%" PRIu32, proc->tgid);
	else
		text_table__addf(t, NULL, "-");
	text_add_name(&b, r->p, profile_proc__name(proc), "<unknown>");
	if (g->members > 1) {
		strbuf__addz(&b, " (");
		text_add_count(&b, g->members);
		strbuf__addz(&b, " processes)");
	}
	text_table__add(t, NULL, &b);
	text_add_name(&b, r->p, proc->python, "-");
	text_table__add(t, NULL, &b);
	if (native) {
		strbuf__addz(&b, "native only: ");
		text_add_name(&b, r->p, proc->native_only, "");
	} else {
		text_add_path(&b, r->p, proc->exe);
	}
	text_table__add(t, native ? SGR_YELLOW : NULL, &b);
	if (native)
		text_table__cut_last(t, CUT_END);
}

static int print_processes(struct report *r)
{
	const struct text_column cols[] = {
		{ "SHARE", CUT_NEVER, true }, { amount_title(r), CUT_NEVER, true },
		{ "PID", CUT_NEVER, true },   { "COMMAND", CUT_END, false },
		{ "PYTHON", CUT_END, false }, { "EXECUTABLE", CUT_PATH, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = sizeof(cols) / sizeof(cols[0]) };
	struct group *g = calloc(r->p->proc_cnt + 1, sizeof(*g));
	size_t cnt, rest = 0;
	uint64_t rest_count = 0;
	int err;

	if (!g)
		return -ENOMEM;
	cnt = find_processes(r, g);
	for (size_t i = 0; i < cnt; i++) {
		if (i < TOP_PROCESSES) {
			add_process(r, &t, &g[i]);
			continue;
		}
		rest += g[i].members;
		rest_count += g[i].count;
	}
	free(g);
	report_print_title(r, "Processes");
	err = text_table__print(&t, &r->out);
	print_rest(r, rest, rest_count);
	return err;
}

/* The columns behind a thread's name. */
static void add_states(struct report *r, struct text_table *t, const struct group *g)
{
	struct strbuf bar = { 0 }, reasons = { 0 };

	waits_add_thread(&bar, &reasons, with_idle(r), g->proc, g->tid);
	text_table__add(t, NULL, &bar);
	text_table__add(t, NULL, &reasons);
}

static void add_thread(struct report *r, struct text_table *t, const struct group *g)
{
	const struct profile_proc *proc = &r->p->procs[g->proc];
	const char *name = profile__thread_name(r->p, proc->space, THREAD_TID(g->tid));
	struct strbuf b = { 0 };

	add_numbers(r, t, g->count, 0, false);
	text_table__addf(t, NULL, "%" PRIu32, proc->tgid);
	text_table__addf(t, NULL, "%" PRIu32, THREAD_TID(g->tid));
	text_add_name(&b, r->p, profile_proc__name(proc), "<unknown>");
	text_table__add(t, NULL, &b);
	str_sanitise(&b, name, strlen(name), TEXT_NAME_MAX);
	if (THREAD_INTERP(g->tid))
		strbuf__addf(&b, ", interpreter %" PRIu32, THREAD_INTERP(g->tid));
	text_table__add(t, NULL, &b);
	if (t->col_cnt > THREAD_COLUMNS)
		add_states(r, t, g);
}

static int cmp_same_thread(const void *a, const void *b, void *ctx)
{
	(void)ctx;
	return cmp_group_ids(a, b);
}

static int print_threads(struct report *r)
{
	const struct text_column cols[] = {
		{ "SHARE", CUT_NEVER, true },
		{ amount_title(r), CUT_NEVER, true },
		{ "PID", CUT_NEVER, true },
		{ "TID", CUT_NEVER, true },
		{ "COMMAND", CUT_END, false },
		{ "THREAD", CUT_END, false },
		/* Of waits only: */
		{ WAITS_BAR_TITLE, CUT_NEVER, false },
		{ "WAITS FOR, s", CUT_END, false },
	};
	struct text_table t = { .cols = cols,
				.col_cnt = waits_are_in(r->p) ? sizeof(cols) / sizeof(cols[0])
							      : THREAD_COLUMNS };
	struct group *g = calloc(r->p->stack_cnt + 1, sizeof(*g));
	uint64_t rest_count = 0;
	size_t cnt = 0;
	int err;

	if (!g)
		return -ENOMEM;
	for (size_t i = 0; i < r->p->stack_cnt; i++) {
		const struct profile_stack *s = &r->p->stacks[i];

		if (s->tid && s->count && s->proc < r->p->proc_cnt)
			g[cnt++] = (struct group){ s->count, s->proc, s->tid, 1 };
	}
	qsort(g, cnt, sizeof(*g), cmp_group_ids);
	cnt = merge_groups(g, cnt, cmp_same_thread, NULL);
	qsort_r(g, cnt, sizeof(*g), cmp_group_counts, (void *)r->p);
	for (size_t i = 0; i < cnt; i++) {
		if (i < TOP_THREADS)
			add_thread(r, &t, &g[i]);
		else
			rest_count += g[i].count;
	}
	free(g);
	report_print_title(r, "Threads");
	err = text_table__print(&t, &r->out);
	print_rest(r, cnt > TOP_THREADS ? cnt - TOP_THREADS : 0, rest_count);
	return err;
}

/* ---- The call tree ---- */

/* "  16 frames: runpy, gunicorn" */
static void add_chain(struct report *r, struct text_table *t, const struct view_row *row,
		      unsigned indent)
{
	struct strbuf b = { 0 };
	const char *name;
	size_t len;

	strbuf__addf(&b, "%*s%" PRIu32 " frames: ", (int)indent, "", row->frames);
	for (uint32_t i = 0; i < row->package_cnt; i++) {
		strbuf__addz(&b, i ? ", " : "");
		name = view_package(&r->view, row->packages[i], &len);
		str_sanitise(&b, name, len, TEXT_NAME_MAX);
	}
	text_table__add(t, SGR_DIM, &b);
	text_table__addf(t, NULL, "%s", "");
}

/*
 * The source line of own code; of other code that has time of its own, what that is made of: known
 * of the function as a whole, so only where (nearly) all of its own time is in this row.
 */
static void add_detail(struct report *r, struct text_table *t, const struct view_row *row)
{
	const struct view_function *f = &r->view.functions[row->function];
	struct strbuf b = { 0 };

	if (!row->frames && f->python && !f->muted)
		source_lines__add(&r->source, &b, row->function, row->line);
	if (!b.len && !b.err && !row->frames && text_percent(row->own, r->total) >= r->tree.cut &&
	    text_percent(row->own, f->own) >= WHOLE_PERCENT)
		add_made_of(r, t, row->function);
	else
		text_table__add(t, SGR_DIM, &b);
}

static void add_tree_row(struct report *r, struct text_table *t, const struct view_row *row)
{
	unsigned indent = row->depth < TREE_INDENT ? row->depth : TREE_INDENT;
	struct strbuf b = { 0 };

	view_add_percent(&b, &r->view, row->total);
	text_table__add(t, NULL, &b);
	if (row->own)
		view_add_percent(&b, &r->view, row->own);
	else
		strbuf__addz(&b, "-");
	text_table__add(t, NULL, &b);
	if (row->frames)
		add_chain(r, t, row, indent);
	else
		add_function(r, t, row->function, row->line, indent);
	add_detail(r, t, row);
}

static int print_tree(struct report *r)
{
	const struct text_column cols[] = {
		{ "TOTAL", CUT_NEVER, true },
		{ "OWN", CUT_NEVER, true },
		{ "FUNCTION", CUT_MIDDLE, false },
		{ r->o->lines ? "LINE" : "FILE", CUT_PATH, false },
		{ "CODE", CUT_FIRST, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = sizeof(cols) / sizeof(cols[0]) };
	struct strbuf b = { 0 };
	int err;

	for (size_t i = 0; i < r->tree.cnt; i++)
		add_tree_row(r, &t, &r->tree.rows[i]);
	report_print_title(r, "Call tree");
	err = text_table__print(&t, &r->out);
	if (r->tree.left_out)
		strbuf__addf(&b, "... branches below %u%% are left out", r->tree.cut);
	report_print_filled(r, &b, 2);
	strbuf__free(&b);
	return err;
}

/* ---- Functions ---- */

/* A table of functions. */
struct ranking {
	const struct view *v;
	bool by_self; /* else by own time */
	bool native;  /* native and kernel functions only */
	size_t rows;  /* shown */
};

static uint64_t rank_of(const struct ranking *k, uint32_t function)
{
	const struct view_function *f = &k->v->functions[function];

	return k->by_self ? f->self : f->own;
}

static bool is_ranked(const struct ranking *k, uint32_t function)
{
	uint8_t kind = export_sym(k->v->p, k->v->functions[function].sym)->kind;

	return rank_of(k, function) && (!k->native || kind == SYM_NATIVE || kind == SYM_KERNEL);
}

static int cmp_ranked(const void *a, const void *b, void *ranking)
{
	const struct ranking *k = ranking;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	uint64_t ra = rank_of(k, ia), rb = rank_of(k, ib);
	uint64_t ta = k->v->functions[ia].total, tb = k->v->functions[ib].total;

	if (ra != rb)
		return ra > rb ? -1 : 1;
	if (ta != tb)
		return ta > tb ? -1 : 1;
	return ia < ib ? -1 : ia > ib;
}

static void add_ranked(struct report *r, struct text_table *t, const struct ranking *k,
		       uint32_t function)
{
	const struct view_function *f = &r->view.functions[function];

	add_numbers(r, t, rank_of(k, function), f->total, true);
	add_function(r, t, function, k->by_self ? f->self_line : f->own_line, 0);
	if (!k->by_self)
		add_made_of(r, t, function);
}

/* `order` has room for all functions. */
static int print_ranking(struct report *r, struct ranking *k, uint32_t *order)
{
	const struct text_column cols[] = {
		{ k->by_self ? "SELF" : "OWN", CUT_NEVER, true },
		{ "TOTAL", CUT_NEVER, true },
		{ amount_title(r), CUT_NEVER, true },
		{ "FUNCTION", CUT_MIDDLE, false },
		{ k->native || !r->o->lines ? "FILE" : "HOTTEST LINE", CUT_PATH, false },
		{ "MADE OF", CUT_FIRST, false },
	};
	struct text_table t = { .cols = cols,
				.col_cnt = sizeof(cols) / sizeof(cols[0]) - k->by_self };
	uint64_t rest = 0;
	size_t cnt = 0;
	int err;

	for (uint32_t i = 0; i < r->view.functions_of.cnt; i++)
		if (is_ranked(k, i))
			order[cnt++] = i;
	if (!cnt)
		return 0;
	qsort_r(order, cnt, sizeof(*order), cmp_ranked, k);
	for (size_t i = 0; i < cnt; i++) {
		if (i < k->rows)
			add_ranked(r, &t, k, order[i]);
		else
			rest += rank_of(k, order[i]);
	}
	print_functions_title(r, k->native ? "Native functions" : "Functions",
			      k->by_self ? "self" : "own");
	err = text_table__print(&t, &r->out);
	print_rest(r, cnt > k->rows ? cnt - k->rows : 0, rest);
	return err;
}

static int print_functions(struct report *r, struct ranking k)
{
	uint32_t *order = calloc(r->view.functions_of.cnt + 1, sizeof(*order));
	int err;

	k.v = &r->view;
	err = order ? print_ranking(r, &k, order) : -ENOMEM;
	free(order);
	return err;
}

static int print_leaves(struct report *r)
{
	return print_functions(r, (struct ranking){ .by_self = true, .rows = TOP_LEAVES });
}

static int print_own(struct report *r)
{
	return print_functions(r, (struct ranking){ .rows = TOP_FUNCTIONS });
}

static int print_native(struct report *r)
{
	return print_functions(
		r, (struct ranking){ .by_self = true, .native = true, .rows = TOP_NATIVE });
}

/* ---- Code without a name ---- */

/* By how many samples end in its unnamed code, the largest module; and the sum of all. */
static uint32_t find_unnamed(const struct profile *p, uint64_t *of_module, uint64_t *sum)
{
	uint32_t best = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];
		uint32_t cnt = p->frame_syms ? profile__stack_frames(p, s) : 0;
		const struct sym *leaf =
			cnt ? export_sym(p, p->frame_syms[s->first + cnt - 1]) : NULL;

		if (!leaf || leaf->module < 0 || (size_t)leaf->module >= p->module_cnt ||
		    !inside_is_unnamed(p, leaf))
			continue;
		*sum += s->count;
		of_module[leaf->module] += s->count;
		if (of_module[leaf->module] > of_module[best])
			best = (uint32_t)leaf->module;
	}
	return best;
}

/* "python3.11-dbg" of /usr/bin/python3.11; else what such packages are called. */
static void add_package_hint(struct strbuf *b, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t digits = strncmp(name, "python", 6) ? 0 : strspn(name + 6, "0123456789.");

	if (digits && !name[6 + digits] && !strncmp(path, "/usr/bin/", 9))
		strbuf__addf(b, "install %s-dbg (Debian)", name);
	else
		strbuf__addz(b, "install its debug symbols (-dbg, -dbgsym, -debuginfo)");
}

/* Says where names would come from, if much of the table has none. */
static int print_unnamed(struct report *r)
{
	uint64_t *of_module = calloc(r->p->module_cnt + 1, sizeof(*of_module)), sum = 0;
	bool plural = value_type__is_plural(&r->p->stats.values[0]);
	struct strbuf b = { 0 };
	uint32_t most;

	if (!of_module)
		return -ENOMEM;
	most = find_unnamed(r->sampled, of_module, &sum);
	if (sum && text_percent(sum, r->total) >= UNNAMED_MIN) {
		const char *path = profile__str(r->p, r->p->modules[most].path);

		view_add_percent(&b, &r->view, sum);
		strbuf__addf(&b,
			     " of the %s %s in native code that has no symbol and is in no table, ",
			     value_type__whole(&r->p->stats.values[0]), plural ? "are" : "is");
		if (of_module[most] < sum) {
			view_add_percent(&b, &r->view, of_module[most]);
			strbuf__addz(&b, " in ");
		} else {
			strbuf__addz(&b, plural ? "all in " : "all of it in ");
		}
		text_add_module(&b, r->p, (int32_t)most);
		strbuf__addz(&b, ": ");
		add_package_hint(&b, path);
		strbuf__addz(&b, ", or record with --debuginfod");
	}
	report_print_filled(r, &b, 2);
	strbuf__free(&b);
	free(of_module);
	return 0;
}

/* ---- Headline and the last block ---- */

static void print_headline(struct report *r)
{
	struct strbuf b = { 0 };

	summary_add_headline(&b, with_idle(r));
	report_print_filled(r, &b, 0);
	if (r->p->stats.values[0].event == EVENT_GIL)
		waits_add_gil_line(&b, r->whole);
	else
		waits_add_line(&b, with_idle(r));
	report_print_filled(r, &b, 0);
	idle_add_line(&b, &r->idle);
	report_print_filled(r, &b, 0);
	strbuf__free(&b);
}

static int print_sentences(struct report *r)
{
	struct strbuf b = { 0 };
	int err = view_add_sentences(&b, &r->view);

	char *rest = NULL, *line;

	if (b.len)
		text_out__newline(&r->out);
	for (line = b.len ? strtok_r(b.s, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		text_out__fill(&r->out, 0, 2, line);
	strbuf__free(&b);
	return err;
}

static void print_samples(struct report *r)
{
	struct strbuf b = { 0 };

	if (r->total && !summary_is_accounted(r->p))
		return;
	if (r->total && !r->o->verbose && summary_is_fine(r->p)) {
		text_out__newline(&r->out);
		summary_add_fine(&b, r->p);
		report_print_filled(r, &b, 0);
		strbuf__free(&b);
		return;
	}
	report_print_title(r, "Samples");
	text_add_samples(&b, r->p);
	report_print_filled(r, &b, 2);
	text_add_complete(&b, r->p);
	report_print_filled(r, &b, 2);
	for (size_t at = 0; summary_next_counter(&b, r->p, &at);)
		report_print_filled(r, &b, 4);
	for (size_t at = 0; summary_next_refused(&b, r->whole, &at);)
		report_print_filled(r, &b, 4);
	summary_add_cost(&b, &r->p->stats);
	report_print_filled(r, &b, 2);
	strbuf__free(&b);
}

/* ---- Nothing sampled ---- */

static void print_nothing(struct report *r)
{
	struct strbuf b = { 0 };
	unsigned indent;

	summary_add_nothing(&b, r->p);
	report_print_filled(r, &b, 0);
	for (size_t at = 0; !r->more && summary_next_resting(&b, r->whole, &at, &indent);)
		report_print_filled(r, &b, indent);
	strbuf__free(&b);
	if (!r->more)
		print_samples(r);
}

/* ---- All of it ---- */

static bool is_time_of_threads(const struct report *r)
{
	uint32_t event = r->p->stats.values[0].event;

	return event == EVENT_WALL || event == EVENT_OFF_CPU;
}

static int print_view(struct report *r)
{
	int err;

	print_headline(r);
	err = print_sentences(r);
	if (!err && is_time_of_threads(r))
		err = report_print_awaits(r);
	if (!err && is_time_of_threads(r))
		err = report_print_loops(r);
	if (!err && r->o->native)
		err = print_leaves(r);
	if (!err)
		err = print_tree(r);
	if (!err)
		err = print_own(r);
	if (!err && !r->o->native)
		err = print_native(r);
	if (!err)
		err = print_unnamed(r);
	if (!err)
		err = print_processes(r);
	if (!err && r->o->threads)
		err = print_threads(r);
	if (!err && !r->more)
		print_samples(r);
	return err;
}

static int print_report(struct report *r)
{
	int err;

	if (!r->total) {
		print_nothing(r);
		return 0;
	}
	err = view__init(&r->view, r->p, r->o->lines);
	if (!err)
		err = view_tree__init(&r->tree, &r->view);
	if (!err)
		err = source_lines__init(&r->source, &r->view, r->o->live, r->o->readers);
	return err ? err : print_view(r);
}

/* The block of one value type. `more`: others follow, and what all have in common comes last. */
static int write_block(const struct profile *p, const struct profile *whole,
		       const struct export_opts *o, FILE *f, bool more)
{
	struct report r = { .whole = whole, .o = o, .more = more };
	int err, out_err;

	err = idle__init(&r.idle, p, &o->idle);
	if (err)
		return err;
	r.sampled = r.idle.busy;
	r.total = profile__total(r.sampled);
	r.p = inside__view(r.sampled);
	if (!r.p) {
		idle__free(&r.idle);
		return -ENOMEM;
	}
	errno = 0;
	text_out__begin(&r.out, f, o->width, o->color);
	err = print_report(&r);
	if (more)
		text_out__newline(&r.out);
	out_err = text_out__end(&r.out);
	source_lines__free(&r.source);
	view_tree__free(&r.tree);
	view__free(&r.view);
	profile__free_view(r.p, r.sampled);
	idle__free(&r.idle);
	return err ? err : out_err;
}

/* The peak is much like the rest: a sentence of memory says it, and --value shows it. */
static uint32_t shown_cnt(const struct profile *p)
{
	uint32_t cnt = profile__value_cnt(p);

	return cnt > 1 && p->stats.values[cnt - 1].event == EVENT_PEAK_SPACE ? cnt - 1 : cnt;
}

int export__report(const struct profile *p, const struct export_opts *o, FILE *f)
{
	uint32_t cnt = shown_cnt(p);
	bool all = profile__value_cnt(p) > 1;
	int err = all ? 0 : write_block(p, p, o, f, false);

	for (uint32_t i = 0; all && i < cnt && !err; i++) {
		const struct profile *view = profile__view(p, i);

		err = view ? write_block(view, p, o, f, i + 1 < cnt) : -ENOMEM;
		profile__free_view(view, p);
	}
	return err;
}
