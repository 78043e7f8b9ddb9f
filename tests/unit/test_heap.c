/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reading a heap: forged pools, arenas, types and links in memory that the test makes up; growth;
 * smaps.
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

#include "heap/growth.h"
#include "heap/pools.h"
#include "heap/referrers.h"
#include "heap/scan.h"
#include "heap/types.h"
#include "heap/usage.h"

/* ---- a heap of CPython 3.11: one arena at ARENA, types and the array elsewhere --------------- */

#define ARENA	      0x7f0000000000ULL
#define POOL	      (16U << 10)
#define OTHER	      0x10000000ULL /* types, the array, objects outside */
#define OTHER_LEN     0x10000U
#define ARRAY	      (OTHER + 0x8000)
#define TYPE	      (OTHER + 0x000)  /* `type` */
#define ORDER	      (OTHER + 0x400)  /* a class with a gc header and a managed dict */
#define NUMBER	      (OTHER + 0x800)  /* one without */
#define HEAD	      (OTHER + 0x4000) /* of the list of the garbage collector */
#define BIG	      (OTHER + 0x5000) /* an object outside */

#define FLAGS_READY   (1ULL << 12)
#define FLAGS_GC      (1ULL << 14)
#define FLAGS_DICT    (1ULL << 4)
#define FLAGS_IS_TYPE (1ULL << 31)

struct world {
	uint8_t arena[2 * POOL];
	uint8_t other[OTHER_LEN];
	bool gone;
};

static uint8_t *at(struct world *w, uint64_t addr, size_t size)
{
	if (addr >= ARENA && addr - ARENA <= sizeof(w->arena) &&
	    size <= sizeof(w->arena) - (addr - ARENA))
		return w->arena + (addr - ARENA);
	if (addr >= OTHER && addr - OTHER <= OTHER_LEN && size <= OTHER_LEN - (addr - OTHER))
		return w->other + (addr - OTHER);
	return NULL;
}

