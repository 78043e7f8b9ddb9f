/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CANVAS_H
#define PYPERF_CANVAS_H
/*
 * A picture of a terminal's screen: texts at positions. topview draws on it and screen shows it;
 * neither knows the other.
 *
 *	canvas__begin(&c, rows, cols);
 *	canvas__put(&c, 0, 0, cols, CANVAS_BOLD, "name", 4, CUT_END);
 *
 * Nothing lies outside the picture. Texts do not overlap if they are put at different columns with
 * room for both. Texts have passed str_sanitise(); widths are those of export_text.h, so the thread
 * needs a UTF-8 locale (setlocale() or uselocale()).
 */
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "profile/export_text.h"

enum canvas_style {
	CANVAS_PLAIN,
	CANVAS_BOLD,
	CANVAS_DIM,
	CANVAS_TITLE,	 /* of columns: reverse */
	CANVAS_SELECTED, /* the row of the cursor: reverse, bold */
	CANVAS_GOOD,
	CANVAS_WARN,
	CANVAS_BAD,
};

struct canvas_run {
	unsigned row, col;
	enum canvas_style style;
	size_t at, len; /* in text */
};

struct canvas {
	unsigned rows, cols;
	struct strbuf text;
	struct canvas_run *runs; /* owned */
	size_t run_cnt, run_cap;
	int err; /* -ENOMEM: something is missing */
};

/* Empties the picture, and keeps its memory for the next one. */
void canvas__begin(struct canvas *c, unsigned rows, unsigned cols);
/*
 * Puts a text, cut to `room` columns and to the end of the row. Returns the columns that it used.
 */
unsigned canvas__put(struct canvas *c, unsigned row, unsigned col, unsigned room,
		     enum canvas_style style, const char *s, size_t len, enum text_cut cut);
unsigned canvas__puts(struct canvas *c, unsigned row, unsigned col, enum canvas_style style,
		      const char *s);
/* Gives a whole row a style; texts put there later are drawn over it. */
void canvas__fill(struct canvas *c, unsigned row, enum canvas_style style);
void canvas__free(struct canvas *c);

#endif /* PYPERF_CANVAS_H */
