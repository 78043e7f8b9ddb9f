/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What breakpoints cost a process, and when that is too much. */
#include "trace/price.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

static void test_slowdown(void **state)
{
	(void)state;
	assert_true(price__slowdown(0, 0) <= 0 && price__slowdown(0, 0) >= 0);
	assert_true(price__slowdown(0, 100) <= 0 && price__slowdown(0, 100) >= 0);
	assert_true(fabs(price__slowdown(10, 110) - 10) < 1e-9);
	assert_true(fabs(price__slowdown(50, 100) - 100) < 1e-9);
	/* The CPU time is not known. */
	assert_true(price__slowdown(10, 0) < 0);
	/* The price is measured, so that the cost may be more than all that was used. */
	assert_true(fabs(price__slowdown(99, 100) - PRICE_SLOWDOWN_MAX) < 1e-9);
	assert_true(fabs(price__slowdown(500, 100) - PRICE_SLOWDOWN_MAX) < 1e-9);
}

static void test_verdict(void **state)
{
	(void)state;
	assert_true(price__is_high(11, 1, 10));
	assert_false(price__is_high(10, 50, 10));
	assert_false(price__is_high(2000, 0.9, 10)); /* nobody notices */
	assert_false(price__is_high(-1, 50, 0));     /* not known */
}

static void test_cpu(void **state)
{
	uint64_t before = 0, after = 0;

	(void)state;
	assert_true(price__cpu_ns(getpid(), &before));
	while (price__cpu_ns(getpid(), &after) && after <= before)
		;
	assert_true(after > before);
	assert_false(price__cpu_ns(1 << 22, &after)); /* the kernel numbers up to there */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slowdown),
		cmocka_unit_test(test_verdict),
		cmocka_unit_test(test_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
