/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The heap of a free-threaded build: segments, pages and lists of mimalloc in memory that the test
 * makes up, true and forged.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "heap/mimalloc.h"
#include "heap/scan.h"

#define SEGMENT	      0x7f0040000000ULL
#define SEGMENT_LEN   (4 * MI_SLICE_SIZE)
#define KEY	      0x123456789abcdef0ULL
#define TYPES	      0x10000000ULL
#define TYPES_LEN     0x2000U
#define TYPE	      (TYPES + 0x000)
#define ORDER	      (TYPES + 0x400) /* collected, with a managed dict */
#define NUMBER	      (TYPES + 0x800)

#define OB_TYPE	      24
#define FLAGS_READY   (1ULL << 12)
#define FLAGS_GC      (1ULL << 14)
#define FLAGS_DICT    (1ULL << 4)
#define FLAGS_IS_TYPE (1ULL << 31)

#define ORDER_SIZE    64U
#define NUMBER_SIZE   48U

struct world {
	uint8_t segment[SEGMENT_LEN];
	uint8_t types[TYPES_LEN];
};

static uint8_t *at(struct world *w, uint64_t addr, size_t size)
{
	if (addr >= SEGMENT && addr - SEGMENT <= SEGMENT_LEN &&
	    size <= SEGMENT_LEN - (addr - SEGMENT))
		return w->segment + (addr - SEGMENT);
	if (addr >= TYPES && addr - TYPES <= TYPES_LEN && size <= TYPES_LEN - (addr - TYPES))
		return w->types + (addr - TYPES);
	return NULL;
}

static int read_world(void *ctx, void *dst, size_t size, uint64_t src)
{
	uint8_t *p = at(ctx, src, size);

	if (!p)
		return -EFAULT;
	memcpy(dst, p, size);
	return 0;
}

static void gather_world(void *ctx, uint64_t *words, const uint64_t *addrs, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (read_world(ctx, &words[i], 8, addrs[i]))
			words[i] = 0;
}

/* `size` low bytes of a value. */
static void put(struct world *w, uint64_t addr, uint64_t value, size_t size)
{
	memcpy(at(w, addr, size), &value, size);
}

static void put_type(struct world *w, uint64_t addr, const char *name, uint64_t flags,
		     uint64_t basic)
{
	put(w, addr + OB_TYPE, TYPE, 8);
	put(w, addr + OB_TYPE + 16, addr + 0x300, 8);
	strcpy((char *)at(w, addr + 0x300, 64), name);
	put(w, addr + OB_TYPE + 24, basic, 8);
	put(w, addr + OB_TYPE + 160, FLAGS_READY | flags, 8);
}

static uint64_t entry(uint32_t slice)
{
	return SEGMENT + MI_ENTRIES_AT + (uint64_t)slice * MI_ENTRY_SIZE;
}

struct made {
	enum mi_tag tag;
	uint32_t size, carved, used;
};

static void put_page(struct world *w, uint32_t slice, struct made m)
{
	put(w, entry(slice), 1, 4);
	put(w, entry(slice) + 8, 1 | (uint64_t)m.tag << 3, 1);
	put(w, entry(slice) + 10, m.carved, 2);
	put(w, entry(slice) + 12, m.carved + 9, 2);
	put(w, entry(slice) + 24, m.used, 4);
	put(w, entry(slice) + 28, m.size, 4);
}

static uint64_t block(uint32_t slice, uint32_t size, uint32_t n)
{
	uint64_t start = SEGMENT + (uint64_t)slice * MI_SLICE_SIZE;

	return start + (size <= 64 ? 3 * size : size <= 512 ? size : 0) + (uint64_t)n * size;
}

static void put_object(struct world *w, uint64_t addr, uint64_t type, uint32_t local,
		       uint64_t shared)
{
	put(w, addr + OB_TYPE - 12, local, 4);
	put(w, addr + OB_TYPE - 8, shared, 8);
	put(w, addr + OB_TYPE, type, 8);
}

/*
 * Slice 1: 5 orders, one of which its own thread has given back. Slice 2: 4 numbers, one in a free
 * list of the interpreter's, one given back by another thread. Slice 3: two blocks of storage.
 */
