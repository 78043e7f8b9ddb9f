/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_COLLECTOR_H
#define PYPERF_HEAP_COLLECTOR_H
/*
 * Reads the figures of the garbage collector: gc.get_count(), gc.get_threshold(), gc.get_stats(),
 * gc.isenabled(). Known from 3.7 to 3.13, which have three generations in a row, each with the head
 * of its list of objects; following the list of any object leads to a head.
 */
#include <stdbool.h>
#include <stdint.h>

#include "heap/mem.h"

#define COLLECTOR_GENERATIONS 3

struct heap_generation {
	uint32_t threshold, count;
	uint64_t collections, collected, uncollectable;
};

struct heap_collector {
	bool known, enabled;
	struct heap_generation generations[COLLECTOR_GENERATIONS]; /* the youngest first */
};

/*
 * `head`: the element of a collector's list that is not an object. `gc_size`: of a gc header.
 * False, and `out` is unchanged: not the head of a known generation.
 */
bool heap_collector__read(const struct heap_mem *mem, uint32_t version, uint16_t gc_size,
			  uint64_t head, struct heap_collector *out);

#endif /* PYPERF_HEAP_COLLECTOR_H */
