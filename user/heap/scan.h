/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_SCAN_H
#define PYPERF_HEAP_SCAN_H
/*
 * Counts the objects of a heap by type, from the pools of CPython's allocator, and what is larger
 * than their blocks by the links of the garbage collector.
 *
 *	heap_scan__init(&s, &mem, &shape);
 *	heap_scan__add_array(&s, arenas_address);	0: these are arenas
 *	heap_scan__run(&s);
 *	... s.types.list, s.counts ...
 *	heap_scan__free(&s);
 *
 * A block in use holds an object if the word where its type would be leads to a type, that type's
 * objects begin there in a block, and its reference count can be one. An object with a gc header
 * must be linked, too: the object that it names as its successor names it as its predecessor. All
 * else in use is storage: dict tables, the items of lists.
 *
 * The process runs meanwhile. A pool that contradicts itself is read again, and counted as unread
 * after that. Memory is bounded by HEAP_TYPES_MAX types, OUTSIDE_MAX addresses, ARENAS_MAX arenas.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/mem.h"
#include "heap/pools.h"
#include "heap/types.h"

#define OUTSIDE_MAX   (1U << 21) /* objects outside of the pools */
#define LARGEST_CNT   10
#define POOL_FILL_CNT 4 /* quarters of a pool's blocks that are in use */

struct heap_counts {
	uint64_t arena_cnt, arena_bytes;
	uint64_t pool_cnt, pool_free, pool_virgin; /* virgin: never used */
	uint64_t pool_unread; /* changed whenever they were read, or are none */
	uint64_t pool_fill[POOL_FILL_CNT];
	uint64_t object_cnt, object_bytes;   /* in the pools */
	uint64_t storage_cnt, storage_bytes; /* blocks in use that are no objects */
	uint64_t spare_cnt, spare_bytes;     /* objects in free lists */
	uint64_t free_bytes;		     /* free blocks of pools in use */
	uint64_t header_bytes; /* headers of pools, and what is left behind the last block */
	uint64_t outside_cnt, outside_bytes; /* objects with a gc header outside of the pools */
	uint64_t unlinked;		     /* seemed to be objects, but are not linked */
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

/* An object that was found, while its pool is at hand. */
struct heap_seen {
	const struct heap_type *type;
	uint64_t addr;
	const uint8_t *block; /* with what is before the object; NULL: it is outside of the pools */
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
	struct heap_range module; /* addresses there are no reference counts */
	uint64_t deadline_ns;	  /* on now_ns()'s clock; 0: none */
	void (*progress)(void *ctx, size_t done, size_t all); /* arenas; or NULL */
	void *progress_ctx;
	/* Called for each object, if not NULL. */
	void (*visit)(void *ctx, const struct heap_seen *o);
	void *visit_ctx;
	struct heap_counts counts;
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
/* -ESRCH: the process is gone; -ENOMEM. What was counted until then stays. */
int heap_scan__run(struct heap_scan *s);
/* Forgets what was counted, and the arenas. */
void heap_scan__reset(struct heap_scan *s);

#endif /* PYPERF_HEAP_SCAN_H */
