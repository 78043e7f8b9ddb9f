/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "top/canvas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/hash.h"

#define MAX_RUNS      (1U << 20)
/* Marks that a letter may carry: curses shows no more, and a terminal should not be asked to. */
#define MAX_COMBINING 4

void canvas__begin(struct canvas *c, unsigned rows, unsigned cols)
{
	c->rows = rows;
	c->cols = cols;
	c->run_cnt = 0;
	c->err = 0;
	strbuf__clear(&c->text);
}

/*
 * Adds text that curses can show: a character of unknown width becomes U+FFFD; marks need a letter
 * to stand on, and not too many of them.
 */
static void add_showable(struct strbuf *b, const char *s, size_t len)
{
	unsigned marks = MAX_COMBINING;
	uint32_t c;
	int width;

	for (size_t i = 0; i < len;) {
		i += utf8_next(s + i, len - i, &c);
		width = c < 0x80 ? c >= 0x20 && c < 0x7f : wcwidth((wchar_t)c);
		if (c < 0x80 && !width)
			width = -1;
		marks = width ? 0 : marks + 1;
		if (marks <= MAX_COMBINING)
			utf8_add(b, width < 0 ? 0xfffd : c);
	}
}

static int add_run(struct canvas *c, const struct canvas_run *run)
{
	if (ARRAY_GROW(c->runs, c->run_cap, c->run_cnt, MAX_RUNS))
		return -ENOMEM;
	c->runs[c->run_cnt++] = *run;
	return 0;
}

unsigned canvas__put(struct canvas *c, unsigned row, unsigned col, unsigned room,
		     enum canvas_style style, const char *s, size_t len, enum text_cut cut)
{
	struct canvas_run run = { .row = row, .col = col, .style = style, .at = c->text.len };
	struct strbuf shown = { 0 };

	if (row >= c->rows || col >= c->cols || !len)
		return 0;
	if (room > c->cols - col)
		room = c->cols - col;
	add_showable(&shown, s, len);
	if (!shown.err && shown.len)
		text_add_cut(&c->text, shown.s, shown.len, room, cut);
	if (shown.err || c->text.err)
		c->err = -ENOMEM;
	strbuf__free(&shown);
	run.len = c->text.len - run.at;
	if (c->err || !run.len)
		return 0;
	c->err = add_run(c, &run);
	return text_width(c->text.s + run.at, run.len);
}

unsigned canvas__puts(struct canvas *c, unsigned row, unsigned col, enum canvas_style style,
		      const char *s)
{
	return canvas__put(c, row, col, c->cols, style, s, strlen(s), CUT_END);
}

void canvas__fill(struct canvas *c, unsigned row, enum canvas_style style)
{
	struct canvas_run run = { .row = row, .style = style, .at = c->text.len, .len = c->cols };

	if (row >= c->rows)
		return;
	strbuf__addf(&c->text, "%*s", (int)c->cols, "");
	if (c->text.err || add_run(c, &run))
		c->err = -ENOMEM;
}

void canvas__free(struct canvas *c)
{
	strbuf__free(&c->text);
	free(c->runs);
	*c = (struct canvas){ 0 };
}
