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
 * and, if every line has one, a second element "thread NAME (TID)" is the thread. Any other file
 * keeps its names as they are, but for "_[k]", which other tools use as well.
 */
#include "import/import_build.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PATH_ANON    "anon"
#define PATH_INLINED "inlined"
#define PATH_UNKNOWN "unknown"

struct text {
	const char *s;
	size_t len;
};

/* One line: its elements, split at ';'. */
struct line {
	struct text *elems; /* owned */
	size_t cnt, cap;
	uint64_t count;
};

struct folded {
	struct import *im;
	struct line line;
	size_t number; /* of the line */
	bool ours, threads;
	uint32_t *syms;
	size_t sym_cap;
};

/* ---- Pieces of text ---- */

static bool ends_with(struct text t, const char *end)
{
	size_t len = strlen(end);

	return t.len >= len && !memcmp(t.s + t.len - len, end, len);
}

static bool is(struct text t, const char *s)
{
	return t.len == strlen(s) && !memcmp(t.s, s, t.len);
}

/* Where `what` begins in `t`: first or last occurrence. t.len: nowhere. */
static size_t find(struct text t, const char *what, bool last)
{
	size_t len = strlen(what), at = t.len;

	for (size_t i = 0; i + len <= t.len; i++) {
		if (memcmp(t.s + i, what, len))
			continue;
		at = i;
		if (!last)
			break;
	}
	return at;
}

static struct text part(struct text t, size_t from, size_t to)
{
	return (struct text){ t.s + from, to > from ? to - from : 0 };
}

/* A whole decimal (or hexadecimal) number. */
static bool to_number(struct text t, int base, uint64_t *out)
{
	char digits[24], *end;

	if (!t.len || t.len >= sizeof(digits))
		return false;
	memcpy(digits, t.s, t.len);
	digits[t.len] = '\0';
	if (strspn(digits, base == 16 ? "0123456789abcdef" : "0123456789") != t.len)
		return false;
	errno = 0;
	*out = strtoull(digits, &end, base);
	return !errno;
}

/* ---- Frames of ours ---- */

struct frame {
	uint8_t kind;
	struct text func, file, module; /* module: of native ones */
	uint32_t line;
	uint64_t addr;
};

/* "path:LINE" or "path". */
static void split_place(struct text place, struct frame *f)
{
	size_t colon = find(place, ":", true);
	uint64_t line;

	f->file = place;
	if (colon == place.len || !to_number(part(place, colon + 1, place.len), 10, &line) ||
	    line > UINT32_MAX)
		return;
	f->file = part(place, 0, colon);
	f->line = (uint32_t)line;
}

/*
 * "function (path/file.c:LINE)": C++ has blanks and parentheses in names as well, so only what can
 * be a file is one.
 */
static void split_source(struct frame *f)
{
	struct text t = f->func, place;
	size_t at = find(t, " (", true);

	if (at == t.len || !at || !ends_with(t, ")"))
		return;
	place = part(t, at + 2, t.len - 1);
	if (memchr(place.s, '(', place.len) || memchr(place.s, ')', place.len) ||
	    (!memchr(place.s, '/', place.len) && !memchr(place.s, '.', place.len)))
		return;
	split_place(place, f);
	f->func = part(t, 0, at);
}

/* False: not a frame of ours. */
static bool parse_frame(struct text t, struct frame *f)
{
	size_t at;

	*f = (struct frame){ .func = t };
	if (ends_with(t, "_[k]")) {
		f->kind = SYM_KERNEL;
		f->func.len -= strlen("_[k]");
		return f->func.len;
	}
	if (t.len > 2 && *t.s == '[' && ends_with(t, "]") && find(t, "[", true) == 0) {
		f->kind = SYM_MARKER;
		return true;
	}
	if (ends_with(t, "]")) {
		at = find(t, " [", true);
		f->kind = SYM_NATIVE;
		f->func = part(t, 0, at);
		f->module = part(t, at + 2, t.len - 1);
		split_source(f);
		return at && at < t.len;
	}
	/* The first " (": a qualified name has no blanks, but a path may. */
	at = find(t, " (", false);
	if (!ends_with(t, ")") || at == t.len || !at)
		return false;
	f->kind = SYM_PYTHON;
	f->func = part(t, 0, at);
	split_place(part(t, at + 2, t.len - 1), f);
	return true;
}

/* "thread NAME (TID)" or "thread NAME (TID, interpreter N)"; *tid: THREAD_WORD() */
static bool parse_thread(struct text t, struct text *name, uint32_t *tid)
{
	static const char prefix[] = "thread ", interpreter[] = ", interpreter ";
	size_t at = find(t, " (", true), skip = strlen(prefix), comma;
	struct text number;
	uint64_t n, interp = 0;

	if (t.len < skip || memcmp(t.s, prefix, skip) || at == t.len || at < skip ||
	    !ends_with(t, ")"))
		return false;
	number = part(t, at + 2, t.len - 1);
	comma = find(number, interpreter, true);
	if (comma < number.len &&
	    !to_number(part(number, comma + strlen(interpreter), number.len), 10, &interp))
		return false;
	if (!to_number(part(number, 0, comma), 10, &n) || !n || n > THREAD_TID(UINT32_MAX) ||
	    interp > THREAD_INTERP_MAX)
		return false;
	*name = part(t, skip, at);
	*tid = THREAD_WORD((uint32_t)n, (uint32_t)interp);
	return true;
}

