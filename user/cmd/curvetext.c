/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/curvetext.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/glue.h"
#include "profile/origin.h"

#define ROWS_MAX       4096
#define ROWS_SHOWN     8
#define COLUMNS	       32 /* of a curve */
#define NONE	       UINT32_MAX
#define LEVELS	       8
#define NAME_MAX_SHOWN 64 /* of a package */

struct row {
	uint32_t func, called; /* syms; NONE: none */
	uint64_t heaviest;     /* the stack that says what is called */
	uint64_t peak, end, most;
	uint64_t over[COLUMNS];
};

struct rows {
	struct row *at;
	size_t cnt, cap;
	uint64_t peak;	 /* of all */
	double variance; /* ... at most: of samples with the probability of their size */
};

/* ---- whose a stack is ------------------------------------------------------------------------ */

static bool is_own(const struct profile *p, const struct sym *s)
{
	return s->kind == SYM_PYTHON && origin_of(profile__str(p, s->file)) == ORIGIN_OWN;
}

/* The innermost frame of own code; else of Python; else of all. */
static uint32_t owner_at(const struct profile *p, const struct profile_stack *s)
{
	uint32_t python = NONE;

	for (uint32_t i = s->cnt; i--;) {
		const struct sym *sym = export_sym(p, p->frame_syms[s->first + i]);

		if (is_own(p, sym))
			return i;
		if (sym->kind == SYM_PYTHON && python == NONE)
			python = i;
	}
	return python != NONE ? python : s->cnt ? s->cnt - 1 : NONE;
}

/* What it called that has a name of its own: a package, or an extension. */
static uint32_t called_from(const struct profile *p, const struct profile_stack *s, uint32_t at)
{
	for (uint32_t i = at + 1; i < s->cnt; i++) {
		uint32_t index = p->frame_syms[s->first + i];
		const struct sym *sym = export_sym(p, index);

		if (sym->kind == SYM_PYTHON ||
		    (sym->kind == SYM_NATIVE && sym->module >= 0 && !glue_is_interpreter(p, sym)))
			return index;
	}
	return NONE;
}

static bool same(const struct profile *p, uint32_t a, uint32_t b)
{
	if (a == NONE || b == NONE)
		return a == b;
	return !export_function_cmp(p, export_sym(p, a), export_sym(p, b));
}

/* NULL: there are too many. */
static struct row *row_of(struct rows *r, const struct profile *p, const struct profile_stack *s,
			  uint64_t weight)
{
	uint32_t at = owner_at(p, s);
	uint32_t func = at == NONE ? NONE : p->frame_syms[s->first + at];
	struct row *row = NULL;

	for (size_t i = 0; i < r->cnt && !row; i++)
		if (same(p, r->at[i].func, func))
			row = &r->at[i];
	if (!row) {
		if (ARRAY_GROW(r->at, r->cap, r->cnt, ROWS_MAX))
			return NULL;
		row = &r->at[r->cnt++];
		*row = (struct row){ .func = func, .called = NONE };
	}
	if (weight >= row->heaviest) {
		row->heaviest = weight;
		row->func = func; /* its line */
		row->called = at == NONE ? NONE : called_from(p, s, at);
	}
	return row;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void add_curve(struct rows *r, const struct profile *p, size_t stack)
{
	const struct profile_curves *c = p->curves;
	const uint64_t *values = c->values + stack * c->point_cnt;
	uint64_t length = c->points[c->point_cnt - 1].at_ns, most = 0;
	struct row *row;
	uint32_t point = 0;

	for (uint32_t i = 0; i < c->point_cnt; i++)
		most = values[i] > most ? values[i] : most;
	row = row_of(r, p, &c->stacks[stack], most);
	if (!row)
		return;
	for (uint64_t k = 0; k < COLUMNS; k++) {
		uint64_t until = length / COLUMNS * (k + 1);

		while (point + 1 < c->point_cnt &&
		       (k + 1 == COLUMNS || c->points[point + 1].at_ns <= until))
			point++;
		row->over[k] += values[point];
	}
	row->end += values[c->point_cnt - 1];
}

static int by_most(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->most != y->most)
		return x->most > y->most ? -1 : 1;
	return x->func < y->func ? -1 : x->func > y->func;
}

static void make(struct rows *r, const struct profile *p)
{
	*r = (struct rows){ 0 };
	if (!p->curves || !p->curves->stack_cnt || !p->frame_syms)
		return;
	for (size_t i = 0; i < p->curves->stack_cnt; i++)
		add_curve(r, p, i);
	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];
		struct row *row;

		if (p->stats.values[s->type].event != EVENT_PEAK_SPACE)
			continue;
		r->peak += s->count;
		if (s->samples)
			r->variance += (double)s->count * (double)s->count / (double)s->samples;
		row = row_of(r, p, s, s->count);
		if (row)
			row->peak += s->count;
	}
	for (size_t i = 0; i < r->cnt; i++) {
		struct row *row = &r->at[i];

		row->most = row->peak;
		for (int k = 0; k < COLUMNS; k++)
			row->most = row->over[k] > row->most ? row->over[k] : row->most;
	}
	if (r->cnt)
		qsort(r->at, r->cnt, sizeof(*r->at), by_most);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "numpy" of a package, "mmap" of an extension, "libc" of a library. */
