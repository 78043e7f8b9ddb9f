/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"

/* The state of one side while it is counted. */
struct side {
	const struct profile *p;
	enum diff_side side;
	struct sym_ranks functions;
	struct flat_stacks stacks; /* of functions */
	uint32_t *rows;		   /* function -> row */
};

static int cmp_functions(const struct profile *p, uint32_t a, uint32_t b, const void *arg)
{
	(void)arg;
	return export_function_cmp(p, export_sym(p, a), export_sym(p, b));
}

/* ---- Functions of both sides ---- */

static uint32_t take_text(struct diff *d, struct strbuf *b)
{
	uint32_t id = b->len ? strtab__add(d->texts, b->s, b->len) : 0;

	if (b->len && !id)
		b->err = -ENOMEM;
	b->len = 0; /* an error stays */
	return id;
}

/* The row of a function: `keys` numbers (name, file, kind) as the rows are numbered, from 1 on. */
static int find_row(struct diff *d, struct strtab *keys, const struct profile *p,
		    const struct sym *s, struct strbuf *b)
{
	struct diff_row row = { .kind = s->kind };
	uint32_t key[3], id;

	text_add_func(b, p, s, "(no symbol)");
	row.name = take_text(d, b);
	text_add_place(b, p, s, 0);
	row.file = take_text(d, b);
	if (b->err)
		return -ENOMEM;
	key[0] = row.name;
	key[1] = row.file;
	key[2] = row.kind;
	id = strtab__add(keys, (const char *)key, sizeof(key));
	if (!id)
		return -ENOMEM;
	if (id > d->cnt) {
		if (ARRAY_GROW(d->rows, d->cap, d->cnt, INT32_MAX))
			return -ENOMEM;
		d->rows[d->cnt++] = row;
	}
	return (int)id - 1;
}

static int find_rows(struct diff *d, struct strtab *keys, struct side *s)
{
	struct strbuf b = { 0 };
	int row = 0;

	s->rows = calloc(s->functions.cnt, sizeof(*s->rows));
	if (!s->rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->functions.cnt && row >= 0; i++) {
		row = find_row(d, keys, s->p, export_sym(s->p, s->functions.first[i]), &b);
		s->rows[i] = (uint32_t)row;
	}
	strbuf__free(&b);
	return row < 0 ? row : 0;
}

/* ---- Counting ---- */

/* `seen`: by row, the number of the stack that was counted last, + 1. */
static void count_stack(struct diff *d, const struct side *s, size_t index, size_t *seen)
{
	const struct flat_stack *stack = &s->stacks.stacks[index];

	for (uint32_t i = 0; i < stack->cnt; i++) {
		uint32_t row = s->rows[s->stacks.elems[stack->first + i]];

		if (seen[row] != index + 1)
			d->rows[row].total.samples[s->side] += stack->count;
		if (i == stack->cnt - 1)
			d->rows[row].self.samples[s->side] += stack->count;
		seen[row] = index + 1;
	}
}

static int count_side(struct diff *d, const struct side *s)
{
	size_t *seen = calloc(d->cnt + 1, sizeof(*seen));

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < s->stacks.cnt; i++)
		count_stack(d, s, i, seen);
	d->samples[s->side] = profile__total(s->p);
	d->weight[s->side] = profile__weight(s->p);
	free(seen);
	return 0;
}

static int init_side(struct diff *d, struct strtab *keys, struct side *s)
{
	int err = sym_ranks__init(&s->functions, s->p, cmp_functions, NULL);

	if (!err)
		err = flat_stacks__init(&s->stacks, s->p, s->functions.of, true, NULL);
	return err ? err : find_rows(d, keys, s);
}

static void free_side(struct side *s)
{
	sym_ranks__free(&s->functions);
	flat_stacks__free(&s->stacks);
	free(s->rows);
}

/* ---- Values ---- */

