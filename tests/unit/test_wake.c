/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How soon is looked at what happens to processes (wake.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "clock.h"
#include "wake.h"

#define MS NS_PER_MS

static void a_part_of_the_time_between_samples_is_waited(void **state)
{
	(void)state;
	assert_int_equal(wake__gather_until(1000 * MS, 100), 1000 * MS + 1250000);
	assert_int_equal(wake__gather_until(1000 * MS, 50000), 1000 * MS + 2500);
	assert_int_equal(wake__gather_until(1000 * MS, 1), (1000 + WAKE_GATHER_MS_MAX) * MS);
	assert_int_equal(wake__gather_until(1000 * MS, 0), 1000 * MS);
}

/* A mapping has woken us: whose was it? */
static bool woken(struct wake *w, uint64_t now, bool ours, bool others)
{
	w->lull = true;
	w->ours = ours;
	if (others)
		wake__others(w, now);
	return wake__look(w, now);
}

static void others_begin_a_lull(void **state)
{
	struct wake w = { 0 };

	(void)state;
	assert_true(woken(&w, 1000 * MS, false, true));
	assert_int_equal(w.lull_until_ns, (1000 + WAKE_LULL_MS) * MS);
}

static void ours_are_heeded(void **state)
{
	struct wake w = { 0 };

	(void)state;
	assert_false(woken(&w, 1000 * MS, true, true));
	assert_false(woken(&w, 1000 * MS + WAKE_HEED_MS * MS - 1, false, true)); /* more may come */
	assert_true(woken(&w, 1000 * MS + WAKE_HEED_MS * MS, false, true));
}

/* Neither of us nor of others: a record of something else. */
static void nothing_begins_no_lull(void **state)
{
	struct wake w = { 0 };

	(void)state;
	assert_false(woken(&w, 1000 * MS, false, false));
	assert_false(w.lull);
}

static void ours_end_a_lull(void **state)
{
	struct wake w = { 0 };

	(void)state;
	assert_true(woken(&w, 1000 * MS, false, true));
	assert_true(wake__look(&w, 1100 * MS));
	w.ours = true;
	assert_false(wake__look(&w, 1101 * MS));
	assert_false(w.lull);
	/* What comes later begins one anew, which is whole. */
	assert_true(woken(&w, 1300 * MS, false, true));
	assert_int_equal(w.lull_until_ns, (1300 + WAKE_LULL_MS) * MS);
}

/* It goes on for as long as others map, and is not made longer by each of them. */
static void a_lull_ends_with_what_others_do(void **state)
{
	struct wake w = { 0 };

	(void)state;
	assert_true(woken(&w, 1000 * MS, false, true));
	wake__others(&w, 1600 * MS);
	wake__others(&w, 1100 * MS); /* of another CPU's ring */
	assert_true(wake__look(&w, 1700 * MS));
	assert_int_equal(w.lull_until_ns, 2000 * MS);
	assert_true(wake__look(&w, 2000 * MS));
	assert_int_equal(w.lull_until_ns, 3000 * MS);
	assert_false(wake__look(&w, 3000 * MS));
	assert_false(w.lull);
}

static void the_rest_of_a_start_is_no_reason_for_another_lull(void **state)
{
	struct wake w = { 0 };

	(void)state;
	assert_true(woken(&w, 1000 * MS, false, true));
	wake__others(&w, 1500 * MS);
	assert_false(wake__look(&w, 2000 * MS));
}

static void lulls_are_shorter_where_much_is_mapped(void **state)
{
	static const unsigned want_ms[] = { 1000, 500, 250, 250 };

	(void)state;
	for (unsigned i = 0; i < sizeof(want_ms) / sizeof(want_ms[0]); i++) {
		struct wake w = { 0 };

		for (unsigned n = 0; n < i; n++)
			wake__lost(&w);
		assert_true(woken(&w, 7000 * MS, false, true));
		assert_int_equal(w.lull_until_ns, (7000 + want_ms[i]) * MS);
	}
}

static void without_a_lull_there_is_none(void **state)
{
	struct wake w = { 0 };

	(void)state;
	wake__others(&w, 1000 * MS);
	assert_false(wake__look(&w, 1000 * MS));
	assert_false(w.lull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_of_the_time_between_samples_is_waited),
		cmocka_unit_test(others_begin_a_lull),
		cmocka_unit_test(ours_are_heeded),
		cmocka_unit_test(nothing_begins_no_lull),
		cmocka_unit_test(ours_end_a_lull),
		cmocka_unit_test(a_lull_ends_with_what_others_do),
		cmocka_unit_test(the_rest_of_a_start_is_no_reason_for_another_lull),
		cmocka_unit_test(lulls_are_shorter_where_much_is_mapped),
		cmocka_unit_test(without_a_lull_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