static struct world *new_world(void)
{
	struct world *w = calloc(1, sizeof(*w));

	put_type(w, TYPE, "type", FLAGS_IS_TYPE, 400);
	put_type(w, ORDER, "Order", FLAGS_GC | FLAGS_DICT, 32);
	put_type(w, NUMBER, "number", 0, 40);
	put(w, SEGMENT + 32, MI_SEGMENT_SIZE, 8);
	put(w, SEGMENT + 208, 3, 8);
	put(w, SEGMENT + 216, KEY ^ SEGMENT, 8);
	put(w, SEGMENT + 224, 512, 8);
	put(w, SEGMENT + 232, 1, 8);
	put(w, SEGMENT + 248, 512, 8);
	put_page(w, 1, (struct made){ MI_TAG_GC_PRE, ORDER_SIZE, 5, 4 });
	put_page(w, 2, (struct made){ MI_TAG_OBJECT, NUMBER_SIZE, 4, 4 });
	put_page(w, 3, (struct made){ MI_TAG_MEM, 1024, 2, 2 });
	put(w, entry(4), 508, 4); /* free */
	for (uint32_t i = 0; i < 5; i++)
		put_object(w, block(1, ORDER_SIZE, i) + 16, ORDER, i != 2, i == 2 ? 1 << 2 : 0);
	for (uint32_t i = 0; i < 4; i++)
		put_object(w, block(2, NUMBER_SIZE, i), NUMBER, i == 1 ? 0 : UINT32_MAX, 3);
	put(w, entry(1) + 32, block(1, ORDER_SIZE, 4), 8);
	put(w, block(1, ORDER_SIZE, 4), 0, 8);
	put(w, entry(2) + 40, block(2, NUMBER_SIZE, 3) | 1, 8);
	put(w, block(2, NUMBER_SIZE, 3), 0, 8);
	return w;
}

static uint64_t count_of(const struct heap_scan *s, uint64_t addr)
{
	for (size_t i = 0; i < s->types.cnt; i++)
		if (s->types.list[i]->addr == addr)
			return s->types.list[i]->cnt;
	return 0;
}

/* How many segments there are. */
static int scan_world(struct world *w, struct heap_scan *s, struct heap_mem *mem)
{
	const struct heap_shape shape = { .version = 0x030d,
					  .free_threaded = true,
					  .ob_type = OB_TYPE,
					  .str_min = 60,
					  .type_type = TYPE };
	const struct heap_range ranges[] = { { 0x1000, 0x2000 },
					     { SEGMENT - 0x1000, SEGMENT + MI_SEGMENT_SIZE } };
	int cnt;

	*mem = (struct heap_mem){ w, read_world, gather_world, NULL };
	assert_int_equal(heap_scan__init(s, mem, &shape), 0);
	cnt = heap_scan__add_segments(s, ranges, 2);
	assert_int_equal(heap_scan__run(s), 0);
	return cnt;
}

static void counts_what_lives(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	assert_int_equal(scan_world(w, &s, &mem), 1);
	assert_int_equal(count_of(&s, ORDER), 4);
	assert_int_equal(count_of(&s, NUMBER), 2);
	assert_int_equal(s.counts.spare_cnt, 1);
	assert_int_equal(s.counts.storage_cnt, 2);
	assert_int_equal(s.counts.storage_bytes, 2048);
	assert_int_equal(s.counts.object_bytes, 4 * ORDER_SIZE + 2 * NUMBER_SIZE);
	assert_int_equal(s.counts.free_bytes, ORDER_SIZE + NUMBER_SIZE);
	assert_int_equal(s.counts.pool_cnt, 3);
	assert_int_equal(s.counts.pool_unread, 0);
	heap_scan__free(&s);
	free(w);
}

