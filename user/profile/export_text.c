/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/export_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/stream.h"

#define DOTS   "\xe2\x80\xa6"
#define INDENT 2 /* of tables */
#define GAP    2 /* between columns */

/* ---- Names ---- */

void text_add_name(struct strbuf *b, const struct profile *p, str_id id, const char *unset)
{
	if (profile__str_len(p, id))
		str_sanitise(b, profile__str(p, id), profile__str_len(p, id), TEXT_NAME_MAX);
	else
		strbuf__addz(b, unset);
}

void text_add_path(struct strbuf *b, const struct profile *p, str_id id)
{
	str_sanitise(b, profile__str(p, id), profile__str_len(p, id), TEXT_PATH_MAX);
}

static const struct profile_module *find_module(const struct profile *p, int32_t module)
{
	return module >= 0 && (size_t)module < p->module_cnt ? &p->modules[module] : NULL;
}

void text_add_module(struct strbuf *b, const struct profile *p, int32_t module)
{
	const struct profile_module *m = find_module(p, module);
	const char *path = m ? profile__str(p, m->path) : "";
	size_t len = m ? profile__str_len(p, m->path) : 0;
	const char *slash = memrchr(path, '/', len);

	if (slash && slash + 1 < path + len) {
		len -= (size_t)(slash + 1 - path);
		path = slash + 1;
	}
	if (len)
		str_sanitise(b, path, len, TEXT_NAME_MAX);
	else
		strbuf__addz(b, m ? "unknown" : "anon");
}

static void add_marker(struct strbuf *b, const struct profile *p, const struct sym *s)
{
	bool bare = profile__str(p, s->func)[0] != '[';

	if (bare)
		strbuf__addc(b, '[');
	text_add_name(b, p, s->func, "not-symbolized");
	if (bare)
		strbuf__addc(b, ']');
}

void text_add_func(struct strbuf *b, const struct profile *p, const struct sym *s,
		   const char *unset)
{
	switch (s->kind) {
	case SYM_PYTHON:
		text_add_name(b, p, s->func, "<unknown>");
		break;
	case SYM_NATIVE:
	case SYM_KERNEL:
	case SYM_PLAIN:
		text_add_name(b, p, s->func, unset);
		break;
	default:
		add_marker(b, p, s);
	}
}

void text_add_place(struct strbuf *b, const struct profile *p, const struct sym *s, uint32_t line)
{
	const struct profile_module *m = find_module(p, s->module);

	if (s->kind == SYM_KERNEL) {
		if (m)
			text_add_path(b, p, m->path);
		else
			strbuf__addz(b, "[kernel]");
	} else if (profile__str_len(p, s->file)) {
		text_add_path(b, p, s->file);
		if (line)
			strbuf__addf(b, ":%" PRIu32, line);
	} else if (s->kind == SYM_NATIVE) {
		if (m)
			text_add_path(b, p, m->path);
		else
			strbuf__addz(b, "[anon]");
	}
}

void text_add_label(struct strbuf *b, const struct profile *p, const struct sym *s)
{
	if (s->func || (s->kind != SYM_NATIVE && s->kind != SYM_KERNEL)) {
		text_add_func(b, p, s, "(no symbol)");
		return;
	}
	strbuf__addf(b, "0x%" PRIx64 " [", s->addr);
	if (s->kind == SYM_KERNEL)
		strbuf__addz(b, "kernel");
	else
		text_add_module(b, p, s->module);
	strbuf__addc(b, ']');
}

void text_add_process(struct strbuf *b, const struct profile *p, const struct profile_proc *proc,
		      uint32_t thread_word)
{
	uint32_t tid = THREAD_TID(thread_word);
	const char *thread = profile__thread_name(p, proc ? proc->space : 0, tid);

	text_add_name(b, p, proc ? profile_proc__name(proc) : 0, "<unknown>");
	if (proc && proc->tgid)
		strbuf__addf(b, " (%" PRIu32 ")", proc->tgid);
	if (!tid)
		return;
	strbuf__addz(b, " / ");
	str_sanitise(b, thread, strlen(thread), TEXT_NAME_MAX);
	strbuf__addf(b, "%s(%" PRIu32, *thread ? " " : "", tid);
	if (THREAD_INTERP(thread_word))
		strbuf__addf(b, ", interpreter %" PRIu32, THREAD_INTERP(thread_word));
	strbuf__addc(b, ')');
}

void text_add_count(struct strbuf *b, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			strbuf__addc(b, ',');
		strbuf__addc(b, digits[i]);
	}
}

