/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "heap/mimalloc.h"
#include "heap/scan_parts.h"

/* blocks up to this size are read with the bytes between their heads */
#define WHOLE_MAX    (16U << 10)
#define HEAD_SIZE    256U	/* of larger ones: it says what they are */
#define SEGMENTS_MAX (1U << 17) /* 4 TiB */

/* ---- where they are -------------------------------------------------------------------------- */

struct segment_search {
	uint64_t key; /* of the allocator that has pages for objects; 0: not known yet */
	size_t looked;
};

/* Only CPython marks pages as those of objects: another mimalloc in the process does not. */
static bool has_objects(const uint8_t *head, const struct mi_segment *seg)
{
	struct mi_page p;

	for (uint32_t i = seg->info_slices; i < seg->slice_cnt; i += p.slice_cnt) {
		if (!mi_page__parse(head + MI_ENTRIES_AT + (size_t)i * MI_ENTRY_SIZE, seg, i, &p))
			return false;
		if (p.in_use && p.tag != MI_TAG_MEM)
			return true;
	}
	return false;
}

static int add_segment(struct heap_scan *s, const struct mi_segment *seg)
{
	for (uint64_t part = 0; part < seg->size; part += MI_SEGMENT_SIZE) {
		if (ARRAY_GROW(s->arenas, s->arena_cap, s->arena_cnt, ARENAS_MAX))
			return -ENOMEM;
		/* The memory after a huge segment's first part belongs to its block. */
		s->arenas[s->arena_cnt++] = (struct arena){ .address = seg->addr + part,
							    .pools = seg->addr,
							    .pool_cnt = !part };
	}
	return 0;
}

/* `find`: for the allocator only. How many segments were added, or -ENOMEM. */
static int look_for_segments(struct heap_scan *s, struct heap_range range,
			     struct segment_search *search, bool find)
{
	uint64_t step = MI_SEGMENT_SIZE;
	struct mi_segment seg;
	int cnt = 0, err = 0;

	range.start = (range.start + MI_SEGMENT_SIZE - 1) & ~(MI_SEGMENT_SIZE - 1);
	for (uint64_t at = range.start; at < range.end && !err && search->looked++ < SEGMENTS_MAX;
	     at += step) {
		step = MI_SEGMENT_SIZE;
		if (heap_scan__is_late(s) || range.end - at < MI_HEAD_SIZE ||
		    s->mem->read(s->mem->ctx, s->bytes, MI_HEAD_SIZE, at) ||
		    !mi_segment__parse(s->bytes, at, &seg) || seg.size > range.end - at)
			continue;
		step = (seg.size + MI_SEGMENT_SIZE - 1) & ~(MI_SEGMENT_SIZE - 1);
		if (find && has_objects(s->bytes, &seg)) {
			search->key = seg.key;
			return 0;
		}
		if (!find && seg.key == search->key) {
			err = add_segment(s, &seg);
			cnt++;
		}
	}
	return err ? err : cnt;
}

int heap_scan__add_segments(struct heap_scan *s, const struct heap_range *ranges, size_t cnt)
{
	struct segment_search search = { 0 };
	int sum = 0, n = 0;

	s->geometry = (struct pool_geometry){ (uint32_t)MI_SEGMENT_SIZE, MI_SLICE_SIZE };
	for (size_t i = 0; i < cnt && !search.key; i++)
		look_for_segments(s, ranges[i], &search, true);
	search.looked = 0;
	for (size_t i = 0; i < cnt && n >= 0 && search.key; i++) {
		n = look_for_segments(s, ranges[i], &search, false);
		sum += n;
	}
	return n < 0 ? n : sum;
}

/* ---- what is in them ------------------------------------------------------------------------- */