static int read_world(void *ctx, void *dst, size_t size, uint64_t src)
{
	struct world *w = ctx;
	uint8_t *p = at(w, src, size);

	if (w->gone)
		return -ESRCH;
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

static void put(struct world *w, uint64_t addr, uint64_t word)
{
	memcpy(at(w, addr, 8), &word, 8);
}

static void put_half(struct world *w, uint64_t addr, uint32_t half)
{
	memcpy(at(w, addr, 4), &half, 4);
}

static void put_type(struct world *w, uint64_t addr, uint64_t meta, const char *name,
		     uint64_t flags, uint64_t basic)
{
	put(w, addr, 3);
	put(w, addr + 8, meta);
	put(w, addr + 24, addr + 0x300);
	strcpy((char *)at(w, addr + 0x300, 64), name);
	put(w, addr + 32, basic);
	put(w, addr + 168, FLAGS_READY | flags);
}

/*
 * A pool whose first `carved` blocks were used, and from which `free` (0xff: none) was given back.
 */
static void put_pool(struct world *w, unsigned n, uint32_t size, uint32_t carved,
		     uint32_t free_block)
{
	uint64_t addr = ARENA + (uint64_t)n * POOL;
	bool hole = free_block != 0xff;

	put_half(w, addr, carved - hole);
	put(w, addr + 8, hole ? addr + POOL_HEADER + (uint64_t)free_block * size : 0);
	put_half(w, addr + 32, 0);
	put_half(w, addr + 36, size / 16 - 1);
	put_half(w, addr + 40, POOL_HEADER + carved * size);
	put_half(w, addr + 44, POOL - size);
}

static uint64_t block(unsigned pool, uint32_t size, uint32_t n)
{
	return ARENA + (uint64_t)pool * POOL + POOL_HEADER + (uint64_t)n * size;
}

/* Links `head` behind `*last`, and the list's head behind that. */
static void link_up(struct world *w, uint64_t *last, uint64_t head)
{
	put(w, *last, head);
	put(w, head + 8, *last);
	put(w, head, HEAD);
	put(w, HEAD + 8, head);
	*last = head;
}

static void put_order(struct world *w, uint64_t *last, uint64_t object)
{
	put(w, object, 1);
	put(w, object + 8, ORDER);
	link_up(w, last, object - 16);
}

/*
 * Pool 0: 4 orders of 64 bytes, one given back. Pool 1: 3 numbers, one of them in a free list, and
 * storage.
 */
static struct world *new_world(void)
{
	struct world *w = calloc(1, sizeof(*w));
	uint64_t last = HEAD;

	assert_non_null(w);
	put(w, ARRAY, ARENA);
	put(w, ARRAY + 8, ARENA + 2 * POOL);
	put_half(w, ARRAY + 16, 62);
	put_half(w, ARRAY + 20, 64);
	put_type(w, TYPE, TYPE, "type", FLAGS_GC | FLAGS_IS_TYPE, 400);
	put_type(w, ORDER, TYPE, "Order", FLAGS_GC | FLAGS_DICT, 16);
	put_type(w, NUMBER, TYPE, "Number\033[2J", 0, 24);
	put_pool(w, 0, 64, 4, 2);
	for (unsigned i = 0; i < 4; i++)
		put_order(w, &last, block(0, 64, i) + 32);
	/* Given back: no longer linked, and its first word is the free list's. */
	put(w, block(0, 64, 1) + 16, block(0, 64, 3) + 16);
	put(w, block(0, 64, 3) + 24, block(0, 64, 1) + 16);
	put(w, block(0, 64, 2), 0);
	put_order(w, &last, BIG + 16);
	put_pool(w, 1, 32, 4, 0xff);
	for (unsigned i = 0; i < 3; i++) {
		put(w, block(1, 32, i), i != 1); /* without references: in a free list */
		put(w, block(1, 32, i) + 8, NUMBER);
	}
	put(w, block(1, 32, 3), 0x1234);
	return w;
}

static void open_scan(struct heap_scan *s, struct heap_mem *mem, struct world *w)
{
	const struct heap_shape shape = {
		.version = 0x030b, .ob_type = 8, .gc_size = 16, .str_min = 48, .type_type = TYPE
	};

	*mem = (struct heap_mem){ w, read_world, gather_world, NULL };
	assert_int_equal(heap_scan__init(s, mem, &shape), 0);
}

static const struct heap_type *type_of(const struct heap_scan *s, uint64_t addr)
{
	for (size_t i = 0; i < s->types.cnt; i++)
		if (s->types.list[i]->addr == addr)
			return s->types.list[i];
	return NULL;
}

static uint64_t count_of(const struct heap_scan *s, uint64_t addr)
{
	const struct heap_type *t = type_of(s, addr);

	return t ? t->cnt : 0;
}

static void counts_what_lives(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	open_scan(&s, &mem, w);
	assert_int_equal(heap_scan__add_array(&s, ARRAY), 0);
	assert_int_equal(s.arena_cnt, 1);
	assert_int_equal(heap_scan__run(&s), 0);
	assert_int_equal(count_of(&s, ORDER), 4); /* three in the pool, one outside */
	assert_int_equal(type_of(&s, ORDER)->outside_cnt, 1);
	assert_int_equal(type_of(&s, ORDER)->bytes, 3 * 64 + 48);
	assert_int_equal(count_of(&s, NUMBER), 2);
	assert_int_equal(type_of(&s, NUMBER)->spare_cnt, 1);
	assert_null(strchr(type_of(&s, NUMBER)->name, '\033'));
	assert_int_equal(s.counts.storage_cnt, 1);
	assert_int_equal(s.counts.pool_virgin, 62);
	assert_int_equal(s.counts.pool_unread, 0);
	assert_int_equal(s.counts.unlinked, 0);
	assert_int_equal(s.counts.object_bytes + s.counts.storage_bytes + s.counts.spare_bytes +
				 s.counts.free_bytes + s.counts.header_bytes,
			 2 * POOL);
	heap_scan__free(&s);
	free(w);
}

/* Whoever is not linked is no object, whatever it looks like. */
static void believes_links_only(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	put(w, block(0, 64, 3) + 24, OTHER + 0x6000); /* the predecessor of the last one */
	open_scan(&s, &mem, w);
	assert_int_equal(heap_scan__add_array(&s, ARRAY), 0);
	assert_int_equal(heap_scan__run(&s), 0);
	assert_int_equal(s.counts.unlinked, 1);
	assert_int_equal(count_of(&s, ORDER), 3);
	heap_scan__free(&s);
	free(w);
}

static void rejects_types(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;
	const uint64_t loop = OTHER + 0xc00, meta = OTHER + 0x1000, made = OTHER + 0x1400;

	(void)state;
	put_type(w, loop, loop, "its own type", FLAGS_IS_TYPE, 16);
	put_type(w, meta, TYPE, "Meta", FLAGS_GC | FLAGS_IS_TYPE, 400);
	put_type(w, made, meta, "Made", 0, 16);
	open_scan(&s, &mem, w);
	assert_null(heap_types__get(&s.types, loop));
	assert_null(heap_types__get(&s.types, loop)); /* remembered */
	assert_null(heap_types__get(&s.types, 0));
	assert_null(heap_types__get(&s.types, OTHER + 1));
	assert_null(heap_types__get(&s.types, UINT64_MAX - 7));
	assert_non_null(heap_types__get(&s.types, TYPE));
	assert_string_equal(heap_types__get(&s.types, made)->name, "Made");
	put(w, ORDER + 24, 16); /* a name that is nowhere */
	assert_true(heap_types__get(&s.types, ORDER)->unnamed);
	memset(at(w, NUMBER + 0x300, 0x100), 'x', 0x100); /* and one without an end */
	assert_true(strlen(heap_types__get(&s.types, NUMBER)->name) < HEAP_NAME_MAX + 4);
	heap_scan__free(&s);
	free(w);
}

static void rejects_arrays(void **state)
{
	static const struct {
		uint64_t off, word;
	} damage[] = {
		{ 0, 0 },		   /* no arena at all */
		{ 0, ARENA + 8 },	   /* not aligned */
		{ 8, ARENA + 65 * POOL },  /* pools behind the end */
		{ 8, ARENA + 100 },	   /* half a pool */
		{ 16, 62 | 60ULL << 32 },  /* too few pools */
		{ 16, 65 | 64ULL << 32 },  /* more free ones than there are */
		{ 48, ARENA + (1 << 20) }, /* a second entry that is none */
		{ 48 + 32, ARRAY + 1 },	   /* an unused one with a wrong link */
	};
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct world *w = new_world();

		put(w, ARRAY + damage[i].off, damage[i].word);
		open_scan(&s, &mem, w);
		assert_int_equal(heap_scan__add_array(&s, ARRAY), -ENOENT);
		assert_int_equal(s.arena_cnt, 0);
		heap_scan__free(&s);
		free(w);
	}
}

