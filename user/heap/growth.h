/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_GROWTH_H
#define PYPERF_HEAP_GROWTH_H
/*
 * Computes how the numbers of objects grow, type by type, over several readings of one heap: a line
 * through the counts by least squares, and the standard error of its slope. A slope is more than
 * chance if Student's t says so at 97.5% for this number of readings. Types are the same if both
 * address and name are.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "heap/types.h"

#define HEAP_POINTS	  96   /* of a curve: when they are full, every other one is dropped */
#define HEAP_CURVES	  8192 /* types that have one */
#define HEAP_CURVE_SHARE  4096 /* ... as soon as they have 1 / this of the bytes */

#define HEAP_READINGS_MIN 3 /* a line goes through any two points */
#define HEAP_RISES_MIN	  5

struct grown_type {
	uint64_t addr;
	char *name; /* owned; NULL: it cannot be read */
	uint64_t first_cnt, last_cnt, last_bytes;
	/* Per minute; `error` is the standard error of `objects`. */
	double objects, bytes, error;
	/* At each point; owned. NULL: it never had much. */
	struct heap_point {
		uint64_t cnt, bytes;
	} * curve;
	/* private: sums over the readings, of the differences from the first one */
	double sum_n, sum_tn, sum_nn, sum_tb, sum_b;
	uint64_t first_bytes, before_cnt;
	size_t rises; /* readings with more objects than the one before */
};

struct heap_growth {
	/* After heap_growth__rank(): those that grow by more than chance first, then by bytes. */
	struct grown_type **types;
	size_t cnt, cap;
	bool full; /* there were more than HEAP_TYPES_MAX: the new ones are left out */
	struct idmap by_addr;
	size_t readings;
	double minutes; /* from the first to the last */
	double point_minutes[HEAP_POINTS];
	size_t point_cnt, curve_cnt;
	size_t apart, waited; /* private: readings for a point, and since the last one */
	double sum_t, sum_tt;
};

void heap_growth__free(struct heap_growth *g);
/* Adds a reading, `minutes` after the first. 0 or -ENOMEM. */
int heap_growth__add(struct heap_growth *g, const struct heap_types *types, double minutes);
void heap_growth__rank(struct heap_growth *g);
/*
 * Does it grow by more than chance: by its slope, or because each of five or more readings had more
 * objects than the last, which happens by chance once in 120 times? A program that works in bursts
 * has no slope.
 */
bool grown_type__is_sure(const struct heap_growth *g, const struct grown_type *t);

#endif /* PYPERF_HEAP_GROWTH_H */