/* ---- Lines ---- */

static int add_elem(struct line *l, struct text t)
{
	if (array_grow(&l->elems, &l->cap, l->cnt, 1, sizeof(*l->elems), SIZE_MAX))
		return -ENOMEM;
	l->elems[l->cnt++] = t;
	return 0;
}

static int split_line(struct folded *fo, struct text t)
{
	struct line *l = &fo->line;
	size_t blank = find(t, " ", true), end;
	int err = 0;

	l->cnt = 0;
	if (blank == t.len || !to_number(part(t, blank + 1, t.len), 10, &l->count))
		return import_bad(fo->im, "line %zu: does not end in a number of samples",
				  fo->number);
	t.len = blank;
	for (size_t at = 0; at <= t.len && !err; at = end + 1) {
		const char *semicolon = memchr(t.s + at, ';', t.len - at);

		if (l->cnt == IMPORT_MAX_DEPTH)
			return import_bad(fo->im, "line %zu: more than %u frames", fo->number,
					  IMPORT_MAX_DEPTH);
		end = semicolon ? (size_t)(semicolon - t.s) : t.len;
		err = add_elem(l, part(t, at, end));
	}
	return err;
}

/* Calls `each` for every line that is not empty, split. */
static int for_lines(struct folded *fo, const char *text, size_t size,
		     int (*each)(struct folded *fo))
{
	int err = 0;

	fo->number = 0;
	for (size_t at = 0, end; at < size && !err; at = end + 1) {
		const char *newline = memchr(text + at, '\n', size - at);
		struct text t = { text + at, 0 };

		end = newline ? (size_t)(newline - text) : size;
		t.len = end - at - (end > at && text[end - 1] == '\r');
		fo->number++;
		if (!t.len)
			continue;
		err = split_line(fo, t);
		if (!err)
			err = each(fo);
	}
	return err;
}

/* First pass: is it one of ours? */
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
	return 0;
}

/* ---- Second pass ---- */

static str_id intern(struct folded *fo, struct text t, int *err)
{
	str_id id = t.len ? profile__intern(fo->im->p, t.s, t.len) : 0;

	if (t.len && !id)
		*err = -ENOMEM;
	return id;
}

static void native_details(struct folded *fo, struct frame *f, struct sym *s, int *err)
{
	struct profile_module m = { 0 };
	uint64_t addr;

	if (f->func.len > 2 && !memcmp(f->func.s, "0x", 2) &&
	    to_number(part(f->func, 2, f->func.len), 16, &addr)) {
		s->addr = addr;
		s->func = 0;
	}
	if (is(f->module, PATH_INLINED))
		s->flags = SYM_INLINED;
	if (s->flags || is(f->module, PATH_ANON))
		return;
	m.path = is(f->module, PATH_UNKNOWN) ? 0 : intern(fo, f->module, err);
	s->module = *err ? -1 : import_module(fo->im, &m);
	if (s->module == -ENOMEM)
		*err = -ENOMEM;
}

/* The index of the sym, or -ENOMEM. */
static int frame_sym(struct folded *fo, struct text t)
{
	struct sym s = { .module = -1, .inlined = -1 };
	struct frame f;
	int err = 0;

	if (!parse_frame(t, &f) || (!fo->ours && f.kind != SYM_KERNEL))
		f = (struct frame){ .kind = SYM_PLAIN, .func = t };
	s.kind = f.kind;
	s.func = intern(fo, f.func, &err);
	if (s.kind == SYM_NATIVE)
		native_details(fo, &f, &s, &err);
	s.file = intern(fo, f.file, &err);
	s.line = f.line;
	fo->im->has_lines |= f.line != 0;
	return err ? err : import_sym(fo->im, &s);
}

static int take_line(struct folded *fo)
{
	const struct line *l = &fo->line;
	struct profile_proc proc = { 0 };
	struct text name = { "", 0 };
	size_t first = 1, cnt = 0;
	uint32_t tid = 0;
	int err = 0, index;

	proc.comm = intern(fo, l->elems[0], &err);
	if (fo->threads && parse_thread(l->elems[1], &name, &tid))
		first = 2;
	index = err ? err : import_proc(fo->im, &proc, 0);
	if (index < 0 || import_thread(fo->im, index, tid, intern(fo, name, &err)) || err ||
	    array_grow(&fo->syms, &fo->sym_cap, 0, l->cnt, sizeof(*fo->syms), SIZE_MAX))
		return -ENOMEM;
	for (size_t i = first; i < l->cnt; i++) {
		int sym = frame_sym(fo, l->elems[i]);

		if (sym < 0)
			return sym;
		fo->syms[cnt++] = (uint32_t)sym;
	}
	return import_stack(fo->im, 0, index, tid, fo->syms, cnt, l->count, l->count);
}

int import_folded(struct import *im, const char *text, size_t size)
{
	struct folded fo = { .im = im, .ours = true, .threads = true };
	int err = for_lines(&fo, text, size, look_at);

	fo.threads &= fo.ours;
	if (!err)
		err = for_lines(&fo, text, size, take_line);
	free(fo.line.elems);
	free(fo.syms);
	return err;
}
