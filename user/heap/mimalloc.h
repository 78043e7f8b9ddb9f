/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_MIMALLOC_H
#define PYPERF_HEAP_MIMALLOC_H
/*
 * The allocator of free-threaded builds: bytes -> which blocks are in use. Pure; every byte may be
 * hostile.
 *
 *	segment, 32 MiB, at a multiple of its size; a huge one holds one block
 *	+-- its head: one entry for each slice of 64 KiB, the first of a page's describes the page
 *	+-- page: blocks of one size, for one purpose (the tag)
 *	    +-- block ... +-- in use, or in one of the page's three lists of free blocks
 *
 * Objects with and without a dict of the interpreter's have pages of their own, and so has memory
 * that is not of objects. The layout is that of release builds of 3.13 and 3.14: debug builds
 * encode the lists (Include/internal/mimalloc/mimalloc/types.h, Objects/mimalloc/segment.c@3.13.5).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MI_SEGMENT_SIZE (32ULL << 20)
#define MI_SLICE_SIZE	(64U << 10)
#define MI_SLICES_MAX	513
#define MI_ENTRY_SIZE	96  /* sizeof(mi_page_t) */
#define MI_ENTRIES_AT	264 /* offsetof(mi_segment_t, slices) */
#define MI_HEAD_SIZE	(MI_ENTRIES_AT + MI_SLICES_MAX * MI_ENTRY_SIZE)
#define MI_BLOCKS_MAX	(MI_SLICE_SIZE / 8)

/* The purpose of a page: enum _mimalloc_heap_id, Include/internal/pycore_mimalloc.h@3.13.5 */
enum mi_tag {
	MI_TAG_MEM = 0,
	MI_TAG_OBJECT = 1, /* without gc */
	MI_TAG_GC = 2,
	MI_TAG_GC_PRE = 3, /* two words before the object */
};

struct mi_segment {
	uint64_t addr;
	uint64_t size;
	uint64_t key;	      /* of the allocator: the same in all of its segments */
	uint32_t slice_cnt;   /* of the head's entries */
	uint32_t info_slices; /* the first ones, which the head is in */
};

struct mi_page {
	uint32_t slice_cnt; /* never 0 */
	bool in_use;	    /* false: free slices. Nothing below is valid then */
	enum mi_tag tag;
	uint32_t block_cnt; /* blocks that have ever been used */
	uint32_t used_cnt;  /* includes those of thread_free */
	uint64_t block_size;
	uint64_t start; /* the first block */
	uint64_t free, local_free, thread_free;
};

/* `head` are MI_HEAD_SIZE bytes. False: no segment begins there, or an empty one. */
bool mi_segment__parse(const uint8_t *head, uint64_t addr, struct mi_segment *out);
/*
 * Parses the entry of a slice with which a page, or free slices, begin. False: it contradicts
 * itself.
 */
bool mi_page__parse(const uint8_t *entry, const struct mi_segment *s, uint32_t slice,
		    struct mi_page *out);

/*
 * Marks the blocks of the page's lists. `words` has the first word of each block, `stride` bytes
 * apart. False: the lists contradict the page, which may have changed meanwhile.
 */
bool mi_page__mark_free(const struct mi_page *p, const uint8_t *words, size_t stride,
			uint64_t free_bits[MI_BLOCKS_MAX / 64]);

#endif /* PYPERF_HEAP_MIMALLOC_H */
