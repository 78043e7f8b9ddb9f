/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/mimalloc.h"

#include <string.h>

#include "heap/mem.h"

/* mi_segment_t */
#define SEGMENT_SIZE_AT	    32
#define SEGMENT_USED	    208
#define SEGMENT_COOKIE	    216
#define SEGMENT_SLICES	    224
#define SEGMENT_INFO_SLICES 232
#define SEGMENT_KIND	    240
#define SEGMENT_ENTRIES	    248
#define SEGMENT_SIZE_MAX    (1ULL << 40)

/* mi_page_t */
#define PAGE_SLICE_COUNT    0
#define PAGE_SLICE_OFFSET   4
#define PAGE_FLAGS	    8 /* is_committed, is_zero_init, use_qsbr, tag:4 */
#define PAGE_CAPACITY	    10
#define PAGE_RESERVED	    12
#define PAGE_FREE	    16
#define PAGE_USED	    24
#define PAGE_BLOCK_SIZE	    28
#define PAGE_LOCAL_FREE	    32
#define PAGE_THREAD_FREE    40
#define FLAG_COMMITTED	    1
#define TAG_SHIFT	    3
#define TAG_MASK	    15

bool mi_segment__parse(const uint8_t *head, uint64_t addr, struct mi_segment *out)
{
	uint64_t size = heap_word(head + SEGMENT_SIZE_AT);
	uint64_t slices = heap_word(head + SEGMENT_SLICES);
	uint64_t entries = heap_word(head + SEGMENT_ENTRIES);
	uint32_t kind = heap_half(head + SEGMENT_KIND);

	*out = (struct mi_segment){
		.addr = addr,
		.size = size,
		.key = heap_word(head + SEGMENT_COOKIE) ^ addr,
		.slice_cnt = (uint32_t)entries,
		.info_slices = (uint32_t)heap_word(head + SEGMENT_INFO_SLICES),
	};
	if (addr % MI_SEGMENT_SIZE || size > SEGMENT_SIZE_MAX || slices * MI_SLICE_SIZE != size)
		return false;
	/* The head is rounded up to a slice. */
	if (heap_word(head + SEGMENT_INFO_SLICES) != 1 || kind > 1 || entries >= MI_SLICES_MAX)
		return false;
	if (kind == 0 && (size != MI_SEGMENT_SIZE || entries != slices))
		return false;
	return entries > 1 && entries <= slices && heap_word(head + SEGMENT_USED) - 1 < entries;
}

/* _mi_segment_page_start_from_slice() */
static uint64_t first_block(const struct mi_segment *s, uint32_t slice, uint64_t block_size)
{
	uint64_t start = s->addr + (uint64_t)slice * MI_SLICE_SIZE;

	if (block_size <= 64)
		return start + 3 * block_size;
	return block_size <= 512 ? start + block_size : start;
}

static uint32_t entry_short(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

bool mi_page__parse(const uint8_t *entry, const struct mi_segment *s, uint32_t slice,
		    struct mi_page *out)
{
	uint64_t room, bytes;

	*out = (struct mi_page){
		.slice_cnt = heap_half(entry + PAGE_SLICE_COUNT),
		.tag = entry[PAGE_FLAGS] >> TAG_SHIFT & TAG_MASK,
		.block_cnt = entry_short(entry + PAGE_CAPACITY),
		.used_cnt = heap_half(entry + PAGE_USED),
		.block_size = heap_half(entry + PAGE_BLOCK_SIZE),
		.free = heap_word(entry + PAGE_FREE),
		.local_free = heap_word(entry + PAGE_LOCAL_FREE),
		.thread_free = heap_word(entry + PAGE_THREAD_FREE) & ~3ULL, /* mi_delayed_t */
	};
	if (!out->slice_cnt || heap_half(entry + PAGE_SLICE_OFFSET) ||
	    out->slice_cnt > s->size / MI_SLICE_SIZE - slice)
		return false;
	if (out->block_size <= 1) /* free, or being made */
		return true;
	out->in_use = true;
	bytes = (uint64_t)out->slice_cnt * MI_SLICE_SIZE;
	if (s->size != MI_SEGMENT_SIZE) /* one block fills it: more than 32 bits may be needed */
		out->block_size = bytes;
	out->start = first_block(s, slice, out->block_size);
	room = bytes - (out->start - s->addr - (uint64_t)slice * MI_SLICE_SIZE);
	return entry[PAGE_FLAGS] & FLAG_COMMITTED && out->tag <= MI_TAG_GC_PRE &&
	       out->block_size % 8 == 0 && out->block_cnt <= MI_BLOCKS_MAX &&
	       out->block_cnt <= entry_short(entry + PAGE_RESERVED) &&
	       out->block_cnt <= room / out->block_size && out->used_cnt <= out->block_cnt;
}

/*
 * Marks the blocks of one list. False: it leaves the page, or contains a marked block, so circles
 * end.
 */
static bool mark_list(const struct mi_page *p, uint64_t at, const uint8_t *words, size_t stride,
		      uint64_t *bits, uint32_t *cnt)
{
	for (*cnt = 0; at; (*cnt)++) {
		uint64_t block = (at - p->start) / p->block_size;

		if (at < p->start || block >= p->block_cnt || (at - p->start) % p->block_size ||
		    bits[block / 64] >> block % 64 & 1)
			return false;
		bits[block / 64] |= 1ULL << block % 64;
		at = heap_word(words + block * stride);
	}
	return true;
}

bool mi_page__mark_free(const struct mi_page *p, const uint8_t *words, size_t stride,
			uint64_t free_bits[MI_BLOCKS_MAX / 64])
{
	uint32_t free_cnt, local_cnt, thread_cnt;

	memset(free_bits, 0, MI_BLOCKS_MAX / 8);
	/*
	 * Blocks that other threads have freed count as used until the owner takes them back:
	 * mi_free().
	 */
	return mark_list(p, p->free, words, stride, free_bits, &free_cnt) &&
	       mark_list(p, p->local_free, words, stride, free_bits, &local_cnt) &&
	       free_cnt + local_cnt + p->used_cnt == p->block_cnt &&
	       mark_list(p, p->thread_free, words, stride, free_bits, &thread_cnt);
}
