/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "top/topview.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "top/topview_parts.h"
#include "top/topwords.h"

/* The content of a column. */
enum field {
	FIELD_NONE, /* behind the last column */
	FIELD_PID,
	FIELD_TID,
	FIELD_RATE, /* of the last interval */
	FIELD_ALL,  /* since the start */
	FIELD_THREADS,
	FIELD_PYTHON,
	FIELD_COMMAND,
	FIELD_STATE,
	FIELD_GIL,
	FIELD_WAIT, /* of the last interval, as are these: only if waits are counted */
	FIELD_QUEUE,
	FIELD_GIL_WAIT,
	FIELD_THREAD,
	FIELD_OWN, /* share of the last interval */
	FIELD_TOTAL,
	FIELD_OWN_ALL, /* since the start */
	FIELD_TOTAL_ALL,
	FIELD_FUNCTION,
	FIELD_PLACE,
	FIELD_LINE,
};

struct column {
	enum field field;
	const char *title; /* NULL: it depends on the value type */
	unsigned width;	   /* 0: what is left */
	bool left;	   /* aligned; else right */
	unsigned min_cols; /* of the screen, for it to be shown */
	enum text_cut cut;
};

#define MAX_COLUMNS 10

/* Of threads and processes, on screens so wide. */
/* clang-format off */
#define WAIT_COLUMNS(min)                                                                          \
	{ FIELD_WAIT, "WAIT%", 7, false, min, CUT_NEVER },                                         \
	{ FIELD_QUEUE, "QUEUE%", 7, false, min, CUT_NEVER },                                       \
	{ FIELD_GIL_WAIT, "GIL%", 7, false, min, CUT_NEVER }
/* clang-format on */

/*
 * Names of others come last in their row: should the terminal take a character to be wider than the
 * C library does, nothing behind it moves.
 */
static const struct table {
	struct column columns[MAX_COLUMNS];
	unsigned sort; /* column, at first */
} tables[TABLES] = {
	[TOP_PROCESSES] = {
		.columns = {
			{ FIELD_PID, "PID", 7, false, 0, CUT_NEVER },
			{ FIELD_RATE, NULL, 7, false, 0, CUT_NEVER },
			{ FIELD_ALL, NULL, 8, false, 40, CUT_NEVER },
			WAIT_COLUMNS(80),
			{ FIELD_THREADS, "THR", 4, false, 48, CUT_NEVER },
			{ FIELD_PYTHON, "PYTHON", 8, true, 60, CUT_END },
			{ FIELD_COMMAND, "COMMAND", 0, true, 0, CUT_END },
		},
		.sort = 1,
	},
	[TOP_THREADS] = {
		.columns = {
			{ FIELD_PID, "PID", 7, false, 70, CUT_NEVER },
			{ FIELD_TID, "TID", 7, false, 0, CUT_NEVER },
			{ FIELD_RATE, NULL, 7, false, 0, CUT_NEVER },
			{ FIELD_ALL, NULL, 8, false, 40, CUT_NEVER },
			WAIT_COLUMNS(92),
			{ FIELD_STATE, "STATE", 8, true, 50, CUT_END },
			{ FIELD_GIL, "GIL", 5, true, 30, CUT_NEVER },
			{ FIELD_THREAD, "THREAD", 0, true, 0, CUT_END },
		},
		.sort = 2,
	},
	[TOP_FUNCTIONS] = {
		.columns = {
			{ FIELD_OWN, "OWN%", 6, false, 0, CUT_NEVER },
			{ FIELD_TOTAL, "TOTAL%", 6, false, 34, CUT_NEVER },
			{ FIELD_OWN_ALL, "OWN", 8, false, 56, CUT_NEVER },
			{ FIELD_TOTAL_ALL, "TOTAL", 8, false, 56, CUT_NEVER },
			{ FIELD_FUNCTION, "FUNCTION", 0, true, 0, CUT_MIDDLE },
			{ FIELD_PLACE, "HOTTEST LINE", 0, true, 50, CUT_PATH },
		},
		.sort = 0,
	},
	[TOP_LINES] = {
		.columns = {
			{ FIELD_LINE, "LINE", 7, false, 0, CUT_NEVER },
			{ FIELD_OWN, "OWN%", 6, false, 0, CUT_NEVER },
			{ FIELD_TOTAL, "TOTAL%", 6, false, 0, CUT_NEVER },
			{ FIELD_OWN_ALL, "OWN", 8, false, 32, CUT_NEVER },
			{ FIELD_TOTAL_ALL, "TOTAL", 8, false, 42, CUT_NEVER },
		},
		.sort = 1,
	},
};

