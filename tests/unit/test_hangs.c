// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What is logged about processes that do not answer: once an hour for each user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hangs.h"

#define BEGIN NS_PER_S

static unsigned int processes;

static void once_an_hour_with_a_count(void **state)
{
	static struct hang_notes h;

	(void)state;
	assert_true(hangs__note(&h, 1000, 17, false, BEGIN, &processes));
	assert_int_equal(processes, 1);
	for (uint32_t i = 0; i < 9; i++) /* each of three processes, three times */
		assert_false(hangs__note(&h, 1000, 20 + i % 3, false, BEGIN + i, &processes));
	assert_true(hangs__note(&h, 1001, 40, false, BEGIN, &processes)); /* another user */
	assert_true(hangs__note(&h, 1000, 20, true, BEGIN, &processes));  /* another message */
	assert_int_equal(processes, 1);
	assert_true(hangs__note(&h, 1000, 30, false, BEGIN + HANGS_SPAN_NS, &processes));
	assert_int_equal(processes, 4);
	assert_false(hangs__note(&h, 1000, 30, false, BEGIN + HANGS_SPAN_NS, &processes));
}

static void users_without_end(void **state)
{
	static struct hang_notes h;

	(void)state;
	for (uint32_t uid = 0; uid < 10 * HANGS_USERS_MAX; uid++)
		assert_true(hangs__note(&h, uid, 1, false, BEGIN + uid, &processes));
	assert_int_equal(h.cnt, HANGS_USERS_MAX);
	assert_false(hangs__note(&h, 10 * HANGS_USERS_MAX - 1, 1, false, 2 * BEGIN, &processes));
	for (uint32_t tgid = 0; tgid < 1000; tgid++)
		hangs__note(&h, 10 * HANGS_USERS_MAX - 1, tgid, false, 2 * BEGIN, &processes);
	assert_true(
		hangs__note(&h, 10 * HANGS_USERS_MAX - 1, 1, false, 2 * HANGS_SPAN_NS, &processes));
	assert_int_equal(processes, HANGS_PROCESSES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(once_an_hour_with_a_count),
		cmocka_unit_test(users_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
