/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* topmodel.c: intervals built by hand, and what is counted for whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "top/topmodel.h"
#include "unit/profiles.h"

#define S 1000000000ULL

/* One process (space 100007) with two threads: see the stacks. */
static struct profile *interval(void)
{
	struct profile *p = profile__new();
	int lib = add_module(p, "/usr/lib/libm.so.6", "", 0, 0x1000);
	int proc = add_proc(p, 7, "python3", "/usr/bin/python3", "3.11.2", "", "");
	int main = py(p, "main", "/app.py", 10, 1);
	int loop3 = py(p, "loop", "/app.py", 3, 2), loop4 = py(p, "loop", "/app.py", 4, 2);
	int sqrt = native(p, "sqrt", lib, 0x10), start = native(p, "start_thread", lib, 0x20);

	STACK(p, proc, 70, 5, main, loop3);
	STACK(p, proc, 70, 3, main, loop4, sqrt);
	STACK(p, proc, 71, 2, main, loop3, loop4, loop3); /* recursion */
	STACK(p, proc, 71, 7, start, sqrt);
	symbolized(p);
	return p;
}

static struct topmodel *model_of(struct profile *p, uint64_t duration_ns)
{
	struct topmodel *m = topmodel__new();

	assert_int_equal(topmodel__add(m, p, duration_ns), 0);
	profile__free(p);
	return m;
}

/* The row of a function by name, all 0 if it is not there. */
static struct top_row function(struct topmodel *m, const struct top_query *q, const char *name)
{
	struct top_row found = { 0 };
	struct top_rows rows = { 0 };

	assert_int_equal(topmodel__rows(m, q, &rows), 0);
	for (size_t i = 0; i < rows.cnt; i++)
		if (!strcmp(topmodel__function(m, rows.rows[i].function).name, name))
			found = rows.rows[i];
	top_rows__free(&rows);
	return found;
}

static void check(const struct top_row *row, uint64_t own, uint64_t total, uint64_t own_all,
		  uint64_t total_all)
{
	assert_int_equal(row->own, own);
	assert_int_equal(row->total, total);
	assert_int_equal(row->own_all, own_all);
	assert_int_equal(row->total_all, total_all);
}

static void test_python(void **state)
{
	struct topmodel *m = model_of(interval(), S);
	const struct top_query q = { .table = TOP_FUNCTIONS };
	struct top_row row;

	(void)state;
	row = function(m, &q, "loop");
	check(&row, 10, 10, 10, 10); /* with the time in sqrt; a stack counts once */
	assert_int_equal(row.line, 3);
	row = function(m, &q, "main");
	check(&row, 0, 10, 0, 10);
	assert_int_equal(row.line, 10);
	row = function(m, &q, "sqrt"); /* only where there is no Python */
	check(&row, 7, 7, 7, 7);
	row = function(m, &q, "start_thread");
	check(&row, 0, 0, 0, 0);
	topmodel__free(m);
}

static void test_native(void **state)
{
	struct topmodel *m = model_of(interval(), S);
	const struct top_query q = { .table = TOP_FUNCTIONS, .native = true };
	struct top_row row;

	(void)state;
	row = function(m, &q, "loop");
	check(&row, 7, 10, 7, 10);
	row = function(m, &q, "sqrt");
	check(&row, 10, 10, 10, 10);
	row = function(m, &q, "start_thread");
	check(&row, 0, 7, 0, 7);
	topmodel__free(m);
}

/* Nothing of one value type is in the other's numbers. */
static void test_values(void **state)
{
	struct profile *p = interval();
	struct topmodel *m;
	struct top_query q = { .table = TOP_FUNCTIONS };
	struct top_row row;
	uint64_t last, all;

	(void)state;
	p->stacks[0].type = 1;
	m = model_of(p, S);
	row = function(m, &q, "loop");
	check(&row, 5, 5, 5, 5);
	q.value = 1;
	row = function(m, &q, "loop");
	check(&row, 5, 5, 5, 5);
	assert_int_equal(row.line, 3);
	row = function(m, &q, "main");
	check(&row, 0, 5, 0, 5);
	row = function(m, &q, "sqrt");
	check(&row, 0, 0, 0, 0);
	topmodel__counts(m, 100007, 70, 0, &last, &all);
	assert_int_equal(last, 3);
	topmodel__counts(m, 100007, 70, 1, &last, &all);
	assert_int_equal(all, 5);
	topmodel__counts(m, 0, 0, 1, &last, &all);
	assert_int_equal(all, 5);
	assert_int_equal(topmodel__process(m, 100007)->thread_cnt[0], 2);
	assert_int_equal(topmodel__process(m, 100007)->thread_cnt[1], 1);
	topmodel__free(m);
}

