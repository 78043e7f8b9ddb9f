/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Folded stacks -> profile: "comm;frame;frame;... COUNT" lines.
 *
 * When every frame of a file is one that export_folded.c writes, the file is taken for ours, and
 * frames get their kinds:
 *
 *	symbol_[k]			kernel
 *	symbol [file.so], 0x12 [file.so]	native
 *	[text]				marker
 *	qualname (path:LINE)		Python
 *
 * and, if every line has one, a second element "thread NAME (TID)" is the thread. A file whose
 * lines are all as another tool for Python writes them (import_dialects.c) is read as that tool's.
 * Any other file keeps its names as they are, but for "_[k]", which other tools use as well.
 */
#include "import/import_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define US_PER_S 1000000U

/* One line: its elements, split at ';'. */
struct line {
	struct text *elems; /* owned */
	size_t cnt, cap;
	int64_t count;
};

/* The meaning of the numbers in a file with a header "# key: value" (austin's). */
struct counted {
	bool header; /* there is one: its lines begin with "# " */
	bool bytes, cpu;
	uint64_t interval_us;
	uint64_t carry; /* of cpu: microseconds that are not yet a sample */
};

struct folded {
	struct import *im;
	struct line line;
	size_t number; /* of the line */
	bool ours, threads;
	uint32_t fits;		       /* bit i: every line so far is of import_dialects[i] */
	const struct dialect *dialect; /* after the first pass; NULL: none */
	struct counted counted;
	uint32_t *syms;
	size_t sym_cap;
};

/* ---- Frames of ours ---- */

/*
 * "function (path/file.c:LINE)": C++ has blanks and parentheses in names as well, so only what can
 * be a file is one.
 */
static void split_source(struct frame *f)
{
	struct text t = f->func, place;
	size_t at = text__find(t, " (", true);

	if (at == t.len || !at || !text__ends(t, ")"))
		return;
	place = text__part(t, at + 2, t.len - 1);
	if (memchr(place.s, '(', place.len) || memchr(place.s, ')', place.len) ||
	    (!memchr(place.s, '/', place.len) && !memchr(place.s, '.', place.len)))
		return;
	frame__set_place(f, place);
	f->func = text__part(t, 0, at);
}

/* False: not a frame of ours. */
static bool parse_frame(struct text t, struct frame *f)
{
	size_t at;

	*f = (struct frame){ .func = t };
	if (text__ends(t, "_[k]")) {
		f->kind = SYM_KERNEL;
		f->func.len -= strlen("_[k]");
		return f->func.len;
	}
	if (t.len > 2 && *t.s == '[' && text__ends(t, "]") && text__find(t, "[", true) == 0) {
		f->kind = SYM_MARKER;
		return true;
	}
	if (text__ends(t, "]")) {
		at = text__find(t, " [", true);
		f->kind = SYM_NATIVE;
		f->func = text__part(t, 0, at);
		f->module = text__part(t, at + 2, t.len - 1);
		split_source(f);
		return at && at < t.len;
	}
	/* The first " (": a qualified name has no blanks, but a path may. */
	at = text__find(t, " (", false);
	if (!text__ends(t, ")") || at == t.len || !at)
		return false;
	f->kind = SYM_PYTHON;
	f->func = text__part(t, 0, at);
	frame__set_place(f, text__part(t, at + 2, t.len - 1));
	return true;
}

/* "thread NAME (TID)" or "thread NAME (TID, interpreter N)"; *tid: THREAD_WORD() */
static bool parse_thread(struct text t, struct text *name, uint32_t *tid)
{
	static const char prefix[] = "thread ", interpreter[] = ", interpreter ";
	size_t at = text__find(t, " (", true), skip = strlen(prefix), comma;
	struct text number;
	uint64_t n, interp = 0;

	if (t.len < skip || memcmp(t.s, prefix, skip) || at == t.len || at < skip ||
	    !text__ends(t, ")"))
		return false;
	number = text__part(t, at + 2, t.len - 1);
	comma = text__find(number, interpreter, true);
	if (comma < number.len &&
	    !text__number(text__part(number, comma + strlen(interpreter), number.len), 10, &interp))
		return false;
	if (!text__number(text__part(number, 0, comma), 10, &n) || !n ||
	    n > THREAD_TID(UINT32_MAX) || interp > THREAD_INTERP_MAX)
		return false;
	*name = text__part(t, skip, at);
	*tid = THREAD_WORD((uint32_t)n, (uint32_t)interp);
	return true;
}