static void add_called(struct strbuf *b, const struct profile *p, uint32_t index)
{
	const struct sym *s = export_sym(p, index);
	const char *path, *name, *slash;
	size_t len;

	if (s->kind == SYM_NATIVE) {
		path = profile__str(p, p->modules[s->module].path);
		name = origin_in_site(path);
		slash = strrchr(path, '/');
		name = name ? name : slash ? slash + 1 : path;
		len = strcspn(name, "/.");
	} else {
		name = origin_package(profile__str(p, s->file), &len);
	}
	str_sanitise(b, name, len, NAME_MAX_SHOWN);
}

static void add_function(struct strbuf *b, const struct profile *p, const struct row *row)
{
	struct strbuf place = { 0 };
	const struct sym *s;
	const char *slash;

	if (row->func == NONE) {
		strbuf__addz(b, "[no stack]");
		return;
	}
	s = export_sym(p, row->func);
	text_add_func(b, p, s, "?");
	text_add_place(&place, p, s, s->line);
	slash = place.s ? strrchr(place.s, '/') : NULL;
	if (place.len)
		strbuf__addf(b, " (%s)", slash ? slash + 1 : place.s);
	strbuf__free(&place);
	if (row->called != NONE) {
		strbuf__addz(b, " -> ");
		add_called(b, p, row->called);
	}
}

static const struct row *highest(const struct rows *r)
{
	const struct row *best = NULL;

	for (size_t i = 0; i < r->cnt; i++)
		if (r->at[i].peak && (!best || r->at[i].peak > best->peak))
			best = &r->at[i];
	return best;
}

static void add_whose(struct strbuf *b, const struct profile *p, const struct rows *r)
{
	const struct row *best = highest(r);

	text_add_bytes(b, (double)r->peak);
	strbuf__addz(b, " +/- ");
	text_add_bytes(b, sqrt(r->variance));
	strbuf__addz(b, p->curves->event == EVENT_GROWTH ? " of it was touched meanwhile"
							 : " was allocated meanwhile and in use");
	if (!best)
		return;
	strbuf__addf(b, ", %.0f%% under ", text_percent(best->peak, r->peak));
	add_function(b, p, best);
}

void curvetext__add_peak(struct strbuf *b, const struct profile *p)
{
	const struct profile_curves *c = p->curves;
	struct rows r;

	if (!c || !c->peak.rss || !c->point_cnt)
		return;
	make(&r, p);
	strbuf__addz(b, "Peak ");
	text_add_bytes(b, (double)c->peak.rss);
	if (c->peak.at_ns >= c->points[c->point_cnt - 1].at_ns)
		strbuf__addz(b, " at the end");
	else
		strbuf__addf(b, " after %.1f s", (double)c->peak.at_ns / 1e9);
	if (c->peak.rss > c->begin_rss) {
		strbuf__addz(b, ", ");
		text_add_bytes(b, (double)(c->peak.rss - c->begin_rss));
		strbuf__addz(b, " more than at the beginning");
	}
	if (r.peak) {
		strbuf__addz(b, "; ");
		add_whose(b, p, &r);
	}
	strbuf__addc(b, '.');
	if (c->high_rss) {
		strbuf__addz(b, " For a moment that was missed it was ");
		text_add_bytes(b, (double)c->high_rss);
		strbuf__addc(b, '.');
	}
	free(r.at);
}

static void add_spark(struct strbuf *b, const struct row *row)
{
	/* U+2581 to U+2588: an eighth to all of the height */
	static const char *const blocks[LEVELS] = { "\u2581", "\u2582", "\u2583", "\u2584",
						    "\u2585", "\u2586", "\u2587", "\u2588" };
	uint64_t most = 0;

	for (int i = 0; i < COLUMNS; i++)
		most = row->over[i] > most ? row->over[i] : most;
	for (int i = 0; i < COLUMNS; i++) {
		double share = most ? (double)row->over[i] / (double)most : 0;

		strbuf__addz(b, row->over[i] ? blocks[(int)(share * (LEVELS - 1) + 0.5)] : " ");
	}
}

static void print_rows(const struct rows *r, const struct profile *p, struct text_out *out)
{
	static const struct text_column cols[] = {
		{ "AT PEAK", CUT_NEVER, true },
		{ "AT END", CUT_NEVER, true },
		{ "OVER TIME", CUT_NEVER, false },
		{ "FUNCTION", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = sizeof(cols) / sizeof(cols[0]) };
	struct strbuf b = { 0 };

	for (size_t i = 0; i < r->cnt && i < ROWS_SHOWN; i++) {
		const struct row *row = &r->at[i];

		text_add_bytes(&b, (double)row->peak);
		text_table__add(&t, NULL, &b);
		text_add_bytes(&b, (double)row->end);
		text_table__add(&t, NULL, &b);
		add_spark(&b, row);
		text_table__add(&t, NULL, &b);
		add_function(&b, p, row);
		text_table__add(&t, NULL, &b);
	}
	text_table__print(&t, out);
	strbuf__free(&b);
}

void curvetext__print(const struct profile *p, FILE *f)
{
	const struct profile_curves *c = p->curves;
	struct text_out out;
	struct rows r;

	make(&r, p);
	if (!r.cnt)
		return;
	text_out__begin(&out, f, 0, false);
	text_out__newline(&out);
	strbuf__addf(&out.line, "In use over %.1f s, by function",
		     (double)c->points[c->point_cnt - 1].at_ns / 1e9);
	text_out__newline(&out);
	print_rows(&r, p, &out);
	text_out__newline(&out);
	if (text_out__end(&out) == -ENOMEM)
		log_no_memory();
	free(r.at);
}
