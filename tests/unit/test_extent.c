/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The extent allocator and the id map, each against a slow and obvious model of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "process/extent.h"

static uint32_t random_below(uint32_t limit)
{
	static uint64_t seed = 88172645463325252ULL; /* xorshift: the same at every run */

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 11) % limit;
}

static void hands_out_first_fit(void **state)
{
	struct extents x;
	uint32_t a, b, c, d;

	(void)state;
	assert_int_equal(extents__init(&x, 10), 0);
	assert_int_equal(extent__alloc(&x, 0, &a), -EINVAL);
	assert_int_equal(extent__alloc(&x, 11, &a), -ENOSPC);
	assert_int_equal(extent__alloc(&x, 3, &a), 0);
	assert_int_equal(extent__alloc(&x, 3, &b), 0);
	assert_int_equal(extent__alloc(&x, 4, &c), 0);
	assert_true(a == 0 && b == 3 && c == 6 && x.used == 10 && x.free_cnt == 0);
	assert_int_equal(extent__alloc(&x, 1, &d), -ENOSPC);
	extent__release(&x, b, 3);
	extent__release(&x, a, 3);
	assert_int_equal(x.free_cnt, 1);
	assert_int_equal(extent__alloc(&x, 6, &d), 0);
	assert_int_equal(d, 0);
	extent__release(&x, d, 6);
	extent__release(&x, c, 4);
	assert_true(x.free_cnt == 1 && x.free[0].cnt == 10 && x.used == 0);
	extents__free(&x);
	assert_int_equal(extents__init(&x, 0), 0);
	assert_int_equal(extent__alloc(&x, 1, &d), -ENOSPC);
	extents__free(&x);
}

static void buried_is_not_free(void **state)
{
	struct extents x;
	uint32_t a, b;

	(void)state;
	assert_int_equal(extents__init(&x, 4), 0);
	assert_int_equal(extent__alloc(&x, 4, &a), 0);
	assert_int_equal(extent__bury(&x, a, 4), 0);
	assert_int_equal(extent__bury(&x, 0, 0), 0);
	assert_int_equal(extent__alloc(&x, 1, &b), -ENOSPC);
	assert_int_equal(x.used, 4);
	extent__reclaim(&x);
	assert_int_equal(x.used, 0);
	assert_int_equal(extent__alloc(&x, 4, &b), 0);
	extents__free(&x);
}

#define SLOTS  257
#define RANGES 64

/* Nothing is handed out twice, everything comes back, and a fit that exists is found. */
static void agrees_with_a_bitmap(void **state)
{
	struct extent_range held[RANGES] = { { 0 } };
	bool taken[SLOTS] = { false };
	struct extents x;

	(void)state;
	assert_int_equal(extents__init(&x, SLOTS), 0);
	for (int i = 0; i < 20000; i++) {
		struct extent_range *r = &held[random_below(RANGES)];
		uint32_t run = 0, used = 0, want;
		int err;

		if (r->cnt) {
			memset(taken + r->first, 0, r->cnt);
			extent__release(&x, r->first, r->cnt);
			r->cnt = 0;
			continue;
		}
		want = 1 + random_below(24);
		for (uint32_t s = 0; s < SLOTS && run < want; s++)
			run = taken[s] ? 0 : run + 1;
		err = extent__alloc(&x, want, &r->first);
		assert_int_equal(err, run == want ? 0 : -ENOSPC);
		if (err)
			continue;
		r->cnt = want;
		for (uint32_t s = r->first; s < r->first + want; s++) {
			assert_true(s < SLOTS && !taken[s]);
			taken[s] = true;
		}
		for (uint32_t s = 0; s < SLOTS; s++)
			used += taken[s];
		assert_int_equal(x.used, used);
	}
	for (int i = 0; i < RANGES; i++)
		extent__release(&x, held[i].first, held[i].cnt);
	assert_true(x.free_cnt == 1 && x.free[0].cnt == SLOTS);
	extents__free(&x);
}

#define KEYS 3000

static void idmap_agrees_with_an_array(void **state)
{
	static int values[KEYS];
	int *model[KEYS] = { NULL }, *v;
	struct idmap m = { 0 };
	size_t cnt = 0, seen = 0;

	(void)state;
	assert_null(idmap__get(&m, 1));
	idmap__remove(&m, 1);
	for (int i = 0; i < 200000; i++) {
		uint32_t k = random_below(KEYS);
		uint64_t key = (uint64_t)k << (k % 3 * 16); /* some far apart */

		if (random_below(2)) {
			cnt += !model[k];
			model[k] = &values[random_below(KEYS)];
			assert_int_equal(idmap__set(&m, key, model[k]), 0);
		} else {
			cnt -= model[k] != NULL;
			model[k] = NULL;
			idmap__remove(&m, key);
		}
		k = random_below(KEYS);
		assert_ptr_equal(idmap__get(&m, (uint64_t)k << (k % 3 * 16)), model[k]);
		assert_int_equal(m.cnt, cnt);
	}
	for (size_t at = 0; (v = idmap__next(&m, &at));)
		seen++;
	assert_int_equal(seen, cnt);
	idmap__free(&m);
	assert_null(idmap__get(&m, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hands_out_first_fit),
		cmocka_unit_test(buried_is_not_free),
		cmocka_unit_test(agrees_with_a_bitmap),
		cmocka_unit_test(idmap_agrees_with_an_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