void text_add_bytes(struct strbuf *b, double n)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	const char *sign = n < 0 ? "-" : "";
	size_t unit = 0;

	n = n < 0 ? -n : n;
	for (; n >= 1023.95 && unit < 4; unit++)
		n /= 1024;
	strbuf__addf(b, unit ? "%s%.1f %s" : "%s%.0f %s", sign, n, units[unit]);
}

double text_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

void text_add_samples(struct strbuf *b, const struct profile *p)
{
	const struct profile_stats *s = &p->stats;
	uint64_t delivered = s->counters[CTR_delivered], counted = s->counters[CTR_counted];
	uint64_t sum = counted + profile__filtered(s) + profile__lost(s);
	uint64_t total =
		s->slowed > 1 ? counted : profile__all_samples(p); /* slowed: some count for many */

	text_add_count(b, delivered);
	strbuf__addz(b, " delivered = ");
	text_add_count(b, counted);
	strbuf__addz(b, " counted + ");
	text_add_count(b, profile__filtered(s));
	strbuf__addz(b, " filtered + ");
	text_add_count(b, profile__lost(s));
	strbuf__addz(b, " lost");
	/* These two do not happen; if they do, nobody may have to guess that they did. */
	if (sum != delivered)
		strbuf__addf(b, " (%+" PRId64 " not accounted for)", (int64_t)(delivered - sum));
	if (counted != total)
		strbuf__addf(b, " (%+" PRId64 " counted but not in this profile)",
			     (int64_t)(counted - total));
}

void text_add_complete(struct strbuf *b, const struct profile *p)
{
	uint64_t complete = p->stats.counters[CTR_complete];
	uint64_t stacks = p->stats.counters[CTR_user_stacks];

	if (!stacks)
		return;
	/* Rounded down: 100.0% means all. */
	strbuf__addf(b, "%.1f%% of ", floor(text_percent(complete, stacks) * 10) / 10);
	text_add_count(b, stacks);
	strbuf__addz(b, " user stacks are complete");
}

/* ---- Widths ---- */

/* One character: its bytes and its columns. */
static size_t next_char(const char *s, size_t len, unsigned *cols)
{
	uint32_t c;
	size_t n = utf8_next(s, len, &c);
	int w = c < 0x80 ? 1 : wcwidth((wchar_t)c);

	*cols = w < 0 ? 2 : (unsigned)w;
	return n;
}

unsigned text_width(const char *s, size_t len)
{
	unsigned total = 0, w;

	for (size_t i = 0; i < len; total += w)
		i += next_char(s + i, len - i, &w);
	return total;
}

/* Bytes of the longest beginning that fits into `cols`. */
static size_t prefix_len(const char *s, size_t len, unsigned cols)
{
	size_t i = 0, n;
	unsigned w;

	for (; i < len; i += n, cols -= w) {
		n = next_char(s + i, len - i, &w);
		if (w > cols)
			break;
	}
	return i;
}

/* The start of the longest ending that fits into `cols` columns; never at a combining character. */
static size_t suffix_start(const char *s, size_t len, unsigned cols)
{
	unsigned left = text_width(s, len), w;
	size_t i = 0, n;

	for (; i < len; i += n, left -= w) {
		n = next_char(s + i, len - i, &w);
		if (left <= cols && w)
			break;
	}
	return i;
}

/* Bytes of "a 60%, b 20%, " of "a 60%, b 20%, c 10%": the longest list of whole parts that fits. */
static size_t parts_len(const char *s, size_t len, unsigned cols)
{
	size_t fits = 0;

	for (size_t i = 2; i < len && text_width(s, i) <= cols; i++)
		if (s[i - 2] == ',' && s[i - 1] == ' ')
			fits = i;
	return fits;
}

/* "a 60%, …"; of the first part, if that is too long, "interpr… 60%". */
static void add_parts(struct strbuf *b, const char *s, size_t len, unsigned cols)
{
	unsigned dots = text_width(DOTS, strlen(DOTS)), figure;
	size_t n = cols > dots ? parts_len(s, len, cols - dots) : 0, end, name;

	if (n) {
		strbuf__add(b, s, n);
		strbuf__addz(b, DOTS);
		return;
	}
	for (end = 0; end < len && s[end] != ',';)
		end++;
	for (name = end; name && s[name] != ' ';)
		name--;
	figure = text_width(s + name, end - name);
	if (!name || figure + dots >= cols) {
		text_add_cut(b, s, len, cols, CUT_END);
		return;
	}
	text_add_cut(b, s, name, cols - figure, CUT_END);
	strbuf__add(b, s + name, end - name);
}

