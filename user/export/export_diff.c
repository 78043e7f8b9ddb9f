/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The difference of two profiles: tables for people, folded stacks with two columns, JSON. The
 * tables hold the functions that changed more than chance explains, largest change first; the rest
 * is a number. Folded stacks are "frames BEFORE AFTER", as difffolded.pl of the FlameGraph tools
 * writes them.
 */
#include "export/export.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/version.h"
#include "export/export_summary.h"
#include "profile/diff.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/glue.h"

#define TOP_ROWS 15

/* ---- Report ---- */

struct report {
	const struct diff *d;
	const struct profile *sides[DIFF_SIDES];
	struct text_out out;
	const struct export_opts *o;
	struct diff_unit unit;
};

/* One table, with the order of its rows. */
struct table {
	bool total; /* else self */
	int sign;   /* 1: more than before, -1: less */
};

static const struct diff_value *value_of(const struct diff_row *r, bool total)
{
	return total ? &r->total : &r->self;
}

struct order {
	const struct diff *d;
	bool total;
};

static int cmp_changes(const void *a, const void *b, void *ctx)
{
	const struct order *o = ctx;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	double ca = fabs(diff__change(value_of(&o->d->rows[ia], o->total)));
	double cb = fabs(diff__change(value_of(&o->d->rows[ib], o->total)));

	if (ca != cb)
		return ca > cb ? -1 : 1;
	return ia < ib ? -1 : ia > ib; /* rows are in the order of their names */
}

const char *export__side(const struct export_opts *o, int side)
{
	static const char *const names[DIFF_SIDES] = { "Before", "After" };

	return o->sides[side] ? o->sides[side] : names[side];
}

/* Rows that belong into a table, in its order; `noise` counts those that chance explains. */
static uint32_t *choose_rows(const struct diff *d, const struct table *t, size_t *cnt,
			     size_t *noise)
{
	struct order o = { .d = d, .total = t->total };
	uint32_t *rows = calloc(d->cnt + 1, sizeof(*rows));

	*cnt = *noise = 0;
	for (uint32_t i = 0; rows && i < d->cnt; i++) {
		const struct diff_value *v = value_of(&d->rows[i], t->total);

		if (t->sign * diff__change(v) <= 0)
			continue;
		if (v->significant)
			rows[(*cnt)++] = i;
		else
			++*noise;
	}
	if (rows)
		qsort_r(rows, *cnt, sizeof(*rows), cmp_changes, &o);
	return rows;
}

/* 0.123: "12.3%", or with `sign` "+12.3"; absolute "12.34". */
static void add_value(const struct report *r, struct text_table *t, const char *sgr, double v,
		      bool sign)
{
	if (r->d->absolute)
		text_table__addf(t, sgr, sign ? "%+.2f" : "%.2f", v * r->unit.per);
	else
		text_table__addf(t, sgr, sign ? "%+.1f" : "%.1f%%", v * r->unit.per);
}

static const char *note(const struct diff_row *r)
{
	if (!r->total.samples[DIFF_BEFORE])
		return "new";
	if (!r->total.samples[DIFF_AFTER])
		return "gone";
	return "";
}

static void add_row(const struct report *r, struct text_table *t, const struct diff_row *row,
		    const struct table *kind)
{
	const struct diff_value *v = value_of(row, kind->total);
	const struct diff_value *other = value_of(row, !kind->total);
	struct strbuf b = { 0 };

	add_value(r, t, kind->sign > 0 ? SGR_RED : SGR_GREEN, diff__change(v), true);
	add_value(r, t, NULL, v->value[DIFF_BEFORE], false);
	add_value(r, t, NULL, v->value[DIFF_AFTER], false);
	if (other->significant)
		add_value(r, t, NULL, diff__change(other), true);
	else
		text_table__addf(t, SGR_DIM, "~");
	text_table__addf(t, SGR_YELLOW, "%s", note(row));
	strbuf__addz(&b, diff__text(r->d, row->name));
	text_table__add(t, NULL, &b);
	strbuf__addz(&b, diff__text(r->d, row->file));
	text_table__add(t, NULL, &b);
}

static void print_line(struct report *r, struct strbuf *b, unsigned indent)
{
	if (b->err)
		r->out.line.err = b->err;
	else
		text_out__fill(&r->out, indent, indent + 2, b->s);
	strbuf__clear(b);
}