/* The blocks of a page, as far as they are needed: `stride` bytes of each. False: unreadable. */
static bool read_blocks(struct heap_scan *s, const struct mi_page *p, size_t *stride)
{
	if (p->block_size <= WHOLE_MAX && p->block_cnt * p->block_size <= ARENA_SIZE_MAX) {
		*stride = p->block_size;
		return !s->mem->read(s->mem->ctx, s->bytes, p->block_cnt * p->block_size, p->start);
	}
	*stride = HEAD_SIZE;
	if (p->block_cnt > ARENA_SIZE_MAX / HEAD_SIZE || p->block_size < HEAD_SIZE)
		return false;
	for (uint32_t i = 0; i < p->block_cnt; i++)
		if (s->mem->read(s->mem->ctx, s->bytes + (size_t)i * HEAD_SIZE, HEAD_SIZE,
				 p->start + i * p->block_size))
			return false;
	return true;
}

static void take_blocks(struct heap_scan *s, const struct mi_page *p, size_t stride,
			const uint64_t *free_bits)
{
	uint64_t used = 0;
	uint32_t size = p->block_size > UINT32_MAX ? UINT32_MAX : (uint32_t)p->block_size;

	for (uint32_t i = 0; i < p->block_cnt; i++) {
		if (free_bits[i / 64] >> i % 64 & 1)
			continue;
		used++;
		if (p->tag != MI_TAG_MEM)
			heap_scan__take_block(s, s->bytes + i * stride,
					      p->start + i * p->block_size, size);
	}
	if (p->tag == MI_TAG_MEM)
		heap_scan__take_storage(s, used, used * p->block_size);
	if (!used) {
		s->counts.pool_free++;
		return;
	}
	s->counts.free_bytes += (p->block_cnt - used) * p->block_size;
	s->counts.pool_fill[(used - 1) * POOL_FILL_CNT / p->block_cnt]++;
}

/* A page that contradicts itself may have changed while it was read. */
static void look_at_page(struct heap_scan *s, const struct mi_segment *seg, uint32_t slice,
			 struct mi_page *p)
{
	uint64_t entry_at = seg->addr + MI_ENTRIES_AT + (uint64_t)slice * MI_ENTRY_SIZE;
	uint64_t free_bits[MI_BLOCKS_MAX / 64];
	uint32_t slice_cnt = p->slice_cnt;
	uint8_t entry[MI_ENTRY_SIZE];
	size_t stride;

	s->counts.pool_cnt++;
	for (int i = 0; i < POOL_TRIES; i++) {
		if (!p->in_use || p->slice_cnt != slice_cnt)
			break; /* it was freed meanwhile */
		if (read_blocks(s, p, &stride) &&
		    mi_page__mark_free(p, s->bytes, stride, free_bits)) {
			take_blocks(s, p, stride, free_bits);
			s->counts.header_bytes +=
				(uint64_t)slice_cnt * MI_SLICE_SIZE - p->block_cnt * p->block_size;
			return;
		}
		if (s->mem->read(s->mem->ctx, entry, sizeof(entry), entry_at) ||
		    !mi_page__parse(entry, seg, slice, p))
			break;
	}
	s->counts.pool_unread++;
}

int heap_scan__look_at_segment(struct heap_scan *s, const struct arena *a)
{
	uint8_t *head = malloc(MI_HEAD_SIZE);
	struct mi_segment seg;
	struct mi_page p;
	int err = head ? 0 : -ENOMEM;

	s->counts.arena_cnt++;
	s->counts.arena_bytes += s->geometry.arena_size;
	if (!err && a->pool_cnt)
		err = s->mem->read(s->mem->ctx, head, MI_HEAD_SIZE, a->address);
	if (err) { /* its pages are not counted, and the text says that some are missing */
		s->counts.pool_cnt++;
		s->counts.pool_unread++;
	}
	if (err || !a->pool_cnt || !mi_segment__parse(head, a->address, &seg))
		goto out; /* another part of a huge segment, or it was freed meanwhile */
	for (uint32_t i = seg.info_slices; i < seg.slice_cnt;) {
		uint32_t slice = i;

		if (!mi_page__parse(head + MI_ENTRIES_AT + (size_t)i * MI_ENTRY_SIZE, &seg, i,
				    &p)) {
			s->counts.pool_cnt++;
			s->counts.pool_unread++;
			i++;
			continue;
		}
		i += p.slice_cnt;
		if (p.in_use && p.block_cnt)
			look_at_page(s, &seg, slice, &p);
	}
out:
	free(head);
	return err;
}
