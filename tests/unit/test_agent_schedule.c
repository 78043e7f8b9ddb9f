/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where periods end, on clocks that the test turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/schedule.h"

#define S 1000000000ULL

/* A schedule of minutes, the clocks, and the last period. */
static struct world {
	struct clocks c;
	struct schedule s;
	struct span span;
} world;

static void begin_at(struct world *w, uint64_t real_ns)
{
	w->c = (struct clocks){ .real_ns = real_ns, .mono_ns = 500 * S, .boot_ns = 700 * S };
	schedule__begin(&w->s, 60 * S, &w->c);
}

/* At a border, unless the test says otherwise. */
static int begin(void **state)
{
	begin_at(&world, 60000 * S);
	*state = &world;
	return 0;
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
	struct world *w = *state;

	begin_at(w, 1000 * 60 * S + 20 * S);
	assert_int_equal(schedule__wake_ns(&w->s, &w->c), w->c.mono_ns + 40 * S);
	pass(&w->c, 40 * S - 1);
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_RUNS);
	pass(&w->c, 1 + 3000000);
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_DUE);
	schedule__take(&w->s, &w->c, &w->span);
	assert_int_equal(w->span.start_unix_ns, 1000 * 60 * S + 20 * S);
	assert_int_equal(w->span.duration_ns, 40 * S + 3000000);
	/* The next one is late by 3 ms at its start, and ends at the next multiple all the same. */
	assert_int_equal(schedule__wake_ns(&w->s, &w->c), w->c.mono_ns + 60 * S - 3000000);
	pass(&w->c, 60 * S - 3000000);
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_DUE);
	schedule__take(&w->s, &w->c, &w->span);
	assert_int_equal(w->span.start_unix_ns, 1001 * 60 * S + 3000000);
	assert_int_equal(w->span.start_unix_ns + w->span.duration_ns, 1002 * 60 * S);
}

static void no_period_is_tiny(void **state)
{
	struct world *w = *state;

	begin_at(w, 1000 * 60 * S - 2 * S);
	assert_int_equal(schedule__wake_ns(&w->s, &w->c), w->c.mono_ns + 62 * S);
	begin_at(w, 1000 * 60 * S);
	assert_int_equal(schedule__wake_ns(&w->s, &w->c), w->c.mono_ns + 60 * S);
}

/* Windows follow each other without a gap and without overlap in the time that was sampled. */
static void clock_set_forwards(void **state)
{
	struct world *w = *state;

	pass(&w->c, 10 * S);
	w->c.real_ns += 3600 * S;
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_CLOCK_SET);
	schedule__take(&w->s, &w->c, &w->span);
	assert_int_equal(w->span.start_unix_ns, 60000 * S);
	assert_int_equal(w->span.duration_ns, 10 * S);
	assert_int_equal(w->span.jump_ns, 3600 * S);
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_RUNS);
	assert_int_equal(schedule__wake_ns(&w->s, &w->c), w->c.mono_ns + 50 * S);
}

static void clock_set_backwards(void **state)
{
	struct world *w = *state;

	pass(&w->c, 10 * S);
	w->c.real_ns -= 86400 * S;
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_CLOCK_SET);
	schedule__take(&w->s, &w->c, &w->span);
	assert_int_equal(w->span.duration_ns, 10 * S);
	assert_int_equal(w->span.jump_ns, -86400 * (int64_t)S);
	pass(&w->c, 50 * S);
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_DUE);
	schedule__take(&w->s, &w->c, &w->span);
	assert_int_equal(w->span.duration_ns, 50 * S);
}

/* NTP slews by at most 500 us a second. */
static void a_slewed_clock_is_no_jump(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 59; i++) {
		pass(&w->c, S);
		w->c.real_ns += 500000;
		assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_RUNS);
	}
	pass(&w->c, S);
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_DUE);
}

static void suspended(void **state)
{
	struct world *w = *state;

	pass(&w->c, 10 * S);
	sleep_for(&w->c, 7200 * S);
	pass(&w->c, S / 2);
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_SLEPT);
	schedule__take(&w->s, &w->c, &w->span);
	assert_int_equal(w->span.duration_ns, 10 * S + S / 2);
	assert_int_equal(w->span.jump_ns, 7200 * S);
	schedule__take(&w->s, &w->c, &w->span); /* at once again */
	assert_int_equal(w->span.start_unix_ns, 67210 * S + S / 2);
	assert_int_equal(w->span.duration_ns, 0);
}

/* Nobody looked for five minutes: the window says so. */
static void looked_at_late(void **state)
{
	struct world *w = *state;

	pass(&w->c, 300 * S);
	assert_int_equal(schedule__check(&w->s, &w->c), SCHEDULE_DUE);
	assert_int_equal(schedule__wake_ns(&w->s, &w->c), w->c.mono_ns);
	schedule__take(&w->s, &w->c, &w->span);
	assert_int_equal(w->span.duration_ns, 300 * S);
}

static void a_clock_that_goes_back_gives_no_negative_duration(void **state)
{
	struct world *w = *state;

	w->c.mono_ns -= S;
	w->c.boot_ns -= S;
	schedule__take(&w->s, &w->c, &w->span);
	assert_int_equal(w->span.duration_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(ends_at_multiples, begin),
		cmocka_unit_test_setup(no_period_is_tiny, begin),
		cmocka_unit_test_setup(clock_set_forwards, begin),
		cmocka_unit_test_setup(clock_set_backwards, begin),
		cmocka_unit_test_setup(a_slewed_clock_is_no_jump, begin),
		cmocka_unit_test_setup(suspended, begin),
		cmocka_unit_test_setup(looked_at_late, begin),
		cmocka_unit_test_setup(a_clock_that_goes_back_gives_no_negative_duration, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
