/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Slow calls against others: what each part of their time was spent on, whatever the bounds. */
#include "trace/comparison.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#define MS 1000000ULL

/* `on` of the time on a CPU, and `us` of a wait. */
static struct pairs_times took(uint64_t total, uint64_t own, uint64_t on, uint32_t reason,
			       uint32_t us)
{
	struct pairs_times t = { .total_ns = total, .own_ns = own, .cpu_ns = on };

	t.waits.us[reason] = us;
	return t;
}

static const struct pairs_stack *stack_of(uint64_t code)
{
	static struct pairs_stack s;

	s = (struct pairs_stack){ .codes = { 1, code }, .offsets = { 0, 8 }, .cnt = 2 };
	return &s;
}

static void add(struct comparison *c, enum comparison_side side, const struct pairs_times *times,
		uint64_t code, const struct called *called)
{
	struct ended_call call = { .times = *times, .stack = stack_of(code) };

	call.stack_hash = pairs_stack__hash(call.stack);
	assert_int_equal(comparison__add(c, side, &call, called), 0);
}

/* The parts of each side add up to its time. */
static void check_sums(const struct comparison *c)
{
	uint64_t ns[SIDES] = { 0 }, calls[SIDES] = { 0 };

	for (size_t i = 0; i < c->part_cnt; i++)
		for (int side = 0; side < SIDES; side++)
			ns[side] += c->parts[i].ns[side];
	for (size_t i = 0; i < c->stack_cnt; i++)
		for (int side = 0; side < SIDES; side++)
			calls[side] += c->stacks[i].cnt[side];
	for (int side = 0; side < SIDES; side++) {
		assert_int_equal(ns[side], c->spent[side].total_ns);
		assert_int_equal(calls[side], c->spent[side].cnt);
	}
}

/* Each slow call waits 4 ms for a lock in 7, and sleeps 3 ms itself; all compute 1 ms in 9. */
static void test_reasons(void **state)
{
	struct pairs_times in_7 = took(5 * MS, 5 * MS, 1 * MS, REASON_LOCK, 4000);
	struct pairs_times in_9 = took(1 * MS, 1 * MS, 1 * MS, 0, 0);
	struct pairs_times slow = took(10 * MS, 4 * MS, 3 * MS, REASON_LOCK, 4000);
	struct pairs_times other = took(2 * MS, 1 * MS, 2 * MS, 0, 0);
	struct callee_difference *all;
	struct called *called = NULL;
	size_t room = 1 << 20, cnt;
	struct comparison c;

	(void)state;
	slow.waits.us[REASON_SLEEP] = 3000;
	comparison__init(&c, &room);
	assert_int_equal(called__add(&called, 9, &in_9), 0);
	for (int i = 0; i < 90; i++)
		add(&c, SIDE_OTHERS, &other, 5, called);
	assert_int_equal(called__add(&called, 7, &in_7), 0);
	for (int i = 0; i < 10; i++)
		add(&c, SIDE_SLOW, &slow, 5, called);
	check_sums(&c);
	all = comparison__callees(&c, &cnt);
	assert_int_equal(cnt, 3);
	assert_int_equal(all[0].who, CALLEE_ITSELF);
	assert_int_equal(all[0].more_ns, 3 * MS);
	assert_int_equal(all[0].more_on[REASON_SLEEP], 3 * MS);
	assert_int_equal(all[0].more_on[SPENT_CPU], 0);
	assert_int_equal(all[1].who, 7);
	assert_int_equal(all[1].more_ns, 5 * MS);
	assert_int_equal(all[1].more_on[REASON_LOCK], 4 * MS);
	assert_int_equal(all[1].more_on[SPENT_CPU], 1 * MS);
	assert_int_equal(all[1].cnt[SIDE_SLOW], 10);
	assert_int_equal(all[1].cnt[SIDE_OTHERS], 0);
	assert_int_equal(all[2].who, 9);
	assert_int_equal(all[2].more_ns, 0);
	assert_int_equal(all[2].cnt[SIDE_OTHERS], 90);
	free(all);
	free(called);
	comparison__free(&c);
	assert_int_equal(room, 1 << 20);
}

/* Clocks that contradict each other: a wait that is not seen, one too many, no CPU time. */
static void test_clocks(void **state)
{
	static const struct pairs_times inexact[] = {
		{ .total_ns = 10 * MS, .own_ns = 2 * MS, .cpu_ns = 1 * MS },
		{ .total_ns = 10 * MS, .own_ns = 2 * MS, .cpu_ns = 12 * MS },
		{ .total_ns = 10 * MS, .own_ns = 10 * MS, .cpu_ns = PAIRS_CPU_UNKNOWN },
		{ .total_ns = 0, .own_ns = 0, .cpu_ns = 0 },
	};
	struct pairs_times in_3 = took(8 * MS, 8 * MS, 8 * MS, REASON_NET, 9000);
	struct called *called = NULL;
	size_t room = 1 << 20;
	struct comparison c;

	(void)state;
	assert_int_equal(called__add(&called, 3, &in_3), 0);
	comparison__init(&c, &room);
	for (size_t i = 0; i < sizeof(inexact) / sizeof(inexact[0]); i++) {
		bool calls = inexact[i].own_ns < inexact[i].total_ns;

		add(&c, i % 2 ? SIDE_SLOW : SIDE_OTHERS, &inexact[i], i, calls ? called : NULL);
		check_sums(&c);
	}
	free(called);
	comparison__free(&c);
}

