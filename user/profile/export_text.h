/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_TEXT_H
#define PYPERF_EXPORT_TEXT_H
/*
 * Text for people: names of frames, and lines that fit a terminal.
 *
 * Every name passes str_sanitise() here and is bounded, so the code below can rely on valid UTF-8
 * without control characters. Widths are those of a terminal: 2 for wide characters, 0 for
 * combining ones. A character that the C library does not know counts 2, so a line may end early
 * but never late. wcwidth() follows the thread's locale: text_out__begin() selects a UTF-8 one, and
 * text_out__end() restores the caller's.
 */
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/str.h"
#include "profile/profile.h"

/*
 * The longest name and path that are kept, in characters: longer than any real one. Tables also cut
 * them to their columns.
 */
#define TEXT_NAME_MAX 65536
#define TEXT_PATH_MAX 4096

/* ---- Names ---- */

/* Appends a string of the profile, safe; `unset` when it is empty. */
void text_add_name(struct strbuf *b, const struct profile *p, str_id id, const char *unset);
void text_add_path(struct strbuf *b, const struct profile *p, str_id id);
/* Appends the last component of a module's path: "libc.so.6"; "anon" without a module. */
void text_add_module(struct strbuf *b, const struct profile *p, int32_t module);
/* Appends a function without its place: "loads", "[truncated]"; `unset` for a native or kernel one
 * without a name. */
void text_add_func(struct strbuf *b, const struct profile *p, const struct sym *s,
		   const char *unset);
/*
 * Appends a function's place: "/a/b.py:12" (line 0: "/a/b.py"), the module's path, "[kernel]",
 * "[nf_tables]".
 */
void text_add_place(struct strbuf *b, const struct profile *p, const struct sym *s, uint32_t line);
/* Appends a function as one name: "loads", "0x1f2 [lib.so]", "0xffffffff81000000 [kernel]". */
void text_add_label(struct strbuf *b, const struct profile *p, const struct sym *s);
/* Appends "gunicorn (4211)", with a thread "gunicorn (4211) / io (4220)". `proc` may be NULL. */
void text_add_process(struct strbuf *b, const struct profile *p, const struct profile_proc *proc,
		      uint32_t thread_word);
/* Appends a number with separators: "12,345,678". */
void text_add_count(struct strbuf *b, uint64_t n);
/* Appends "1.2 GiB", "-3.0 KiB". */
void text_add_bytes(struct strbuf *b, double n);
double text_percent(uint64_t part, uint64_t whole); /* 0 of nothing is 0% */
/* Appends "12 delivered = 10 counted + 1 filtered + 1 lost". */
void text_add_samples(struct strbuf *b, const struct profile *p);
/* Appends "99.0% of 10 user stacks are complete", or nothing without user stacks. */
void text_add_complete(struct strbuf *b, const struct profile *p);

/* ---- Widths ---- */

enum text_cut {
	CUT_NEVER,  /* the column keeps its width */
	CUT_END,    /* "some text…" */
	CUT_PARTS,  /* "a 60%, …": of a list, no figure is cut */
	CUT_FIRST,  /* like CUT_END, and before other columns are cut */
	CUT_MIDDLE, /* "some…text" */
	CUT_PATH,   /* "…/json/decoder.py:12": whole components from the right while they fit */
};

/* Columns of `len` bytes of safe text. */
unsigned text_width(const char *s, size_t len);
/* Appends `s`, cut to at most `cols` columns. */
void text_add_cut(struct strbuf *b, const char *s, size_t len, unsigned cols, enum text_cut cut);

/* ---- Lines ---- */

#define SGR_BOLD   "1"
#define SGR_DIM	   "2"
#define SGR_RED	   "31"
#define SGR_GREEN  "32"
#define SGR_YELLOW "33"
#define SGR_CYAN   "36"

struct text_out {
	FILE *f;
	unsigned width; /* 0: no limit */
	bool color;
	unsigned col; /* columns used of the current line */
	unsigned pad; /* blanks due before the next text */
	struct strbuf line;
	locale_t locale, saved;
};

void text_out__begin(struct text_out *o, FILE *f, unsigned width, bool color);
/* 0, -ENOMEM or the error of the stream. */
int text_out__end(struct text_out *o);
/* Adds the part that still fits into the current line. `sgr`: NULL for plain text. */
void text_out__put(struct text_out *o, const char *sgr, const char *s, size_t len);
void text_out__puts(struct text_out *o, const char *sgr, const char *s);
/* The next text begins at `col`, or after one blank when the line is already longer. */
void text_out__skip_to(struct text_out *o, unsigned col);
void text_out__newline(struct text_out *o);
/* Whole lines: words of `s` filled up to the width, continuation lines indented by `hang`. */
void text_out__fill(struct text_out *o, unsigned indent, unsigned hang, const char *s);

/* ---- Tables ---- */

struct text_column {
	const char *title;
	enum text_cut cut;
	bool right;
};

struct text_cell {
	const char *sgr;
	enum text_cut cut; /* the column's, unless changed */
	char *s;	   /* owned */
	size_t len;
};

struct text_table {
	const struct text_column *cols;
	size_t col_cnt;
	struct text_cell *cells; /* row by row */
	size_t cell_cnt, cell_cap;
	int err;
};

/* Adds a cell and takes over the content of `b`, which is empty afterwards. */
void text_table__add(struct text_table *t, const char *sgr, struct strbuf *b);
void text_table__addf(struct text_table *t, const char *sgr, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Another cut for the cell added last. */
void text_table__cut_last(struct text_table *t, enum text_cut cut);
/*
 * Prints and frees the cells. Columns get their natural width; if the line is too long, the widest
 * of the columns that may be cut shrink first. 0 or -ENOMEM.
 */
int text_table__print(struct text_table *t, struct text_out *o);

#endif /* PYPERF_EXPORT_TEXT_H */
