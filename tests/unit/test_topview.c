/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* topview.c, canvas.c: what is shown of a model on screens of every size, and what keys do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>

#include "top/topview.h"
#include "top/topwords.h"
#include "unit/profiles.h"

#define S    1000000000ULL
#define ROWS 24
#define COLS 80

struct fixture {
	struct topmodel *m;
	struct topview *v;
	struct canvas c;
	struct top_status st;
	char *lines[ROWS]; /* of the last picture */
};

static void set_process(struct topmodel *m, uint32_t tgid, const char *command, const char *why)
{
	const struct top_process_info info = { .space = tgid + 100000,
					       .tgid = tgid,
					       .comm = "python3",
					       .title = "",
					       .command = command,
					       .python = "3.11.2",
					       .why = why };

	assert_int_equal(topmodel__set_process(m, &info), 0);
}

/* Two processes, 3 to 1, and one that cannot be walked. 100 samples a second and CPU. */
static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct profile *p = profile__new();
	int a, b, hot, cold, run, lib;

	setlocale(LC_CTYPE, "C.UTF-8");
	f->m = topmodel__new();
	f->v = topview__new(false);
	lib = add_module(p, "/usr/lib/libm.so.6", "", 0, 0x1000);
	a = add_proc(p, 1111, "python3", "", "3.11.2", "", "");
	b = add_proc(p, 2222, "python3", "", "3.11.2", "", "");
	run = py(p, "run", "/srv/app.py", 9, 8);
	hot = py(p, "hot", "/srv/app.py", 3, 2);
	cold = py(p, "cold", "/srv/app.py", 6, 5);
	STACK(p, a, 1111, 50, run, hot);
	STACK(p, a, 1112, 25, run, cold, native(p, "sqrt", lib, 0x10));
	STACK(p, b, 2222, 25, run, cold);
	symbolized(p);
	topmodel__begin_processes(f->m);
	set_process(f->m, 1111, "python3 three.py", "");
	set_process(f->m, 2222, "python3 one.py", "");
	set_process(f->m, 3333, "odd", "no layout is known");
	topmodel__end_processes(f->m);
	assert_int_equal(topmodel__add(f->m, p, S), 0);
	profile__free(p);
	f->st = (struct top_status){ .frequency_hz = 100, .every_ns = S, .message = "" };
	f->st.last.duration_ns = S;
	f->st.last.counters[CTR_delivered] = 200;
	f->st.last.counters[CTR_counted] = 100;
	f->st.last.counters[CTR_filtered_idle] = 98;
	f->st.last.counters[CTR_lost_counts_full] = 2;
	f->st.now = f->st.last;
	f->st.now.cpus = 2;
	f->st.now.value_cnt = 1;
	f->st.now.values[0].frequency_hz = 100;
	f->st.now.counters[CTR_user_stacks] = 100;
	f->st.now.counters[CTR_complete] = 99;
	*state = f;
	return 0;
}

static void free_lines(struct fixture *f)
{
	for (size_t i = 0; i < ROWS; i++) {
		free(f->lines[i]);
		f->lines[i] = NULL;
	}
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	free_lines(f);
	canvas__free(&f->c);
	topview__free(f->v);
	topmodel__free(f->m);
	free(f);
	return 0;
}

/* Later runs lie over earlier ones. ASCII only. */
static void draw(struct fixture *f)
{
	free_lines(f);
	canvas__begin(&f->c, ROWS, COLS);
	assert_int_equal(topview__draw(f->v, f->m, &f->st, &f->c), 0);
	for (size_t i = 0; i < ROWS; i++) {
		f->lines[i] = malloc(COLS + 1);
		memset(f->lines[i], ' ', COLS);
		f->lines[i][COLS] = '\0';
	}
	for (size_t i = 0; i < f->c.run_cnt; i++) {
		const struct canvas_run *r = &f->c.runs[i];

		for (size_t k = 0; k < r->len && r->col + k < COLS; k++)
			f->lines[r->row][r->col + k] = f->c.text.s[r->at + k];
	}
}

static void press(struct fixture *f, const char *keys)
{
	for (; *keys; keys++) {
		assert_true(topview__key(f->v, f->m, (uint32_t)*keys));
		draw(f);
	}
}

