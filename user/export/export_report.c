/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The report: what a person needs at a glance, in lines that fit the terminal.
 *
 *	headline                 how much of what was sampled
 *	Processes                their share; equal ones are one row when there are many
 *	Functions by self time   where the CPU was; the line is the hottest one of the function
 *	Functions by total time  who is responsible; the line is where the function begins. Native
 *	                         functions that mostly call Python code (the interpreter's own) are
 *	                         left out: they would fill the table and tell nothing
 *	Heaviest stack           from the root, always into the heaviest callee
 *	Samples                  what was lost and why, and what the profiler cost
 *
 * A function is name + file (+ module), whatever the line. Its total time counts a stack once,
 * however often the function is in it. Percentages are of the samples in the profile.
 *
 * Stacks are lists of "places": (function, line). One pass over them gives all of the above.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "export/export_summary.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"

#define TOP_FUNCTIONS  20
#define TOP_PROCESSES  10
#define TOP_THREADS    10
#define STACK_ROWS     24 /* of the heaviest stack; more are elided */
#define STACK_ROWS_TOP 8  /* of them at the root's end */

struct function {
	uint64_t self, total;
	uint64_t below; /* of total: stacks where it is deeper than all Python frames */
	uint64_t hot_self, hot_total; /* samples of the hottest lines */
	uint32_t self_line;
	uint32_t total_line;	   /* where it begins, else its hottest line */
	uint32_t sym;		   /* one of its syms */
	uint32_t depth;		   /* where it is nearest to the root */
	uint32_t seen, seen_below; /* number of the stack that was counted last, + 1 */
};

struct place {
	uint64_t self, total;
	uint32_t function;
	uint32_t line, first_line; /* of the definition; 0: not known */
	uint32_t seen;
};

/* A row of the heaviest stack. */
struct step {
	uint32_t function;
	uint32_t line;
	uint64_t count;
};

struct report {
	const struct profile *p;
	const struct export_opts *o;
	struct text_out out;
	uint64_t total;
	struct sym_ranks functions_of, places_of; /* sym -> function, sym -> place */
	struct flat_stacks stacks;		  /* of places */
	struct function *functions;
	struct place *places;
	struct step *steps; /* of the heaviest stack, outermost first */
	size_t step_cnt;
	bool more; /* the blocks of other value types follow */
};

/* ---- Counting ---- */

static int cmp_functions(const struct profile *p, uint32_t a, uint32_t b, const void *arg)
{
	(void)arg;
	return export_function_cmp(p, export_sym(p, a), export_sym(p, b));
}

static int cmp_places(const struct profile *p, uint32_t a, uint32_t b, const void *arg)
{
	const bool *lines = arg;
	const struct sym *sa = export_sym(p, a), *sb = export_sym(p, b);
	int d = cmp_functions(p, a, b, NULL);

	if (d || !*lines)
		return d;
	if (sa->start_line != sb->start_line)
		return sa->start_line < sb->start_line ? -1 : 1;
	return sa->line < sb->line ? -1 : sa->line > sb->line;
}

static uint8_t function_kind(const struct report *r, uint32_t function)
{
	return export_sym(r->p, r->functions[function].sym)->kind;
}

/* How many elements of a stack there are up to and including its innermost Python frame. */
static uint32_t python_depth(const struct report *r, const struct flat_stack *s)
{
	uint32_t n = s->cnt;

	while (n && function_kind(r, r->places[r->stacks.elems[s->first + n - 1]].function) !=
			    SYM_PYTHON)
		n--;
	return n;
}

static void count_stack(struct report *r, size_t index)
{
	const struct flat_stack *s = &r->stacks.stacks[index];
	uint32_t stamp = (uint32_t)index + 1;
	uint32_t python = python_depth(r, s);

	for (uint32_t i = 0; i < s->cnt; i++) {
		struct place *pl = &r->places[r->stacks.elems[s->first + i]];
		struct function *f = &r->functions[pl->function];

		if (!f->seen || i < f->depth)
			f->depth = i;
		if (i >= python && f->seen_below != stamp) {
			f->below += s->count;
			f->seen_below = stamp;
		}
		if (pl->seen != stamp)
			pl->total += s->count;
		if (f->seen != stamp)
			f->total += s->count;
		pl->seen = stamp;
		f->seen = stamp;
		if (i == s->cnt - 1) {
			pl->self += s->count;
			f->self += s->count;
		}
	}
}

/* Of lines that are equally hot, the first one. Of several definitions, the one with the hottest line. */
static void find_hot_lines(struct report *r)
{
	for (uint32_t i = 0; i < r->places_of.cnt; i++) {
		const struct place *pl = &r->places[i];
		struct function *f = &r->functions[pl->function];

		if (pl->self > f->hot_self) {
			f->hot_self = pl->self;
			f->self_line = pl->line;
		}
		if (pl->total > f->hot_total) {
			f->hot_total = pl->total;
			f->total_line = pl->first_line ? pl->first_line : pl->line;
		}
	}
}

static int count(struct report *r)
{
	int err = sym_ranks__init(&r->functions_of, r->p, cmp_functions, NULL);

	if (!err)
		err = sym_ranks__init(&r->places_of, r->p, cmp_places, &r->o->lines);
	if (!err)
		err = flat_stacks__init(&r->stacks, r->p, r->places_of.of, true, NULL);
	if (err)
		return err;
	r->functions = calloc(r->functions_of.cnt, sizeof(*r->functions));
	r->places = calloc(r->places_of.cnt, sizeof(*r->places));
	if (!r->functions || !r->places)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->functions_of.cnt; i++)
		r->functions[i].sym = r->functions_of.first[i];
	for (uint32_t i = 0; i < r->places_of.cnt; i++) {
		uint32_t index = r->places_of.first[i];
		const struct sym *s = export_sym(r->p, index);

		r->places[i].function = r->functions_of.of[index];
		r->places[i].line = r->o->lines ? s->line : 0;
		r->places[i].first_line = r->o->lines ? s->start_line : 0;
	}
	for (size_t i = 0; i < r->stacks.cnt; i++)
		count_stack(r, i);
	find_hot_lines(r);
	return 0;
}