void text_add_cut(struct strbuf *b, const char *s, size_t len, unsigned cols, enum text_cut cut)
{
	unsigned dots, head, room;
	const char *slash;
	size_t n;

	if (text_width(s, len) <= cols) {
		strbuf__add(b, s, len);
		return;
	}
	if (cut == CUT_PARTS) {
		add_parts(b, s, len, cols);
		return;
	}
	dots = text_width(DOTS, strlen(DOTS));
	if (cols < dots)
		return;
	room = cols - dots;
	head = cut == CUT_PATH ? 0 : cut == CUT_MIDDLE ? (room + 1) / 2 : room;
	n = prefix_len(s, len, head);
	strbuf__add(b, s, n);
	strbuf__addz(b, DOTS);
	if (cut != CUT_PATH && cut != CUT_MIDDLE)
		return;
	n = suffix_start(s, len, room - text_width(s, n));
	slash = cut == CUT_PATH ? memchr(s + n, '/', len - n) : NULL;
	if (slash && slash + 1 < s + len)
		n = (size_t)(slash - s);
	strbuf__add(b, s + n, len - n);
}

/* ---- Lines ---- */

void text_out__begin(struct text_out *o, FILE *f, unsigned width, bool color)
{
	memset(o, 0, sizeof(*o));
	o->f = f;
	o->width = width;
	o->color = color;
	o->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (o->locale)
		o->saved = uselocale(o->locale);
}

int text_out__end(struct text_out *o)
{
	int err = o->line.err;

	if (!err)
		err = stream__flush(o->f);
	if (o->locale) {
		uselocale(o->saved);
		freelocale(o->locale);
	}
	strbuf__free(&o->line);
	return err;
}

void text_out__put(struct text_out *o, const char *sgr, const char *s, size_t len)
{
	unsigned room = o->width > o->col + o->pad ? o->width - o->col - o->pad : 0;
	size_t before;

	if (!len || (o->width && !room))
		return;
	for (; o->pad; o->pad--, o->col++)
		strbuf__addc(&o->line, ' ');
	if (sgr && o->color)
		strbuf__addf(&o->line, "\033[%sm", sgr);
	before = o->line.len;
	if (o->width)
		text_add_cut(&o->line, s, len, room, CUT_END);
	else
		strbuf__add(&o->line, s, len);
	if (!o->line.err)
		o->col += text_width(o->line.s + before, o->line.len - before);
	if (sgr && o->color)
		strbuf__addz(&o->line, "\033[0m");
}

void text_out__puts(struct text_out *o, const char *sgr, const char *s)
{
	text_out__put(o, sgr, s, strlen(s));
}

void text_out__skip_to(struct text_out *o, unsigned col)
{
	o->pad = col > o->col ? col - o->col : o->col > 0;
}

void text_out__newline(struct text_out *o)
{
	strbuf__addc(&o->line, '\n');
	if (!o->line.err)
		fwrite(o->line.s, 1, o->line.len, o->f);
	if (!o->line.err)
		strbuf__clear(&o->line);
	o->col = 0;
	o->pad = 0;
}

void text_out__fill(struct text_out *o, unsigned indent, unsigned hang, const char *s)
{
	unsigned at = indent;

	text_out__skip_to(o, at);
	while (*s) {
		size_t len = strcspn(s, " ");
		unsigned w = text_width(s, len);

		if (o->width && o->col && o->col + 1 + w > o->width) {
			text_out__newline(o);
			at = hang;
			text_out__skip_to(o, at);
		} else if (o->col) {
			o->pad = 1;
		}
		text_out__put(o, NULL, s, len);
		s += len;
		s += strspn(s, " ");
	}
	text_out__newline(o);
}

/* ---- Tables ---- */

