/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where periods end, on clocks that the test turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/schedule.h"

#define S 1000000000ULL

static struct clocks start_at(uint64_t real_ns)
{
	return (struct clocks){ .real_ns = real_ns, .mono_ns = 500 * S, .boot_ns = 700 * S };
}

static void pass(struct clocks *c, uint64_t ns)
{
	c->real_ns += ns;
	c->mono_ns += ns;
	c->boot_ns += ns;
}

static void sleep_for(struct clocks *c, uint64_t ns)
{
	c->real_ns += ns;
	c->boot_ns += ns;
}

static void ends_at_multiples(void **state)
{
	struct clocks c = start_at(1000 * 60 * S + 20 * S);
	struct schedule s;
	struct span span;

	(void)state;
	schedule__begin(&s, 60 * S, &c);
	assert_int_equal(schedule__wake_ns(&s, &c), c.mono_ns + 40 * S);
	pass(&c, 40 * S - 1);
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_RUNS);
	pass(&c, 1 + 3000000);
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_DUE);
	schedule__take(&s, &c, &span);
	assert_int_equal(span.start_unix_ns, 1000 * 60 * S + 20 * S);
	assert_int_equal(span.duration_ns, 40 * S + 3000000);
	/* The next one is late by 3 ms at its start, and ends at the next multiple all the same. */
	assert_int_equal(schedule__wake_ns(&s, &c), c.mono_ns + 60 * S - 3000000);
	pass(&c, 60 * S - 3000000);
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_DUE);
	schedule__take(&s, &c, &span);
	assert_int_equal(span.start_unix_ns, 1001 * 60 * S + 3000000);
	assert_int_equal(span.start_unix_ns + span.duration_ns, 1002 * 60 * S);
}

static void no_period_is_tiny(void **state)
{
	struct clocks c = start_at(1000 * 60 * S - 2 * S);
	struct schedule s;

	(void)state;
	schedule__begin(&s, 60 * S, &c);
	assert_int_equal(schedule__wake_ns(&s, &c), c.mono_ns + 62 * S);
	c = start_at(1000 * 60 * S);
	schedule__begin(&s, 60 * S, &c);
	assert_int_equal(schedule__wake_ns(&s, &c), c.mono_ns + 60 * S);
}

/* Windows follow each other without a gap and without overlap in the time that was sampled. */
static void clock_set_forwards(void **state)
{
	struct clocks c = start_at(60000 * S);
	struct schedule s;
	struct span span;

	(void)state;
	schedule__begin(&s, 60 * S, &c);
	pass(&c, 10 * S);
	c.real_ns += 3600 * S;
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_CLOCK_SET);
	schedule__take(&s, &c, &span);
	assert_int_equal(span.start_unix_ns, 60000 * S);
	assert_int_equal(span.duration_ns, 10 * S);
	assert_int_equal(span.jump_ns, 3600 * S);
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_RUNS);
	assert_int_equal(schedule__wake_ns(&s, &c), c.mono_ns + 50 * S);
}

static void clock_set_backwards(void **state)
{
	struct clocks c = start_at(60000 * S);
	struct schedule s;
	struct span span;

	(void)state;
	schedule__begin(&s, 60 * S, &c);
	pass(&c, 10 * S);
	c.real_ns -= 86400 * S;
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_CLOCK_SET);
	schedule__take(&s, &c, &span);
	assert_int_equal(span.duration_ns, 10 * S);
	assert_int_equal(span.jump_ns, -86400 * (int64_t)S);
	pass(&c, 50 * S);
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_DUE);
	schedule__take(&s, &c, &span);
	assert_int_equal(span.duration_ns, 50 * S);
}

/* NTP slews by at most 500 us a second. */
static void a_slewed_clock_is_no_jump(void **state)
{
	struct clocks c = start_at(60000 * S);
	struct schedule s;

	(void)state;
	schedule__begin(&s, 60 * S, &c);
	for (int i = 0; i < 59; i++) {
		pass(&c, S);
		c.real_ns += 500000;
		assert_int_equal(schedule__check(&s, &c), SCHEDULE_RUNS);
	}
	pass(&c, S);
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_DUE);
}

static void suspended(void **state)
{
	struct clocks c = start_at(60000 * S);
	struct schedule s;
	struct span span;

	(void)state;
	schedule__begin(&s, 60 * S, &c);
	pass(&c, 10 * S);
	sleep_for(&c, 7200 * S);
	pass(&c, S / 2);
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_SLEPT);
	schedule__take(&s, &c, &span);
	assert_int_equal(span.duration_ns, 10 * S + S / 2);
	assert_int_equal(span.jump_ns, 7200 * S);
	schedule__take(&s, &c, &span); /* at once again */
	assert_int_equal(span.start_unix_ns, 67210 * S + S / 2);
	assert_int_equal(span.duration_ns, 0);
}

/* Nobody looked for five minutes: the window says so. */
static void looked_at_late(void **state)
{
	struct clocks c = start_at(60000 * S);
	struct schedule s;
	struct span span;

	(void)state;
	schedule__begin(&s, 60 * S, &c);
	pass(&c, 300 * S);
	assert_int_equal(schedule__check(&s, &c), SCHEDULE_DUE);
	assert_int_equal(schedule__wake_ns(&s, &c), c.mono_ns);
	schedule__take(&s, &c, &span);
	assert_int_equal(span.duration_ns, 300 * S);
}

static void a_clock_that_goes_back_gives_no_negative_duration(void **state)
{
	struct clocks c = start_at(60000 * S);
	struct schedule s;
	struct span span;

	(void)state;
	schedule__begin(&s, 60 * S, &c);
	c.mono_ns -= S;
	c.boot_ns -= S;
	schedule__take(&s, &c, &span);
	assert_int_equal(span.duration_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_at_multiples),
		cmocka_unit_test(no_period_is_tiny),
		cmocka_unit_test(clock_set_forwards),
		cmocka_unit_test(clock_set_backwards),
		cmocka_unit_test(a_slewed_clock_is_no_jump),
		cmocka_unit_test(suspended),
		cmocka_unit_test(looked_at_late),
		cmocka_unit_test(a_clock_that_goes_back_gives_no_negative_duration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
