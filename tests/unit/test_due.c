// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What tenants may take from a time at which something is due: together, and each of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/due.h"

#define ALL   (DUE_ALL_MS * NS_PER_MS)
#define LEAST (DUE_LEAST_MS * NS_PER_MS)
#define AT    (1000 * NS_PER_S)

/* Takes all that it may. */
static uint64_t take(struct due *d, uint64_t payer)
{
	uint64_t left = due__left(d, payer);

	due__charge(d, payer, left);
	assert_int_equal(due__left(d, payer), 0);
	due__note_over(d, payer, d->at_ns);
	return left;
}

static void begins_at_its_time(void **state)
{
	struct due d = { 0 };

	(void)state;
	assert_false(due__has_begun(&d, AT));
	due__set(&d, AT);
	assert_false(due__has_begun(&d, AT - 1));
	assert_true(due__has_begun(&d, AT));
	due__set(&d, 0);
	assert_false(due__has_begun(&d, AT));
}

static void each_leaves_half(void **state)
{
	struct due d = { 0 };
	uint64_t all = 0;

	(void)state;
	due__set(&d, AT);
	assert_int_equal(take(&d, 1), ALL / 2);
	assert_int_equal(take(&d, 2), ALL / 4);
	assert_int_equal(due__left(&d, 1), 0);
	assert_true(due__left(&d, 3) >= LEAST);
	for (uint64_t payer = 3; payer < 1000; payer++)
		all += take(&d, payer);
	assert_true(all <= ALL / 4);
	assert_true(all + LEAST > ALL / 4);
}

static void small_parts(void **state)
{
	struct due d = { 0 };

	(void)state;
	due__set(&d, AT);
	for (int i = 0; i < 100; i++) /* others take little, and one still has the part it had */
		due__charge(&d, 10 + (uint64_t)i % 5, NS_PER_MS / 10);
	due__charge(&d, 1, 5 * NS_PER_MS);
	assert_true(due__left(&d, 1) > ALL / 3);
	assert_true(due__left(&d, 1) < ALL / 2);
}

static void again_at_the_next_time(void **state)
{
	struct due d = { 0 };

	(void)state;
	due__set(&d, AT);
	due__charge(&d, 2, 10 * NS_PER_MS);
	take(&d, 1);
	due__set(&d, AT); /* the same */
	assert_int_equal(due__left(&d, 1), 0);
	due__set(&d, AT + NS_PER_S);
	assert_int_equal(due__left(&d, 1), LEAST); /* it was over */
	assert_int_equal(due__left(&d, 2), ALL / 2);
	due__set(&d, AT + 2 * NS_PER_S + DUE_FORGOT_MS * NS_PER_MS);
	assert_int_equal(due__left(&d, 1), ALL / 2);
}

static void payers_without_end(void **state)
{
	struct due d = { 0 };

	(void)state;
	for (uint64_t round = 0; round < 100; round++) {
		due__set(&d, AT + round * NS_PER_S);
		for (uint64_t payer = 1; payer < 100; payer++)
			take(&d, round * 1000 + payer);
		assert_true(d.cnt <= DUE_PAYERS_MAX);
		assert_true(d.spent_ns <= ALL);
	}
	due__set(&d, AT + 100 * NS_PER_S);
	assert_int_equal(due__left(&d, 99001), LEAST); /* the latest are remembered */
	assert_int_equal(due__left(&d, 1), ALL / 2);
	assert_int_equal(due__left(&d, 200000), ALL / 2); /* and there is room for others */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begins_at_its_time),
		cmocka_unit_test(each_leaves_half),
		cmocka_unit_test(small_parts),
		cmocka_unit_test(payers_without_end),
		cmocka_unit_test(again_at_the_next_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