static void print_rest(struct report *r, size_t cut, size_t noise)
{
	struct strbuf b = { 0 };

	if (!cut && !noise)
		return;
	strbuf__addz(&b, "... ");
	if (cut) {
		text_add_count(&b, cut);
		strbuf__addz(&b, noise ? " more, and " : " more");
	}
	if (noise) {
		text_add_count(&b, noise);
		strbuf__addz(&b, noise == 1 ? " whose change is within chance"
					    : " whose changes are within chance");
	}
	print_line(r, &b, 2);
	strbuf__free(&b);
}

/* "More self time", "Fewer page faults: total" */
static void print_table_title(struct report *r, const struct table *kind)
{
	const struct value_type *v = &r->sides[DIFF_AFTER]->stats.values[0];
	const char *which = kind->total ? "total" : "self";
	bool time = value_type__is_clock(v) || value_type__per_second(v);
	struct strbuf b = { 0 };

	strbuf__addz(&b, kind->sign > 0 ? "More " : time ? "Less " : "Fewer ");
	value_type__add_part(&b, v, which);
	text_out__newline(&r->out);
	if (b.err)
		r->out.line.err = b.err;
	else
		text_out__puts(&r->out, SGR_BOLD, b.s);
	text_out__newline(&r->out);
	strbuf__free(&b);
}

static void name_column(char *name, size_t size, const char *of)
{
	size_t i = 0;

	for (; of[i] && i + 1 < size; i++)
		name[i] = (char)toupper((unsigned char)of[i]);
	name[i] = '\0';
}

static int print_table(struct report *r, const struct table *kind)
{
	char names[DIFF_SIDES][16];
	const struct text_column cols[] = {
		{ "CHANGE", CUT_NEVER, true },
		{ names[DIFF_BEFORE], CUT_NEVER, true },
		{ names[DIFF_AFTER], CUT_NEVER, true },
		{ kind->total ? "SELF" : "TOTAL", CUT_NEVER, true },
		{ "", CUT_NEVER, false },
		{ "FUNCTION", CUT_MIDDLE, false },
		{ "FILE", CUT_PATH, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = sizeof(cols) / sizeof(cols[0]) };
	size_t cnt, noise, shown;
	uint32_t *rows = choose_rows(r->d, kind, &cnt, &noise);
	int err = 0;

	if (!rows)
		return -ENOMEM;
	for (int side = 0; side < DIFF_SIDES; side++)
		name_column(names[side], sizeof(names[side]), export__side(r->o, side));
	shown = cnt < TOP_ROWS ? cnt : TOP_ROWS;
	for (size_t i = 0; i < shown; i++)
		add_row(r, &t, &r->d->rows[rows[i]], kind);
	free(rows);
	print_table_title(r, kind);
	if (shown)
		err = text_table__print(&t, &r->out);
	print_rest(r, cnt - shown, noise);
	return err;
}

static void print_side(struct report *r, enum diff_side side)
{
	const struct profile_stats *s = &r->sides[side]->stats;
	struct strbuf b = { 0 };

	strbuf__addf(&b, "%s: ", export__side(r->o, side));
	summary_add_amount(&b, r->sides[side], r->d->samples[side]);
	if (summary_is_sampled_time(r->sides[side]))
		strbuf__addf(&b, " (%.2f %s) at %" PRIu32 " Hz",
			     summary_seconds(r->sides[side], r->d->samples[side]),
			     value_type__column(&s->values[0]), s->values[0].frequency_hz);
	if (s->duration_ns)
		strbuf__addf(&b, ", %.1f s", (double)s->duration_ns / 1e9);
	print_line(r, &b, 0);
	strbuf__free(&b);
}

/*
 * Nothing to show; says so. The functions that changed, though not more than chance explains, are
 * counted.
 */
static bool print_no_change(struct report *r)
{
	struct strbuf b = { 0 };
	size_t noise = 0;

	for (size_t i = 0; i < r->d->cnt; i++) {
		const struct diff_row *row = &r->d->rows[i];

		if (row->self.significant || row->total.significant)
			return false;
		noise += diff__change(&row->self) != 0 || diff__change(&row->total) != 0;
	}
	strbuf__addz(&b, "No function takes more or less than before");
	if (noise) {
		strbuf__addz(&b, ", beyond what chance explains (functions within chance: ");
		text_add_count(&b, noise);
		strbuf__addc(&b, ')');
	}
	strbuf__addc(&b, '.');
	text_out__newline(&r->out);
	print_line(r, &b, 0);
	strbuf__free(&b);
	return true;
}

/* Does it have the interpreter's own functions as one frame, as folded stacks do? */
static bool has_box(const struct profile *p)
{
	for (size_t i = 0; i < p->sym_cnt; i++)
		if (p->syms[i].kind == SYM_NATIVE &&
		    !strcmp(profile__str(p, p->syms[i].func), GLUE_BOX))
			return true;
	return false;
}

void export__diff_formats(struct strbuf *b, const struct profile *before,
			  const struct profile *after)
{
	bool first = has_box(before);

	if (first == has_box(after))
		return;
	strbuf__addf(b,
		     "%s has the interpreter's own functions as one frame, \"" GLUE_BOX
		     "\", like folded stacks: those of the other side are not %s. Compare two "
		     "files of one format.",
		     first ? "Before" : "After", first ? "new" : "gone");
}

static void print_formats(struct report *r)
{
	struct strbuf b = { 0 };

	export__diff_formats(&b, r->sides[DIFF_BEFORE], r->sides[DIFF_AFTER]);
	if (b.len)
		print_line(r, &b, 0);
	strbuf__free(&b);
}

static int print_report(struct report *r)
{
	static const struct table tables[] = {
		{ false, 1 },
		{ false, -1 },
		{ true, 1 },
		{ true, -1 },
	};
	const struct value_type *v = &r->sides[DIFF_AFTER]->stats.values[0];
	struct strbuf b = { 0 };
	int err = 0;

	print_side(r, DIFF_BEFORE);
	print_side(r, DIFF_AFTER);
	if (r->d->absolute)
		strbuf__addf(&b, "Values are %s of %s.", r->unit.name, value_type__whole(v));
	else
		strbuf__addf(&b, "Values are shares of all %s, changes are percentage points.",
			     value_type__shared(v));
	print_line(r, &b, 0);
	if (r->o->moved && *r->o->moved) {
		strbuf__addf(&b, "Matched across directories: %s", r->o->moved);
		print_line(r, &b, 0);
	}
	strbuf__free(&b);
	print_formats(r);
	if (print_no_change(r))
		return 0;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !err; i++)
		err = print_table(r, &tables[i]);
	return err;
}

