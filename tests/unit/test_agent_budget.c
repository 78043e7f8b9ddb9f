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

/* What is charged to nobody. */
static void cpu(struct budget *b, uint64_t used_ns, uint64_t samples_ns, uint64_t duration_ns)
{
	const struct budget_period p = { .duration_ns = duration_ns,
					 .used_ns = used_ns,
					 .samples_ns = samples_ns };
	uint32_t one_of;

	assert_null(budget__cpu(b, &p, &one_of));
}

static struct budget make(void)
{
	const struct budget_config limits = { .cpu_percent = 1, .memory_mib = 100, .stacks = 4000 };
	struct budget b;

	budget__init(&b, &limits, 19);
	for (int i = 0; i < BUDGET_GRACE; i++)
		cpu(&b, 60 * S, 60 * S, 60 * S);
	assert_int_equal(b.frequency_hz, 19);
	said = 0;
	return b;
}

/* `percent` at 19 Hz, and what a lower frequency makes of it. */
static void use(struct budget *b, double percent)
{
	uint64_t ns = (uint64_t)(0.01 * percent * 60e9 * b->frequency_hz / 19);

	cpu(b, ns, ns, 60 * S);
}

/*
 * What sampling at 19 Hz takes, what a window takes, and what following processes does, in percent.
 */
static void use_parts(struct budget *b, double sampling, double window, double following)
{
	double samples = sampling * b->frequency_hz / 19 + window / b->stretch;

	cpu(b, (uint64_t)(0.01 * (samples + following) * 60e9), (uint64_t)(0.01 * samples * 60e9),
	    60 * S);
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

/* ---- users ---- */

#define USERS 4

/* Each costs so many hundredths of a percent in 60 s: for samples, at full share; to follow. */
struct user {
	uint64_t samples, follows;
	uint32_t one_of;
	uint64_t stacks;
};

/* One period; the users as they are cut then. Whoever is cut. */
static int period_of(struct budget *b, struct user users[USERS])
{
	struct bill bills[USERS] = { 0 };
	struct budget_period p = { .duration_ns = 60 * S, .users = bills, .user_cnt = USERS };
	const struct bill *cut;
	uint32_t one_of = 0;

	for (uint32_t i = 0; i < USERS; i++) {
		uint32_t of = users[i].one_of ? users[i].one_of : 1;

		bills[i] = (struct bill){ .uid = 1000 + i,
					  .one_of = of,
					  .samples_ns = users[i].samples * 6000000 / of,
					  .follow_ns = users[i].follows * 6000000,
					  .stacks = users[i].stacks };
		p.used_ns += bills[i].samples_ns + bills[i].follow_ns;
		p.samples_ns += bills[i].samples_ns;
	}
	cut = budget__cpu(b, &p, &one_of);
	if (!cut)
		return -1;
	users[cut->uid - 1000].one_of = one_of;
	return (int)cut->uid - 1000;
}

/* Nobody else has a lower frequency, nor longer windows; and it ends when the cost does. */
static void who_costs_most_pays_alone(void **state)
{
	struct user users[USERS] = { { .samples = 10, .stacks = 5 },
				     { .samples = 390, .stacks = 5000 },
				     { .samples = 20, .stacks = 9 } };
	struct budget b = make();

	(void)state;
	for (uint32_t want = 2; want <= 8; want *= 2) {
		assert_int_equal(period_of(&b, users), 1);
		assert_int_equal(users[1].one_of, want);
	}
	for (int i = 0; i < 10; i++) /* 0.79% */
		assert_int_equal(period_of(&b, users), -1);
	assert_int_equal(said, 3);
	users[1].samples = 40;
	for (uint32_t want = 4; want; want /= 2) {
		assert_int_equal(period_of(&b, users), -1);
		assert_int_equal(period_of(&b, users), -1);
		assert_int_equal(period_of(&b, users), 1);
		assert_int_equal(users[1].one_of, want);
	}
	assert_int_equal(period_of(&b, users), -1);
	assert_int_equal(b.frequency_hz, 19);
	assert_int_equal(b.stretch, 1);
}

/* Two who cost too much are cut in turn, the costlier one first. */
static void the_costliest_is_cut_first(void **state)
{
	struct user users[USERS] = { { .samples = 200, .stacks = 9 },
				     { .samples = 300, .stacks = 9 },
				     { .samples = 5, .stacks = 9 } };
	struct budget b = make();

	(void)state;
	assert_int_equal(period_of(&b, users), 1);
	assert_int_equal(period_of(&b, users), 0);
	assert_int_equal(period_of(&b, users), 1);
	assert_int_equal(period_of(&b, users), 0);
	assert_int_equal(users[2].one_of, 0);
	assert_int_equal(b.frequency_hz, 19);
}

/* One who starts programs is cut once, which wakes nobody any more, and named once. */
static void a_storm_of_programs_is_no_reason_to_sample_others_less(void **state)
{
	struct user users[USERS] = { { .follows = 500 }, { .samples = 30, .stacks = 9 } };
	struct budget b = make();

	(void)state;
	users[0].samples = 100;
	assert_int_equal(period_of(&b, users), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(period_of(&b, users), -1);
	assert_int_equal(users[0].one_of, 2);
	assert_int_equal(said, 2);
	assert_int_equal(b.frequency_hz, 19);
	assert_int_equal(b.stretch, 1);
}

/* With one user, or users who all cost too much, the frequency is what is lowered. */
static void where_all_cost_too_much_all_pay(void **state)
{
	struct user one[USERS] = { { .samples = 200, .stacks = 9 } };
	struct user all[USERS] = { { .samples = 80, .stacks = 9 },
				   { .samples = 80, .stacks = 9 },
				   { .samples = 80, .stacks = 9 },
				   { .samples = 80, .stacks = 9 } };
	struct budget b = make();

	(void)state;
	assert_int_equal(period_of(&b, one), -1);
	assert_int_equal(b.frequency_hz, 12);
	b = make();
	assert_int_equal(period_of(&b, all), -1);
	assert_int_equal(b.frequency_hz, 12);
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
		cmocka_unit_test(who_costs_most_pays_alone),
		cmocka_unit_test(the_costliest_is_cut_first),
		cmocka_unit_test(a_storm_of_programs_is_no_reason_to_sample_others_less),
		cmocka_unit_test(where_all_cost_too_much_all_pay),
		cmocka_unit_test(memory_is_given_back_step_by_step),
		cmocka_unit_test(memory_between_the_marks_changes_nothing),
	};

	log_set_writer(count);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