/* A header that lies makes its pool unread; the other one is read. */
static void counts_bad_pools(void **state)
{
	static const struct {
		uint32_t off, half;
	} damage[] = {
		{ 0, 1 },	    { 0, 9999 },	{ 8, 0 },
		{ 8, 1 },	    { 32, 7 },		{ 36, 0xffff },
		{ 40, 0 },	    { 40, 0xffffffff }, { 40, POOL_HEADER + 1 },
		{ 44, 0xffffffff }, { 44, POOL - 513 }, { 44, POOL },
	};
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct world *w = new_world();

		open_scan(&s, &mem, w);
		assert_int_equal(heap_scan__add_array(&s, ARRAY), 0);
		put_half(w, ARENA + damage[i].off, damage[i].half);
		assert_int_equal(heap_scan__run(&s), 0);
		assert_int_equal(s.counts.pool_unread, 1);
		assert_int_equal(count_of(&s, NUMBER), 2);
		heap_scan__free(&s);
		free(w);
	}
}

static void free_list_may_be_a_circle(void **state)
{
	struct world *w = new_world();
	struct pool p;

	(void)state;
	put(w, block(0, 64, 2), block(0, 64, 2));
	assert_int_equal(pool__parse(w->arena, ARENA, 0, pool_geometry(0x030b), &p), POOL_BAD);
	free(w);
}

static void ends_with_the_process(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	open_scan(&s, &mem, w);
	assert_int_equal(heap_scan__add_array(&s, ARRAY), 0);
	w->gone = true;
	assert_int_equal(heap_scan__run(&s), -ESRCH);
	assert_true(s.counts.failed);
	heap_scan__free(&s);
	free(w);
}

/* ---- who holds them -------------------------------------------------------------------------- */

#define LIST	(OTHER + 0x1800)
#define IS_LIST (1ULL << 25)

static int find_array(void *ctx, struct heap_scan *s)
{
	(void)ctx;
	return heap_scan__add_array(s, ARRAY);
}

/* Orders 0 and 1 are items of number 0, now a list, whose items are where `items` says. */
static struct world *new_holders(uint64_t items, uint64_t cnt)
{
	struct world *w = new_world();

