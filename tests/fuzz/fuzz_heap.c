/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process whose whole memory is the input, over and over: the reader of heaps must end, within
 * its bounds.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap/growth.h"
#include "heap/mimalloc.h"
#include "heap/referrers.h"
#include "heap/scan.h"
#include "heap/usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

#define BASE  0x7f0000000000ULL
#define SPAN  (4ULL << 20)
#define ARRAY (BASE + 0x100)
#define TYPE  (BASE + 0x1000)
#define ARENA (BASE + (1ULL << 20))

struct world {
	const uint8_t *data;
	size_t size;
};

static int read_world(void *ctx, void *dst, size_t size, uint64_t src)
{
	const struct world *w = ctx;
	uint8_t *out = dst;

	if (!w->size || src < BASE || src - BASE > SPAN || size > SPAN - (src - BASE))
		return -EFAULT;
	for (size_t done = 0, at, len; done < size; done += len) {
		at = (src - BASE + done) % w->size;
		len = w->size - at < size - done ? w->size - at : size - done;
		memcpy(out + done, w->data + at, len);
	}
	return 0;
}

static void gather_world(void *ctx, uint64_t *words, const uint64_t *addrs, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (read_world(ctx, &words[i], 8, addrs[i]))
			words[i] = 0;
}

static uint64_t resident(void *ctx, uint64_t start, uint64_t end)
{
	(void)ctx;
	return end - start;
}

/* One arena, unless the input has others. */
static int prepare(void *ctx, struct heap_scan *s)
{
	(void)ctx;
	heap_scan__add_array(s, ARRAY);
	if (s->arena_cnt)
		return 0;
	if (!s->arenas) {
		s->arenas = calloc(1, sizeof(*s->arenas));
		s->arena_cap = s->arenas ? 1 : 0;
	}
	if (s->arenas) {
		s->arenas[0] = (struct arena){ ARENA, ARENA, ARENA + (64U << 10), 64, 0 };
		s->arena_cnt = 1;
	}
	return 0;
}

/*
 * Of the same type as the seeds': each object refers to what the input says. After a scan, as the
 * command does it.
 */
static void find_holders(struct heap_scan *s)
{
	const struct py_layout layout = {
		.str_length = 16,
		.str_state = 32,
		.str_ascii = 48,
		.str_compact = 72,
		.bytes_size = 16,
		.frame_code = 32,
		.code_name = 120,
	};
	const struct ref_source src = {
		.scan = s,
		.prepare = prepare,
		.layout = &layout,
		.frame_locals = 72,
		.code_locals = 96,
	};
	struct referrers r = { 0 };

	if (!referrers__find(&src, "type", &r)) {
		uint64_t sum = 0;

		for (size_t i = 0; i < r.group_cnt; i++)
			sum += r.groups[i].cnt;
		if (sum > r.found || (sum < r.found && !r.full) || r.sampled > r.wanted)
			abort();
	}
	referrers__free(&r);
}

static void check_sums(const struct heap_scan *s)
{
	uint64_t cnt = 0, bytes = 0;

	for (size_t i = 0; i < s->types.cnt; i++) {
		cnt += s->types.list[i]->cnt;
		bytes += s->types.list[i]->bytes;
		if (s->types.list[i]->name && strlen(s->types.list[i]->name) > 4 * HEAP_NAME_MAX)
			abort();
	}
	if (cnt != s->counts.object_cnt + s->counts.outside_cnt ||
	    bytes != s->counts.object_bytes + s->counts.outside_bytes)
		abort();
}

static void read_usage(const struct heap_mem *mem, const struct heap_scan *s, const uint8_t *data,
		       size_t size)
{
	const struct usage_source src = { .mem = mem, .resident = resident };
	struct usage_region *regions = NULL;
	struct heap_usage u;
	size_t cnt = 0;

	if (!usage__parse((const char *)data, size, &regions, &cnt))
		usage__sum(&src, regions, cnt, s, &u);
	free(regions);
}