/* ---- Small parts ---- */

/* Folded stacks do not say how long a sample is. */
static bool has_time(const struct report *r)
{
	return r->p->stats.values[0].frequency_hz != 0;
}

static const char *cpu_title(const struct report *r)
{
	const struct value_type *v = &r->p->stats.values[0];

	if (!value_type__is_clock(v))
		return has_time(r) ? "SECONDS" : value_type__is_bytes(v) ? "BYTES" : "COUNT";
	return has_time(r) ? "CPU s" : "SAMPLES";
}

static void add_cpu(struct report *r, struct text_table *t, uint64_t samples)
{
	struct strbuf b = { 0 };

	if (has_time(r)) {
		text_table__addf(t, NULL, "%.2f", summary_cpu_seconds(r->p, samples));
		return;
	}
	text_add_count(&b, samples);
	text_table__add(t, NULL, &b);
}

static void print_title(struct report *r, const char *title)
{
	text_out__newline(&r->out);
	text_out__puts(&r->out, SGR_BOLD, title);
	text_out__newline(&r->out);
}

/* "Functions by page faults: self" */
static void print_event_title(struct report *r, bool by_self)
{
	struct strbuf b = { 0 };

	strbuf__addf(&b, "Functions by %s: %s", value_type__noun(&r->p->stats.values[0], 2),
		     by_self ? "self" : "total");
	if (b.err)
		r->out.line.err = b.err;
	else
		print_title(r, b.s);
	strbuf__free(&b);
}

/* Prints what is in `b`, filled, and clears it. */
static void print_filled(struct report *r, struct strbuf *b, unsigned indent)
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
	strbuf__addf(&b, " more (%.1f%%)", text_percent(samples, r->total));
	print_filled(r, &b, 2);
	strbuf__free(&b);
}

