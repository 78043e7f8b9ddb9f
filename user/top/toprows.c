/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Counts of a model -> the rows of a table. See topmodel.h. */
#include <errno.h>
#include <stdlib.h>

#include "top/topmodel_parts.h"

#define MAX_ROWS (1U << 23) /* more processes than there can be */

void top_rows__free(struct top_rows *r)
{
	free(r->rows);
	*r = (struct top_rows){ 0 };
}

static int add_row(struct top_rows *r, const struct top_row *row)
{
	if (ARRAY_GROW(r->rows, r->cap, r->cnt, MAX_ROWS))
		return -ENOMEM;
	r->rows[r->cnt++] = *row;
	return 0;
}

static int process_rows(struct topmodel *m, const struct top_query *q, struct top_rows *out)
{
	const struct top_process *p;
	int err = 0;

	for (size_t at = 0; !err && (p = idmap__next(&m->procs, &at));) {
		struct top_row row = { .space = p->space };

		row.own = row.total = p->last[q->value];
		row.own_all = row.total_all = p->all[q->value];
		err = add_row(out, &row);
	}
	return err;
}

static int thread_rows(struct topmodel *m, const struct top_query *q, struct top_rows *out)
{
	const struct top_thread *t;
	int err = 0;

	for (size_t at = 0; !err && (t = idmap__next(&m->threads, &at));) {
		struct top_row row = { .space = t->space, .tid = t->tid };

		if (q->space && t->space != q->space)
			continue;
		row.own = row.total = t->last[q->value];
		row.own_all = row.total_all = t->all[q->value];
		err = add_row(out, &row);
	}
	return err;
}

static bool is_asked_for(const struct top_query *q, const struct key *key)
{
	return key->value == q->value && (!q->space || key->space == q->space) &&
	       (!q->tid || key->tid == q->tid) &&
	       (q->table != TOP_LINES || key->function == q->function);
}

static void add_cell(const struct topmodel *m, const struct top_query *q, struct top_row *row,
		     const struct cell *c)
{
	if (c->window == m->window) {
		row->own += q->native ? c->last.self : c->last.own;
		row->total += c->last.total;
	}
	row->own_all += q->native ? c->all.self : c->all.own;
	row->total_all += c->all.total;
}

/*
 * Without native frames: a function of another kind is what a stack without Python is charged to.
 */
static bool is_shown(const struct topmodel *m, const struct top_query *q, struct top_row *row)
{
	if (q->native || m->functions[row->function].kind == SYM_PYTHON)
		return row->total_all;
	row->total = row->own;
	row->total_all = row->own_all;
	return row->total_all;
}

/* The hottest line of each function: by own samples, else by all. */
struct hottest {
	uint64_t own, total;
	uint32_t line;
};

static int by_line(const void *a_, const void *b_)
{
	const struct top_row *a = a_, *b = b_;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

/* The lines of all wanted functions, each once, by function. */
static int line_rows(struct topmodel *m, const struct top_query *q, struct top_rows *out)
{
	size_t cnt = 0;
	int err = 0;

	for (size_t i = 0; i < m->cells.cnt && !err; i++) {
		const struct cell *c = &m->cells.list[i];
		struct top_row row = { .function = c->key.function, .line = c->key.line };

		if (!c->key.line || !is_asked_for(q, &c->key))
			continue;
		add_cell(m, q, &row, c);
		err = add_row(out, &row);
	}
	if (out->cnt)
		qsort(out->rows, out->cnt, sizeof(*out->rows), by_line);
	for (size_t i = 0; i < out->cnt; i++) { /* those of several threads are neighbours now */
		struct top_row *row = &out->rows[i], *to = cnt ? &out->rows[cnt - 1] : NULL;

		if (!to || by_line(to, row)) {
			out->rows[cnt++] = *row;
			continue;
		}
		to->own += row->own;
		to->total += row->total;
		to->own_all += row->own_all;
		to->total_all += row->total_all;
	}
	out->cnt = cnt;
	return err;
}

static int hottest_lines(struct topmodel *m, const struct top_query *q, struct top_row *by_function)
{
	struct top_rows lines = { 0 };
	struct hottest *best = calloc(m->function_cnt, sizeof(*best));
	int err = best ? line_rows(m, q, &lines) : -ENOMEM;

	for (size_t i = 0; i < lines.cnt && !err; i++) {
		const struct top_row *row = &lines.rows[i];
		struct hottest *b = &best[row->function];

		if (b->line && (row->own_all < b->own ||
				(row->own_all == b->own && row->total_all <= b->total)))
			continue;
		*b = (struct hottest){ row->own_all, row->total_all, row->line };
		by_function[row->function].line = row->line;
	}
	free(best);
	top_rows__free(&lines);
	return err;
}

static int function_rows(struct topmodel *m, const struct top_query *q, struct top_rows *out)
{
	struct top_row *by_function = calloc(m->function_cnt, sizeof(*by_function));
	int err = by_function ? 0 : -ENOMEM;

	for (size_t i = 0; i < m->cells.cnt && !err; i++) {
		const struct cell *c = &m->cells.list[i];

		if (!c->key.line && is_asked_for(q, &c->key))
			add_cell(m, q, &by_function[c->key.function], c);
	}
	if (!err)
		err = hottest_lines(m, q, by_function);
	for (size_t i = 0; i < m->function_cnt && !err; i++) {
		by_function[i].function = (uint32_t)i;
		if (is_shown(m, q, &by_function[i]))
			err = add_row(out, &by_function[i]);
	}
	free(by_function);
	return err;
}

int topmodel__rows(struct topmodel *m, const struct top_query *q, struct top_rows *out)
{
	out->cnt = 0;
	switch (q->table) {
	case TOP_PROCESSES:
		return process_rows(m, q, out);
	case TOP_THREADS:
		return thread_rows(m, q, out);
	case TOP_FUNCTIONS:
		return function_rows(m, q, out);
	default:
		return line_rows(m, q, out);
	}
}
