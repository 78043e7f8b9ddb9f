/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Calls of many threads, of which some end in the midst of one. */
#include "trace/native_tree.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "trace/timing.h"

#define MORE	  (NATIVE_TREE_THREADS + 904)
#define MANY	  100000     /* steps */
#define NO_THREAD (1U << 23) /* from here on no thread has such a number: PID_MAX_LIMIT is 2^22 */

/* There is no Python here. */
bool tracer__find(struct tracer *tr, uint64_t code, struct py_function *out)
{
	(void)tr, (void)code, (void)out;
	return false;
}

/* No text is wanted here: JSON needs neither. */
void timing__add_time(struct strbuf *b, uint64_t ns, int width)
{
	(void)b, (void)ns, (void)width;
}

void timing__add_place(struct strbuf *b, const struct py_function *f)
{
	(void)b, (void)f;
}

/* The lines go nowhere. Returns how often there were more. */
static int flush(struct native_tree *t)
{
	int out, more = 0, nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);

	fflush(stdout);
	out = dup(STDOUT_FILENO);
	assert_true(nothing >= 0 && out >= 0);
	assert_int_equal(dup2(nothing, STDOUT_FILENO), STDOUT_FILENO);
	while (native_tree__flush(t, UINT64_MAX))
		more++;
	fflush(stdout);
	assert_int_equal(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
	close(out);
	close(nothing);
	return more;
}

/* Takes a call of the first function from each thread, and its end if `ends`. */
static struct native_tree *calls_of(uint32_t first_tid, uint32_t cnt, bool ends)
{
	static struct native_function function = { .name = (char *)"first" };
	static struct native_functions functions = { .all = &function, .cnt = 1 };
	const struct native_tree_opts o = { .functions = &functions, .file = "x.so", .json = true };
	struct native_tree *t = native_tree__new(&o);

	assert_non_null(t);
	for (uint32_t i = 0; i < cnt; i++) {
		struct native_step s = {
			.ns = 2 * i, .place = 64, .tid = first_tid + i, .kind = STEP_CALL
		};

		assert_int_equal(native_tree__add(t, &s), 0);
		s.ns++;
		s.kind = STEP_RETURN;
		if (ends)
			assert_int_equal(native_tree__add(t, &s), 0);
	}
	flush(t);
	return t;
}

static void check(struct native_tree *t, uint64_t roots, uint64_t dropped)
{
	assert_int_equal(native_tree__root_cnt(t), roots);
	assert_int_equal(native_tree__dropped_cnt(t), dropped);
	native_tree__free(t);
}

/* One after the other, as many as there may be. */
static void test_threads_take_turns(void **state)
{
	(void)state;
	check(calls_of(1, MORE, true), MORE, 0);
}

/* A process that ends inside of the function says nothing. */
static void test_threads_that_ended_inside(void **state)
{
	(void)state;
	check(calls_of(NO_THREAD, MORE, false), MORE, 0);
}

/* All are inside, and one of them is there: ours. What is lost ends the calls of all. */
static void test_thread_that_is_there(void **state)
{
	struct native_tree *t = calls_of((uint32_t)getpid(), 1, false);
	struct native_step s = { .ns = 3, .place = 32, .tid = (uint32_t)getpid() };

	(void)state;
	for (uint32_t i = 0; i < MORE; i++) {
		const struct native_step other = { .ns = 2, .place = 64, .tid = NO_THREAD + i };

		assert_int_equal(native_tree__add(t, &other), 0);
	}
	assert_int_equal(native_tree__add(t, &s), 0);
	flush(t);
	assert_int_equal(native_tree__root_cnt(t), MORE + 1);
	s = (struct native_step){ .ns = 4, .kind = STEP_LOST };
	assert_int_equal(native_tree__add(t, &s), 0);
	s = (struct native_step){ .ns = 5, .place = 32, .tid = (uint32_t)getpid() };
	assert_int_equal(native_tree__add(t, &s), 0);
	flush(t);
	check(t, MORE + 2, 0);
}

/* Many steps are taken in parts, in order; what is dropped in between is never taken. */
static void test_many_steps(void **state)
{
	struct native_tree *t = calls_of(NO_THREAD, 1, true);
	struct native_step s = { .place = 64, .tid = NO_THREAD };

	(void)state;
	for (uint32_t round = 0; round < 2; round++) {
		for (uint64_t i = MANY; i--;) {
			s.ns = 10 + i;
			s.kind = i % 2 ? STEP_RETURN : STEP_CALL;
			assert_int_equal(native_tree__add(t, &s), 0);
		}
		assert_int_equal(native_tree__step_cnt(t), MANY);
		if (round)
			assert_int_equal(native_tree__drop(t), MANY);
		assert_int_equal(flush(t) > 1, !round);
		assert_int_equal(native_tree__step_cnt(t), 0);
	}
	check(t, 1 + MANY / 2, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_take_turns),
		cmocka_unit_test(test_threads_that_ended_inside),
		cmocka_unit_test(test_thread_that_is_there),
		cmocka_unit_test(test_many_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
