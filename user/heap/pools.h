/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_POOLS_H
#define PYPERF_HEAP_POOLS_H
/*
 * CPython's allocator of small blocks: bytes -> which blocks are in use. Pure; every byte may be
 * hostile.
 *
 *	arenas[] --> arena, 256 KiB (until 3.9) or 1 MiB
 *	               +-- pool, 4 or 16 KiB: header, blocks of one size
 *	+-- pool ... +-- in use, or in the pool's list of free blocks
 *
 * The layout of all three is the same from 2.7 to 3.15 (Objects/obmalloc.c, from 3.12 on
 * Include/internal/pycore_obmalloc.h).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool_geometry {
	uint32_t arena_size, pool_size;
};

#define POOL_SIZE_MAX	 (16U << 10)
#define ARENA_SIZE_MAX	 (1U << 20)
#define POOL_HEADER	 48	    /* sizeof(struct pool_header) */
#define POOL_BLOCKS_MAX	 2048	    /* 16 KiB in blocks of 8 bytes */
#define POOL_BLOCK_LIMIT 512	    /* SMALL_REQUEST_THRESHOLD: larger blocks are malloc's */
#define ARENA_ENTRY_SIZE 48	    /* sizeof(struct arena_object) */
#define ARENAS_MIN	 16	    /* INITIAL_ARENA_OBJECTS; the array doubles */
#define ARENAS_MAX	 (1U << 20) /* 1 TiB of them */

struct arena {
	uint64_t address;  /* 0: the entry is unused */
	uint64_t pools;	   /* the first pool */
	uint64_t carved;   /* the end of those that have ever been used */
	uint32_t pool_cnt; /* all */
	uint32_t index;	   /* in arenas[] */
};

struct pool_geometry pool_geometry(uint32_t version); /* 0x030b for 3.11 */

/* Parses an entry of arenas[]; `array`: address of arenas[]. -EBADMSG: not an entry. */
int arena__parse(const uint8_t *entry, uint64_t array, uint32_t index, struct pool_geometry g,
		 struct arena *out);

/* Can this be the first entry? It is all zero if it cannot be read. */
bool arena__is_first(const uint8_t entry[ARENA_ENTRY_SIZE], uint64_t array, struct pool_geometry g);

enum pool_state {
	POOL_IN_USE,
	POOL_FREE, /* all of its blocks are */
	POOL_BAD,  /* not a pool, or it changed while it was read */
};

struct pool {
	uint32_t block_size;
	uint32_t block_cnt; /* in all */
	/* blocks that have ever been used: the first ones */
	uint32_t carved_cnt;
	uint32_t used_cnt;			  /* in use */
	uint64_t free_bits[POOL_BLOCKS_MAX / 64]; /* of the carved ones */
};

/* Do the first POOL_HEADER bytes of a pool belong to that arena? */
bool pool__belongs(const uint8_t *header, uint32_t arena_index);
/* `bytes` are the pool_size bytes at `addr`. `out` is complete after POOL_IN_USE. */
enum pool_state pool__parse(const uint8_t *bytes, uint64_t addr, uint32_t arena_index,
			    struct pool_geometry g, struct pool *out);

static inline bool pool__is_free(const struct pool *p, uint32_t block)
{
	return p->free_bits[block / 64] >> (block % 64) & 1;
}

#endif /* PYPERF_HEAP_POOLS_H */
