/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "import/import_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Pieces ---- */

bool text__is(struct text t, const char *s)
{
	return t.len == strlen(s) && !memcmp(t.s, s, t.len);
}

bool text__begins(struct text t, const char *start)
{
	size_t len = strlen(start);

	return t.len >= len && !memcmp(t.s, start, len);
}

bool text__ends(struct text t, const char *end)
{
	size_t len = strlen(end);

	return t.len >= len && !memcmp(t.s + t.len - len, end, len);
}

size_t text__find(struct text t, const char *what, bool last)
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

struct text text__part(struct text t, size_t from, size_t to)
{
	return (struct text){ t.s + from, to > from ? to - from : 0 };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

struct text text__trim(struct text t)
{
	while (t.len && is_blank(*t.s)) {
		t.s++;
		t.len--;
	}
	while (t.len && is_blank(t.s[t.len - 1]))
		t.len--;
	return t;
}

bool text__number(struct text t, int base, uint64_t *out)
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

bool text__next_line(struct text all, size_t *at, struct text *line)
{
	const char *newline;
	size_t end;

	if (*at >= all.len)
		return false;
	newline = memchr(all.s + *at, '\n', all.len - *at);
	end = newline ? (size_t)(newline - all.s) : all.len;
	*line = text__part(all, *at, end);
	line->len -= line->len && line->s[line->len - 1] == '\r';
	*at = end + 1;
	return true;
}

/* ---- Frames ---- */

void frame__set_place(struct frame *f, struct text place)
{
	size_t colon = text__find(place, ":", true);
	uint64_t line;

	f->file = place;
	if (colon == place.len ||
	    !text__number(text__part(place, colon + 1, place.len), 10, &line) || line > UINT32_MAX)
		return;
	f->file = text__part(place, 0, colon);
	f->line = (uint32_t)line;
}

/* "libssl.so", "libc.so.6", "_hash.cpython-311-x86_64-linux-gnu.so" */
static bool is_library(struct text file)
{
	return text__ends(file, ".so") || text__find(file, ".so.", false) < file.len;
}

static bool is_native_source(struct text file)
{
	static const char *const ends[] = { ".c",   ".h",   ".cc",  ".cpp", ".cxx", ".hpp", ".pyx",
					    ".pxd", ".rs",  ".S",   ".f",   ".f90", ".s",   ".inc",
					    ".hh",  ".c++", ".asm", ".go",  ".cu" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (text__ends(file, ends[i]))
			return true;
	return false;
}

void frame__set_kind_by_file(struct frame *f)
{
	bool python = text__ends(f->file, ".py") || text__begins(f->file, "<");

	if (!f->file.len) {
		f->kind = SYM_PLAIN;
	} else if (!python && is_native_source(f->file)) {
		f->kind = SYM_NATIVE;
	} else if (is_library(f->file) || (!python && !f->line)) {
		f->kind = SYM_NATIVE;
		f->module = f->file;
		f->file.len = 0;
		f->line = 0;
	} else {
		f->kind = SYM_PYTHON;
	}
}

str_id text__intern(struct import *im, struct text t, int *err)
{
	str_id id = t.len ? profile__intern(im->p, t.s, t.len) : 0;

	if (t.len && !id)
		*err = -ENOMEM;
	return id;
}

static void native_details(struct import *im, const struct frame *f, struct sym *s, int *err)
{
	struct profile_module m = { 0 };
	uint64_t addr;

	if (!f->func.len)
		s->addr = f->addr;
	if (text__begins(f->func, "0x") &&
	    text__number(text__part(f->func, 2, f->func.len), 16, &addr)) {
		s->addr = addr;
		s->func = 0;
	}
	if (text__is(f->module, PATH_INLINED))
		s->flags = SYM_INLINED;
	if (s->flags || text__is(f->module, PATH_ANON))
		return;
	m.path = text__is(f->module, PATH_UNKNOWN) ? 0 : text__intern(im, f->module, err);
	s->module = *err ? -1 : import_module(im, &m);
	if (s->module == -ENOMEM)
		*err = -ENOMEM;
}

int frame__sym(struct import *im, const struct frame *f)
{
	struct sym s = { .kind = f->kind, .module = -1, .inlined = -1 };
	int err = 0;

	s.func = text__intern(im, f->func, &err);
	if (s.kind == SYM_NATIVE)
		native_details(im, f, &s, &err);
	s.file = text__intern(im, f->file, &err);
	s.line = f->line;
	im->has_lines |= f->line != 0;
	return err ? err : import_sym(im, &s);
}
