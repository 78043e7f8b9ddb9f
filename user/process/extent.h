/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXTENT_H
#define PYPERF_EXTENT_H
/*
 * Hands out ranges [first, first + cnt) of a fixed number of slots: first fit, neighbours coalesce.
 *
 * A range that BPF programs may still be reading is not freed but buried; extent__reclaim() frees
 * what was buried, once every program that was running then has ended.
 *
 *	extent__alloc(x, 12, &first);
 *	... publish [first, 12) ... publish another ...
 *	extent__bury(x, first, 12);
 *	... grace period ...
 *	extent__reclaim(x);
 */
#include <stddef.h>
#include <stdint.h>

struct extent_range {
	uint32_t first, cnt;
};

struct extents {
	struct extent_range *free; /* ascending, never empty, never touching each other */
	size_t free_cnt, free_cap;
	struct extent_range *buried;
	size_t buried_cnt, buried_cap;
	uint32_t slots;
	uint32_t used; /* handed out, buried ones included */
};

int extents__init(struct extents *x, uint32_t slots); /* 0 or -ENOMEM */
void extents__free(struct extents *x);
/* 0; -ENOSPC: no free range is large enough; -EINVAL: cnt is 0. */
int extent__alloc(struct extents *x, uint32_t cnt, uint32_t *first);
/* Both take back exactly what extent__alloc() gave. 0, or -ENOMEM: the range is lost for good. */
int extent__release(struct extents *x, uint32_t first, uint32_t cnt);
int extent__bury(struct extents *x, uint32_t first, uint32_t cnt);
void extent__reclaim(struct extents *x);

#endif /* PYPERF_EXTENT_H */
