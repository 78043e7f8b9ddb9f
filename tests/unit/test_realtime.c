/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How long the profiler may run before others (realtime.h), by its credit of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sample/realtime.h"

#define MS NS_PER_MS

/* Woken at `now`, it is at work for `ns`. True: with what is left it may begin again. */
static bool works(struct realtime *u, uint64_t now, uint64_t ns)
{
	u->woken_ns = now;
	realtime__earn(u, now + ns);
	realtime__spend(u, now + ns);
	return u->credit_ns >= REALTIME_LEAST_NS;
}

static void it_begins_with_all_of_its_credit(void **state)
{
	struct realtime u = { 0 };

	(void)state;
	realtime__earn(&u, 1000 * MS);
	assert_int_equal(u.credit_ns, REALTIME_CREDIT_NS);
	realtime__earn(&u, 2000 * MS); /* there is never more */
	assert_int_equal(u.credit_ns, REALTIME_CREDIT_NS);
}

/* Whatever there is to do: not for longer than its credit, and what it earned meanwhile. */
static void work_without_end_uses_it_up(void **state)
{
	struct realtime u = { 0 };
	uint64_t now = 1000 * MS, begin = now;

	(void)state;
	realtime__earn(&u, now);
	for (; works(&u, now, MS / 10); now += MS / 10)
		assert_true(now < begin + 100 * MS);
	assert_true(now - begin >= REALTIME_CREDIT_NS - REALTIME_LEAST_NS);
	assert_true(now - begin <= 2 * REALTIME_CREDIT_NS);
}

/* In the long run a quarter of a CPU. */
static void its_share_is_never_used_up(void **state)
{
	struct realtime u = { 0 };
	uint64_t now = 1000 * MS;

	(void)state;
	realtime__earn(&u, now);
	for (int i = 0; i < 1000; i++, now += MS)
		assert_true(works(&u, now, MS / REALTIME_SHARE));
	for (int i = 0; i < 1000 && works(&u, now, MS / 2); i++, now += MS)
		assert_true(i < 100);
	now += 100 * MS;
	assert_true(works(&u, now, MS)); /* it has rested */
}

/* A wait costs nothing, nor does a clock that stands still. */
static void what_was_not_worked_is_not_spent(void **state)
{
	struct realtime u = { 0 };

	(void)state;
	realtime__earn(&u, 1000 * MS);
	realtime__spend(&u, 5000 * MS);
	assert_int_equal(u.credit_ns, REALTIME_CREDIT_NS);
	u.woken_ns = 6000 * MS;
	realtime__spend(&u, 5000 * MS);
	assert_int_equal(u.credit_ns, REALTIME_CREDIT_NS);
	assert_int_equal(u.woken_ns, 0);
}

/* Nothing is asked of the kernel by one that was not set up. */
static void it_has_no_priority_unless_permitted(void **state)
{
	struct realtime u = { 0 };

	(void)state;
	realtime__begin(&u);
	realtime__woken(&u);
	realtime__end(&u);
	assert_false(u.on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_begins_with_all_of_its_credit),
		cmocka_unit_test(work_without_end_uses_it_up),
		cmocka_unit_test(its_share_is_never_used_up),
		cmocka_unit_test(what_was_not_worked_is_not_spent),
		cmocka_unit_test(it_has_no_priority_unless_permitted),
	};

	return cmocka_run_group_tests_name("realtime", tests, NULL, NULL);
}
