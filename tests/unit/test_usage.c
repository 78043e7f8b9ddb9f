/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What of malloc's memory is free: glibc's main arena in memory that the test makes up. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "heap/usage.h"
#include "unit/stepped_clock.h"

#define LIBC	 0x7f0000000000ULL
#define LIBC_LEN 0x2000U
#define BINS	 (LIBC + 0x110) /* main_arena.bins */
#define BIN_CNT	 127
#define HEAP	 0x555500000000ULL
#define HEAP_LEN 0x100000U
#define TOP	 (HEAP + HEAP_LEN - 0x3000)
#define A	 (HEAP + 0x1000)
#define B	 (HEAP + 0x2000)

struct world {
	uint8_t libc[LIBC_LEN], heap[HEAP_LEN];
	void (*on_renew)(struct world *w); /* what the process does meanwhile */
	struct usage_region regions[2];
	struct heap_mem mem;
	struct heap_usage usage;
	uint64_t asked_end;	 /* of the highest memory whose residency was asked for */
	unsigned asked, asked_s; /* how often; seconds that an answer takes */
};

static uint8_t *at(struct world *w, uint64_t addr, size_t size)
{
	if (addr >= LIBC && addr - LIBC <= LIBC_LEN && size <= LIBC_LEN - (addr - LIBC))
		return w->libc + (addr - LIBC);
	if (addr >= HEAP && addr - HEAP <= HEAP_LEN && size <= HEAP_LEN - (addr - HEAP))
		return w->heap + (addr - HEAP);
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

static void renew_world(void *ctx)
{
	struct world *w = ctx;

	if (w->on_renew)
		w->on_renew(w);
}

static uint64_t resident(void *ctx, uint64_t start, uint64_t end)
{
	struct world *w = ctx;

	w->asked++;
	w->asked_end = end > w->asked_end ? end : w->asked_end;
	clock_later_s += w->asked_s;
	return end - start;
}

static void put(struct world *w, uint64_t addr, uint64_t word)
{
	memcpy(at(w, addr, 8), &word, 8);
}

static uint64_t bin(unsigned n)
{
	return BINS - 16 + 16ULL * n;
}

static void put_links(struct world *w, uint64_t chunk, uint64_t next, uint64_t before)
{
	put(w, chunk + 16, next);
	put(w, chunk + 24, before);
}

/* Two free chunks in a bin, and the one at the end of the memory. */
static struct world *make(void)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.mem = (struct heap_mem){ &w, read_world, NULL, renew_world };
	w.regions[0] = (struct usage_region){ HEAP, HEAP + HEAP_LEN, .rss = HEAP_LEN,
					      .kind = USAGE_HEAP, .write = true };
	w.regions[1] = (struct usage_region){
		LIBC,	       LIBC + LIBC_LEN, .rss = LIBC_LEN, .kind = USAGE_FILE,
		.write = true, .libc = true
	};
	for (unsigned i = 0; i < BIN_CNT; i++)
		put_links(&w, bin(i), bin(i), bin(i));
	put(&w, BINS - 16, TOP);
	put(&w, TOP + 8, 0x3000 | 1);
	put(&w, A + 8, 0x100 | 1);
	put(&w, B + 8, 0x200 | 1);
	put_links(&w, bin(5), A, B);
	put_links(&w, A, B, bin(5));
	put_links(&w, B, bin(5), A);
	return &w;
}

static uint64_t free_bytes(struct world *w)
{
	const struct usage_source src = { .mem = &w->mem, .resident = resident, .ctx = w };
	const struct heap_scan scan = { 0 };

	assert_int_equal(usage__sum(&src, w->regions, 2, &scan, &w->usage), 0);
	assert_true(w->usage.malloc_known);
	assert_int_equal(w->usage.malloc_arenas, 1);
	assert_int_equal(w->usage.malloc, HEAP_LEN);
	return w->usage.malloc_free;
}

