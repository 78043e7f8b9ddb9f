/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/pools.h"

#include <errno.h>
#include <string.h>

#include "heap/mem.h"

/* struct arena_object */
#define ENTRY_ADDRESS	   0
#define ENTRY_POOL_ADDRESS 8
#define ENTRY_FREE_CNT	   16
#define ENTRY_TOTAL	   20
#define ENTRY_NEXT	   32

/* struct pool_header */
#define HEADER_COUNT	   0
#define HEADER_FREE	   8
#define HEADER_ARENA	   32
#define HEADER_SIZE_CLASS  36
#define HEADER_NEXT_OFFSET 40
#define HEADER_MAX_OFFSET  44

/* The radix tree of 3.10 (WITH_PYMALLOC_RADIX_TREE) came with larger arenas and pools. */
struct pool_geometry pool_geometry(uint32_t version)
{
	if (version >= 0x030a)
		return (struct pool_geometry){ 1U << 20, 16U << 10 };
	return (struct pool_geometry){ 256U << 10, 4U << 10 };
}

/* It is linked to the next unused one, or it is the last. */
static bool is_unused(const uint8_t *entry, uint64_t array)
{
	uint64_t next = heap_word(entry + ENTRY_NEXT);

	return !next || (next >= array && (next - array) % ARENA_ENTRY_SIZE == 0 &&
			 (next - array) / ARENA_ENTRY_SIZE < ARENAS_MAX);
}

int arena__parse(const uint8_t *entry, uint64_t array, uint32_t index, struct pool_geometry g,
		 struct arena *out)
{
	uint64_t end;

	*out = (struct arena){ .address = heap_word(entry + ENTRY_ADDRESS), .index = index };
	if (!out->address)
		return is_unused(entry, array) ? 0 : -EBADMSG;
	out->carved = heap_word(entry + ENTRY_POOL_ADDRESS);
	out->pool_cnt = heap_half(entry + ENTRY_TOTAL);
	out->pools = (out->address + g.pool_size - 1) & ~(uint64_t)(g.pool_size - 1);
	end = out->pools + (uint64_t)out->pool_cnt * g.pool_size;
	if (out->address % 16 || out->address > UINT64_MAX - 2 * ARENA_SIZE_MAX)
		return -EBADMSG;
	if (out->pool_cnt != (out->address + g.arena_size - out->pools) / g.pool_size)
		return -EBADMSG;
	if (out->carved < out->pools || out->carved > end || out->carved % g.pool_size)
		return -EBADMSG;
	return heap_half(entry + ENTRY_FREE_CNT) <= out->pool_cnt ? 0 : -EBADMSG;
}

/* It was the first one to be used, so it has had pools. */
bool arena__is_first(const uint8_t entry[ARENA_ENTRY_SIZE], uint64_t array, struct pool_geometry g)
{
	struct arena a;

	return heap_word(entry + ENTRY_POOL_ADDRESS) && !arena__parse(entry, array, 0, g, &a);
}

/* Sizes are multiples of 16; of 8 in 2.7, 3.6 and the first releases of 3.7. */
static bool parse_header(const uint8_t *bytes, struct pool_geometry g, struct pool *out)
{
	uint32_t size_class = heap_half(bytes + HEADER_SIZE_CLASS);
	uint32_t max = heap_half(bytes + HEADER_MAX_OFFSET);
	uint32_t next = heap_half(bytes + HEADER_NEXT_OFFSET);
	uint32_t size = g.pool_size - max, capacity;

	if (max >= g.pool_size || size < 8 || size > POOL_BLOCK_LIMIT || size_class >= 64 ||
	    ((size_class + 1) * 16 != size && (size_class + 1) * 8 != size))
		return false;
	capacity = (g.pool_size - POOL_HEADER) / size;
	if (next < POOL_HEADER || (next - POOL_HEADER) % size ||
	    (next - POOL_HEADER) / size > capacity)
		return false;
	out->block_size = size;
	out->block_cnt = capacity;
	out->carved_cnt = (next - POOL_HEADER) / size;
	return true;
}

/* Follows the list of free blocks. False: it leaves the pool, or it is a circle. */
static bool mark_free(const uint8_t *bytes, uint64_t addr, struct pool *p, uint32_t *free_cnt)
{
	uint64_t at = heap_word(bytes + HEADER_FREE);

	memset(p->free_bits, 0, sizeof(p->free_bits));
	for (*free_cnt = 0; at; (*free_cnt)++) {
		uint64_t off = at - addr;
		uint32_t block;

		if (at < addr || off < POOL_HEADER || (off - POOL_HEADER) % p->block_size)
			return false;
		off -= POOL_HEADER;
		if (off / p->block_size >= p->carved_cnt)
			return false;
		block = (uint32_t)(off / p->block_size);
		if (pool__is_free(p, block))
			return false;
		p->free_bits[block / 64] |= 1ULL << (block % 64);
		at = heap_word(bytes + POOL_HEADER + (size_t)block * p->block_size);
	}
	return true;
}

bool pool__belongs(const uint8_t *header, uint32_t arena_index)
{
	return heap_half(header + HEADER_ARENA) == arena_index;
}

enum pool_state pool__parse(const uint8_t *bytes, uint64_t addr, uint32_t arena_index,
			    struct pool_geometry g, struct pool *out)
{
	uint32_t count = heap_half(bytes + HEADER_COUNT), free_cnt;

	if (!pool__belongs(bytes, arena_index))
		return POOL_BAD;
	if (!count)
		return POOL_FREE;
	if (!parse_header(bytes, g, out) || !mark_free(bytes, addr, out, &free_cnt))
		return POOL_BAD;
	/* The pool's own count: a header and a list of two moments do not agree. */
	if (out->carved_cnt - free_cnt != count)
		return POOL_BAD;
	out->used_cnt = count;
	return POOL_IN_USE;
}
