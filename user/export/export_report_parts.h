/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_REPORT_PARTS_H
#define PYPERF_EXPORT_REPORT_PARTS_H
/*
 * What the files of the report share. A function that prints a table returns 0 or negative errno;
 * one without content prints nothing, no title either.
 */
#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/export_source.h"
#include "profile/export_text.h"
#include "profile/idle.h"
#include "profile/view.h"

struct report {
	const struct profile *sampled; /* with every frame as it was, without idle stacks */
	const struct profile *whole;   /* ... with them, and all value types */
	struct idle idle;
	const struct profile *p; /* as it is read: inside.h */
	const struct export_opts *o;
	struct text_out out;
	uint64_t total;
	struct view view;
	struct view_tree tree;
	struct source_lines source;
	bool more; /* the blocks of other value types follow */
};

void report_print_title(struct report *r, const char *title);
/* Text that may need several lines, each `indent` columns in. */
void report_print_filled(struct report *r, struct strbuf *b, unsigned indent);

/* export_report_loops.c */
int report_print_loops(struct report *r);
int report_print_awaits(struct report *r);

#endif /* PYPERF_EXPORT_REPORT_PARTS_H */
