/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Callgrind's format, version 1 (valgrind's manual, "Callgrind Format Specification"), for
 * KCachegrind, QCachegrind and callgrind_annotate:
 *
 *	fl=(1) /srv/app.py
 *	fn=(1) main
 *	12 10101010			own time, by line
 *	cfi=(2) /srv/shop.py
 *	cfn=(2) price
 *	calls=1 0
 *	13 90909090			of the line, all that was called
 *
 * Stacks do not say how often a function was called, so `calls` is 1: callgrind_annotate takes the
 * cost of no calls for the caller's own. Readers add up what a function took and called. So of one
 * that is several times on a stack (recursion) the innermost activation counts: the sum is what was
 * counted while the function was on the stack.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/version.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"

#define NO_CALLEE UINT32_MAX

/* The cost of a line of a function, by itself or by a call. */
struct cost {
	uint32_t function, callee, line;
	uint64_t amount;
};

struct callgrind {
	const struct profile *p;
	const struct export_opts *o;
	FILE *out;
	struct export_view view;
	struct sym_ranks functions;
	struct strtab *files; /* by number; 0 is none */
	struct cost *costs;
	size_t cnt;
	uint32_t *seen; /* function -> the last stack that has it, from 1 */
	bool *named;	/* functions whose names were written */
	uint32_t files_written;
	struct strbuf buf;
};

static int cmp_functions(const struct profile *p, uint32_t a, uint32_t b, const void *arg)
{
	(void)arg;
	return export_function_cmp(p, export_sym(p, a), export_sym(p, b));
}