static void add_numbers(struct report *r, struct text_table *t, uint64_t share, uint64_t second,
			bool two)
{
	text_table__addf(t, NULL, "%.1f%%", text_percent(share, r->total));
	if (two)
		text_table__addf(t, NULL, "%.1f%%", text_percent(second, r->total));
	add_cpu(r, t, share);
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

static void add_function(struct report *r, struct text_table *t, uint32_t function, uint32_t line,
			 unsigned indent)
{
	const struct sym *s = export_sym(r->p, r->functions[function].sym);
	struct strbuf b = { 0 };

	strbuf__addf(&b, "%*s", (int)indent, "");
	text_add_func(&b, r->p, s, "(no symbol)");
	if (s->flags & SYM_INLINED)
		strbuf__addz(&b, " [inlined]");
	text_table__add(t, kind_sgr(s->kind), &b);
	text_add_place(&b, r->p, s, line);
	text_table__add(t, NULL, &b);
}

/* ---- Processes and threads ---- */

/* Processes (or threads) that are shown as one row. */
struct group {
	uint64_t count;
	uint32_t proc; /* index of one of them */
	uint32_t tid;
	uint32_t members;
};

static int cmp_proc_names(const struct profile *p, uint32_t a, uint32_t b)
{
	int d = export_str_cmp(p, p->procs[a].comm, p->procs[b].comm);

	return d ? d : export_str_cmp(p, p->procs[a].exe, p->procs[b].exe);
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
		/* By count first: the members' order decides whose pid and version stand for all. */
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
	text_add_name(&b, r->p, proc->comm, "<unknown>");
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
		{ "SHARE", CUT_NEVER, true }, { cpu_title(r), CUT_NEVER, true },
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
	print_title(r, "Processes");
	err = text_table__print(&t, &r->out);
	print_rest(r, rest, rest_count);
	return err;
}

static void add_thread(struct report *r, struct text_table *t, const struct group *g)
{
	const struct profile_proc *proc = &r->p->procs[g->proc];
	const char *name = profile__thread_name(r->p, proc->space, THREAD_TID(g->tid));
	struct strbuf b = { 0 };

	add_numbers(r, t, g->count, 0, false);
	text_table__addf(t, NULL, "%" PRIu32, proc->tgid);
	text_table__addf(t, NULL, "%" PRIu32, THREAD_TID(g->tid));
	text_add_name(&b, r->p, proc->comm, "<unknown>");
	text_table__add(t, NULL, &b);
	str_sanitise(&b, name, strlen(name), TEXT_NAME_MAX);
	if (THREAD_INTERP(g->tid))
		strbuf__addf(&b, ", interpreter %" PRIu32, THREAD_INTERP(g->tid));
	text_table__add(t, NULL, &b);
}

static int cmp_same_thread(const void *a, const void *b, void *ctx)
{
	(void)ctx;
	return cmp_group_ids(a, b);
}

static int print_threads(struct report *r)
{
	const struct text_column cols[] = {
		{ "SHARE", CUT_NEVER, true },  { cpu_title(r), CUT_NEVER, true },
		{ "PID", CUT_NEVER, true },    { "TID", CUT_NEVER, true },
		{ "COMMAND", CUT_END, false }, { "THREAD", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = sizeof(cols) / sizeof(cols[0]) };
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
	print_title(r, "Threads");
	err = text_table__print(&t, &r->out);
	print_rest(r, cnt > TOP_THREADS ? cnt - TOP_THREADS : 0, rest_count);
	return err;
}

/* ---- Functions ---- */

static int cmp_self(const void *a, const void *b, void *ctx)
{
	const struct function *functions = ctx;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	const struct function *fa = &functions[ia], *fb = &functions[ib];

	if (fa->self != fb->self)
		return fa->self > fb->self ? -1 : 1;
	if (fa->total != fb->total)
		return fa->total > fb->total ? -1 : 1;
	return ia < ib ? -1 : ia > ib;
}

/* Callers before callees where the totals do not decide. */
static int cmp_total(const void *a, const void *b, void *ctx)
{
	const struct function *functions = ctx;
	const struct function *fa = &functions[*(const uint32_t *)a];
	const struct function *fb = &functions[*(const uint32_t *)b];

	if (fa->total != fb->total)
		return fa->total > fb->total ? -1 : 1;
	if (fa->depth != fb->depth)
		return fa->depth < fb->depth ? -1 : 1;
	return cmp_self(a, b, ctx);
}

static bool is_shown(const struct report *r, uint32_t function, bool by_self)
{
	const struct function *f = &r->functions[function];

	if (by_self)
		return f->self != 0;
	return f->total && (function_kind(r, function) != SYM_NATIVE || f->below > f->total / 2);
}

static int print_functions(struct report *r, bool by_self)
{
	const char *place = !r->o->lines ? "FILE" : by_self ? "HOTTEST LINE" : "DEFINED AT";
	const struct text_column cols[] = {
		{ by_self ? "SELF" : "TOTAL", CUT_NEVER, true },
		{ by_self ? "TOTAL" : "SELF", CUT_NEVER, true },
		{ cpu_title(r), CUT_NEVER, true },
		{ "FUNCTION", CUT_MIDDLE, false },
		{ place, CUT_PATH, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = sizeof(cols) / sizeof(cols[0]) };
	uint32_t *order = calloc(r->functions_of.cnt, sizeof(*order));
	uint64_t rest_count = 0;
	size_t cnt = 0;
	int err;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->functions_of.cnt; i++)
		if (is_shown(r, i, by_self))
			order[cnt++] = i;
	qsort_r(order, cnt, sizeof(*order), by_self ? cmp_self : cmp_total, r->functions);
	for (size_t i = 0; i < cnt; i++) {
		const struct function *f = &r->functions[order[i]];

		if (i >= TOP_FUNCTIONS) {
			rest_count += f->self;
			continue;
		}
		add_numbers(r, &t, by_self ? f->self : f->total, by_self ? f->total : f->self,
			    true);
		add_function(r, &t, order[i], by_self ? f->self_line : f->total_line, 0);
	}
	free(order);
	if (value_type__is_clock(&r->p->stats.values[0]))
		print_title(r, by_self ? "Functions by self time" : "Functions by total time");
	else
		print_event_title(r, by_self);
	err = text_table__print(&t, &r->out);
	if (by_self) /* totals overlap: their sum would mean nothing */
		print_rest(r, cnt > TOP_FUNCTIONS ? cnt - TOP_FUNCTIONS : 0, rest_count);
	return err;
}

/* ---- The heaviest stack ---- */

/* Scratch for one descent. */
struct descent {
	uint32_t *live; /* indexes of the stacks that begin with the steps so far */
	size_t live_cnt;
	uint64_t *weights; /* by function or place, all 0 between uses */
};

/* The heaviest callee at a depth, or UINT32_MAX when more samples end here than go into it. */
static uint32_t heaviest_callee(struct report *r, struct descent *d, uint32_t depth,
				uint64_t *count)
{
	uint32_t best = UINT32_MAX;
	uint64_t ended = 0;

	*count = 0;
	for (size_t i = 0; i < d->live_cnt; i++) {
		const struct flat_stack *s = &r->stacks.stacks[d->live[i]];

		if (s->cnt == depth)
			ended += s->count;
		else
			d->weights[r->places[r->stacks.elems[s->first + depth]].function] +=
				s->count;
	}
	for (size_t i = 0; i < d->live_cnt; i++) {
		const struct flat_stack *s = &r->stacks.stacks[d->live[i]];
		uint32_t f;

		if (s->cnt == depth)
			continue;
		f = r->places[r->stacks.elems[s->first + depth]].function;
		if (d->weights[f] > *count || (d->weights[f] == *count && *count && f < best)) {
			*count = d->weights[f];
			best = f;
		}
		d->weights[f] = 0;
	}
	return ended >= *count ? UINT32_MAX : best;
}

static void keep_live(struct report *r, struct descent *d, uint32_t depth, uint32_t function)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->live_cnt; i++) {
		const struct flat_stack *s = &r->stacks.stacks[d->live[i]];

		if (s->cnt > depth &&
		    r->places[r->stacks.elems[s->first + depth]].function == function)
			d->live[kept++] = d->live[i];
	}
	d->live_cnt = kept;
}