static void key(struct fixture *f, uint32_t k)
{
	assert_true(topview__key(f->v, f->m, k));
	draw(f);
}

/* A line begins with these words, whatever blanks are between. */
static void assert_row(const struct fixture *f, unsigned row, const char *words)
{
	const char *line = f->lines[row], *want = words;

	for (;;) {
		line += strspn(line, " ");
		want += strspn(want, " ");
		if (!*want)
			return;
		while (*want && *want != ' ')
			if (*line++ != *want++)
				fail_msg("row %u is '%s', not '%s'", row, f->lines[row], words);
	}
}

/* As long as all is well, the second line says what the program does. */
static void test_hottest(void **state)
{
	struct fixture *f = *state;

	f->st.last.counters[CTR_lost_counts_full] = 0;
	draw(f);
	assert_row(f, 1, "200 samples asked, 200 delivered = "); /* a stack of 100 is cut */
	f->st.now.counters[CTR_complete] = 100;
	draw(f);
	assert_row(f, 1, "hottest: ");
	assert_non_null(strstr(f->lines[1], " (app.py), 50%; 100 samples, none lost, all stacks"));
	f->st.now.counters[CTR_user_stacks] = 1000;
	f->st.now.counters[CTR_complete] = 996;
	draw(f);
	assert_non_null(strstr(f->lines[1], "none lost, nearly all stacks complete"));
	f->st.last.counters[CTR_lost_counts_full] = 1;
	draw(f);
	assert_non_null(strstr(f->lines[1], "+ 1 lost"));
}

static void test_processes(void **state)
{
	struct fixture *f = *state;

	draw(f);
	assert_row(f, 0, "pyperf-bpf top - 0:01, 100 Hz on 2 CPUs, every 1 s");
	assert_row(f, 1, "200 samples asked, 200 delivered = 100 counted + 98 filtered + 2 lost;");
	assert_row(f, 2, "3 processes, 100.0% CPU");
	assert_row(f, 3, "PID CPU% CPU s THR PYTHON COMMAND");
	assert_row(f, 4, "1111 75.0 0.75 2 3.11.2 python3 three.py");
	assert_row(f, 5, "2222 25.0 0.25 1 3.11.2 python3 one.py");
	assert_row(f, 6, "3333 0.0 0.00 - 3.11.2 [not walked: no layout is known] odd");
	assert_row(f, ROWS - 1, "q quit h help");
}

static void test_sorting(void **state)
{
	struct fixture *f = *state;

	draw(f);
	press(f, "r");
	assert_row(f, 4, "3333");
	press(f, "1");
	assert_row(f, 4, "3333"); /* numbers: the largest first */
	assert_row(f, 6, "1111");
	press(f, "r");
	assert_row(f, 4, "1111");
	press(f, "6"); /* texts: from a to z */
	assert_row(f, 4, "3333");
	assert_row(f, 5, "2222");
	press(f, "s"); /* behind the last column comes the first */
	assert_row(f, 4, "3333");
	press(f, "s");
	assert_row(f, 4, "1111");
	press(f, "9"); /* there is no such column */
	assert_row(f, 4, "1111");
}

static void test_filter(void **state)
{
	struct fixture *f = *state;

	draw(f);
	press(f, "/THREE");
	assert_row(f, ROWS - 1, "filter: THREE");
	assert_row(f, 4, "1111");
	assert_row(f, 5, "");
	press(f, "q"); /* a letter like any other */
	assert_row(f, 4, "Nothing matches the filter");
	key(f, TOP_KEY_BACKSPACE);
	key(f, TOP_KEY_ENTER);
	assert_row(f, 2, "1 process with \"THREE\"");
	key(f, 0x6f22);
	press(f, "/");
	key(f, 0x6f22);
	key(f, TOP_KEY_BACKSPACE);
	assert_row(f, 4, "1111");
	for (int i = 0; i < 200; i++)
		key(f, 0x10ffff);
	key(f, TOP_KEY_ESCAPE);
	assert_row(f, 2, "3 processes,");
	press(f, "/2222"); /* numbers of processes match, too */
	assert_row(f, 4, "2222");
}

