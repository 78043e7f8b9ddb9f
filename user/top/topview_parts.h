/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TOPVIEW_PARTS_H
#define PYPERF_TOPVIEW_PARTS_H
/*
 * The parts of struct topview, for the files that implement it:
 *
 *	topview.c	which rows there are, their columns and order; the table; keys
 *	tophead.c	the lines above the table
 */
#include "top/topview.h"

#define FILTER_MAX 64 /* bytes */
#define DEPTH_MAX  4  /* processes, a process's threads, functions, lines */
#define TABLES	   (TOP_LINES + 1)

/* A table, and where one is in it. */
struct page {
	struct top_query query;
	struct top_row cursor; /* the row that it is on, by its identity */
	bool moved;	       /* else it is on the first row, whatever that is */
	char filter[FILTER_MAX + 1];
};

struct sorting {
	unsigned column;
	bool reverse;
};

struct topview {
	struct page pages[DEPTH_MAX];
	unsigned depth; /* of the page that is shown */
	struct sorting sorting[TABLES];
	struct top_rows rows;	   /* of the last picture, sorted and filtered */
	struct top_rows functions; /* of the page's process or thread, for the hottest one */
	size_t at;		   /* of the cursor in the rows */
	size_t first;		   /* that is visible */
	size_t visible;		   /* how many fit */
	uint32_t value, value_cnt; /* number of the value type that is shown; how many there are */
	bool native, paused, editing, help;
	bool waits; /* their columns are there */
	unsigned help_first;
	struct strbuf text; /* scratch */
};

static inline struct page *page_of(struct topview *v)
{
	return &v->pages[v->depth];
}

/* What one picture is drawn of. */
struct context {
	const struct topview *v;
	struct topmodel *m;
	const struct top_status *st;
	const struct value_type *value;
	uint64_t scope_last; /* count of the page's process or thread in the last interval */
};

/* Draws as many lines as the screen has for the head. The row behind. */
unsigned tophead__draw(const struct context *x, struct topview *v, struct canvas *c);

#endif /* PYPERF_TOPVIEW_PARTS_H */