int export__diff_report(const struct profile *before, const struct profile *after,
			const struct export_opts *o, FILE *f)
{
	struct diff d;
	struct report r = { .d = &d, .sides = { before, after }, .o = o };
	int err = diff__init(&d, before, after, o->absolute), out_err;

	if (err)
		return err;
	r.unit = diff__unit(&d);
	errno = 0;
	text_out__begin(&r.out, f, o->width, o->color);
	err = print_report(&r);
	out_err = text_out__end(&r.out);
	diff__free(&d);
	return err ? err : out_err;
}

/* ---- Folded stacks ---- */

/* The output of export__folded() for one side, read line by line. */
struct folded_side {
	char *text, *line, *next;
	size_t size, len; /* of all; of the line up to the blank before its count */
	const char *count;
	size_t count_len;
};

static void next_line(struct folded_side *fo)
{
	char *end, *blank;

	fo->line = fo->next;
	end = memchr(fo->line, '\n', (size_t)(fo->text + fo->size - fo->line));
	if (!end) {
		fo->line = NULL;
		return;
	}
	fo->next = end + 1;
	blank = memrchr(fo->line, ' ', (size_t)(end - fo->line));
	fo->len = (size_t)(blank - fo->line);
	fo->count = blank + 1;
	fo->count_len = (size_t)(end - fo->count);
}

static int fold(struct folded_side *fo, const struct profile *p, const struct export_opts *o)
{
	FILE *f = open_memstream(&fo->text, &fo->size);
	int err;

	if (!f)
		return -errno;
	err = export__folded(p, o, f);
	if (fclose(f) && !err)
		err = -errno;
	if (err)
		return err;
	fo->next = fo->text;
	next_line(fo);
	return 0;
}