/* The head of a segment, and whatever entries and blocks the input makes. */
static int read_segment(void *ctx, void *dst, size_t size, uint64_t src)
{
	static const struct {
		uint32_t at;
		uint64_t word;
	} head[] = {
		{ 32, MI_SEGMENT_SIZE },
		{ 208, 1 },
		{ 216, BASE ^ 1 },
		{ 224, 512 },
		{ 232, 1 },
		{ 240, 0 },
		{ 248, 512 },
	};
	int err = read_world(ctx, dst, size, src);

	for (size_t i = 0; !err && src == BASE && i < sizeof(head) / sizeof(head[0]); i++)
		if (head[i].at + 8 <= size)
			memcpy((uint8_t *)dst + head[i].at, &head[i].word, 8);
	return err;
}

static void read_segments(struct world *w)
{
	const struct heap_mem mem = { w, read_segment, gather_world, NULL };
	const struct heap_range range = { BASE, BASE + MI_SEGMENT_SIZE };
	const struct heap_shape shape = { .version = 0x030d,
					  .free_threaded = true,
					  .ob_type = 24,
					  .str_min = 64,
					  .type_type = TYPE };
	struct heap_scan s;

	if (!heap_scan__init(&s, &mem, &shape) && heap_scan__add_segments(&s, &range, 1) >= 0) {
		heap_scan__run(&s);
		check_sums(&s);
	}
	heap_scan__free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t versions[] = { 0x0207, 0x0307, 0x0309, 0x030b, 0x030e };
	struct world w = { data, size };
	const struct heap_mem mem = { &w, read_world, gather_world, NULL };
	struct heap_shape shape = { .version = versions[size ? data[0] % 5 : 0],
				    .ob_type = 8,
				    .str_min = 48,
				    .type_type = TYPE };
	struct heap_growth g = { 0 };
	struct heap_scan s;

	shape.gc_size = shape.version <= 0x0307 ? 32 : 16;
	if (!heap_scan__init(&s, &mem, &shape)) {
		prepare(NULL, &s);
		heap_scan__run(&s);
		check_sums(&s);
		heap_growth__add(&g, &s.types, 0);
		heap_growth__add(&g, &s.types, 1);
		heap_growth__rank(&g);
		read_usage(&mem, &s, data, size);
		find_holders(&s);
	}
	heap_growth__free(&g);
	heap_scan__free(&s);
	read_segments(&w);
	return 0;
}

static void put(uint8_t *buf, size_t at, uint64_t word, size_t size)
{
	memcpy(buf + at, &word, size);
}

/* A segment whose pages have blocks of 64 bytes, one of them free. */
static void seed_segment(uint8_t *buf, size_t size)
{
	for (size_t at = MI_ENTRIES_AT; at + MI_ENTRY_SIZE <= size; at += MI_ENTRY_SIZE) {
		put(buf, at, 1, 4);
		put(buf, at + 8, 1 | 2 << 3, 1);
		put(buf, at + 10, 8, 2);
		put(buf, at + 12, 8, 2);
		put(buf, at + 24, 8, 4);
		put(buf, at + 28, 64, 4);
	}
}

/* One pool in which each block is an object of `type`, whose type is the type itself. */
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	static const uint8_t k_flags[] = { 1, 5 }; /* lists, dicts */
	const size_t size = 16U << 10;

	if (i > 2 || cap < size)
		return 0;
	memset(buf, 0, size);
	if (i == 2) {
		seed_segment(buf, size);
		return size;
	}
	put(buf, 0, 3, 4);
	put(buf, 8, 0, 8);
	put(buf, 36, 3, 4);
	put(buf, 40, 48 + 3 * 64, 4);
	put(buf, 44, size - 64, 4);
	for (size_t k = 0; k < 3; k++) {
		put(buf, 48 + k * 64, 1, 8);
		put(buf, 48 + k * 64 + 8 + 16 * i, TYPE, 8);
	}
	put(buf, 0x1000, 1, 8);
	put(buf, 0x1008, TYPE, 8);
	put(buf, 0x1018, TYPE + 0x200, 8);
	memcpy(buf + 0x1200, "type", 5);
	put(buf, 0x1020, 32, 8);
	put(buf, 0x10a8, 1ULL << 12 | i << 14 | 1ULL << (24 + k_flags[i]) | 1ULL << 31, 8);
	for (size_t k = 0; k < 3; k++) /* each refers to its neighbour */
		put(buf, 48 + k * 64 + 24 + 16 * i, ARENA + 48 + (k + 1) % 3 * 64 + 16 * i, 8);
	return size;
}