static void rejects_segments(void **state)
{
	static const struct {
		uint32_t offset;
		uint64_t value;
	} lies[] = {
		{ 32, MI_SEGMENT_SIZE * 2 }, /* its size */
		{ 32, UINT64_MAX },
		{ 208, 0 }, /* no page is in use: it was given back */
		{ 208, UINT64_MAX },
		{ 224, 511 },
		{ 232, 2 },
		{ 240, 7 },
		{ 248, 0 },
		{ 248, 514 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct world *w = new_world();
		struct heap_scan s;
		struct heap_mem mem;

		put(w, SEGMENT + lies[i].offset, lies[i].value, 8);
		assert_int_equal(scan_world(w, &s, &mem), 0);
		assert_int_equal(s.counts.object_cnt, 0);
		heap_scan__free(&s);
		free(w);
	}
}

/* A mimalloc of somebody else's has no pages of objects. */
static void ignores_another_allocator(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	put(w, entry(1) + 8, 1, 1);
	put(w, entry(2) + 8, 1, 1);
	assert_int_equal(scan_world(w, &s, &mem), 0);
	heap_scan__free(&s);
	free(w);
}

static void counts_pages_that_lie_as_unread(void **state)
{
	static const struct {
		uint32_t slice, offset, size;
		uint64_t value;
	} lies[] = {
		{ 1, 0, 4, 0 },
		{ 1, 0, 4, 10000 },
		{ 1, 4, 4, 96 },
		{ 1, 8, 1, 1 | 9 << 3 },
		{ 1, 10, 2, 0xffff },
		{ 1, 16, 8, SEGMENT },
		{ 1, 16, 8, SEGMENT + MI_SLICE_SIZE + 3 * ORDER_SIZE + 8 },
		{ 1, 16, 8, SEGMENT + MI_SLICE_SIZE + 3 * ORDER_SIZE + 5 * ORDER_SIZE },
		{ 1, 24, 4, 5 },
		{ 1, 28, 4, 0xfffffff8 },
		{ 1, 28, 4, 12 },
		{ 1, 40, 8, SEGMENT + MI_SLICE_SIZE + 7 * ORDER_SIZE }, /* in two lists */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct world *w = new_world();
		struct heap_scan s;
		struct heap_mem mem;

		put(w, entry(lies[i].slice) + lies[i].offset, lies[i].value, lies[i].size);
		/* A head that begins with a lie may be no head. */
		if (scan_world(w, &s, &mem)) {
			assert_true(s.counts.pool_unread >= 1);
			assert_int_equal(count_of(&s, ORDER), 0);
		}
		heap_scan__free(&s);
		free(w);
	}
}

static void a_list_may_be_a_circle(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	put(w, block(1, ORDER_SIZE, 4), block(1, ORDER_SIZE, 4), 8);
	assert_int_equal(scan_world(w, &s, &mem), 1);
	assert_int_equal(s.counts.pool_unread, 1);
	assert_int_equal(count_of(&s, NUMBER), 2);
	heap_scan__free(&s);
	free(w);
}

static int read_nothing(void *ctx, void *dst, size_t size, uint64_t src)
{
	(void)ctx, (void)dst, (void)size, (void)src;
	return -EFAULT;
}

/* A segment that was found and is gone, or cannot be read any more: the scan is not complete. */
static void tells_that_a_segment_is_gone(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	assert_int_equal(scan_world(w, &s, &mem), 1);
	assert_int_equal(s.counts.pool_unread, 0);
	mem.read = read_nothing;
	assert_int_equal(heap_scan__run(&s), 0);
	assert_int_equal(s.counts.pool_unread, 1);
	heap_scan__free(&s);
	free(w);
}

/* Any bytes: the scan ends, within its bounds. */
static void survives_noise(void **state)
{
	uint64_t random = 88172645463325252ULL;

	(void)state;
	for (unsigned round = 0; round < 400; round++) {
		struct world *w = new_world();
		struct heap_scan s;
		struct heap_mem mem;

		for (unsigned i = 0; i < 4; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			w->segment[random % (MI_ENTRIES_AT + 5 * MI_ENTRY_SIZE)] =
				(uint8_t)(random >> 32);
		}
		scan_world(w, &s, &mem);
		assert_true(s.counts.object_bytes <= SEGMENT_LEN);
		heap_scan__free(&s);
		free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_what_lives),
		cmocka_unit_test(rejects_segments),
		cmocka_unit_test(ignores_another_allocator),
		cmocka_unit_test(counts_pages_that_lie_as_unread),
		cmocka_unit_test(a_list_may_be_a_circle),
		cmocka_unit_test(tells_that_a_segment_is_gone),
		cmocka_unit_test(survives_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
