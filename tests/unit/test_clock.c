/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/clock.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>
#include <cmocka.h>

/* Whatever a round takes, there is a wait behind it: else nobody hears a signal. */
static void test_next_round(void **state)
{
	(void)state;
	assert_int_equal(next_round(100, 10, 100), 110);
	assert_int_equal(next_round(100, 10, 109), 110); /* late, but not missed */
	assert_int_equal(next_round(100, 10, 110), 120);
	assert_int_equal(next_round(100, 10, 185), 195);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_next_round) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