struct topview *topview__new(bool native)
{
	struct topview *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->native = native;
	for (size_t i = 0; i < TABLES; i++)
		v->sorting[i].column = tables[i].sort;
	return v;
}

void topview__free(struct topview *v)
{
	if (!v)
		return;
	top_rows__free(&v->rows);
	top_rows__free(&v->functions);
	strbuf__free(&v->text);
	free(v);
}

static const struct table *table_of(const struct topview *v)
{
	return &tables[v->pages[v->depth].query.table];
}

static unsigned column_cnt(const struct table *t)
{
	unsigned n = 0;

	while (n < MAX_COLUMNS && t->columns[n].field)
		n++;
	return n;
}

/* Is there such a column, whatever the width of the screen is? */
static bool has_column(const struct topview *v, const struct column *c)
{
	return v->waits || c->field < FIELD_WAIT || c->field > FIELD_GIL_WAIT;
}

/* The column behind `column`; the first one behind the last. */
static unsigned next_column(const struct topview *v, unsigned column)
{
	const struct table *t = table_of(v);

	do
		column = (column + 1) % column_cnt(t);
	while (!has_column(v, &t->columns[column]));
	return column;
}

/* Column `n` of those that there are, from 0; the number of columns if there are fewer. */
static unsigned nth_column(const struct topview *v, unsigned n)
{
	const struct table *t = table_of(v);

	for (unsigned i = 0; i < column_cnt(t); i++)
		if (has_column(v, &t->columns[i]) && !n--)
			return i;
	return column_cnt(t);
}

bool topview__paused(const struct topview *v)
{
	return v->paused;
}

