/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Ways of calls as a picture, also of programs that have too many of them, or too deep ones. */
#include "trace/call_paths.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

struct fixture {
	struct profile *profile;
	struct call_picture *picture;
	struct call_paths *paths;
};

static int open_fixture(void **state)
{
	static struct fixture f;
	const struct call_picture_opts o = { .pid = getpid(), .times = true };

	f.profile = profile__new();
	f.picture = call_picture__new(f.profile, &o);
	f.paths = call_paths__new();
	*state = &f;
	return f.picture && f.paths ? 0 : -1;
}

static int close_fixture(void **state)
{
	struct fixture *f = *state;

	call_paths__free(f->paths);
	call_picture__free(f->picture);
	profile__free(f->profile);
	return 0;
}

/* Functions 7 and 8 are code objects of one function. */
static uint64_t word_of(void *ctx, uint32_t function)
{
	struct fixture *f = ctx;
	const struct py_function py = {
		.name = "f", .name_len = 1, .file = "", .number = function == 8 ? 7 : function
	};

	return call_picture__python(f->picture, &py);
}

static void draw(struct fixture *f)
{
	assert_int_equal(call_paths__draw(f->paths, f->picture, word_of, f), 0);
	assert_int_equal(call_picture__finish(f->picture, 1), 0);
}

static uint64_t sum(const struct fixture *f)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < f->profile->stack_cnt; i++)
		ns += f->profile->stacks[i].count;
	return ns;
}

static uint32_t deepest(const struct fixture *f)
{
	uint32_t most = 0;

	for (size_t i = 0; i < f->profile->stack_cnt; i++)
		if (f->profile->stacks[i].cnt > most)
			most = f->profile->stacks[i].cnt;
	return most;
}

static void test_tree(void **state)
{
	struct fixture *f = *state;
	uint32_t a = call_paths__call(f->paths, CALL_PATHS_TOP, 1);
	uint32_t b = call_paths__call(f->paths, a, 7), c = call_paths__call(f->paths, a, 8);

	assert_int_equal(call_paths__call(f->paths, CALL_PATHS_TOP, 1), a);
	assert_int_not_equal(call_paths__call(f->paths, CALL_PATHS_TOP, 7), b);
	call_paths__add(f->paths, b, 10);
	call_paths__add(f->paths, b, 20);
	call_paths__add(f->paths, c, 400);
	call_paths__add(f->paths, a, 5000);
	draw(f);
	assert_int_equal(f->profile->stack_cnt, 2); /* the last one called nothing, and took none */
	assert_int_equal(sum(f), 5430);
	assert_int_equal(f->profile->stats.counters[CTR_counted], 4);
	assert_int_equal(deepest(f), 2);
}

/* The time of what is deeper is that of the function there. */
static void test_deep(void **state)
{
	struct fixture *f = *state;
	uint32_t at = CALL_PATHS_TOP;

	for (uint32_t i = 0; i < 100000; i++) {
		at = call_paths__call(f->paths, at, i % 3);
		call_paths__add(f->paths, at, 1);
	}
	draw(f);
	assert_int_equal(sum(f), 100000);
	assert_int_equal(deepest(f), CALL_PICTURE_DEPTH);
	assert_int_equal(f->profile->stack_cnt, CALL_PICTURE_DEPTH);
}

/* What finds no room is in no stack, nor is what it calls; the others go on. */
static void test_too_many(void **state)
{
	struct fixture *f = *state;
	uint32_t first = call_paths__call(f->paths, CALL_PATHS_TOP, 0), last = first;

	for (uint32_t i = 0; i < CALL_PATHS_MAX + 10; i++)
		last = call_paths__call(f->paths, first, i);
	last = call_paths__call(f->paths, last, 1);
	call_paths__add(f->paths, last, 1000);
	call_paths__add(f->paths, first, 1);
	call_paths__add(f->paths, call_paths__call(f->paths, first, 5), 1);
	assert_int_equal(call_paths__draw(f->paths, f->picture, word_of, f), 0);
	assert_int_equal(sum(f), 2);
}

/* Of more functions than a picture has, those that took longest are drawn. */
static void test_too_many_functions(void **state)
{
	struct fixture *f = *state;
	const struct profile *p = f->profile;
	uint32_t at;

	while (p->sym_cnt < CALL_PICTURE_FUNCTIONS - 3)
		assert_true(word_of(f, 10 + p->sym_cnt));
	call_picture__renumber(f->picture);
	for (uint32_t i = 0; i < 10; i++) {
		at = call_paths__call(f->paths, CALL_PATHS_TOP, 1);
		at = call_paths__call(f->paths, at, 100 + i);
		call_paths__add(f->paths, at, i == 3 || i == 7 ? 1000 : 1);
	}
	draw(f);
	assert_int_equal(p->sym_cnt, CALL_PICTURE_FUNCTIONS);
	assert_int_equal(p->stack_cnt, 2);
	assert_int_equal(sum(f), 2000);
	assert_int_equal(p->stats.counters[CTR_counted], 2);
	assert_int_equal(word_of(f, 5), CALL_PICTURE_NO_ROOM);
	assert_int_not_equal(word_of(f, 107), CALL_PICTURE_NO_ROOM);
}

/* Of many processes each has its own ways and names; functions are numbered by interpreter. */
static void test_processes(void **state)
{
	struct fixture *f = *state;
	int one = call_picture__add_process(f->picture, getpid(), "web", "3.8.1");
	int gone = call_picture__add_process(f->picture, INT32_MAX, "batch", "3.8.1");
	uint32_t tops[2] = { call_paths__top(f->paths, (uint32_t)one),
			     call_paths__top(f->paths, (uint32_t)gone) };
	const struct profile *p = f->profile;
	size_t syms;

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t at = call_paths__call(f->paths, tops[i], 1);

		call_paths__add(f->paths, call_paths__call(f->paths, at, 2), 10 + i);
	}
	call_paths__add(f->paths, call_paths__call(f->paths, call_paths__none(), 1), 1000);
	assert_int_equal(call_paths__draw(f->paths, f->picture, word_of, f), 0);
	assert_int_equal(p->stack_cnt, 2);
	assert_int_equal(p->stacks[0].proc, one);
	assert_int_equal(p->stacks[1].proc, gone);
	assert_int_equal(p->stacks[0].count, 10);
	assert_int_equal(p->stacks[1].count, 11);
	assert_string_equal(profile__str(p, p->procs[one].title), "web");
	assert_string_not_equal(profile__str(p, p->procs[one].comm), "web");
	assert_string_equal(profile__str(p, p->procs[gone].comm), "batch");
	syms = p->sym_cnt;
	word_of(f, 1);
	assert_int_equal(p->sym_cnt, syms);
	call_picture__renumber(f->picture);
	word_of(f, 1);
	assert_int_equal(p->sym_cnt, syms + 1);
	assert_int_equal(call_picture__finish(f->picture, 1), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

int main(void)
{
	const struct CMUnitTest tests[] = { CASE(test_tree), CASE(test_deep), CASE(test_too_many),
					    CASE(test_too_many_functions), CASE(test_processes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