	put_type(w, LIST, TYPE, "list", IS_LIST, 32);
	put(w, block(1, 32, 0) + 8, LIST);
	put(w, block(1, 32, 0) + 16, cnt);
	put(w, block(1, 32, 0) + 24, items);
	put(w, OTHER + 0x7000, block(0, 64, 0) + 32);
	put(w, OTHER + 0x7008, block(0, 64, 1) + 32);
	put(w, OTHER + 0x7010, block(1, 32, 0)); /* itself */
	return w;
}

static void find_holders(struct world *w, struct heap_scan *s, struct heap_mem *mem,
			 struct referrers *r)
{
	const struct py_layout layout = { .str_state = 32 };
	const struct ref_source src = { .scan = s, .prepare = find_array, .layout = &layout };

	open_scan(s, mem, w);
	assert_int_equal(referrers__find(&src, "Order", r), 0);
	assert_int_equal(r->wanted, 4);
}

static void finds_holders(void **state)
{
	struct world *w = new_holders(OTHER + 0x7000, 3);
	struct heap_scan s;
	struct heap_mem mem;
	struct referrers r;

	(void)state;
	find_holders(w, &s, &mem, &r);
	assert_int_equal(r.found, 2);
	assert_int_equal(r.unheld, 2);
	assert_int_equal(r.group_cnt, 1);
	assert_int_equal(r.groups[0].cnt, 2);
	assert_int_equal(r.groups[0].kind, REF_ITEM);
	assert_string_equal(r.groups[0].type->name, "list");
	/* The list holds itself: that is nobody else. */
	assert_int_equal(r.path_cnt, 1);
	assert_int_equal(r.paths[0].step_cnt, 1);
	assert_int_equal(r.paths[0].holders, 1);
	assert_int_equal(r.paths[0].end, REF_END_NONE);
	referrers__free(&r);
	heap_scan__free(&s);
	free(w);
}

static void survives_lists_that_lie(void **state)
{
	static const struct {
		uint64_t items, cnt;
	} lies[] = { { OTHER + 0x7000, UINT64_MAX },
		     { OTHER + 0x7001, 3 },
		     { 0, 3 },
		     { UINT64_MAX - 7, 3 } };

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct world *w = new_holders(lies[i].items, lies[i].cnt);
		struct heap_scan s;
		struct heap_mem mem;
		struct referrers r;

		find_holders(w, &s, &mem, &r);
		assert_int_equal(r.found, 0);
		assert_int_equal(r.unheld, 4);
		referrers__free(&r);
		heap_scan__free(&s);
		free(w);
	}
}

/*
 * A list that was never linked: its header is left from a number that was in the block before, and
 * is no number any more.
 */
static void stale_headers_are_no_objects(void **state)
{
	struct world *w = new_world();
	struct heap_scan s;
	struct heap_mem mem;

	(void)state;
	put_type(w, LIST, TYPE, "list", IS_LIST | FLAGS_GC, 16);
	put(w, block(1, 32, 3), 0);
	put(w, block(1, 32, 3) + 8, NUMBER);
	put(w, block(1, 32, 3) + 16, 1);
	put(w, block(1, 32, 3) + 24, LIST);
	open_scan(&s, &mem, w);
	assert_int_equal(heap_scan__add_array(&s, ARRAY), 0);
	assert_int_equal(heap_scan__run(&s), 0);
	assert_int_equal(count_of(&s, LIST), 1);
	assert_int_equal(count_of(&s, NUMBER), 2);
	heap_scan__free(&s);
	free(w);
}

#define WIDE	    (OTHER + 0x1c00) /* a class of objects with WIDE_FIELDS references */
#define WIDE_SIZE   128
#define WIDE_FIELDS 14

/*
 * Order 0 is held by wide 0, that by wide 1, and so on, in one after the other of `fields` fields;
 * `ring`: wide 0 holds the last one.
 */
static struct world *new_chain(unsigned cnt, unsigned fields, bool ring)
{
	uint64_t held = block(0, 64, 0) + 32;
	struct world *w = new_world();

	memset(w->arena + POOL, 0, POOL);
	put_type(w, WIDE, TYPE, "Wide", 0, WIDE_SIZE);
	put_pool(w, 1, WIDE_SIZE, cnt, 0xff);
	for (unsigned i = 0; i < cnt; i++) {
		uint64_t addr = block(1, WIDE_SIZE, i);

		put(w, addr, 1);
		put(w, addr + 8, WIDE);
		put(w, addr + 16 + 8ULL * (i % fields), held);
		held = addr;
	}
	if (ring)
		put(w, block(1, WIDE_SIZE, 0) + 8 + 8ULL * WIDE_FIELDS, held);
	return w;
}