static void weigh(const struct diff *d, struct diff_value *v, const double *unit)
{
	double n[DIFF_SIDES], x[DIFF_SIDES], p, variance = 0;

	for (int i = 0; i < DIFF_SIDES; i++) {
		n[i] = (double)d->samples[i];
		x[i] = (double)v->samples[i];
		v->value[i] = unit[i] > 0 ? x[i] / unit[i] : 0;
	}
	if (d->absolute) {
		for (int i = 0; i < DIFF_SIDES; i++)
			variance += unit[i] > 0 ? d->weight[i] * x[i] / unit[i] / unit[i] : 0;
	} else if (n[0] > 0 && n[1] > 0) {
		p = (x[0] + x[1]) / (n[0] + n[1]);
		variance = p * (1 - p) * (d->weight[0] / n[0] + d->weight[1] / n[1]);
	}
	v->significant = variance > 0 && fabs(diff__change(v)) > DIFF_SIGMAS * sqrt(variance);
}

static void weigh_all(struct diff *d, const struct side *sides)
{
	double unit[DIFF_SIDES]; /* what a second has, or all */

	for (int i = 0; i < DIFF_SIDES; i++)
		unit[i] = d->absolute ? (double)value_type__per_second(&sides[i].p->stats.values[0])
				      : (double)d->samples[i];
	for (size_t i = 0; i < d->cnt; i++) {
		weigh(d, &d->rows[i].self, unit);
		weigh(d, &d->rows[i].total, unit);
	}
}

/* Functions that no sample has: "[not-symbolized]" is a sym of every profile. */
static void drop_empty(struct diff *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->cnt; i++)
		if (d->rows[i].total.samples[DIFF_BEFORE] || d->rows[i].total.samples[DIFF_AFTER])
			d->rows[kept++] = d->rows[i];
	d->cnt = kept;
}

double diff__change(const struct diff_value *v)
{
	return v->value[DIFF_AFTER] - v->value[DIFF_BEFORE];
}

struct diff_unit diff__unit(const struct diff *d)
{
	static const struct diff_unit units[] = { { 1, "seconds", "s" },
						  { 1e3, "milliseconds", "ms" },
						  { 1e6, "microseconds", "us" } };
	double most = 0;
	size_t i = 0;

	if (!d->absolute)
		return (struct diff_unit){ 100, "percent", "%" };
	for (size_t k = 0; k < d->cnt; k++)
		for (int side = 0; side < DIFF_SIDES; side++)
			most = fmax(most, d->rows[k].total.value[side]);
	while (most > 0 && most * units[i].per < 1 && i + 1 < sizeof(units) / sizeof(units[0]))
		i++;
	return units[i];
}

static int cmp_rows(const void *a, const void *b, void *ctx)
{
	const struct diff_row *ra = a, *rb = b;
	const struct diff *d = ctx;
	int c = strcmp(diff__text(d, ra->name), diff__text(d, rb->name));

	if (!c)
		c = strcmp(diff__text(d, ra->file), diff__text(d, rb->file));
	return c ? c : ra->kind - rb->kind;
}

/* ---- All ---- */

int diff__init(struct diff *d, const struct profile *before, const struct profile *after,
	       bool absolute)
{
	struct side sides[DIFF_SIDES] = { { .p = before, .side = DIFF_BEFORE },
					  { .p = after, .side = DIFF_AFTER } };
	struct strtab *keys = strtab__new();
	int err = -ENOMEM;

	*d = (struct diff){ .absolute = absolute, .texts = strtab__new() };
	if (keys && d->texts)
		err = init_side(d, keys, &sides[DIFF_BEFORE]);
	if (!err)
		err = init_side(d, keys, &sides[DIFF_AFTER]);
	for (int i = 0; i < DIFF_SIDES && !err; i++)
		err = count_side(d, &sides[i]);
	if (!err) {
		drop_empty(d);
		weigh_all(d, sides);
		if (d->cnt)
			qsort_r(d->rows, d->cnt, sizeof(*d->rows), cmp_rows, d);
	}
	for (int i = 0; i < DIFF_SIDES; i++)
		free_side(&sides[i]);
	strtab__free(keys);
	if (err)
		diff__free(d);
	return err;
}

void diff__free(struct diff *d)
{
	strtab__free(d->texts);
	free(d->rows);
	*d = (struct diff){ 0 };
}

const char *diff__text(const struct diff *d, uint32_t id)
{
	return strtab__get(d->texts, id, NULL);
}