static void test_drilling(void **state)
{
	struct fixture *f = *state;

	draw(f);
	key(f, TOP_KEY_ENTER);
	assert_int_equal(topview__process(f->v), 101111);
	assert_row(f, 2, "3 functions of process 1111: 75.0% CPU python3 three.py");
	assert_row(f, 3, "OWN% TOTAL% OWN s TOTAL s FUNCTION HOTTEST LINE");
	assert_row(f, 4, "66.7 66.7 0.50 0.50 hot /srv/app.py:3");
	assert_row(f, 5, "33.3 33.3 0.25 0.25 cold /srv/app.py:6");
	assert_row(f, 6, "0.0 100.0 0.00 0.75 run /srv/app.py:9");
	press(f, "n");
	assert_row(f, 2, "4 functions (native ones, too) of process 1111");
	assert_row(f, 5, "33.3 33.3 0.25 0.25 sqrt /usr/lib/libm.so.6");
	assert_row(f, 6, "0.0 100.0 0.00 0.75 run");
	press(f, "n");
	key(f, TOP_KEY_ENTER);
	assert_row(f, 2, "1 line of hot (/srv/app.py)");
	assert_row(f, 4, "3 66.7 66.7");
	key(f, TOP_KEY_ESCAPE);
	assert_row(f, 4, "66.7");
	press(f, "t");
	assert_row(f, 4, "1111 1111 50.0 0.50");
	assert_row(f, 5, "1111 1112 25.0 0.25");
	key(f, TOP_KEY_DOWN);
	key(f, TOP_KEY_ENTER);
	assert_row(f, 2, "2 functions of process 1111, thread 1112: 25.0% CPU");
	assert_row(f, 4, "100.0 100.0 0.25 0.25 cold");
	press(f, "p");
	assert_int_equal(topview__process(f->v), 0);
	press(f, "a");
	assert_row(f, 2, "3 functions, 100.0% CPU");
	assert_row(f, 4, "50.0 50.0 0.50 0.50 hot");
	press(f, "t");
	assert_row(f, 2, "3 threads, 100.0% CPU");
	assert_row(f, 4, "1111 1111 50.0");
}

/* The cursor is on a process, not on a place. */
static void test_cursor(void **state)
{
	struct fixture *f = *state;

	draw(f);
	key(f, TOP_KEY_DOWN); /* 2222 */
	press(f, "1");
	assert_row(f, 5, "2222");
	key(f, TOP_KEY_ENTER);
	assert_int_equal(topview__process(f->v), 102222);
	key(f, TOP_KEY_LEFT);
	key(f, TOP_KEY_END);
	key(f, TOP_KEY_RIGHT);
	assert_int_equal(topview__process(f->v), 101111);
	key(f, TOP_KEY_ESCAPE);
	key(f, TOP_KEY_HOME);
	key(f, TOP_KEY_UP);
	press(f, "rr2"); /* on the first row, whatever it is */
	key(f, TOP_KEY_ENTER);
	assert_int_equal(topview__process(f->v), 101111);
}

static void test_help_and_pause(void **state)
{
	struct fixture *f = *state;

	draw(f);
	press(f, "h");
	assert_row(f, 0, "Keys");
	press(f, "jjjjjjjjjjjjjjjjjjjjjjjjj"); /* to its end, not beyond */
	assert_row(f, ROWS - 2, "Only time on a CPU is sampled");
	press(f, "q");
	assert_row(f, 0, "pyperf-bpf top");
	assert_false(topview__paused(f->v));
	press(f, " ");
	assert_true(topview__paused(f->v));
	assert_non_null(strstr(f->lines[0], "PAUSED"));
	press(f, " ");
	assert_null(strstr(f->lines[0], "PAUSED"));
	f->st.message = "pyperf-bpf: something: happened";
	draw(f);
	assert_row(f, ROWS - 1, "pyperf-bpf: something: happened");
	assert_false(topview__key(f->v, f->m, 'q'));
}