/* Lines are sorted element by element: ';' comes before every other character. */
static int cmp_lines(const struct folded_side *a, const struct folded_side *b)
{
	size_t n = a->len < b->len ? a->len : b->len;

	if (!a->line || !b->line)
		return !a->line - !b->line;
	for (size_t i = 0; i < n; i++) {
		unsigned char ca = (unsigned char)a->line[i], cb = (unsigned char)b->line[i];

		if (ca == cb)
			continue;
		if (ca == ';' || cb == ';')
			return ca == ';' ? -1 : 1;
		return ca < cb ? -1 : 1;
	}
	return a->len < b->len ? -1 : a->len > b->len;
}

static void put_line(const struct folded_side *line, const struct folded_side *before,
		     const struct folded_side *after, FILE *f)
{
	fwrite(line->line, 1, line->len, f);
	fprintf(f, " %.*s %.*s\n", before ? (int)before->count_len : 1,
		before ? before->count : "0", after ? (int)after->count_len : 1,
		after ? after->count : "0");
}

int export__diff_folded(const struct profile *before, const struct profile *after,
			const struct export_opts *o, FILE *f)
{
	struct folded_side a = { 0 }, b = { 0 };
	int err = fold(&a, before, o);

	if (!err)
		err = fold(&b, after, o);
	errno = 0;
	while (!err && (a.line || b.line)) {
		int d = cmp_lines(&a, &b);

		put_line(d <= 0 ? &a : &b, d <= 0 ? &a : NULL, d >= 0 ? &b : NULL, f);
		if (d <= 0)
			next_line(&a);
		if (d >= 0)
			next_line(&b);
	}
	if (!err && ferror(f))
		err = errno ? -errno : -EIO;
	free(a.text);
	free(b.text);
	return err;
}

/* ---- JSON: docs/diff.schema.json ---- */

#define VERSION 1

static void put_side(struct json *j, const char *key, const struct profile *p)
{
	json__object(j, key);
	json__stringz(j, "value", value_type__name(&p->stats.values[0]));
	json__uint(j, "total", profile__total(p));
	json__uint(j, "frequency_hz", p->stats.values[0].frequency_hz);
	json__double(j, "duration_s", (double)p->stats.duration_ns / 1e9);
	json__double(j, "start_unix_s", (double)p->stats.start_unix_ns / 1e9);
	json__end(j, '}');
}

static void put_value(struct json *j, const char *key, const struct diff_value *v)
{
	json__object(j, key);
	json__uint(j, "count_before", v->samples[DIFF_BEFORE]);
	json__uint(j, "count_after", v->samples[DIFF_AFTER]);
	json__double(j, "before", v->value[DIFF_BEFORE]);
	json__double(j, "after", v->value[DIFF_AFTER]);
	json__double(j, "change", diff__change(v));
	json__bool(j, "significant", v->significant);
	json__end(j, '}');
}

static void put_row(struct json *j, const struct diff *d, const struct diff_row *r)
{
	json__newline(j);
	json__object(j, NULL);
	json__stringz(j, "kind", export_kind_name(r->kind));
	json__stringz(j, "function", diff__text(d, r->name));
	json__stringz(j, "file", diff__text(d, r->file));
	put_value(j, "self", &r->self);
	put_value(j, "total", &r->total);
	json__end(j, '}');
}

int export__diff_json(const struct profile *before, const struct profile *after,
		      const struct export_opts *o, FILE *f)
{
	struct json j = { .f = f };
	struct diff d;
	int err = diff__init(&d, before, after, o->absolute);

	if (err)
		return err;
	errno = 0;
	json__object(&j, NULL);
	json__stringz(&j, "format", "pyperf-bpf-diff");
	json__uint(&j, "version", VERSION);
	json__stringz(&j, "program", "pyperf-bpf " PYPERF_VERSION);
	json__stringz(&j, "unit", o->absolute ? "seconds" : "share");
	put_side(&j, "before", before);
	put_side(&j, "after", after);
	json__array(&j, "functions");
	for (size_t i = 0; i < d.cnt; i++)
		put_row(&j, &d, &d.rows[i]);
	json__end(&j, ']');
	json__end(&j, '}');
	putc('\n', f);
	diff__free(&d);
	return ferror(f) ? (errno ? -errno : -EIO) : 0;
}