static int grow_cells(struct text_table *t)
{
	size_t cap = t->cell_cap ? 2 * t->cell_cap : 64;
	struct text_cell *cells;

	if (t->cell_cnt < t->cell_cap)
		return 0;
	cells = reallocarray(t->cells, cap, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	t->cells = cells;
	t->cell_cap = cap;
	return 0;
}

/* No column of a table is wider, on paper neither: a name may have thousands of characters. */
#define CELL_WIDTH_MAX 256

static void limit_cell(struct strbuf *b, enum text_cut cut)
{
	struct strbuf shorter = { 0 };

	if (b->err || text_width(b->s, b->len) <= CELL_WIDTH_MAX)
		return;
	text_add_cut(&shorter, b->s, b->len, CELL_WIDTH_MAX, cut);
	strbuf__free(b);
	*b = shorter;
}

void text_table__add(struct text_table *t, const char *sgr, struct strbuf *b)
{
	limit_cell(b, t->cols[t->cell_cnt % t->col_cnt].cut);
	if (b->err || grow_cells(t)) {
		t->err = -ENOMEM;
		strbuf__free(b);
		return;
	}
	t->cells[t->cell_cnt] = (struct text_cell){
		.sgr = sgr,
		.cut = t->cols[t->cell_cnt % t->col_cnt].cut,
		.s = b->s,
		.len = b->len,
	};
	t->cell_cnt++;
	*b = (struct strbuf){ 0 };
}

void text_table__cut_last(struct text_table *t, enum text_cut cut)
{
	if (t->cell_cnt)
		t->cells[t->cell_cnt - 1].cut = cut;
}

void text_table__addf(struct text_table *t, const char *sgr, const char *fmt, ...)
{
	struct strbuf b = { 0 };
	char *s;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	if (s)
		strbuf__addz(&b, s);
	else
		b.err = -ENOMEM;
	free(s);
	text_table__add(t, sgr, &b);
}

static size_t row_cnt(const struct text_table *t)
{
	return t->cell_cnt / t->col_cnt;
}

/* Without a limit nothing is cut, but one long name does not push all rows to the right. */
#define LOOSE_WIDTH 60

static void natural_widths(const struct text_table *t, unsigned *widths, bool loose)
{
	for (size_t c = 0; c < t->col_cnt; c++) {
		widths[c] = text_width(t->cols[c].title, strlen(t->cols[c].title));
		for (size_t r = 0; r < row_cnt(t); r++) {
			const struct text_cell *cell = &t->cells[r * t->col_cnt + c];
			unsigned w = text_width(cell->s, cell->len);

			if (w > widths[c])
				widths[c] = w;
		}
		if (loose && t->cols[c].cut != CUT_NEVER && widths[c] > LOOSE_WIDTH)
			widths[c] = LOOSE_WIDTH;
	}
}

#define YIELD_WIDTH 14 /* of a column that gives way first: less says nothing */

/* The widest column that may be cut; of those that give way first, or of all. */
static size_t widest_column(const struct text_table *t, const unsigned *widths, bool yielding)
{
	size_t widest = t->col_cnt;

	for (size_t c = 0; c < t->col_cnt; c++) {
		if (t->cols[c].cut == CUT_NEVER || widths[c] <= strlen(t->cols[c].title) ||
		    (yielding && (t->cols[c].cut != CUT_FIRST || widths[c] <= YIELD_WIDTH)))
			continue;
		if (widest == t->col_cnt || widths[c] > widths[widest])
			widest = c;
	}
	return widest;
}

/* Down to the width of their titles. */
static void shrink_widths(const struct text_table *t, unsigned *widths, unsigned avail)
{
	unsigned total = (unsigned)(t->col_cnt - 1) * GAP;

	for (size_t c = 0; c < t->col_cnt; c++)
		total += widths[c];
	for (; total > avail; total--) {
		size_t widest = widest_column(t, widths, true);

		if (widest == t->col_cnt)
			widest = widest_column(t, widths, false);
		if (widest == t->col_cnt)
			return;
		widths[widest]--;
	}
}

static void print_cell(struct text_out *o, const struct text_cell *cell, bool right, unsigned at,
		       unsigned width)
{
	struct strbuf b = { 0 };

	if (o->width)
		text_add_cut(&b, cell->s, cell->len, width, cell->cut);
	else
		strbuf__add(&b, cell->s, cell->len);
	if (b.err)
		o->line.err = b.err;
	if (right && text_width(b.s, b.len) < width)
		at += width - text_width(b.s, b.len);
	text_out__skip_to(o, at);
	text_out__put(o, cell->sgr, b.s, b.len);
	strbuf__free(&b);
}

/* Row 0 is that of the titles. */
static void print_row(const struct text_table *t, struct text_out *o, const unsigned *widths,
		      size_t row)
{
	unsigned at = INDENT;

	for (size_t c = 0; c < t->col_cnt; c++) {
		const char *title = t->cols[c].title;
		struct text_cell head = { SGR_DIM, CUT_END, (char *)title, strlen(title) };
		const struct text_cell *cell = &head;

		if (row)
			cell = &t->cells[(row - 1) * t->col_cnt + c];
		print_cell(o, cell, t->cols[c].right, at, widths[c]);
		at += widths[c] + GAP;
	}
	text_out__newline(o);
}

int text_table__print(struct text_table *t, struct text_out *o)
{
	unsigned *widths = calloc(t->col_cnt, sizeof(*widths));

	if (!widths)
		t->err = -ENOMEM;
	if (!t->err) {
		natural_widths(t, widths, !o->width);
		if (o->width)
			shrink_widths(t, widths, o->width > INDENT ? o->width - INDENT : 0);
		for (size_t row = 0; row <= row_cnt(t); row++)
			print_row(t, o, widths, row);
	}
	for (size_t i = 0; i < t->cell_cnt; i++)
		free(t->cells[i].s);
	free(t->cells);
	free(widths);
	t->cells = NULL;
	t->cell_cnt = t->cell_cap = 0;
	return t->err;
}