static void test_rest(void **state)
{
	(void)state;
	assert_int_equal(free_bytes(make()), 0x3300);
}

/* The arena grew, and what was its end holds data: no size of these bytes is believed. */
static void test_stale_top(void **state)
{
	static const uint64_t sizes[] = { 0x7ffff1ULL, 0x1011, 0, 0xfff0000000000001ULL, 0x3000 };
	struct world *w;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		w = make();
		put(w, TOP + 8, sizes[i]);
		assert_int_equal(free_bytes(w), 0x300);
	}
	w = make();
	put(w, BINS - 16, LIBC + LIBC_LEN); /* no memory */
	assert_int_equal(free_bytes(w), 0x300);
	w = make();
	put(w, TOP + 8, 0x8000 | 1); /* it has grown since its region was read */
	assert_int_equal(free_bytes(w), 0x3300);
}

static void put_top(struct world *w)
{
	put(w, BINS - 16, TOP);
}

static void test_top_read_again(void **state)
{
	struct world *w = make();

	(void)state;
	put(w, BINS - 16, A);
	w->on_renew = put_top;
	assert_int_equal(free_bytes(w), 0x3300);
}

/* Links of two instants make a ring without the bin. */
static void test_ring(void **state)
{
	struct world *w = make();

	(void)state;
	put_links(w, B, A, A);
	assert_int_equal(free_bytes(w), 0x3300);
	assert_false(w->usage.malloc_cut);
	put_links(w, A, A, bin(5));
	assert_int_equal(free_bytes(w), 0x3100);
}

static void put_ring(struct world *w)
{
	put_links(w, B, bin(5), A);
}

/* A chunk went to another bin while the list was read: read again, it is right. */
static void test_list_read_again(void **state)
{
	struct world *w = make();

	(void)state;
	put_links(w, bin(9), B, B);
	put_links(w, B, bin(9), bin(9));
	w->on_renew = put_ring;
	assert_int_equal(free_bytes(w), 0x3300);
}

/* The size of a chunk is a word of the process: it says nothing of memory that is not there. */
static void test_large_chunk(void **state)
{
	struct world *w = make();

	(void)state;
	put(w, A + 8, 1ULL << 39 | 1);
	assert_int_equal(free_bytes(w), HEAP_LEN);
	assert_int_equal(w->asked_end, HEAP + HEAP_LEN);
	assert_int_equal(w->asked, 1);
}

/* Nor does it take all day where the process has as much memory as it says, none of it touched. */
static void test_large_region(void **state)
{
	struct world *w = make();

	(void)state;
	put(w, A + 8, 1ULL << 39 | 1);
	w->regions[0].end = HEAP + (1ULL << 40);
	w->asked_s = 1;
	free_bytes(w);
	assert_true(w->usage.malloc_cut);
	assert_in_range(w->asked, 1, 10);
}

/* The time that Python's arenas took is none of that which malloc's memory has. */
static void test_slow_arenas(void **state)
{
	struct world *w = make();
	const struct usage_source src = { .mem = &w->mem, .resident = resident, .ctx = w };
	struct arena arena = { .address = HEAP + HEAP_LEN / 2 };
	const struct heap_scan scan = { .arenas = &arena,
					.arena_cnt = 1,
					.geometry.arena_size = HEAP_LEN / 4 };

	(void)state;
	put(w, A + 8, 0x4000 | 1);
	w->asked_s = 6;
	assert_int_equal(usage__sum(&src, w->regions, 2, &scan, &w->usage), 0);
	assert_int_equal(w->asked, 2);
	assert_int_equal(w->usage.pools, HEAP_LEN / 4);
	assert_int_equal(w->usage.malloc_free, 0x4000 + 0x200 + 0x3000);
	assert_false(w->usage.malloc_cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_stale_top),
		cmocka_unit_test(test_top_read_again),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_list_read_again),
		cmocka_unit_test(test_large_chunk),
		cmocka_unit_test(test_large_region),
		cmocka_unit_test(test_slow_arenas),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