static void test_scopes(void **state)
{
	struct topmodel *m = model_of(interval(), S);
	struct top_query q = { .table = TOP_FUNCTIONS, .space = 100007, .tid = 71 };
	struct top_rows rows = { 0 };
	struct top_row row = function(m, &q, "loop");
	uint64_t last, all;

	(void)state;
	check(&row, 2, 2, 2, 2);
	topmodel__counts(m, 100007, 71, 0, &last, &all);
	assert_int_equal(last, 9);
	topmodel__counts(m, 0, 0, 0, &last, &all);
	assert_int_equal(all, 17);
	q = (struct top_query){ .table = TOP_FUNCTIONS, .space = 5 };
	row = function(m, &q, "loop");
	check(&row, 0, 0, 0, 0);
	q = (struct top_query){ .table = TOP_THREADS, .space = 100007 };
	assert_int_equal(topmodel__rows(m, &q, &rows), 0);
	assert_int_equal(rows.cnt, 2);
	assert_int_equal(rows.rows[0].own + rows.rows[1].own, 17);
	q = (struct top_query){ .table = TOP_PROCESSES };
	assert_int_equal(topmodel__rows(m, &q, &rows), 0);
	assert_int_equal(rows.cnt, 1);
	check(&rows.rows[0], 17, 17, 17, 17);
	assert_int_equal(topmodel__process(m, 100007)->thread_cnt[0], 2);
	top_rows__free(&rows);
	topmodel__free(m);
}

static void test_lines(void **state)
{
	struct topmodel *m = model_of(interval(), S);
	const struct top_query functions = { .table = TOP_FUNCTIONS };
	struct top_query q = { .table = TOP_LINES };
	struct top_rows rows = { 0 };

	(void)state;
	q.function = function(m, &functions, "loop").function;
	assert_int_equal(topmodel__rows(m, &q, &rows), 0);
	assert_int_equal(rows.cnt, 2); /* those of both threads are one */
	assert_int_equal(rows.rows[0].line, 3);
	check(&rows.rows[0], 7, 7, 7, 7);
	assert_int_equal(rows.rows[1].line, 4);
	check(&rows.rows[1], 3, 5, 3, 5);
	top_rows__free(&rows);
	topmodel__free(m);
}

/* The last interval is the last one, also when nothing ran in it. */
static void test_intervals(void **state)
{
	struct topmodel *m = model_of(interval(), S);
	const struct top_query q = { .table = TOP_FUNCTIONS };
	struct profile *more = interval(), *none = profile__new();
	struct top_row row;

	(void)state;
	assert_int_equal(topmodel__add(m, more, 3 * S), 0);
	row = function(m, &q, "loop");
	check(&row, 10, 10, 20, 20);
	assert_int_equal(topmodel__interval_ns(m), 3 * S);
	assert_int_equal(topmodel__elapsed_ns(m), 4 * S);
	assert_int_equal(topmodel__add(m, none, S), 0);
	row = function(m, &q, "loop");
	check(&row, 0, 0, 20, 20);
	assert_int_equal(topmodel__process(m, 100007)->last[0], 0);
	assert_int_equal(topmodel__process(m, 100007)->thread_cnt[0], 0);
	profile__free(more);
	profile__free(none);
	topmodel__free(m);
}

static int set_process(struct topmodel *m, uint32_t space, const char *command, const char *why)
{
	return topmodel__set_process(m, &(struct top_process_info){ .space = space,
								    .tgid = space - 100000,
								    .comm = "python3",
								    .title = "",
								    .command = command,
								    .python = "3.11.2",
								    .why = why });
}

