/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Decides how long to wait before handling process events (wake.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "follow/wake.h"

#define MS NS_PER_MS

static void a_part_of_the_time_between_samples_is_waited(void **state)
{
	(void)state;
	assert_int_equal(wake__gather_until(1000 * MS, 100), 1000 * MS + 1250000);
	assert_int_equal(wake__gather_until(1000 * MS, 50000), 1000 * MS + 2500);
	assert_int_equal(wake__gather_until(1000 * MS, 1), (1000 + WAKE_GATHER_MS_MAX) * MS);
	assert_int_equal(wake__gather_until(1000 * MS, 0), 1000 * MS);
}

static void who_is_calm_is_not_followed(void **state)
{
	struct wake w = { 0 };

	(void)state;
	assert_false(wake__follow(&w, 1000 * MS, 0));
	wake__stir(&w, 1000 * MS);
	assert_true(wake__follow(&w, 1000 * MS, 0));
	assert_true(wake__follow(&w, (1000 + WAKE_CALM_MS) * MS - 1, 0));
	assert_false(wake__follow(&w, (1000 + WAKE_CALM_MS) * MS, 0));
	wake__stir(&w, 9000 * MS);
	assert_true(wake__follow(&w, 9000 * MS, 0));
}

static void who_closes_libraries_is_followed_for_ever(void **state)
{
	struct wake w = { 0 };

	(void)state;
	assert_true(wake__follow(&w, 1000 * MS, 1));
	wake__stir(&w, 1000 * MS);
	assert_true(wake__follow(&w, UINT64_MAX, 1));
	assert_false(wake__follow(&w, UINT64_MAX, 0));
}

static void what_is_about_to_be_mapped_is_awaited(void **state)
{
	struct wake w = { 0 };
	uint64_t at = 1000 * MS, ns, looks = 0;

	(void)state;
	assert_int_equal(wake__await_ns(&w, at), 0);
	wake__coming(&w, 7, at);
	wake__mapped(&w, 7, at - MS); /* something else, before */
	wake__mapped(&w, 8, at + 1);  /* another process */
	assert_int_equal(wake__await_ns(&w, at), WAKE_AWAIT_US * 1000);
	/* Whoever is woken by something else meanwhile waits for what is left. */
	assert_int_equal(wake__await_ns(&w, at + 20000), WAKE_AWAIT_US * 1000 - 20000);
	assert_int_equal(wake__await_ns(&w, at + WAKE_AWAIT_US * 1000), 2 * WAKE_AWAIT_US * 1000);
	wake__mapped(&w, 7, at + 1);
	assert_int_equal(wake__await_ns(&w, at + WAKE_AWAIT_US * 1000), 0);
	/* Its CPU may run others before it maps. */
	wake__coming(&w, 7, at);
	assert_true(wake__await_ns(&w, at + 100 * MS) > 0);
	wake__mapped(&w, 7, at + 101 * MS);
	/* A file that is no code is not awaited for ever. */
	wake__coming(&w, 7, at);
	for (uint64_t now = at; (ns = wake__await_ns(&w, now)); now += ns, looks++)
		assert_true(now < at + 1000 * MS);
	assert_int_equal(looks, WAKE_AWAIT_ROUNDS);
	assert_int_equal(wake__await_ns(&w, at), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_of_the_time_between_samples_is_waited),
		cmocka_unit_test(who_is_calm_is_not_followed),
		cmocka_unit_test(who_closes_libraries_is_followed_for_ever),
		cmocka_unit_test(what_is_about_to_be_mapped_is_awaited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