/* A call that calls any number of functions takes no more room, and none of their time is lost. */
static void test_many_callees(void **state)
{
	struct pairs_times times = took(10, 10, 4, 0, 0), all = took(10000, 0, 4000, 0, 0);
	struct called *called = NULL;
	size_t room = 1 << 20, cnt;
	struct callee_difference *found;
	struct comparison c;
	uint64_t calls = 0;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(called__add(&called, i, &times), 0);
	assert_true(called->cnt <= CALLEES_MAX + SPENT_ON_CNT);
	comparison__init(&c, &room);
	add(&c, SIDE_SLOW, &all, 1, called);
	check_sums(&c);
	found = comparison__callees(&c, &cnt);
	for (size_t i = 0; i < cnt; i++)
		calls += found[i].cnt[SIDE_SLOW];
	assert_int_equal(calls, 1000);
	assert_int_equal(found[0].who, CALLEE_OTHERS);
	free(found);
	free(called);
	comparison__free(&c);
}

/* Stacks and functions without end: their bytes are bounded, and sums stay right. */
static void test_bound(void **state)
{
	size_t room = 64 << 10, begin = room;
	struct comparison c[2];

	(void)state;
	for (int k = 0; k < 2; k++)
		comparison__init(&c[k], &room);
	for (uint32_t i = 0; i < 20000; i++) {
		struct pairs_times times = took(10, 4, 10, 0, 0), inner = took(6, 6, 6, 0, 0);
		struct called *called = NULL;

		assert_int_equal(called__add(&called, i, &inner), 0);
		add(&c[i % 2], i % 3 ? SIDE_OTHERS : SIDE_SLOW, &times, i, called);
		free(called);
	}
	for (int k = 0; k < 2; k++) {
		check_sums(&c[k]);
		assert_true(c[k].stack_cnt * sizeof(*c[k].stacks) < begin);
		assert_true(c[k].part_cnt * sizeof(*c[k].parts) < begin + 4096);
		/* The first ones, of which there is no room later, are the unknown. */
		assert_true(c[k].stacks[0].cnt[SIDE_SLOW] > 3000);
		comparison__free(&c[k]);
	}
	assert_int_equal(room, begin);
}

/* Slow calls come from 5, others from 6 and 7. */
static void test_callers(void **state)
{
	struct pairs_times slow = took(MS, MS, MS, 0, 0), other = took(1000, 1000, 1000, 0, 0);
	const struct compared_stack **all;
	size_t room = 1 << 20, cnt;
	struct comparison c;

	(void)state;
	comparison__init(&c, &room);
	for (uint64_t i = 0; i < 90; i++)
		add(&c, SIDE_OTHERS, &other, 6 + i % 2, NULL);
	for (uint64_t i = 0; i < 10; i++)
		add(&c, SIDE_SLOW, &slow, i < 9 ? 5 : 7, NULL);
	all = comparison__stacks(&c, &cnt);
	assert_int_equal(cnt, 3);
	assert_int_equal(all[0]->stack.codes[1], 5);
	assert_true(comparison__share(&c, all[0], SIDE_SLOW) == 0.9);
	assert_true(comparison__share(&c, all[0], SIDE_OTHERS) == 0);
	assert_int_equal(all[1]->stack.codes[1], 7);
	assert_int_equal(all[2]->stack.codes[1], 6);
	free(all);
	comparison__free(&c);
}

/* The slowest five, with their own stacks, however many come. */
static void test_slowest(void **state)
{
	size_t room = 0; /* without room for a stack they have theirs, too */
	struct comparison c;

	(void)state;
	comparison__init(&c, &room);
	for (uint64_t i = 0; i < 100; i++) {
		struct pairs_times times = took(i * 37 % 101, 0, 0, 0, 0);

		add(&c, SIDE_SLOW, &times, times.total_ns, NULL);
	}
	assert_int_equal(c.slowest_cnt, SLOWEST);
	for (size_t i = 0; i < SLOWEST; i++) {
		const struct ended_call *call = &c.slowest[i].call;

		assert_int_equal(call->stack->codes[1], call->times.total_ns);
		assert_true(!i || call->times.total_ns < c.slowest[i - 1].call.times.total_ns);
	}
	assert_int_equal(c.slowest[0].call.times.total_ns, 100);
	comparison__free(&c);
}

/* Of no calls at all. */
static void test_empty(void **state)
{
	struct comparison c = { .part_cnt = 0 };
	size_t cnt = 1;

	(void)state;
	free(comparison__callees(&c, &cnt));
	assert_int_equal(cnt, 0);
	free(comparison__stacks(&c, &cnt));
	assert_int_equal(cnt, 0);
	assert_int_equal(comparison__average(&c, SIDE_SLOW).total_ns, 0);
	comparison__free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reasons),	     cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_many_callees), cmocka_unit_test(test_bound),
		cmocka_unit_test(test_callers),	     cmocka_unit_test(test_slowest),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
