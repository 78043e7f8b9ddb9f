/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the agent does when it takes more than it may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "agent/budget.h"
#include "base/log.h"

#define S   1000000000ULL
#define MIB (1ULL << 20)

static unsigned said;

static void count(enum log_level level, const char *fmt, const char *text)
{
	(void)level, (void)fmt, (void)text;
	said++;
}

static struct budget make(void)
{
	const struct budget_config limits = { .cpu_percent = 1, .memory_mib = 100, .stacks = 4000 };
	struct budget b;

	budget__init(&b, &limits, 19);
	for (int i = 0; i < BUDGET_GRACE; i++)
		budget__cpu(&b, 60 * S, 60 * S, 60 * S);
	assert_int_equal(b.frequency_hz, 19);
	said = 0;
	return b;
}

/* `percent` at 19 Hz, and what a lower frequency makes of it. */
static void use(struct budget *b, double percent)
{
	uint64_t ns = (uint64_t)(0.01 * percent * 60e9 * b->frequency_hz / 19);

	budget__cpu(b, ns, ns, 60 * S);
}

/*
 * What sampling at 19 Hz takes, what a window takes, and what following processes does, in percent.
 */
static void use_parts(struct budget *b, double sampling, double window, double following)
{
	double samples = sampling * b->frequency_hz / 19 + window / b->stretch;

	budget__cpu(b, (uint64_t)(0.01 * (samples + following) * 60e9),
		    (uint64_t)(0.01 * samples * 60e9), 60 * S);
}

static void falls_until_it_fits(void **state)
{
	static const uint32_t steps[] = { 12, 8, 8, 8, 8, 8, 8, 8, 8 };
	struct budget b = make();

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		use(&b, 2);
		assert_int_equal(b.frequency_hz, steps[i]); /* 8/19 of 2% is 0.84 */
	}
	assert_int_equal(said, 2);
}

static void rises_when_there_is_room_for_long(void **state)
{
	static const uint32_t steps[] = { 12, 12, 12, 18, 18, 18, 19, 19, 19 };
	struct budget b = make();

	(void)state;
	use(&b, 1.5);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		assert_int_equal(b.frequency_hz, steps[i]);
		use(&b, 0.5);
	}
	assert_int_equal(said, 3);
}

static void does_not_swing(void **state)
{
	struct budget b = make();
	unsigned changes = 0;
	uint32_t last;

	(void)state;
	for (int i = 0; i < 200; i++) {
		last = b.frequency_hz;
		use(&b, i % 2 ? 1.3 : 1.0);
		changes += last != b.frequency_hz;
	}
	assert_int_equal(changes, 1); /* at 18 Hz it would be above four fifths */
	assert_int_equal(b.frequency_hz, 12);
}

static void at_the_lowest_it_says_so(void **state)
{
	struct budget b = make();

	(void)state;
	for (int i = 0; i < 20; i++)
		use(&b, 1000);
	assert_int_equal(b.frequency_hz, BUDGET_HZ_MIN);
	assert_int_equal(b.stretch, 1);
	assert_int_equal(said, 2 + 1); /* each step, and once that there is no more */
	for (int i = 0; i < BUDGET_CALM; i++)
		use(&b, 0);
	assert_int_equal(b.frequency_hz, 10);
}

/* Sampling is not what is dear: it goes on as before, and windows get longer, and shorter again. */
static void what_windows_take_is_not_taken_from_sampling(void **state)
{
	static const uint32_t hz[] = { 12, 19, 19, 19, 19 }, stretch[] = { 1, 1, 2, 4, 4 };
	struct budget b = make();

	(void)state;
	for (size_t i = 0; i < sizeof(hz) / sizeof(hz[0]); i++) {
		use_parts(&b, 0.07, 2.2, 0.2);
		assert_int_equal(b.frequency_hz, hz[i]);
		assert_int_equal(b.stretch, stretch[i]);
	}
	assert_int_equal(said, 4);
	for (int i = 0; i < 2 * BUDGET_CALM; i++)
		use_parts(&b, 0.07, 0.2, 0.2);
	assert_int_equal(b.stretch, 1);
	assert_int_equal(b.frequency_hz, 19);
	assert_int_equal(said, 6);
}

/* Both: the frequency falls by what it can be blamed for. */
static void a_part_that_stays_is_reckoned_with(void **state)
{
	struct budget b = make();

	(void)state;
	for (int i = 0; i < 10; i++)
		use_parts(&b, 0.8, 0, 0.5);
	assert_int_equal(b.frequency_hz, 9); /* 0.5% + 9/19 of 0.8% is 0.88% */
}

static void what_does_not_help_is_not_done(void **state)
{
	struct budget b = make();

	(void)state;
	use_parts(&b, 1, 0, 9);
	use_parts(&b, 1, 0, 9);
	assert_int_equal(b.frequency_hz, 19);
	assert_int_equal(b.stretch, 1);
	assert_int_equal(said, 1); /* until there is something else to say */
	use_parts(&b, 9, 0, 1);
	assert_int_equal(b.frequency_hz, 12);
	assert_int_equal(said, 2);
}

static void memory_is_given_back_step_by_step(void **state)
{
	struct budget b = make();

	(void)state;
	budget__memory(&b, 100 * MIB);
	assert_false(b.give_back);
	budget__memory(&b, 101 * MIB);
	assert_true(b.give_back);
	assert_int_equal(b.stacks, 4000);
	for (uint32_t want = 2000; want >= BUDGET_STACKS_MIN; want /= 2) {
		budget__memory(&b, 101 * MIB);
		assert_int_equal(b.stacks, want);
	}
	for (int i = 0; i < 5; i++)
		budget__memory(&b, 101 * MIB);
	assert_int_equal(b.stacks, BUDGET_STACKS_MIN);
	assert_int_equal(said, 5); /* each step, and once that there is no more */
	budget__memory(&b, 99 * MIB);
	budget__memory(&b, 101 * MIB);
	assert_int_equal(said, 6);
	said = 5;
	for (int i = 0; i < 3 * BUDGET_CALM; i++)
		budget__memory(&b, 70 * MIB);
	assert_int_equal(b.stacks, 4000);
	assert_true(b.give_back);
	for (int i = 0; i < BUDGET_CALM; i++)
		budget__memory(&b, 70 * MIB);
	assert_false(b.give_back);
	budget__memory(&b, 70 * MIB);
	assert_int_equal(said, 9);
}

static void memory_between_the_marks_changes_nothing(void **state)
{
	struct budget b = make();

	(void)state;
	budget__memory(&b, 101 * MIB);
	for (int i = 0; i < 100; i++)
		budget__memory(&b, 90 * MIB);
	assert_true(b.give_back);
	assert_int_equal(said, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(falls_until_it_fits),
		cmocka_unit_test(rises_when_there_is_room_for_long),
		cmocka_unit_test(does_not_swing),
		cmocka_unit_test(at_the_lowest_it_says_so),
		cmocka_unit_test(what_does_not_help_is_not_done),
		cmocka_unit_test(what_windows_take_is_not_taken_from_sampling),
		cmocka_unit_test(a_part_that_stays_is_reckoned_with),
		cmocka_unit_test(memory_is_given_back_step_by_step),
		cmocka_unit_test(memory_between_the_marks_changes_nothing),
	};

	log_set_writer(count);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