static struct ref_path find_chain(unsigned cnt, unsigned fields, bool ring)
{
	struct world *w = new_chain(cnt, fields, ring);
	struct referrers r;
	struct ref_path p;
	struct heap_scan s;
	struct heap_mem mem;

	find_holders(w, &s, &mem, &r);
	assert_int_equal(r.path_cnt, 1);
	p = r.paths[0]; /* its names and types are gone, which nothing asks for */
	assert_int_equal(p.holders, cnt);
	assert_int_equal(p.steps[0].what.holder, block(1, WIDE_SIZE, 0));
	referrers__free(&r);
	heap_scan__free(&s);
	free(w);
	return p;
}

/* What repeats is one step, with its number; a path that does not repeat loses its middle. */
static void folds_paths(void **state)
{
	struct ref_path p = find_chain(40, 1, false);

	(void)state;
	assert_int_equal(p.end, REF_END_NONE);
	assert_int_equal(p.step_cnt, 1);
	assert_int_equal(p.steps[0].times, 40);
	p = find_chain(41, 3, false);
	assert_int_equal(p.step_cnt, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(p.steps[i].together, i < 3 ? 3 : 1);
		assert_int_equal(p.steps[i].times, i < 3 ? 13 : 1);
		assert_int_equal(p.steps[i].what.key, 16 + 8 * (i % 3));
	}
	p = find_chain(40, 13, false);
	assert_int_equal(p.step_cnt, 12);
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(p.steps[i].left_out, i == 5 ? 28 : 0);
	assert_int_equal(p.steps[5].what.holder, block(1, WIDE_SIZE, 5));
	assert_int_equal(p.steps[6].what.holder, block(1, WIDE_SIZE, 34));
	assert_int_equal(p.steps[11].what.holder, block(1, WIDE_SIZE, 39));
}

static void paths_end_in_rings(void **state)
{
	struct ref_path p = find_chain(5, 1, true);

	(void)state;
	assert_int_equal(p.end, REF_END_RING);
	assert_int_equal(p.steps[0].times, 5);
}

/* ---- growth ---------------------------------------------------------------------------------- */

static void tells_growth_from_chance(void **state)
{
	struct heap_type leak = { .addr = 16, .name = (char *)"Leak", .cnt = 100, .bytes = 6400 };
	struct heap_type noise = { .addr = 32, .name = (char *)"noise", .cnt = 50, .bytes = 50000 };
	struct heap_type rest = { .addr = 48, .name = (char *)"rest", .cnt = 7, .bytes = 700 };
	struct heap_type *list[] = { &leak, &noise, &rest };
	const struct heap_types types = { .list = list, .cnt = 3 };
	struct heap_growth g = { 0 };

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(heap_growth__add(&g, &types, i * 0.5), 0);
		leak.cnt += 10;
		leak.bytes += 640;
		noise.cnt = i % 2 ? 50 : 90;
		noise.bytes = noise.cnt * 1000;
	}
	heap_growth__rank(&g);
	assert_string_equal(g.types[0]->name, "Leak");
	assert_true(g.types[0]->objects > 19.99 && g.types[0]->objects < 20.01);
	assert_true(g.types[0]->bytes > 1279 && g.types[0]->bytes < 1281);
	assert_true(grown_type__is_sure(&g, g.types[0]));
	assert_false(grown_type__is_sure(&g, g.types[1]));
	assert_false(grown_type__is_sure(&g, g.types[2]));
	assert_int_equal(g.types[0]->first_cnt, 100);
	assert_int_equal(g.types[0]->last_cnt, 170);
	heap_growth__free(&g);
}

/* One burst is no line, but there were more at each reading; once there were not, it is chance. */
static void bursts_are_growth(void **state)
{
	static const uint64_t leaks[] = { 10, 11, 12, 13, 5000 };
	struct heap_type leak = { .addr = 16, .name = (char *)"Leak" };
	struct heap_type noise = { .addr = 32, .name = (char *)"noise" };
	struct heap_type *list[] = { &leak, &noise };
	const struct heap_types types = { .list = list, .cnt = 2 };
	struct heap_growth g = { 0 };

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		leak.cnt = leaks[i];
		noise.cnt = i == 2 ? leaks[1] : leaks[i];
		leak.bytes = leak.cnt * 64;
		noise.bytes = noise.cnt * 64;
		assert_int_equal(heap_growth__add(&g, &types, i), 0);
		heap_growth__rank(&g);
		assert_int_equal(grown_type__is_sure(&g, g.types[0]), i == 4 || i == 2 || i == 3);
	}
	assert_string_equal(g.types[0]->name, "Leak");
	assert_false(grown_type__is_sure(&g, g.types[1]));
	heap_growth__free(&g);
}