static int cmp_costs(const void *a, const void *b)
{
	const struct cost *x = a, *y = b;

	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	/* Own time, the last of numbers, comes first. */
	if (x->callee != y->callee)
		return x->callee + 1 < y->callee + 1 ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* Equal ones become one. */
static size_t merge_costs(struct cost *c, size_t cnt)
{
	size_t kept = 0;

	qsort(c, cnt, sizeof(*c), cmp_costs);
	for (size_t i = 0; i < cnt; i++) {
		if (kept && !cmp_costs(&c[kept - 1], &c[i]))
			c[kept - 1].amount += c[i].amount;
		else
			c[kept++] = c[i];
	}
	return kept;
}

/* ---- Costs ---- */

static uint64_t amount_of(const struct callgrind *g, uint64_t count)
{
	return value_type__per_second(&g->p->stats.values[0])
		       ? (uint64_t)export_value_ns(&g->p->stats.values[0], count)
		       : count;
}

/* The function of element `i` of a stack. */
static uint32_t function_at(const struct callgrind *g, const struct flat_stack *s, uint32_t i)
{
	return g->functions.of[g->view.places.first[g->view.stacks.elems[s->first + i]]];
}

/*
 * Adds a stack: for each function its innermost activation, with the cost by itself or by a call.
 */
static void add_stack(struct callgrind *g, const struct flat_stack *s, uint32_t number)
{
	for (uint32_t i = s->cnt; i-- > 0;) {
		uint32_t sym = g->view.places.first[g->view.stacks.elems[s->first + i]];
		uint32_t function = g->functions.of[sym];

		if (g->seen[function] == number)
			continue;
		g->seen[function] = number;
		g->costs[g->cnt++] = (struct cost){
			.function = function,
			.callee = i + 1 < s->cnt ? function_at(g, s, i + 1) : NO_CALLEE,
			.line = g->o->lines ? export_sym(g->p, sym)->line : 0,
			.amount = amount_of(g, s->count),
		};
	}
}

static int collect(struct callgrind *g)
{
	g->costs = calloc(g->view.stacks.elem_cnt + 1, sizeof(*g->costs));
	g->seen = calloc(g->functions.cnt + 1, sizeof(*g->seen));
	g->named = calloc(g->functions.cnt + 1, sizeof(*g->named));
	g->files = strtab__new();
	if (!g->costs || !g->seen || !g->named || !g->files)
		return -ENOMEM;
	for (size_t i = 0; i < g->view.stacks.cnt; i++)
		add_stack(g, &g->view.stacks.stacks[i], (uint32_t)i + 1);
	g->cnt = merge_costs(g->costs, g->cnt);
	return 0;
}

/* ---- Text ---- */

/* "fl=(3) /srv/app.py", at the next time "fl=(3)". 0 or -ENOMEM. */
static int put_file(struct callgrind *g, const char *key, const struct sym *s)
{
	uint32_t id;

	strbuf__clear(&g->buf);
	text_add_place(&g->buf, g->p, s, 0);
	if (!g->buf.len)
		strbuf__addz(&g->buf, "???");
	id = g->buf.err ? 0 : strtab__add(g->files, g->buf.s, g->buf.len);
	if (!id)
		return -ENOMEM;
	fprintf(g->out, "%s=(%" PRIu32 ")", key, id);
	if (id > g->files_written) {
		g->files_written = id;
		fprintf(g->out, " %s", g->buf.s);
	}
	fputc('\n', g->out);
	return 0;
}

static int put_function(struct callgrind *g, const char *key, uint32_t function)
{
	fprintf(g->out, "%s=(%" PRIu32 ")", key, function + 1);
	if (!g->named[function]) {
		g->named[function] = true;
		strbuf__clear(&g->buf);
		text_add_func(&g->buf, g->p, export_sym(g->p, g->functions.first[function]),
			      "(no symbol)");
		if (g->buf.err)
			return -ENOMEM;
		fprintf(g->out, " %s", g->buf.len ? g->buf.s : "???");
	}
	fputc('\n', g->out);
	return 0;
}

static const struct sym *sym_of(const struct callgrind *g, uint32_t function)
{
	return export_sym(g->p, g->functions.first[function]);
}

static int put_costs(struct callgrind *g)
{
	int err = 0;

	for (size_t i = 0; i < g->cnt && !err; i++) {
		const struct cost *c = &g->costs[i];

		if (!i || c->function != c[-1].function) {
			fputc('\n', g->out);
			err = put_file(g, "fl", sym_of(g, c->function));
			if (!err)
				err = put_function(g, "fn", c->function);
		}
		if (!err && c->callee != NO_CALLEE) {
			err = put_file(g, "cfi", sym_of(g, c->callee));
			if (!err)
				err = put_function(g, "cfn", c->callee);
			fprintf(g->out, "calls=1 %" PRIu32 "\n", sym_of(g, c->callee)->start_line);
		}
		fprintf(g->out, "%" PRIu32 " %" PRIu64 "\n", c->line, c->amount);
	}
	return err;
}

static void put_head(struct callgrind *g)
{
	const struct value_type *v = &g->p->stats.values[0];
	const char *name = value_type__per_second(v) ? "ns" : "Count";
	uint64_t total = 0;

	for (size_t i = 0; i < g->view.stacks.cnt; i++)
		total += amount_of(g, g->view.stacks.stacks[i].count);
	fprintf(g->out,
		"# callgrind format\nversion: 1\ncreator: pyperf-bpf " PYPERF_VERSION
		"\npositions: line\nevent: %s : %s\nevents: %s\nsummary: %" PRIu64 "\n",
		name, value_type__name(v), name, total);
}

int export__callgrind(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct callgrind g = { .p = p, .o = o, .out = f };
	int err = sym_ranks__init(&g.functions, p, cmp_functions, NULL);

	if (!err)
		err = export_view__init(&g.view, p, o->lines ? PLACE_LINES : 0, false);
	if (!err)
		err = collect(&g);
	if (!err) {
		put_head(&g);
		err = put_costs(&g);
	}
	sym_ranks__free(&g.functions);
	export_view__free(&g.view);
	strtab__free(g.files);
	strbuf__free(&g.buf);
	free(g.costs);
	free(g.seen);
	free(g.named);
	return err;
}
