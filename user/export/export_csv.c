/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A table of functions as CSV (RFC 4180, with lines that end as text does here), for spreadsheets
 * and data frames:
 *
 *	value,unit,self,total,function,file,line,kind
 *	cpu-clock,nanoseconds,1010101010,1515151515,price,/srv/shop.py,12,python
 *
 * One row per value type and function that has some of it. `self` is what was counted while the
 * function was the innermost one, `total` what was counted while it was anywhere on the stack.
 * `line` is the one that the function begins at. What is not known is empty.
 *
 * A spreadsheet runs a cell that begins with = + - or @ as a formula, and names are hostile. Such a
 * name gets an apostrophe in front, which makes text of it.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"

/* The amounts of a value type in one function. */
struct row {
	uint32_t function; /* its rank */
	uint64_t self, total;
	size_t seen; /* number of the last stack that was added to total, from 1 */
};

struct table {
	const struct profile *p;
	FILE *out;
	struct sym_ranks functions;
	struct flat_stacks stacks; /* of functions, outermost first */
	struct row *rows;	   /* by rank; sorted when they are written */
	struct strbuf cell;
};

/* Functions of one name are told apart by where they begin. */
static int cmp_functions(const struct profile *p, uint32_t a, uint32_t b, const void *arg)
{
	const struct sym *x = export_sym(p, a), *y = export_sym(p, b);
	int d = export_function_cmp(p, x, y);

	(void)arg;
	return d ? d : (x->start_line > y->start_line) - (x->start_line < y->start_line);
}

/* Largest first. */
static int cmp_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

/* ---- Cells ---- */

/* Spreadsheets take the full-width forms of some keyboards, too. */
static bool begins_formula(const char *s)
{
	static const char *const wide[] = { "\uff1d", "\uff0b", "\uff0d", "\uff20" };

	if (*s && strchr("=+-@", *s))
		return true;
	for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
		if (!strncmp(s, wide[i], strlen(wide[i])))
			return true;
	return false;
}

/*
 * Writes t->cell, which is safe text (export_text.h), and empties it. Where the comma is a decimal
 * sign, spreadsheets begin a cell at each semicolon, whatever the quotes.
 */
static void put_text(struct table *t)
{
	const char *s = t->cell.s ? t->cell.s : "";
	bool quoted = s[strcspn(s, ",\";")], begins = true;

	if (quoted)
		fputc('"', t->out);
	for (; *s; s++) {
		if (begins && begins_formula(s))
			fputc('\'', t->out);
		if (*s == '"')
			fputc('"', t->out);
		fputc(*s, t->out);
		begins = *s == ';' || (begins && *s == ' ');
	}
	if (quoted)
		fputc('"', t->out);
	t->cell.len = 0; /* an error stays */
	if (t->cell.s)
		t->cell.s[0] = '\0';
}

static void put_name(struct table *t, const char *name)
{
	str_sanitise(&t->cell, name, strlen(name), TEXT_NAME_MAX);
	put_text(t);
	fputc(',', t->out);
}

/* Nanoseconds, if it is a clock whose rate is known. */
static uint64_t amount_of(const struct value_type *v, uint64_t count)
{
	return value_type__per_second(v) ? (uint64_t)export_value_ns(v, count) : count;
}

static const char *unit_of(const struct value_type *v)
{
	return value_type__per_second(v) ? UNIT_NS : value_type__unit(v);
}

static void put_row(struct table *t, const struct value_type *v, const struct row *r)
{
	const struct sym *s = export_sym(t->p, t->functions.first[r->function]);

	put_name(t, value_type__name(v));
	put_name(t, unit_of(v));
	fprintf(t->out, "%" PRIu64 ",%" PRIu64 ",", amount_of(v, r->self), amount_of(v, r->total));
	text_add_func(&t->cell, t->p, s, "");
	put_text(t);
	fputc(',', t->out);
	text_add_place(&t->cell, t->p, s, 0);
	put_text(t);
	fputc(',', t->out);
	if (s->start_line)
		fprintf(t->out, "%" PRIu32, s->start_line);
	fprintf(t->out, ",%s\n", export_kind_name(s->kind));
}

/* ---- Rows ---- */

static void add_stack(struct table *t, size_t number)
{
	const struct flat_stack *s = &t->stacks.stacks[number - 1];

	for (uint32_t i = 0; i < s->cnt; i++) {
		struct row *r = &t->rows[t->stacks.elems[s->first + i]];

		if (r->seen != number)
			r->total += s->count;
		r->seen = number;
		if (i + 1 == s->cnt)
			r->self += s->count;
	}
}

static void put_value(struct table *t, uint32_t type)
{
	for (uint32_t i = 0; i < t->functions.cnt; i++)
		t->rows[i] = (struct row){ .function = i };
	for (size_t i = 0; i < t->stacks.cnt; i++)
		if (t->stacks.stacks[i].type == type)
			add_stack(t, i + 1);
	qsort(t->rows, t->functions.cnt, sizeof(*t->rows), cmp_rows);
	for (uint32_t i = 0; i < t->functions.cnt; i++)
		if (t->rows[i].total)
			put_row(t, &t->p->stats.values[type], &t->rows[i]);
}

static int write_table(struct table *t)
{
	int err = sym_ranks__init(&t->functions, t->p, cmp_functions, NULL);

	if (!err)
		err = flat_stacks__init(&t->stacks, t->p, t->functions.of, true, NULL);
	if (err)
		return err;
	t->rows = calloc(t->functions.cnt + 1, sizeof(*t->rows));
	if (!t->rows)
		return -ENOMEM;
	errno = 0;
	fputs("value,unit,self,total,function,file,line,kind\n", t->out);
	for (uint32_t k = 0; k < profile__value_cnt(t->p); k++)
		put_value(t, k);
	if (t->cell.err)
		return -ENOMEM;
	return ferror(t->out) ? (errno ? -errno : -EIO) : 0;
}

int export__csv(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct table t = { .p = p, .out = f };
	int err = write_table(&t);

	(void)o;
	sym_ranks__free(&t.functions);
	flat_stacks__free(&t.stacks);
	free(t.rows);
	strbuf__free(&t.cell);
	return err;
}
