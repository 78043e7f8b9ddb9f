/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_SCAN_H
#define PYPERF_HEAP_SCAN_H
/*
 * Counts the objects of a heap by type: small ones in the pools of CPython's allocator, larger ones
 * by the links of the garbage collector.
 *
 *	heap_scan__init(&s, &mem, &shape);
 *	heap_scan__add_array(&s, arenas_address);	0: these are arenas
 *	heap_scan__run(&s);
 *	... s.types.list, s.counts ...
 *	heap_scan__free(&s);
 *
 * A block in use holds an object if the word at the place of its type leads to a type, objects of
 * that type begin at that place of a block, and its reference count is possible. An object with a
 * gc header must be linked, too: the object that it names as its successor names it as its
 * predecessor. All other blocks in use are storage: dict tables, the items of lists.
 *
 * The process runs meanwhile. A pool that contradicts itself is read again, and after that counted
 * as unread. Memory is bounded by HEAP_TYPES_MAX types, OUTSIDE_MAX addresses, ARENAS_MAX arenas.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/collector.h"
#include "heap/mem.h"
#include "heap/pools.h"
#include "heap/types.h"

#define OUTSIDE_MAX   (1U << 21) /* objects outside of the pools */
#define LARGEST_CNT   10
#define POOL_FILL_CNT 4 /* by the quarter of a pool's blocks that is in use */

struct heap_counts {
	uint64_t arena_cnt, arena_bytes;
	uint64_t pool_cnt, pool_free, pool_virgin; /* virgin: never used */
	uint64_t pool_unread;			   /* changed at each reading, or are not pools */
	uint64_t pool_fill[POOL_FILL_CNT];
	uint64_t object_cnt, object_bytes;   /* in the pools */
	uint64_t storage_cnt, storage_bytes; /* blocks in use that are not objects */
	uint64_t spare_cnt, spare_bytes;     /* objects in free lists */
	uint64_t free_bytes;		     /* free blocks of pools in use */
	uint64_t header_bytes; /* headers of pools, and the space behind the last block */
	uint64_t outside_cnt, outside_bytes; /* objects with a gc header outside of the pools */
	uint64_t unlinked;		     /* look like objects, but are not linked */
	bool late;			     /* the deadline came first */
	bool outside_full;		     /* OUTSIDE_MAX */
	bool failed;			     /* the process is gone */
};

struct heap_object {
	uint64_t addr, bytes;
	const struct heap_type *type;
};

struct heap_range {
	uint64_t start, end;
};

/* An object, while its pool is in memory. */
struct heap_seen {
	const struct heap_type *type;
	uint64_t addr;
	/* the block, with the bytes before the object; NULL: it is outside the pools */
	const uint8_t *block;
	uint64_t block_addr;
	uint32_t block_size;
	uint64_t size; /* outside: its own, with its items */
};

struct heap_link; /* see scan.c */

struct heap_scan {
	const struct heap_mem *mem;
	struct heap_types types;
	struct pool_geometry geometry;
	struct arena *arenas; /* ascending by address, after heap_scan__run() */
	size_t arena_cnt, arena_cap;
	struct heap_range module; /* an address in here is not a reference count */
	uint64_t deadline_ns;	  /* on now_ns()'s clock; 0: none */
	void (*progress)(void *ctx, size_t done, size_t all); /* arenas; or NULL */
	void *progress_ctx;
	/* Called for each object, if not NULL. */
	void (*visit)(void *ctx, const struct heap_seen *o);
	void *visit_ctx;
	struct heap_counts counts;
	struct heap_collector collector;
	struct heap_object largest[LARGEST_CNT]; /* descending */
	/* private */
	uint8_t *bytes; /* of one arena: */
	struct heap_range at;
	struct heap_link *links;
	size_t link_cnt;
	struct idmap outside;
	uint64_t *queue;
	size_t queue_cnt, queue_cap;
};

/* `mem` is borrowed. 0 or -ENOMEM. */
int heap_scan__init(struct heap_scan *s, const struct heap_mem *mem,
		    const struct heap_shape *shape);
void heap_scan__free(struct heap_scan *s);
/* Adds the arenas of the array at `addr`: 0; -ENOENT: none are there; -ENOMEM. */
int heap_scan__add_array(struct heap_scan *s, uint64_t addr);
/*
 * Free-threaded builds: adds mimalloc's segments in these ranges, all anonymous memory of the
 * process. How many there are, or -ENOMEM.
 */
int heap_scan__add_segments(struct heap_scan *s, const struct heap_range *ranges, size_t cnt);
/* -ESRCH: the process is gone; -ENOMEM. What was counted until then stays. */
int heap_scan__run(struct heap_scan *s);
/* Frees what only heap_scan__run() needs: the counts stay, and there is no other run. */
void heap_scan__trim(struct heap_scan *s);
/* Forgets the counts and the arenas. */
void heap_scan__reset(struct heap_scan *s);

#endif /* PYPERF_HEAP_SCAN_H */