/* Of page faults nothing is in seconds, or says CPU. */
static void test_values(void **state)
{
	struct fixture *f = *state;
	struct profile *p = profile__new();
	int a = add_proc(p, 1111, "python3", "", "3.11.2", "", "");

	STACK(p, a, 1111, 4000, py(p, "hot", "/srv/app.py", 3, 2));
	p->stacks[0].type = 1;
	symbolized(p);
	assert_int_equal(topmodel__add(f->m, p, S), 0);
	profile__free(p);
	f->st.now.value_cnt = 2;
	f->st.now.values[1] = (struct value_type){ .event = EVENT_PAGE_FAULTS };
	draw(f);
	assert_row(f, 0,
		   "pyperf-bpf top - 0:02, 100 Hz on 2 CPUs, every 1 s, cpu-clock (1 of 2: e)");
	assert_row(f, 1, "200 delivered = "); /* nobody knows how many faults are to come */
	assert_row(f, 2, "3 processes, 0.0% CPU");
	press(f, "e");
	assert_row(f, 0, "pyperf-bpf top - 0:02, 100 Hz on 2 CPUs, every 1 s, page-faults (2 of");
	assert_row(f, 2, "3 processes, 4000 page faults/s");
	assert_row(f, 3, "PID PER S COUNT THR");
	assert_row(f, 4, "1111 4000 4000 1 3.11.2");
	key(f, TOP_KEY_ENTER);
	assert_row(f, 3, "OWN% TOTAL% OWN TOTAL FUNCTION");
	assert_row(f, 4, "100.0 100.0 4000 4000 hot");
	for (unsigned i = 1; i < ROWS; i++)
		assert_null(strstr(f->lines[i], "CPU"));
	press(f, "h");
	for (unsigned i = 0; i < ROWS; i++)
		assert_null(strstr(f->lines[i], "CPU"));
	press(f, "jjjjjjjjjjjjjjjjjjjjjjjjj");
	assert_row(f, ROWS - 2, "What is counted: accesses to pages");
	press(f, "qe"); /* the first again, of the same process */
	assert_row(f, 2, "3 functions of process 1111: 0.0% CPU");
}

static void number(uint64_t n, const char *rate, const char *amount)
{
	const struct value_type faults = { .event = EVENT_PAGE_FAULTS };
	struct strbuf b = { 0 };

	topwords__add_rate(&b, &faults, n, 1000000000);
	assert_string_equal(b.s, rate);
	strbuf__clear(&b);
	topwords__add_amount(&b, &faults, n);
	assert_string_equal(b.s, amount);
	strbuf__free(&b);
}

/* However large, in six columns and in eight. */
static void test_numbers(void **state)
{
	(void)state;
	number(0, "0.0", "0");
	number(999, "999.0", "999");
	number(12345, "12345", "12345");
	number(123456, "123k", "123456");
	number(99999999, "100M", "99999999");
	number(UINT64_MAX, "18E", "18E");
}

static void test_gil(void **state)
{
	struct fixture *f = *state;
	const struct top_thread_info info = {
		.tid = 1112, .name = "worker", .state = "runs", .gil = TOP_GIL_HOLDS
	};

	draw(f);
	press(f, "t");
	topmodel__begin_threads(f->m);
	assert_int_equal(topmodel__set_thread(f->m, 101111, &info), 0);
	topmodel__end_threads(f->m, 101111);
	draw(f);
	assert_row(f, 2, "2 threads of process 1111: 75.0% CPU, GIL: worker (1112)");
	assert_row(f, 4, "1111 1111 50.0 0.50 ended ?");
	assert_row(f, 5, "1111 1112 25.0 0.25 runs holds worker");
}

/* No picture reaches beyond its screen, and none makes a terminal do anything. */
static void check_picture(struct fixture *f, unsigned rows, unsigned cols)
{
	canvas__begin(&f->c, rows, cols);
	assert_int_equal(topview__draw(f->v, f->m, &f->st, &f->c), 0);
	for (size_t i = 0; i < f->c.run_cnt; i++) {
		const struct canvas_run *r = &f->c.runs[i];
		const char *s = f->c.text.s + r->at;

		assert_true(r->row < rows);
		assert_true(r->col + text_width(s, r->len) <= cols);
		for (size_t k = 0; k < r->len; k++)
			assert_true((unsigned char)s[k] >= ' ' && s[k] != 0x7f);
	}
}

