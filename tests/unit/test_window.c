/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The slowest of a function's last calls, whatever order they come in. */
#include "trace/window.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

static struct pairs_times took(uint64_t ns)
{
	return (struct pairs_times){ .total_ns = ns, .own_ns = ns / 2, .cpu_ns = ns / 4 };
}

static void add(struct window *w, uint64_t ns, const struct called *called)
{
	struct ended_call call = { .start_ns = window__cnt(w), .times = took(ns) };

	assert_int_equal(window__add(w, &call, called), 0);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/* What is split off a window; comparison__free() ends it. */
static struct comparison split(const struct window *w, double percentile, uint64_t *limit_ns)
{
	static size_t room;
	struct comparison c;

	room = 1 << 20;
	comparison__init(&c, &room);
	assert_int_equal(window__split(w, percentile, &c, limit_ns), 0);
	return c;
}

/* The limit is what sorting gives, for many orders with equal times among them. */
static void test_limit(void **state)
{
	static const double percentiles[] = { 50, 75, 90, 99, 99.5, 99.9 };
	static uint64_t all[WINDOW_CALLS];
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 60; round++) {
		double p = percentiles[round % 6];
		size_t cnt = WINDOW_ENOUGH + (size_t)round * 61, slow;
		struct windows *ws = windows__new();
		struct window *w = window__new(ws);
		struct comparison c;
		uint64_t limit_ns;

		for (size_t i = 0; i < cnt; i++) {
			seed = seed * 1103515245 + 12345;
			all[i] = round % 3 == 0 ? i : round % 3 == 1 ? seed >> 8 : seed >> 28;
			add(w, all[i], NULL);
		}
		qsort(all, cnt, sizeof(*all), by_size);
		slow = (size_t)((double)cnt * (100 - p) / 100 + 1e-6);
		slow = slow ? slow : 1;
		assert_int_equal(window__limit(w, p), all[slow - 1]);
		c = split(w, p, &limit_ns);
		assert_int_equal(limit_ns, all[slow - 1]);
		assert_int_equal(c.spent[SIDE_SLOW].cnt, slow);
		assert_int_equal(c.spent[SIDE_SLOW].cnt + c.spent[SIDE_OTHERS].cnt, cnt);
		for (size_t i = 0; i < c.slowest_cnt; i++)
			assert_int_equal(c.slowest[i].call.times.total_ns, all[i]);
		comparison__free(&c);
		windows__free(ws);
	}
}

static void test_too_few(void **state)
{
	struct windows *ws = windows__new();
	struct window *w = window__new(ws);
	struct comparison c = { .part_cnt = 0 };
	uint64_t limit_ns;

	(void)state;
	for (int i = 1; i < WINDOW_ENOUGH; i++)
		add(w, (uint64_t)i, NULL);
	assert_int_equal(window__limit(w, 99), UINT64_MAX);
	assert_int_equal(window__split(w, 99, &c, &limit_ns), -EAGAIN);
	add(w, 1000, NULL);
	assert_int_equal(window__limit(w, 99), WINDOW_ENOUGH - 1);
	c = split(w, 99, &limit_ns);
	assert_int_equal(c.spent[SIDE_SLOW].cnt, 2);
	comparison__free(&c);
	windows__free(ws);
}

/* Calls are forgotten when there are WINDOW_CALLS newer ones. */
static void test_forgets(void **state)
{
	struct windows *ws = windows__new();
	struct window *w = window__new(ws);
	struct comparison c;
	uint64_t limit_ns;

	(void)state;
	for (int i = 0; i < 500; i++)
		add(w, 1000000, NULL);
	for (int i = 0; i < WINDOW_CALLS; i++)
		add(w, i % 100 ? 10 : 20, NULL);
	c = split(w, 99, &limit_ns);
	assert_int_equal(c.spent[SIDE_SLOW].cnt + c.spent[SIDE_OTHERS].cnt, WINDOW_CALLS);
	assert_int_equal(limit_ns, 20);
	assert_int_equal(c.spent[SIDE_SLOW].cnt, 100);
	assert_false(window__is_cut(w));
	comparison__free(&c);
	windows__free(ws);
}

static struct pairs_stack *stack_of(uint32_t i)
{
	static struct pairs_stack s;

	s = (struct pairs_stack){ .codes = { i }, .offsets = { i }, .cnt = 1 };
	return &s;
}

/* Equal stacks are one, and stay as long as a call has them. */
static void test_stacks(void **state)
{
	struct windows *ws = windows__new();
	struct window *w = window__new(ws);
	struct ended_call call = { .start_ns = 0 };
	struct comparison c;
	uint64_t limit_ns;

	(void)state;
	for (uint32_t i = 0; i < 3 * WINDOW_CALLS; i++) {
		call.times = took(i);
		call.stack = stack_of(i % 7);
		call.stack_hash = pairs_stack__hash(call.stack);
		assert_int_equal(window__add(w, &call, NULL), 0);
	}
	c = split(w, 99.9, &limit_ns);
	for (uint32_t i = 0; i < SLOWEST; i++)
		assert_int_equal(c.slowest[i].stack.codes[0], (3 * WINDOW_CALLS - 1 - i) % 7);
	assert_int_equal(c.stack_cnt, 1 + 7);
	assert_true(windows__bytes(ws) < WINDOW_CALLS * 200);
	comparison__free(&c);
	windows__free(ws);
}

/* Hundreds of functions, each with its own stacks: no more than what all may have. */
static void test_bound(void **state)
{
	struct windows *ws = windows__new();
	struct window *w[200];
	struct pairs_times times = took(1);
	struct called *called = NULL;
	bool cut = false;

	(void)state;
	for (uint32_t i = 0; i < CALLEES_MAX; i++)
		assert_int_equal(called__add(&called, i, &times), 0);
	for (int i = 0; i < 200; i++) {
		struct ended_call call = { .start_ns = 0 };

		w[i] = window__new(ws);
		for (uint32_t k = 0; k < 600; k++) {
			call.times = took(k);
			call.stack = stack_of((uint32_t)i << 16 | k);
			call.stack_hash = pairs_stack__hash(call.stack);
			assert_int_equal(window__add(w[i], &call, called), 0);
		}
	}
	free(called);
	assert_true(windows__bytes(ws) <= WINDOWS_BYTES);
	assert_true(windows__bytes(ws) > WINDOWS_BYTES / 4 * 3);
	for (int i = 0; i < 200; i++) {
		/* The first ones, of which nothing more came, can still be told. */
		assert_true(window__limit(w[i], 99) != UINT64_MAX);
		cut |= window__is_cut(w[i]);
	}
	assert_true(cut);
	windows__free(ws);
}

/* One that has gone leaves its room to the others, which go on. */
static void test_gone(void **state)
{
	struct windows *ws = windows__new();
	struct window *w[3];
	size_t bytes[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		w[i] = window__new(ws);
		for (uint64_t k = 0; k < 1000; k++)
			add(w[i], k, NULL);
		bytes[i] = windows__bytes(ws);
	}
	window__free(w[0]);
	assert_int_equal(windows__bytes(ws), bytes[1]);
	window__free(NULL);
	for (uint64_t k = 0; k < 1000000; k++)
		add(w[1 + k % 2], k, NULL);
	assert_int_equal(window__cnt(w[1]), 501000);
	window__free(w[2]);
	assert_true(windows__bytes(ws) > 0);
	window__free(w[1]);
	assert_int_equal(windows__bytes(ws), 0);
	windows__free(ws);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit),	cmocka_unit_test(test_too_few),
		cmocka_unit_test(test_forgets), cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_bound),	cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