/* ---- Lines ---- */

static int add_elem(struct line *l, struct text t)
{
	if (ARRAY_GROW(l->elems, l->cap, l->cnt, SIZE_MAX))
		return -ENOMEM;
	l->elems[l->cnt++] = t;
	return 0;
}

/* "12"; with a header also "12,0,-4096": of it the first. */
static bool parse_count(const struct folded *fo, struct text t, int64_t *count)
{
	struct text first =
		text__part(t, 0, fo->counted.header ? text__find(t, ",", false) : t.len);
	bool less = fo->counted.header && text__begins(first, "-");
	uint64_t n;

	if (!text__number(text__part(first, less, first.len), 10, &n) || n > INT64_MAX)
		return false;
	*count = less ? -(int64_t)n : (int64_t)n;
	return true;
}

static int split_line(struct folded *fo, struct text t)
{
	struct line *l = &fo->line;
	size_t blank = text__find(t, " ", true), end;
	int err = 0;

	l->cnt = 0;
	if (blank == t.len || !parse_count(fo, text__part(t, blank + 1, t.len), &l->count))
		return import_bad(
			fo->im,
			"line %zu: does not end in a number of samples, as folded stacks do; "
			"nor is it another profile: " IMPORT_READ,
			fo->number);
	t.len = blank;
	for (size_t at = 0; at <= t.len && !err; at = end + 1) {
		const char *semicolon = memchr(t.s + at, ';', t.len - at);

		if (l->cnt == IMPORT_MAX_DEPTH)
			return import_bad(fo->im, "line %zu: more than %u frames", fo->number,
					  IMPORT_MAX_DEPTH);
		end = semicolon ? (size_t)(semicolon - t.s) : t.len;
		err = add_elem(l, text__part(t, at, end));
	}
	return err;
}

/* Calls `each` for every line that is not empty, split. */
static int for_lines(struct folded *fo, struct text all, int (*each)(struct folded *fo))
{
	struct text t;
	int err = 0;

	fo->number = 0;
	for (size_t at = 0; !err && text__next_line(all, &at, &t);) {
		fo->number++;
		if (!t.len || (fo->counted.header && text__begins(t, "# ")))
			continue;
		err = split_line(fo, t);
		if (!err)
			err = each(fo);
	}
	return err;
}

/* ---- The header ---- */

/* "# mode: wall". A command of ours may be called "#": the first line must say austin. */
static void read_header(struct folded *fo, struct text all)
{
	struct counted *c = &fo->counted;
	struct text t;

	c->header = text__begins(all, "# austin: ") || text__begins(all, "# mojo: ");
	for (size_t at = 0; c->header && text__next_line(all, &at, &t);) {
		if (text__begins(t, "# interval: ") &&
		    (!text__number(text__part(t, strlen("# interval: "), t.len), 10,
				   &c->interval_us) ||
		     c->interval_us > US_PER_S))
			c->interval_us = 0;
		c->bytes |= text__is(t, "# mode: memory");
		c->cpu |= text__is(t, "# mode: cpu");
		if (t.len && !text__begins(t, "# "))
			return;
	}
}

/* Time comes in microseconds; that of CPUs becomes samples, which is what ours is. */
static void set_value_type(struct folded *fo)
{
	struct value_type *v = &fo->im->stats.values[0];
	struct counted *c = &fo->counted;

	fo->im->stats.value_cnt = 1;
	if (c->bytes)
		*v = (struct value_type){ .event = VALUE_FOREIGN,
					  .name = "memory",
					  .unit = UNIT_BYTES };
	else if (c->cpu && c->interval_us)
		v->frequency_hz = (uint32_t)(US_PER_S / c->interval_us);
	else
		v->event = EVENT_WALL;
}

