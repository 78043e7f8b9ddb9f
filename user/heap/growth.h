/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_GROWTH_H
#define PYPERF_HEAP_GROWTH_H
/*
 * How the numbers of objects grow, type by type, over several readings of one heap: a line through
 * the counts by least squares, and the standard error of its slope. A slope is more than chance if
 * Student's t says so at 97.5%, for as many readings as there were.
 *
 * A type is the same if its address and its name are.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "heap/types.h"

struct grown_type {
	uint64_t addr;
	char *name; /* owned; NULL: it cannot be read */
	uint64_t first_cnt, last_cnt, last_bytes;
	/* Per minute; `error` is the standard error of `objects`. */
	double objects, bytes, error;
	/* private: sums over the readings, of what differs from the first one */
	double sum_n, sum_tn, sum_nn, sum_tb, sum_b;
	uint64_t first_bytes;
};

struct heap_growth {
	struct grown_type *
		*types; /* after heap_growth__rank(): more than chance first, then by bytes */
	size_t cnt, cap;
	struct idmap by_addr;
	size_t readings;
	double minutes; /* from the first to the last */
	double sum_t, sum_tt;
};

void heap_growth__free(struct heap_growth *g);
/* One more reading, `minutes` after the first. 0 or -ENOMEM. */
int heap_growth__add(struct heap_growth *g, const struct heap_types *types, double minutes);
void heap_growth__rank(struct heap_growth *g);
/* Its slope is more than chance. */
bool grown_type__is_sure(const struct heap_growth *g, const struct grown_type *t);

#endif /* PYPERF_HEAP_GROWTH_H */
