/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_SEVERAL_H
#define PYPERF_HEAP_SEVERAL_H
/*
 * The heaps of several processes, such as the workers of a pre-fork server: what each of them has,
 * and their types together, with the process that has most of each. Types are the same if their
 * names are.
 *
 *	struct heap_several s = { 0 };
 *
 *	err = heap_several__add(&s, view, false);	for each process
 *	err = heap_several__text(stdout, &s, 80, false, false);
 *	heap_several__free(&s);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "heap/saved.h"
#include "heap/show.h"

/* One process. */
struct heap_part {
	struct heap_saved heap;
	char *title; /* owned */
	char *json;  /* owned: as of a single process; NULL: not wanted */
	uint64_t objects, bytes;
};

/* Valid when all zero. */
struct heap_several {
	struct heap_part *parts; /* in the order in which they were added */
	size_t cnt, cap;
	size_t type_cnt; /* of all */
};

/* `json`: for heap_several__json(). 0, -ENOMEM, or -E2BIG: it has too many types already. */
int heap_several__add(struct heap_several *s, const struct heap_view *v, bool json);
void heap_several__free(struct heap_several *s);
/* 0 or negative errno. `width`: 0 for no limit; `all`: show all types, not the largest only. */
int heap_several__text(FILE *f, const struct heap_several *s, unsigned width, bool color, bool all);
int heap_several__json(FILE *f, const struct heap_several *s);

#endif /* PYPERF_HEAP_SEVERAL_H */