/* A program that makes types, or renames them, without end: those of before are still followed. */
static void more_types_than_are_followed(void **state)
{
	struct heap_type leak = { .addr = 8, .name = (char *)"Leak", .cnt = 1, .bytes = 64 };
	struct heap_type *made = calloc(HEAP_TYPES_MAX, sizeof(*made)), **list;
	struct heap_types types = { .cnt = HEAP_TYPES_MAX };
	struct heap_growth g = { 0 };

	(void)state;
	types.list = list = calloc(HEAP_TYPES_MAX, sizeof(*list));
	assert_true(made && list);
	list[0] = &leak;
	for (size_t i = 1; i < HEAP_TYPES_MAX; i++) {
		made[i] = (struct heap_type){ .addr = 16 * i, .cnt = 1, .bytes = 1 };
		list[i] = &made[i];
	}
	assert_int_equal(heap_growth__add(&g, &types, 0), 0);
	assert_false(g.full);
	for (unsigned i = 1; i < 6; i++) {
		made[i].addr += 8; /* another type */
		leak.cnt++;
		assert_int_equal(heap_growth__add(&g, &types, i), 0);
	}
	assert_true(g.full);
	assert_int_equal(g.cnt, HEAP_TYPES_MAX);
	heap_growth__rank(&g);
	assert_string_equal(g.types[0]->name, "Leak");
	assert_true(grown_type__is_sure(&g, g.types[0]));
	heap_growth__free(&g);
	free(made);
	free(list);
}

/* ---- smaps ----------------------------------------------------------------------------------- */

static void sums_smaps(void **state)
{
	static const char text[] =
		"00400000-00500000 r-xp 00000000 fe:00 12                 /usr/bin/python3\n"
		"Size:               1024 kB\nRss:                 512 kB\n"
		"01000000-02000000 rw-p 00000000 00:00 0                  [heap]\n"
		"Rss:                2048 kB\nSwap:                 16 kB\n"
		"Rss: 99999999999999999999999 \n"
		"7ffc00000000-7ffc00100000 rw-p 00000000 00:00 0          [stack]\n"
		"Rss:                  64 kB\nnonsense\n"
		"7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \nRss:    256 kB\n"
		"7f1000000000-7f1000100000 rw-p 00000000 fe:00 9    /lib/libc.so.6\nRss:  8 kB\n";
	struct usage_region *r;
	size_t cnt;

	(void)state;
	assert_int_equal(usage__parse(text, sizeof(text) - 1, &r, &cnt), 0);
	assert_int_equal(cnt, 5);
	assert_int_equal(r[0].kind, USAGE_FILE);
	assert_int_equal(r[0].rss, 512 << 10);
	assert_int_equal(r[1].kind, USAGE_HEAP);
	assert_int_equal(r[1].swap, 16 << 10);
	assert_int_equal(r[2].kind, USAGE_STACK);
	assert_int_equal(r[3].kind, USAGE_ANON);
	assert_int_equal(r[3].rss, 256 << 10);
	assert_true(r[4].libc && r[4].write && !r[0].libc);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_what_lives),
		cmocka_unit_test(believes_links_only),
		cmocka_unit_test(rejects_types),
		cmocka_unit_test(rejects_arrays),
		cmocka_unit_test(counts_bad_pools),
		cmocka_unit_test(free_list_may_be_a_circle),
		cmocka_unit_test(ends_with_the_process),
		cmocka_unit_test(finds_holders),
		cmocka_unit_test(survives_lists_that_lie),
		cmocka_unit_test(stale_headers_are_no_objects),
		cmocka_unit_test(folds_paths),
		cmocka_unit_test(paths_end_in_rings),
		cmocka_unit_test(tells_growth_from_chance),
		cmocka_unit_test(bursts_are_growth),
		cmocka_unit_test(more_types_than_are_followed),
		cmocka_unit_test(sums_smaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