/* The line by which most samples of the finished path pass each step. */
static void find_step_lines(struct report *r, struct descent *d)
{
	for (uint32_t depth = 0; depth < r->step_cnt; depth++) {
		uint32_t best = UINT32_MAX;
		uint64_t count = 0;

		for (size_t i = 0; i < d->live_cnt; i++) {
			const struct flat_stack *s = &r->stacks.stacks[d->live[i]];

			d->weights[r->stacks.elems[s->first + depth]] += s->count;
		}
		for (size_t i = 0; i < d->live_cnt; i++) {
			uint32_t pl = r->stacks.elems[r->stacks.stacks[d->live[i]].first + depth];

			if (d->weights[pl] > count || (d->weights[pl] == count && pl < best)) {
				count = d->weights[pl];
				best = pl;
			}
		}
		for (size_t i = 0; i < d->live_cnt; i++)
			d->weights[r->stacks.elems[r->stacks.stacks[d->live[i]].first + depth]] = 0;
		r->steps[depth].line = best < r->places_of.cnt ? r->places[best].line : 0;
	}
}

static int find_heaviest(struct report *r)
{
	struct descent d = { .live_cnt = r->stacks.cnt };
	uint32_t deepest = 0;
	uint32_t function;
	uint64_t weight;
	int err = -ENOMEM;

	for (size_t i = 0; i < r->stacks.cnt; i++)
		if (r->stacks.stacks[i].cnt > deepest)
			deepest = r->stacks.stacks[i].cnt;
	d.live = calloc(r->stacks.cnt + 1, sizeof(*d.live));
	/* Places refine functions, so there are at least as many. */
	d.weights = calloc(r->places_of.cnt + 1, sizeof(*d.weights));
	r->steps = calloc(deepest + 1, sizeof(*r->steps));
	if (!d.live || !d.weights || !r->steps)
		goto out;
	for (size_t i = 0; i < r->stacks.cnt; i++)
		d.live[i] = (uint32_t)i;
	while ((function = heaviest_callee(r, &d, (uint32_t)r->step_cnt, &weight)) != UINT32_MAX) {
		keep_live(r, &d, (uint32_t)r->step_cnt, function);
		r->steps[r->step_cnt++] = (struct step){ .function = function, .count = weight };
	}
	find_step_lines(r, &d);
	err = 0;
out:
	free(d.live);
	free(d.weights);
	return err;
}

