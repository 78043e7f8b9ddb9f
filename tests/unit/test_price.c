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

static void test_look(void **state)
{
	struct price_look l = { .ns = 1000000000, .cpu_ns = 50, .hits = 7, .slowdown = -1 };

	(void)state;
	/* 1,000 hits of 100 us in two seconds, in which the process used 0.2 s: half of that. */
	price__look(&l, 3000000000, 200000050, 1007, 100000);
	assert_true(fabs(l.rate - 500) < 1e-9 && fabs(l.cost_ns - 1e8) < 1e-3);
	assert_true(fabs(l.slowdown - 100) < 1e-9 && fabs(l.load - 5) < 1e-9);
	/* From here on, and the sum of CPU time falls when a process ends. */
	price__look(&l, 4000000000, 100000050, 1107, 100000);
	assert_true(fabs(l.rate - 100) < 1e-9 && l.slowdown < 0 && fabs(l.load - 1) < 1e-9);
	/* Nothing came, in no time. */
	price__look(&l, 4000000000, 100000050, 1107, 100000);
	assert_true(fabs(l.rate) < 1e-9 && fabs(l.slowdown) < 1e-9 && fabs(l.load) < 1e-9);
}

/* Nobody waits for a process that ends: what it has used stays in the sum. */
static void test_sum(void **state)
{
	struct price_sum s = { 0 };

	(void)state;
	assert_int_equal(price_sum__take(&s, 1, 900), 0);
	assert_int_equal(price_sum__take(&s, 0, 100), 0);
	assert_int_equal(s.ns, 1000);
	assert_int_equal(price_sum__take(&s, 1, 0), 0);
	assert_int_equal(price_sum__take(&s, 0, 250), 0);
	assert_int_equal(s.ns, 1150);
	price_sum__free(&s);
}

/* Others have the CPU while a run stands, and first calls cost more: neither is the price. */
static void test_runs(void **state)
{
	struct price_runs r = { 0 };
	uint64_t ns = 0, cnt = 0, now = 1000000000;

	(void)state;
	for (uint32_t i = 0; i < 2 * PRICE_SLICES; i++) {
		bool slow = i % 3 == 0;

		price_runs__look(&r, now, ns, cnt);
		assert_true(i < 5 ? price_runs__median(&r) <= 0 : price_runs__median(&r) >= 700);
		now += PRICE_SLICE_MS * 1000000;
		cnt += 100;
		ns += 100 * (700 + i % 2) + (slow ? 4000000 : 0);
	}
	assert_int_equal(r.slice_cnt, PRICE_SLICES);
	assert_true(price_runs__median(&r) < 702);
	/* Too few runs, or too soon, are no slice. */
	r = (struct price_runs){ 0 };
	for (uint64_t i = 1; i < 1000; i++)
		price_runs__look(&r, now + 1000 * i, 500 * i, 100 * i);
	r.cnt = 0;
	for (uint64_t i = 1; i < 1000; i++)
		price_runs__look(&r, now + 1000000000 * i, 500 * i, i);
	assert_int_equal(r.slice_cnt, 0);
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
		cmocka_unit_test(test_slowdown), cmocka_unit_test(test_verdict),
		cmocka_unit_test(test_look),	 cmocka_unit_test(test_sum),
		cmocka_unit_test(test_runs),	 cmocka_unit_test(test_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