static void test_sizes(void **state)
{
	struct fixture *f = *state;
	static const char *const pages[] = { "", "\r", "\r", "t", "pa", "n", "h" };
	struct profile *p = hostile();

	assert_int_equal(topmodel__add(f->m, p, S), 0);
	profile__free(p);
	draw(f);
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		press(f, pages[i]);
		for (unsigned rows = 0; rows < 28; rows++)
			for (unsigned cols = 0; cols < 100; cols += rows % 3 + 1)
				check_picture(f, rows, cols);
	}
}

/* Any keys in any order, on a screen that changes. */
static void test_any_keys(void **state)
{
	struct fixture *f = *state;
	static const uint32_t keys[] = {
		'\r',
		'\r',
		27,
		'p',
		't',
		'f',
		'a',
		's',
		'r',
		'1',
		'3',
		'6',
		'n',
		' ',
		'/',
		'x',
		'2',
		127,
		'h',
		'j',
		'k',
		TOP_KEY_UP,
		TOP_KEY_DOWN,
		TOP_KEY_LEFT,
		TOP_KEY_RIGHT,
		TOP_KEY_PAGE_UP,
		TOP_KEY_PAGE_DOWN,
		TOP_KEY_HOME,
		TOP_KEY_END,
		TOP_KEY_OTHER,
	};
	struct profile *p = hostile();
	uint32_t x = 1;

	for (int i = 0; i < 20000; i++) {
		x = x * 1664525 + 1013904223; /* Numerical Recipes' generator */
		if (i % 500 == 499)
			assert_int_equal(topmodel__add(f->m, p, S), 0);
		if (i % 5000 == 4999) { /* all have ended: rows go away below the cursor */
			topmodel__begin_processes(f->m);
			topmodel__end_processes(f->m);
			assert_int_equal(topmodel__add(f->m, p, 20 * S), 0);
		}
		topview__key(f->v, f->m, keys[(x >> 16) % (sizeof(keys) / sizeof(keys[0]))]);
		check_picture(f, x >> 8 & 31, x >> 20 & 127);
	}
	profile__free(p);
}

/* What threads waited for has columns of its own, by process and by thread. */
static void test_waits(void **state)
{
	struct fixture *f = *state;
	struct profile *p = profile__new();
	int proc = add_proc(p, 1111, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int fn = py(p, "f", "/a.py", 1, 1);
	const struct {
		const char *leaf;
		uint64_t ms;
	} parts[] = { { "[waits: lock]", 500 },
		      { "[waits: sleep]", 100 },
		      { "[waits: CPU]", 70 },
		      { "[waits: GIL]", 30 } };

	p->stats.values[0].event = EVENT_WALL;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		add_stack(p, proc, 42, parts[i].ms * 1000000,
			  (int[]){ fn, marker(p, parts[i].leaf), -1 });
	add_stack(p, proc, 42, 300000000, (int[]){ fn, -1 });
	symbolized(p);
	assert_false(topmodel__has_waits(f->m));
	assert_int_equal(topmodel__add(f->m, p, S), 0);
	profile__free(p);
	f->st.now.values[0] = (struct value_type){ .event = EVENT_WALL, .rate_hz = 99 };
	draw(f);
	assert_row(f, 3, "PID THREAD% THREAD s WAIT% QUEUE% GIL% THR PYTHON");
	assert_row(f, 4, "1111 100.0 1.00 60.0 7.0 3.0 1 3.11.2");
	assert_row(f, 5, "2222 0.0 0.00 0.0 0.0 0.0 - 3.11.2");
	press(f, "4"); /* by the first of them */
	assert_row(f, 4, "1111 100.0 1.00 60.0");
	press(f, "t"); /* the names of threads have more right to the room */
	assert_row(f, 3, "PID TID THREAD% THREAD s STATE GIL THREAD");
	assert_true(topmodel__thread(f->m, 101111, 42)->waits[TOP_WAITING] == 600000000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_processes),	   TEST(test_hottest),
		TEST(test_sorting),	   TEST(test_filter),
		TEST(test_drilling),	   TEST(test_cursor),
		TEST(test_help_and_pause), TEST(test_values),
		TEST(test_numbers),	   TEST(test_gil),
		TEST(test_sizes),	   TEST(test_any_keys),
		TEST(test_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