uint32_t topview__process(const struct topview *v)
{
	return v->pages[v->depth].query.space;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void add_command(struct strbuf *b, const struct context *x, const struct top_row *row)
{
	const struct top_process *p = topmodel__process(x->m, row->space);

	if (!p)
		return;
	if (p->space == TOP_ENDED) {
		strbuf__addf(b, "[%" PRIu32 " that have ended]", p->ended_count);
		return;
	}
	if (p->ended)
		strbuf__addz(b, "[ended] ");
	if (*p->why)
		strbuf__addf(b, "[not walked: %s] ", p->why);
	strbuf__addz(b, p->name);
	if (*p->command && strcmp(p->command, p->name))
		strbuf__addf(b, " - %s", p->command);
}

static void add_thread(struct strbuf *b, const struct context *x, const struct top_row *row)
{
	const struct top_process *p = topmodel__process(x->m, row->space);
	const struct top_thread *t = topmodel__thread(x->m, row->space, row->tid);

	if (!row->tid)
		strbuf__addz(b, "[threads that were idle for long]");
	else if (t)
		strbuf__addz(b, *t->name ? t->name : "?");
	if (!topview__process(x->v) && p)
		strbuf__addf(b, " of %s", p->name);
}

static const char *gil_text(const struct top_thread *t)
{
	static const char *const texts[] = {
		[TOP_GIL_UNKNOWN] = "",
		[TOP_GIL_NONE] = "-",
		[TOP_GIL_WAITS] = "waits",
		[TOP_GIL_HOLDS] = "holds",
	};

	return t ? texts[t->gil] : "";
}

static void add_place(struct strbuf *b, const struct context *x, const struct top_row *row)
{
	strbuf__addz(b, topmodel__function(x->m, row->function).place);
	if (row->line)
		strbuf__addf(b, ":%" PRIu32, row->line);
}

/* The wait of a thread, or of all threads of a process; 0: another field, or not known. */
static uint64_t wait_of(const struct context *x, const struct top_row *row, enum field field)
{
	const struct top_process *p = topmodel__process(x->m, row->space);
	const struct top_thread *t = topmodel__thread(x->m, row->space, row->tid);
	const uint64_t *waits = row->tid ? (t ? t->waits : NULL) : (p ? p->waits : NULL);

	if (!waits)
		return 0;
	return waits[field == FIELD_WAIT    ? TOP_WAITING
		     : field == FIELD_QUEUE ? TOP_QUEUED
					    : TOP_FOR_GIL];
}

/* Columns whose numbers order them; others go by their text. */
static bool number_of(const struct context *x, const struct top_row *row, enum field field,
		      uint64_t *n)
{
	const struct top_process *p = topmodel__process(x->m, row->space);

	switch (field) {
	case FIELD_PID:
		*n = p ? p->tgid : 0;
		return true;
	case FIELD_TID:
		*n = row->tid;
		return true;
	case FIELD_LINE:
		*n = row->line;
		return true;
	case FIELD_THREADS:
		*n = p ? p->thread_cnt[x->v->value] : 0;
		return true;
	case FIELD_RATE:
	case FIELD_OWN:
		*n = row->own;
		return true;
	case FIELD_TOTAL:
		*n = row->total;
		return true;
	case FIELD_ALL:
	case FIELD_OWN_ALL:
		*n = row->own_all;
		return true;
	case FIELD_TOTAL_ALL:
		*n = row->total_all;
		return true;
	case FIELD_WAIT:
	case FIELD_QUEUE:
	case FIELD_GIL_WAIT:
		*n = wait_of(x, row, field);
		return true;
	default:
		return false;
	}
}

static void add_cell(struct strbuf *b, const struct context *x, const struct top_row *row,
		     enum field field)
{
	const struct top_process *p = topmodel__process(x->m, row->space);
	const struct top_thread *t = topmodel__thread(x->m, row->space, row->tid);
	uint64_t n = 0;

	number_of(x, row, field, &n);
	switch (field) {
	case FIELD_RATE:
		topwords__add_rate(b, x->value, n, topmodel__interval_ns(x->m));
		break;
	case FIELD_OWN:
	case FIELD_TOTAL:
		topwords__add_percent(b, text_percent(n, x->scope_last));
		break;
	case FIELD_ALL:
	case FIELD_OWN_ALL:
	case FIELD_TOTAL_ALL:
		topwords__add_amount(b, x->value, n);
		break;
	case FIELD_WAIT:
	case FIELD_QUEUE:
	case FIELD_GIL_WAIT:
		topwords__add_percent(b, text_percent(n, topmodel__interval_ns(x->m)));
		break;
	case FIELD_PYTHON:
		strbuf__addz(b, p ? p->python : "");
		break;
	case FIELD_STATE:
		strbuf__addz(b, t ? t->state : "");
		break;
	case FIELD_GIL:
		strbuf__addz(b, gil_text(t));
		break;
	case FIELD_COMMAND:
		add_command(b, x, row);
		break;
	case FIELD_THREAD:
		add_thread(b, x, row);
		break;
	case FIELD_FUNCTION:
		strbuf__addz(b, topmodel__function(x->m, row->function).name);
		break;
	case FIELD_PLACE:
		add_place(b, x, row);
		break;
	default:
		if (n)
			strbuf__addf(b, "%" PRIu64, n);
		else
			strbuf__addz(b, "-");
	}
}

/* ---- sorting and filtering ------------------------------------------------------------------- */

static int cmp_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int cmp_texts(const struct context *x, const struct top_row *a, const struct top_row *b,
		     enum field field)
{
	struct strbuf ta = { 0 }, tb = { 0 };
	int d;

	add_cell(&ta, x, a, field);
	add_cell(&tb, x, b, field);
	d = strcmp(ta.s && !ta.err ? ta.s : "", tb.s && !tb.err ? tb.s : "");
	strbuf__free(&ta);
	strbuf__free(&tb);
	return d;
}

static int cmp_identity(const struct top_row *a, const struct top_row *b)
{
	int d = cmp_numbers(a->space, b->space);

	if (!d)
		d = cmp_numbers(a->tid, b->tid);
	return d ? d : cmp_numbers(a->function, b->function);
}

/* Large numbers first, texts from a to z; equal rows by the time since the start. */
static int cmp_rows(const void *a_, const void *b_, void *ctx)
{
	const struct context *x = ctx;
	const struct top_row *a = a_, *b = b_;
	const struct sorting *s = &x->v->sorting[x->v->pages[x->v->depth].query.table];
	enum field field = table_of(x->v)->columns[s->column].field;
	uint64_t na, nb;
	int d;

	if (number_of(x, a, field, &na) && number_of(x, b, field, &nb))
		d = cmp_numbers(nb, na);
	else
		d = cmp_texts(x, a, b, field);
	if (d)
		return s->reverse ? -d : d;
	d = cmp_numbers(b->own_all, a->own_all);
	if (!d)
		d = cmp_numbers(b->total_all, a->total_all);
	if (!d)
		d = cmp_identity(a, b);
	return d ? d : cmp_numbers(a->line, b->line);
}

static bool matches(const struct context *x, const struct top_row *row, const char *filter,
		    struct strbuf *b)
{
	const struct table *t = table_of(x->v);

	for (unsigned i = 0; i < column_cnt(t); i++) {
		if (t->columns[i].field >= FIELD_OWN && t->columns[i].field <= FIELD_TOTAL_ALL)
			continue; /* digits of a share are not what one looks for */
		if (t->columns[i].field == FIELD_RATE || t->columns[i].field == FIELD_ALL)
			continue;
		strbuf__clear(b);
		add_cell(b, x, row, t->columns[i].field);
		if (b->len && !b->err && strcasestr(b->s, filter))
			return true;
	}
	return false;
}

static void filter_rows(const struct context *x, struct topview *v)
{
	const char *filter = page_of(v)->filter;
	size_t kept = 0;

	for (size_t i = 0; i < v->rows.cnt && *filter; i++)
		if (matches(x, &v->rows.rows[i], filter, &v->text))
			v->rows.rows[kept++] = v->rows.rows[i];
	if (*filter)
		v->rows.cnt = kept;
}

static bool is_same_row(const struct page *page, const struct top_row *a, const struct top_row *b)
{
	/* The hottest line of a function changes; it is the same function. */
	return !cmp_identity(a, b) && (page->query.table != TOP_LINES || a->line == b->line);
}

/* Where the cursor is now; if its row is gone, at the place where it was. */
static void find_cursor(struct topview *v)
{
	struct page *page = page_of(v);

	if (!page->moved)
		v->at = 0;
	for (size_t i = 0; i < v->rows.cnt && page->moved; i++)
		if (is_same_row(page, &v->rows.rows[i], &page->cursor)) {
			v->at = i;
			break;
		}
	if (v->at >= v->rows.cnt)
		v->at = v->rows.cnt ? v->rows.cnt - 1 : 0;
	if (v->rows.cnt)
		page->cursor = v->rows.rows[v->at];
}

static int fill_rows(const struct context *x, struct topview *v)
{
	struct top_query q = page_of(v)->query;
	int err;

	q.native = v->native;
	q.value = v->value;
	err = topmodel__rows(x->m, &q, &v->rows);
	if (err)
		return err;
	filter_rows(x, v);
	if (v->rows.cnt)
		qsort_r(v->rows.rows, v->rows.cnt, sizeof(*v->rows.rows), cmp_rows, (void *)x);
	find_cursor(v);
	return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

struct layout {
	unsigned at[MAX_COLUMNS], width[MAX_COLUMNS]; /* width 0: not shown */
};

#define GAP 1

/* Columns without a width share the rest; the first of two gets two fifths. */
static void lay_out(const struct topview *v, unsigned cols, struct layout *l)
{
	const struct table *t = table_of(v);
	unsigned at = 0, open = 0, seen = 0, rest;

	*l = (struct layout){ { 0 }, { 0 } };
	for (unsigned i = 0; i < column_cnt(t); i++) {
		if (cols < t->columns[i].min_cols || !has_column(v, &t->columns[i]))
			continue;
		open += !t->columns[i].width;
		at += t->columns[i].width ? t->columns[i].width + GAP : 0;
	}
	rest = cols > at ? cols - at : 0;
	at = 0;
	for (unsigned i = 0; i < column_cnt(t); i++) {
		if (cols < t->columns[i].min_cols || !has_column(v, &t->columns[i]))
			continue;
		l->at[i] = at;
		l->width[i] = t->columns[i].width;
		if (!l->width[i])
			l->width[i] = open == 1 ? rest
				      : !seen++ ? rest * 2 / 5
						: rest - rest * 2 / 5 - GAP;
		at += l->width[i] + GAP;
	}
}

static void put_cell(struct topview *v, struct canvas *c, unsigned row, const struct column *col,
		     unsigned at, unsigned width, enum canvas_style style)
{
	unsigned used = v->text.len ? text_width(v->text.s, v->text.len) : 0;

	if (v->text.err)
		c->err = v->text.err;
	else if (v->text.len && width)
		canvas__put(c, row, !col->left && used < width ? at + width - used : at, width,
			    style, v->text.s, v->text.len,
			    col->cut == CUT_NEVER ? CUT_END : col->cut);
	strbuf__clear(&v->text);
}

static void add_column_title(struct strbuf *b, const struct context *x, const struct column *col)
{
	bool time = value_type__per_second(x->value) != 0;

	if (col->field == FIELD_RATE)
		strbuf__addz(b, value_type__rate_column(x->value));
	else if (col->field == FIELD_ALL)
		strbuf__addz(b, value_type__column(x->value));
	else if (time && (col->field == FIELD_OWN_ALL || col->field == FIELD_TOTAL_ALL))
		strbuf__addf(b, "%s s", col->title);
	else
		strbuf__addz(b, col->title);
}

static void draw_titles(const struct context *x, struct topview *v, struct canvas *c, unsigned row,
			const struct layout *l)
{
	const struct table *t = table_of(v);
	const struct sorting *s = &v->sorting[page_of(v)->query.table];

	canvas__fill(c, row, CANVAS_TITLE);
	for (unsigned i = 0; i < column_cnt(t); i++) {
		add_column_title(&v->text, x, &t->columns[i]);
		put_cell(v, c, row, &t->columns[i], l->at[i], l->width[i],
			 i == s->column ? CANVAS_SELECTED : CANVAS_TITLE);
	}
}

static enum canvas_style style_of(const struct context *x, const struct top_row *row,
				  enum field field)
{
	const struct top_process *p = topmodel__process(x->m, row->space);
	const struct top_thread *t = topmodel__thread(x->m, row->space, row->tid);

	if (field == FIELD_GIL && t && t->gil == TOP_GIL_HOLDS)
		return CANVAS_GOOD;
	if (field == FIELD_GIL && t && t->gil == TOP_GIL_WAITS)
		return CANVAS_WARN;
	if (field == FIELD_COMMAND && p && *p->why)
		return CANVAS_WARN;
	if ((p && p->ended) || (!row->own && !row->total) || field == FIELD_PLACE)
		return CANVAS_DIM;
	return CANVAS_PLAIN;
}

static void draw_row(const struct context *x, struct topview *v, struct canvas *c, unsigned at,
		     const struct layout *l, const struct top_row *row, bool selected)
{
	const struct table *t = table_of(v);

	if (selected)
		canvas__fill(c, at, CANVAS_SELECTED);
	for (unsigned i = 0; i < column_cnt(t); i++) {
		enum field field = t->columns[i].field;

		if (!l->width[i])
			continue;
		add_cell(&v->text, x, row, field);
		put_cell(v, c, at, &t->columns[i], l->at[i], l->width[i],
			 selected ? CANVAS_SELECTED : style_of(x, row, field));
	}
}

static const char *why_empty(const struct context *x)
{
	const struct page *page = &x->v->pages[x->v->depth];

	if (*page->filter)
		return "Nothing matches the filter; / then Escape clears it.";
	if (!topmodel__interval_ns(x->m))
		return "Sampling...";
	if (page->query.table == TOP_PROCESSES)
		return "No Python process runs.";
	return page->query.table == TOP_LINES ? "No lines are known." : "Nothing was counted yet.";
}

static void draw_table(const struct context *x, struct topview *v, struct canvas *c, unsigned from,
		       unsigned to)
{
	struct layout l;

	lay_out(v, c->cols, &l);
	draw_titles(x, v, c, from++, &l);
	v->visible = to > from ? to - from : 0;
	if (v->at < v->first)
		v->first = v->at;
	if (v->visible && v->at >= v->first + v->visible)
		v->first = v->at - v->visible + 1;
	if (v->first + v->visible > v->rows.cnt)
		v->first = v->rows.cnt > v->visible ? v->rows.cnt - v->visible : 0;
	for (size_t i = v->first; i < v->rows.cnt && from < to; i++)
		draw_row(x, v, c, from++, &l, &v->rows.rows[i], i == v->at);
	if (!v->rows.cnt && from < to)
		canvas__puts(c, from, 0, CANVAS_DIM, why_empty(x));
}

/* ---- help ------------------------------------------------------------------------------------ */

static void draw_help(const struct context *x, struct topview *v, struct canvas *c)
{
	unsigned rows = c->rows > 1 ? c->rows - 1 : c->rows, cnt = 0, row = 0;

	topwords__add_help(&v->text, x->value);
	if (v->text.err)
		c->err = v->text.err;
	for (size_t i = 0; i < v->text.len; i++)
		cnt += v->text.s[i] == '\n';
	if (v->help_first > (cnt > rows ? cnt - rows : 0))
		v->help_first = cnt > rows ? cnt - rows : 0;
	for (char *line = v->text.s, *end; row < v->help_first + rows && row < cnt;
	     line = end + 1) {
		end = strchr(line, '\n');
		*end = '\0';
		if (row++ >= v->help_first)
			canvas__puts(c, row - 1 - v->help_first, 0, CANVAS_PLAIN, line);
	}
	strbuf__clear(&v->text);
	canvas__puts(c, c->rows - 1, 0, CANVAS_DIM, "any other key: back; Up Down: scroll");
}

static void draw_bottom(const struct context *x, struct topview *v, struct canvas *c)
{
	unsigned row = c->rows - 1, used;

	if (v->editing) {
		strbuf__addf(&v->text, "filter: %s", page_of(v)->filter);
		if (!v->text.err)
			used = canvas__put(c, row, 0, c->cols, CANVAS_BOLD, v->text.s, v->text.len,
					   CUT_MIDDLE);
		else
			used = 0;
		strbuf__clear(&v->text);
		canvas__puts(c, row, used, CANVAS_TITLE, " ");
	} else if (*x->st->message) {
		canvas__puts(c, row, 0, CANVAS_WARN, x->st->message);
	} else {
		canvas__puts(c, row, 0, CANVAS_DIM,
			     "q quit  h help  Enter open  Esc back  p processes  t threads  f "
			     "functions  s sort  / filter  space pause");
	}
}

/* ---- a picture ------------------------------------------------------------------------------- */

int topview__draw(struct topview *v, struct topmodel *m, const struct top_status *st,
		  struct canvas *c)
{
	const struct top_query *q = &page_of(v)->query;
	struct context x = { .v = v, .m = m, .st = st };
	uint64_t all;
	unsigned row;
	int err;

	strbuf__clear(&v->text);
	v->value_cnt = st->now.value_cnt ? st->now.value_cnt : 1;
	v->waits = topmodel__has_waits(m);
	x.value = &st->now.values[v->value];
	topmodel__counts(m, q->space, q->tid, v->value, &x.scope_last, &all);
	err = fill_rows(&x, v);
	if (err || !c->rows || !c->cols)
		return err;
	if (v->help) {
		draw_help(&x, v, c);
		return c->err;
	}
	row = tophead__draw(&x, v, c);
	draw_table(&x, v, c, row, c->rows > 2 ? c->rows - 1 : c->rows);
	if (c->rows > 2)
		draw_bottom(&x, v, c);
	return c->err;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void go_to(struct topview *v, unsigned depth, const struct top_query *q)
{
	if (depth >= DEPTH_MAX)
		depth = DEPTH_MAX - 1;
	v->depth = depth;
	v->pages[depth] = (struct page){ .query = *q };
	v->at = v->first = 0;
}

/* Back keeps the cursor where it was. */
static void back(struct topview *v)
{
	if (v->depth)
		v->depth--;
	v->at = v->first = 0;
}

static const struct top_row *row_of(const struct topview *v)
{
	return v->at < v->rows.cnt ? &v->rows.rows[v->at] : NULL;
}

static void open_row(struct topview *v, const struct topmodel *m)
{
	const struct top_row *row = row_of(v);
	struct top_query q = page_of(v)->query;

	if (!row)
		return;
	switch (q.table) {
	case TOP_PROCESSES:
	case TOP_THREADS:
		if (row->space == TOP_ENDED)
			return;
		q.table = TOP_FUNCTIONS;
		q.space = row->space;
		q.tid = row->tid;
		break;
	case TOP_FUNCTIONS:
		if (topmodel__function(m, row->function).kind != SYM_PYTHON)
			return;
		q.table = TOP_LINES;
		q.function = row->function;
		break;
	default:
		return;
	}
	page_of(v)->moved = true; /* to come back to it */
	go_to(v, v->depth + 1, &q);
}

/* t and f: of the current process; in the list of processes, of the marked one. */
static void show_table(struct topview *v, enum top_table table)
{
	const struct top_row *row = row_of(v);
	struct top_query q = page_of(v)->query;

	if (q.table == TOP_PROCESSES) {
		if (!row || row->space == TOP_ENDED)
			return;
		page_of(v)->moved = true;
		q.space = row->space;
	}
	q.table = table;
	q.function = 0;
	if (table == TOP_THREADS)
		q.tid = 0;
	go_to(v, 1, &q);
}

static void show_all(struct topview *v, enum top_table table)
{
	go_to(v, table == TOP_PROCESSES ? 0 : 1, &(struct top_query){ .table = table });
}

static void move_to(struct topview *v, size_t at)
{
	if (!v->rows.cnt)
		return;
	v->at = at < v->rows.cnt ? at : v->rows.cnt - 1;
	page_of(v)->cursor = v->rows.rows[v->at];
	page_of(v)->moved = v->at > 0;
}

static bool move_key(struct topview *v, uint32_t key)
{
	size_t page = v->visible ? v->visible : 1;

	switch (key) {
	case TOP_KEY_UP:
	case 'k':
		move_to(v, v->at ? v->at - 1 : 0);
		return true;
	case TOP_KEY_DOWN:
	case 'j':
		move_to(v, v->at + 1);
		return true;
	case TOP_KEY_PAGE_UP:
		move_to(v, v->at > page ? v->at - page : 0);
		return true;
	case TOP_KEY_PAGE_DOWN:
		move_to(v, v->at + page);
		return true;
	case TOP_KEY_HOME:
		move_to(v, 0);
		return true;
	case TOP_KEY_END:
		move_to(v, v->rows.cnt);
		return true;
	default:
		return false;
	}
}

static void sort_by(struct topview *v, unsigned column)
{
	struct sorting *s = &v->sorting[page_of(v)->query.table];

	if (column < column_cnt(table_of(v)))
		*s = (struct sorting){ .column = column };
}

static bool sort_key(struct topview *v, uint32_t key)
{
	struct sorting *s = &v->sorting[page_of(v)->query.table];

	if (key >= '1' && key <= '9')
		sort_by(v, nth_column(v, key - '1'));
	else if (key == 's')
		sort_by(v, next_column(v, s->column));
	else if (key == 'r')
		s->reverse = !s->reverse;
	else
		return false;
	return true;
}

static void drop_char(char *s)
{
	size_t len = strlen(s);

	while (len && ((unsigned char)s[len - 1] & 0xc0) == 0x80) /* UTF-8: behind the first byte */
		len--;
	s[len ? len - 1 : 0] = '\0';
}

static void add_char(char *s, uint32_t key)
{
	struct strbuf b = { 0 };

	utf8_add(&b, key);
	if (!b.err && strlen(s) + b.len <= FILTER_MAX)
		strcat(s, b.s);
	strbuf__free(&b);
}

static void edit_key(struct topview *v, uint32_t key)
{
	char *filter = page_of(v)->filter;

	if (key == TOP_KEY_ESCAPE) {
		*filter = '\0';
		v->editing = false;
	} else if (key == TOP_KEY_ENTER) {
		v->editing = false;
	} else if (key == TOP_KEY_BACKSPACE) {
		drop_char(filter);
	} else if (key >= ' ' && key < TOP_KEY_UP) {
		add_char(filter, key);
	}
}

static void help_key(struct topview *v, uint32_t key)
{
	if (key == TOP_KEY_DOWN || key == 'j')
		v->help_first++;
	else if ((key == TOP_KEY_UP || key == 'k') && v->help_first)
		v->help_first--;
	else if (key != TOP_KEY_UP && key != 'k')
		v->help = false;
}

static void page_key(struct topview *v, const struct topmodel *m, uint32_t key)
{
	switch (key) {
	case TOP_KEY_ENTER:
	case TOP_KEY_RIGHT:
		open_row(v, m);
		break;
	case TOP_KEY_ESCAPE:
	case TOP_KEY_LEFT:
	case TOP_KEY_BACKSPACE:
		back(v);
		break;
	case 'p':
		show_all(v, TOP_PROCESSES);
		break;
	case 'a':
		show_all(v, TOP_FUNCTIONS);
		break;
	case 't':
		show_table(v, TOP_THREADS);
		break;
	case 'f':
		show_table(v, TOP_FUNCTIONS);
		break;
	}
}

static bool mode_key(struct topview *v, uint32_t key)
{
	switch (key) {
	case 'n':
		v->native = !v->native;
		return true;
	case 'e':
		v->value = v->value + 1 < v->value_cnt ? v->value + 1 : 0;
		return true;
	case ' ':
		v->paused = !v->paused;
		return true;
	case '/':
		v->editing = true;
		return true;
	case 'h':
	case '?':
	case TOP_KEY_HELP:
		v->help = true;
		v->help_first = 0;
		return true;
	default:
		return false;
	}
}

bool topview__key(struct topview *v, const struct topmodel *m, uint32_t key)
{
	if (v->editing) {
		edit_key(v, key);
	} else if (v->help) {
		help_key(v, key);
	} else if (key == 'q') {
		return false;
	} else if (!move_key(v, key) && !sort_key(v, key) && !mode_key(v, key)) {
		page_key(v, m, key);
	}
	return true;
}
