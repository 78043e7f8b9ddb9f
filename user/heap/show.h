/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_SHOW_H
#define PYPERF_HEAP_SHOW_H
/*
 * Prints the contents of a heap, as text for people and as JSON for programs. The same content
 * gives the same bytes.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "heap/fate.h"
#include "heap/growth.h"
#include "heap/ref_labels.h"
#include "heap/referrers.h"
#include "heap/scan.h"
#include "heap/usage.h"

#define HEAP_TYPES_SHOWN 25

struct heap_view {
	uint32_t tgid;
	const char *comm, *title; /* safe for a terminal */
	const char *version;
	enum heap_fate fate; /* of the process, at the end of --every */
	/* times after the first reading: of the last one, and of the end of the process */
	uint64_t last_ms, gone_ms;
	const struct heap_scan *scan;
	const struct heap_usage *usage;
	const struct heap_growth *growth; /* NULL: the heap was read once */
	uint32_t array_cnt;		  /* of arenas */
	uint64_t ms;			  /* duration of the reading */
	bool all;			  /* types */
	const char *type;		  /* of --referrers, or NULL */
	const struct referrers *referrers;
	const struct ref_label *labels; /* of scan->largest */
};

/* Was all of the heap read? */
bool heap_view__is_complete(const struct heap_view *v);
/* 0 or negative errno. `width`: 0 for no limit. */
int heap_show__text(FILE *f, const struct heap_view *v, unsigned width, bool color);
int heap_show__json(FILE *f, const struct heap_view *v);

#endif /* PYPERF_HEAP_SHOW_H */