/* Ten seconds behind its end a process is one of many, and nothing of its time is gone. */
static void test_ended(void **state)
{
	struct topmodel *m = topmodel__new();
	struct profile *p = interval(), *none = profile__new();
	const struct top_query q = { .table = TOP_FUNCTIONS };
	struct top_row row;
	uint64_t last, all;

	(void)state;
	topmodel__begin_processes(m);
	assert_int_equal(set_process(m, 100007, "python3 app.py", ""), 0);
	assert_int_equal(set_process(m, 100009, "", "the self-check failed"), 0);
	topmodel__end_processes(m);
	assert_int_equal(topmodel__add(m, p, S), 0);
	assert_string_equal(topmodel__process(m, 100007)->name, "python3 app.py");
	assert_string_equal(topmodel__process(m, 100009)->why, "the self-check failed");
	topmodel__begin_processes(m);
	assert_int_equal(set_process(m, 100009, "", "the self-check failed"), 0);
	topmodel__end_processes(m);
	assert_true(topmodel__process(m, 100007)->ended);
	assert_int_equal(topmodel__add(m, none, 9 * S), 0); /* it is 10 s now: looked through */
	assert_non_null(topmodel__process(m, 100007));
	assert_null(topmodel__process(m, TOP_ENDED));
	assert_int_equal(topmodel__add(m, none, 11 * S), 0);
	assert_null(topmodel__process(m, 100007));
	assert_null(topmodel__thread(m, 100007, 70));
	assert_non_null(topmodel__process(m, 100009));
	assert_int_equal(topmodel__process(m, TOP_ENDED)->all[0], 17);
	assert_int_equal(topmodel__process(m, TOP_ENDED)->ended_count, 1);
	row = function(m, &q, "loop");
	check(&row, 0, 0, 10, 10);
	topmodel__counts(m, 0, 0, 0, &last, &all);
	assert_int_equal(all, 17);
	profile__free(p);
	profile__free(none);
	topmodel__free(m);
}

static int set_thread(struct topmodel *m, uint32_t tid, const char *state, enum top_gil gil)
{
	return topmodel__set_thread(
		m, 100007,
		&(struct top_thread_info){
			.tid = tid, .name = "python3", .state = state, .gil = gil });
}

static void test_threads(void **state)
{
	struct profile *p = interval(), *next = profile__new();
	struct profile_thread name = { .space = 100007, .tid = 70 };
	struct topmodel *m;

	(void)state;
	name.name = profile__intern_z(p, "worker");
	profile__add_thread(p, &name);
	m = model_of(p, S);
	topmodel__begin_threads(m);
	assert_int_equal(set_thread(m, 70, "runs", TOP_GIL_HOLDS), 0);
	assert_int_equal(set_thread(m, 72, "sleeps", TOP_GIL_WAITS), 0);
	topmodel__end_threads(m, 100007);
	assert_string_equal(topmodel__thread(m, 100007, 70)->name, "worker");
	assert_string_equal(topmodel__thread(m, 100007, 71)->state, "ended");
	assert_string_equal(topmodel__thread(m, 100007, 72)->name, "python3");
	assert_int_equal(topmodel__set_thread(m, 100007,
					      &(struct top_thread_info){ .tid = 72,
									 .name = "sleeper",
									 .state = "sleeps",
									 .named = true }),
			 0);
	assert_string_equal(topmodel__thread(m, 100007, 72)->name, "sleeper");
	assert_int_equal(set_thread(m, 72, "sleeps", TOP_GIL_WAITS), 0);
	assert_string_equal(topmodel__thread(m, 100007, 72)->name, "sleeper");
	assert_int_equal(topmodel__gil_holder(m, 100007)->tid, 70);
	assert_null(topmodel__gil_holder(m, 100008));
	assert_int_equal(topmodel__give_threads(m, next), 0);
	assert_string_equal(profile__thread_name(next, 100007, 70), "worker");
	assert_string_equal(profile__thread_name(next, 100007, 72),
			    "sleeper"); /* Python has not been asked */
	topmodel__begin_threads(m);	/* nobody is looked at any more */
	assert_null(topmodel__gil_holder(m, 100007));
	profile__free(next);
	topmodel__free(m);
}

/* What a process says of itself is safe, and not longer than a name may be. */
static void check_text(const char *s)
{
	assert_true(strlen(s) <= TOP_NAME_BYTES);
	for (; *s; s++)
		assert_true((unsigned char)*s >= ' ' && *s != 0x7f);
}