static uint8_t step_kind(const struct report *r, size_t i)
{
	return function_kind(r, r->steps[i].function);
}

static void add_step(struct report *r, struct text_table *t, size_t i)
{
	uint8_t kind = step_kind(r, i);
	unsigned indent = kind == SYM_NATIVE ? 2 : kind == SYM_KERNEL ? 4 : 0;

	text_table__addf(t, NULL, "%.1f%%", text_percent(r->steps[i].count, r->total));
	add_function(r, t, r->steps[i].function, r->steps[i].line, indent);
}

/*
 * Steps from `i` on that are native and lead to a Python frame; not those at the leaf, which are
 * what the CPU was doing.
 */
static size_t native_run(const struct report *r, size_t i)
{
	size_t end = i;

	while (end < r->step_cnt && step_kind(r, end) == SYM_NATIVE)
		end++;
	return end < r->step_cnt && step_kind(r, end) == SYM_PYTHON ? end - i : 0;
}

/* Steps to show: all, or if these are too many, not the native callers of Python frames. */
static size_t choose_rows(const struct report *r, size_t *rows)
{
	bool all = r->step_cnt <= STACK_ROWS;
	size_t cnt = 0;

	for (size_t i = 0; i < r->step_cnt; i++) {
		if (!all)
			i += native_run(r, i);
		rows[cnt++] = i;
	}
	return cnt;
}