static uint64_t count_of(struct folded *fo)
{
	struct counted *c = &fo->counted;
	uint64_t n = fo->line.count > 0 ? (uint64_t)fo->line.count : 0, sum;

	if (!c->header || c->bytes)
		return n;
	if (!c->cpu || !c->interval_us)
		return n > UINT64_MAX / 1000 ? n : n * 1000;
	sum = n + c->carry;
	c->carry = sum % c->interval_us;
	return sum / c->interval_us;
}

/* ---- First pass: whose is it? ---- */

static bool is_of(const struct dialect *d, const struct line *l)
{
	struct head h;
	struct frame f;

	if (!d->head(l->elems, l->cnt, &h))
		return false;
	for (size_t i = h.first; i < l->cnt; i++)
		if (!d->frame(l->elems[i], &f))
			return false;
	return true;
}

static int look_at(struct folded *fo)
{
	const struct line *l = &fo->line;
	struct text name;
	struct frame f;
	uint32_t tid;

	if (l->cnt < 2 || !parse_thread(l->elems[1], &name, &tid))
		fo->threads = false;
	for (size_t i = 1; i < l->cnt && fo->ours; i++)
		fo->ours = parse_frame(l->elems[i], &f);
	for (size_t i = 0; i < import_dialect_cnt; i++)
		if ((fo->fits & 1U << i) && !is_of(&import_dialects[i], l))
			fo->fits &= ~(1U << i);
	return 0;
}

/* ---- Second pass ---- */

/* The index of the sym, or -ENOMEM. */
static int frame_sym(struct folded *fo, struct text t)
{
	struct frame f;

	if (fo->dialect)
		fo->dialect->frame(t, &f);
	else if (!parse_frame(t, &f) || (!fo->ours && f.kind != SYM_KERNEL))
		f = (struct frame){ .kind = SYM_PLAIN, .func = t };
	return frame__sym(fo->im, &f);
}

static void line_head(struct folded *fo, struct head *h)
{
	const struct line *l = &fo->line;

	*h = (struct head){ .process = l->elems[0], .first = 1 };
	if (fo->dialect)
		fo->dialect->head(l->elems, l->cnt, h);
	else if (fo->threads && parse_thread(l->elems[1], &h->thread, &h->tid))
		h->first = 2;
	if (!h->process.len && fo->dialect)
		h->process = (struct text){ "python", strlen("python") };
}

static int take_line(struct folded *fo)
{
	const struct line *l = &fo->line;
	struct profile_proc proc = { 0 };
	struct head h;
	size_t cnt = 0;
	uint64_t count = count_of(fo);
	int err = 0, index;

	line_head(fo, &h);
	proc.comm = text__intern(fo->im, h.process, &err);
	proc.tgid = (uint32_t)h.tgid;
	index = err ? err : import_proc(fo->im, &proc, 0);
	if (index < 0 ||
	    import_thread(fo->im, index, h.tid, text__intern(fo->im, h.thread, &err)) || err ||
	    array_grow(&fo->syms, &fo->sym_cap, 0, l->cnt, sizeof(*fo->syms), SIZE_MAX))
		return -ENOMEM;
	for (size_t i = h.first; i < l->cnt; i++) {
		int sym = frame_sym(fo, l->elems[i]);

		if (sym < 0)
			return sym;
		fo->syms[cnt++] = (uint32_t)sym;
	}
	return import_stack(fo->im, 0, index, h.tid, fo->syms, cnt, fo->counted.header ? 1 : count,
			    count);
}

static const struct dialect *dialect_of(uint32_t fits)
{
	for (size_t i = 0; i < import_dialect_cnt; i++)
		if (fits & 1U << i)
			return &import_dialects[i];
	return NULL;
}

int import_folded(struct import *im, const char *text, size_t size)
{
	struct folded fo = { .im = im, .ours = true, .threads = true };
	const struct text all = { text, size };
	int err;

	fo.fits = (1U << import_dialect_cnt) - 1;
	read_header(&fo, all);
	if (fo.counted.header)
		set_value_type(&fo);
	err = for_lines(&fo, all, look_at);
	fo.threads &= fo.ours;
	fo.dialect = fo.number ? dialect_of(fo.fits) : NULL;
	if (!err)
		err = for_lines(&fo, all, take_line);
	free(fo.line.elems);
	free(fo.syms);
	return err;
}
