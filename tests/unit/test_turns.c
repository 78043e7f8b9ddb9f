// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Whose turn it is among threads of several users. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "threads/turns.h"

#define THREADS 5000

static struct turns turns;
static uint32_t user_of[THREADS], taken[THREADS];

/* One round. Returns the number of turns, and in *of those of user 7. */
static uint32_t play(uint32_t cnt, uint32_t most, uint32_t *of)
{
	uint32_t all = 0;

	*of = 0;
	turns__begin(&turns);
	for (uint32_t i = 0; i < cnt; i++)
		turns__add(&turns, user_of[i]);
	turns__share(&turns, most);
	for (uint32_t i = 0; i < cnt; i++) {
		bool turn = turns__take(&turns, user_of[i]);

		taken[i] += turn;
		all += turn;
		*of += turn && user_of[i] == 7;
	}
	return all;
}

static int begin(void **state)
{
	(void)state;
	memset(&turns, 0, sizeof(turns));
	memset(taken, 0, sizeof(taken));
	for (uint32_t i = 0; i < THREADS; i++)
		user_of[i] = i % 50 ? 7 : 100 + i % 4; /* one has 98%, two have 1% each */
	return 0;
}

static void all_where_there_is_room(void **state)
{
	uint32_t of;

	(void)state;
	assert_int_equal(play(THREADS, THREADS, &of), THREADS);
	assert_int_equal(of, THREADS / 50 * 49);
	assert_int_equal(play(0, 10, &of), 0);
	assert_int_equal(play(THREADS, 0, &of), 0);
}

/* Who has many threads takes nothing from those who have few. */
static void few_are_not_crowded_out(void **state)
{
	uint32_t of;

	(void)state;
	assert_in_range(play(THREADS, 1000, &of), 998, 1000);
	assert_int_equal(of, 900);
	for (uint32_t i = 0; i < THREADS; i += 50)
		assert_int_equal(taken[i], 1);
	assert_in_range(play(THREADS, 90, &of), 88, 90); /* 30 each */
	assert_int_equal(of, 30);
}

/* Each thread has its turn as often as the others of its user. */
static void in_turn(void **state)
{
	uint32_t of;

	(void)state;
	for (int round = 0; round < 98; round++)
		play(THREADS, 150, &of); /* 50 each: 98 rounds are once for all */
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(taken[i], user_of[i] == 7 ? 1 : 98);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(all_where_there_is_room, begin),
		cmocka_unit_test_setup(few_are_not_crowded_out, begin),
		cmocka_unit_test_setup(in_turn, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