/* If they are still too many, the middle is left out. */
static void add_steps(struct report *r, struct text_table *t, const size_t *rows, size_t cnt)
{
	size_t skip = cnt > STACK_ROWS ? cnt - STACK_ROWS + 1 : 0;

	for (size_t i = 0; i < cnt; i++) {
		if (!skip || i != STACK_ROWS_TOP) {
			add_step(r, t, rows[i]);
			continue;
		}
		text_table__addf(t, NULL, "%s", "");
		text_table__addf(t, SGR_DIM, "... %zu frames", rows[i + skip] - rows[i]);
		text_table__addf(t, NULL, "%s", "");
		i += skip - 1;
	}
}

static int print_heaviest(struct report *r)
{
	const struct text_column cols[] = {
		{ "SHARE", CUT_NEVER, true },
		{ "FRAME", CUT_MIDDLE, false },
		{ r->o->lines ? "LINE" : "FILE", CUT_PATH, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = sizeof(cols) / sizeof(cols[0]) };
	size_t *rows = calloc(r->step_cnt + 1, sizeof(*rows));
	size_t cnt;

	if (!rows)
		return -ENOMEM;
	cnt = choose_rows(r, rows);
	add_steps(r, &t, rows, cnt);
	print_title(r, cnt == r->step_cnt
			       ? "Heaviest stack"
			       : "Heaviest stack (without the native callers of Python code)");
	free(rows);
	return text_table__print(&t, &r->out);
}

/* ---- Headline and the last block ---- */

static void print_headline(struct report *r)
{
	struct strbuf b = { 0 };

	summary_add_headline(&b, r->p);
	print_filled(r, &b, 0);
	strbuf__free(&b);
}

static void print_samples(struct report *r)
{
	struct strbuf b = { 0 };

	if (r->total && !summary_is_accounted(r->p))
		return;
	print_title(r, "Samples");
	text_add_samples(&b, r->p);
	print_filled(r, &b, 2);
	text_add_complete(&b, r->p);
	print_filled(r, &b, 2);
	for (size_t at = 0; summary_next_counter(&b, r->p, &at);)
		print_filled(r, &b, 4);
	summary_add_cost(&b, &r->p->stats);
	print_filled(r, &b, 2);
	strbuf__free(&b);
}

/* ---- Nothing sampled ---- */

static void print_nothing(struct report *r)
{
	struct strbuf b = { 0 };

	summary_add_nothing(&b, r->p);
	print_filled(r, &b, 0);
	strbuf__free(&b);
	if (!r->more)
		print_samples(r);
}

/* ---- All of it ---- */

static int print_report(struct report *r)
{
	int err;

	if (!r->total) {
		print_nothing(r);
		return 0;
	}
	err = count(r);
	if (!err)
		err = find_heaviest(r);
	if (err)
		return err;
	print_headline(r);
	err = print_processes(r);
	if (!err && r->o->threads)
		err = print_threads(r);
	if (!err)
		err = print_functions(r, true);
	if (!err)
		err = print_functions(r, false);
	if (!err && r->step_cnt)
		err = print_heaviest(r);
	if (!err && !r->more)
		print_samples(r);
	return err;
}

/* The block of one value type. `more`: others follow, and what all have in common comes last. */
static int write_block(const struct profile *p, const struct export_opts *o, FILE *f, bool more)
{
	struct report r = { .p = p, .o = o, .total = profile__total(p), .more = more };
	int err, out_err;

	errno = 0;
	text_out__begin(&r.out, f, o->width, o->color);
	err = print_report(&r);
	if (more)
		text_out__newline(&r.out);
	out_err = text_out__end(&r.out);
	sym_ranks__free(&r.functions_of);
	sym_ranks__free(&r.places_of);
	flat_stacks__free(&r.stacks);
	free(r.functions);
	free(r.places);
	free(r.steps);
	return err ? err : out_err;
}

int export__report(const struct profile *p, const struct export_opts *o, FILE *f)
{
	uint32_t cnt = profile__value_cnt(p);
	int err = cnt > 1 ? 0 : write_block(p, o, f, false);

	for (uint32_t i = 0; cnt > 1 && i < cnt && !err; i++) {
		struct profile *view = profile__view(p, i);

		err = view ? write_block(view, o, f, i + 1 < cnt) : -ENOMEM;
		profile__free_view(view);
	}
	return err;
}