static void test_hostile(void **state)
{
	struct topmodel *m = model_of(hostile(), S);
	const struct top_query q = { .table = TOP_FUNCTIONS, .native = true };
	struct top_rows rows = { 0 };
	char command[3000];

	(void)state;
	memset(command, 0xe6, sizeof(command)); /* the first byte of three */
	memcpy(command, "\033[31m\a", 6);
	command[sizeof(command) - 1] = '\0';
	topmodel__begin_processes(m);
	assert_int_equal(set_process(m, 100099, command, "\n\r"), 0);
	check_text(topmodel__process(m, 100099)->name);
	check_text(topmodel__process(m, 100099)->why);
	assert_int_equal(topmodel__rows(m, &q, &rows), 0);
	assert_true(rows.cnt > 0);
	for (size_t i = 0; i < rows.cnt; i++) {
		check_text(topmodel__function(m, rows.rows[i].function).name);
		check_text(topmodel__function(m, rows.rows[i].function).place);
	}
	top_rows__free(&rows);
	topmodel__free(m);
}

/* More functions than there is room for: time is still that of the process. */
static void test_full(void **state)
{
	struct topmodel *m = topmodel__new();
	const struct top_query q = { .table = TOP_FUNCTIONS };
	struct profile *p = profile__new();
	int proc = add_proc(p, 7, "python3", "", "3.11.2", "", ""), one = py(p, "f", "/a.py", 0, 1);
	struct top_rows rows = { 0 };
	uint64_t listed = 0, last, all;

	(void)state;
	for (int i = 0; i < 270000; i++)
		STACK(p, proc, 0, 1, i % 2 ? one : py(p, "g", "/a.py", (uint32_t)i + 1, 1));
	for (uint32_t tid = 1; tid < 140000; tid++)
		STACK(p, proc, tid, 1, one);
	symbolized(p);
	assert_int_equal(topmodel__add(m, p, S), 0);
	topmodel__counts(m, 0, 0, 0, &last, &all);
	assert_int_equal(all, 409999);
	assert_true(topmodel__unlisted(m) > 0);
	assert_int_equal(topmodel__rows(m, &q, &rows), 0);
	for (size_t i = 0; i < rows.cnt; i++)
		listed += rows.rows[i].own_all;
	assert_in_range(listed + topmodel__unlisted(m), all, all + 2); /* one may be in half */
	top_rows__free(&rows);
	profile__free(p);
	topmodel__free(m);
}

/* A program that makes functions without end takes the room of new ones, not that of known ones. */
static void test_known_stay(void **state)
{
	const struct top_query q = { .table = TOP_FUNCTIONS };
	struct topmodel *m = model_of(interval(), S);
	struct profile *p = profile__new();
	int proc = add_proc(p, 8, "python3", "", "3.11.2", "", "");
	struct top_row row;
	char name[16];

	(void)state;
	for (unsigned i = 0; i < 1U << 17; i++) {
		snprintf(name, sizeof(name), "made_%u", i);
		py(p, name, "/b.py", 0, 1); /* each sym takes a place, with samples or without */
	}
	STACK(p, proc, 0, 1, 0);
	symbolized(p);
	assert_int_equal(topmodel__add(m, p, S), 0);
	profile__free(p);
	p = interval();
	proc = add_proc(p, 9, "python3", "", "3.11.2", "", "");
	STACK(p, proc, 0, 6, py(p, "new", "/c.py", 3, 1));
	STACK(p, proc, 0, 8, py(p, "main", "/b.py", 3, 1));
	symbolized(p);
	assert_int_equal(topmodel__add(m, p, S), 0);
	profile__free(p);
	row = function(m, &q, "loop");
	check(&row, 10, 10, 20, 20);
	row = function(m, &q, "[others]"); /* a known name in another file is another function */
	check(&row, 14, 14, 14, 14);
	topmodel__free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_python),	   cmocka_unit_test(test_native),
		cmocka_unit_test(test_values),	   cmocka_unit_test(test_scopes),
		cmocka_unit_test(test_lines),	   cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_ended),	   cmocka_unit_test(test_threads),
		cmocka_unit_test(test_hostile),	   cmocka_unit_test(test_full),
		cmocka_unit_test(test_known_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
