/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_SCAN_PARTS_H
#define PYPERF_HEAP_SCAN_PARTS_H
/*
 * Functions that the files of struct heap_scan share: scan.c counts blocks, scan_segments.c passes
 * it those of free-threaded builds.
 */
#include "heap/scan.h"

#define POOL_TRIES 3 /* readings of a pool that contradicts itself: it may have changed meanwhile */

/* A block in use: an object, or storage. */
void heap_scan__take_block(struct heap_scan *s, const uint8_t *block, uint64_t addr, uint32_t size);
void heap_scan__take_storage(struct heap_scan *s, uint64_t cnt, uint64_t bytes);
bool heap_scan__is_late(struct heap_scan *s);

/* The segment at arena->address. 0, or negative errno: it cannot be read. */
int heap_scan__look_at_segment(struct heap_scan *s, const struct arena *a);

#endif /* PYPERF_HEAP_SCAN_PARTS_H */
