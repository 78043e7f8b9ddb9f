/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* loops.c: a wait that a coroutine makes is the loop's, its poll is not; and a package's wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "profile/export_stacks.h"
#include "profile/loops.h"
#include "profile/view.h"
#include "unit/profiles.h"

#define LIB "/usr/lib/python3.11/"
#define MS  1000000ULL

static void test_loops(void **state)
{
	struct profile *p = profile__new();
	int uv = add_module(p, "/usr/lib/loop.so", "", 0, 0);
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int once = py(p, "BaseEventLoop._run_once", LIB "asyncio/base_events.py", 1, 1);
	int handle = py(p, "Handle._run", LIB "asyncio/events.py", 2, 1);
	int select = py(p, "EpollSelector.select", LIB "selectors.py", 3, 1);
	int block = py(p, "block", "/srv/app.py", 4, 1),
	    price = py(p, "price", "/srv/app.py", 5, 1);
	int uv_run = native(p, "uv_run", uv, 1), nap = native(p, "nanosleep", uv, 2);
	int sleep = marker(p, "[waits: sleep]"), poll = marker(p, "[waits: epoll_wait]");
	int cpu = marker(p, "[waits: CPU]"), gil = marker(p, "[waits: GIL]");
	const struct {
		int syms[8];
		bool blocks;
	} cases[] = {
		{ { once, handle, block, price, nap, sleep, -1 }, true },
		{ { once, handle, block, price, poll, -1 }, true },
		{ { uv_run, block, sleep, -1 }, true },
		{ { once, select, poll, -1 }, false },
		{ { once, handle, sleep, -1 }, false },
		{ { uv_run, nap, poll, -1 }, false },
		{ { once, block, cpu, -1 }, false },
		{ { once, block, gil, -1 }, false },
		{ { once, block, nap, -1 }, false },
		{ { block, price, sleep, -1 }, false },
		/* a function of the same name */
		{ { block, price, handle, sleep, -1 }, false },
	};
	uint64_t count = 0;
	struct loops l;

	(void)state;
	p->stats.values[0].event = EVENT_WALL;
	p->stats.values[0].rate_hz = 99;
	p->stats.duration_ns = 1000 * MS;
	assert_int_equal(loops__init(&l, p), 0);
	assert_null(l.blocked);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		add_stack(p, proc, 0, (50 + i) * MS, cases[i].syms);
		count += cases[i].blocks ? (50 + i) * MS : 0;
	}
	symbolized(p);
	assert_int_equal(loops__init(&l, p), 0);
	assert_int_equal(l.count, count);
	assert_int_equal(profile__total(l.blocked), count);
	loops__free(&l, p);
	p->stats.values[0].event = EVENT_GIL_HELD;
	assert_int_equal(loops__init(&l, p), 0);
	assert_null(l.blocked);
	profile__free(p);
}

/* The first sentence of a loop that one call blocks `times` times. */
static void check_sentence(uint64_t times, uint64_t ns, uint64_t duration_ns, const char *sentence)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int once = py(p, "BaseEventLoop._run_once", LIB "asyncio/base_events.py", 1, 1);
	int price = py(p, "price", "/srv/app.py", 5, 1);
	int get = py(p, "get", LIB "site-packages/requests/api.py", 6, 1);
	int net = marker(p, "[waits: net]");
	struct strbuf b = { 0 };
	struct view v;

	p->stats.values[0].event = EVENT_WALL;
	p->stats.values[0].rate_hz = 99;
	p->stats.duration_ns = duration_ns;
	add_stack(p, proc, 0, times * ns, (int[]){ once, price, get, net, -1 });
	p->stacks[0].samples = times;
	symbolized(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(view_add_sentences(&b, &v), 0);
	if (strncmp(b.s, sentence, strlen(sentence)) != 0)
		fail_msg("\"%s\", not \"%s\"", b.s, sentence);
	strbuf__free(&b);
	view__free(&v);
	profile__free(p);
}

static void test_sentence(void **state)
{
	(void)state;
	check_sentence(
		14, 50 * MS, 10000 * MS,
		"The event loop was blocked for 0.70 s (14 x 50 ms), in price (/srv/app.py:5) -> "
		"get.\n");
	/* drawn: how many they were is not known */
	check_sentence(70, 10 * MS, 10000 * MS,
		       "The event loop was blocked for 0.70 s, in price (/srv/app.py:5) -> get.\n");
	check_sentence(
		1, 50 * MS, 10000 * MS,
		"100% of the thread time goes to the network in price (/srv/app.py:5) -> get.");
}

/* ---- Iterations ---- */

/* A loop of one thread, whose poll has this stack, and an iteration of two more. */
static struct profile *with_loop(const int *poll, const int *first, const int *second,
				 struct profile *p)
{
	const int *const stacks[] = { poll, first, second };
	struct profile_loop l = {
		.space = p->procs[0].space,
		.tid = 7,
		.cnt = 20,
		.busy_ns = 900 * MS,
		.slow_cnt = 3,
		.slow_ns = 700 * MS,
		.hist = { [4] = 12, [6] = 5, [17] = 3 },
		.longest_cnt = 1,
		.longest = { { .begin_ns = 250 * MS, .ns = 340 * MS, .stack_cnt = 2 } },
	};

	for (uint32_t i = 0; i < 3; i++)
		add_stack(p, 0, 0, MS, stacks[i]);
	l.longest[0].stacks[0] = (struct profile_loop_stack){ .stack = 1, .ns = 290 * MS };
	l.longest[0].stacks[1] = (struct profile_loop_stack){ .stack = 2, .ns = 10 * MS };
	symbolized(p);
	assert_int_equal(profile__add_loop(p, &l), 0);
	assert_int_equal(profile__name_loops(p), 0);
	return p;
}

static void test_iterations(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int once = py(p, "BaseEventLoop._run_once", LIB "asyncio/base_events.py", 1, 1);
	int select = py(p, "EpollSelector.select", LIB "selectors.py", 3, 1);
	int price = py(p, "price", "/srv/app.py", 5, 1),
	    get = py(p, "get", LIB "site-packages/requests/api.py", 6, 1);
	int epoll = marker(p, "[waits: epoll_wait]"), net = marker(p, "[waits: net]");
	const struct profile_loop *of[1];
	struct strbuf b = { 0 };
	struct loops_slow slow;
	unsigned first;

	(void)state;
	(void)proc;
	p->stats.values[0].event = EVENT_WALL;
	p->stats.duration_ns = 10000 * MS;
	with_loop((int[]){ once, select, epoll, -1 }, (int[]){ once, price, get, net, -1 },
		  (int[]){ once, price, -1 }, p);
	assert_int_equal(loops_list(p, of), 1);
	assert_int_equal(loops_buckets(of[0], &first), 18);
	assert_int_equal(first, 4);
	loops_find_slow(p, &slow);
	assert_int_equal(slow.cnt, 3);
	assert_ptr_equal(slow.longest, &p->loops[0].longest[0]);
	assert_ptr_equal(slow.sampled, &p->loops[0].longest[0]);
	assert_true(loops_blocks(p, slow.longest));
	assert_int_equal(loops_add_path(&b, p, slow.longest), 0);
	strbuf__addz(&b, "; ");
	loops_add_reasons(&b, p, slow.longest);
	strbuf__addz(&b, "; ");
	loops_add_bucket(&b, 0);
	strbuf__addz(&b, "; ");
	loops_add_bucket(&b, 9);
	strbuf__addz(&b, "; ");
	loops_add_bucket(&b, 17);
	assert_string_equal(b.s, "price (/srv/app.py:5) -> get; net 97%, on CPU 3%; 0 - 2 us; "
				 "512 us - 1.02 ms; 131 ms - 262 ms");
	strbuf__clear(&b);
	loops_add_title(&b, p, of[0]);
	assert_string_equal(b.s, "web (1), thread 7: 20 iterations, 0.90 s in all; 3 of 50 ms or "
				 "more, 0.70 s");
	strbuf__free(&b);
	profile__free(p);
}

/* It waits in epoll, but that is not a loop's doing; or its stack is not known. */
static void test_no_event_loop(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int once = py(p, "BaseEventLoop._run_once", LIB "asyncio/base_events.py", 1, 1);
	int price = py(p, "price", "/srv/app.py", 5, 1);
	int epoll = marker(p, "[waits: epoll_wait]");
	const struct profile_loop *of[1];
	struct loops_slow slow;

	(void)state;
	(void)proc;
	with_loop((int[]){ once, price, epoll, -1 }, (int[]){ price, epoll, -1 },
		  (int[]){ once, price, -1 }, p);
	assert_int_equal(loops_list(p, of), 0);
	loops_find_slow(p, &slow);
	assert_null(slow.longest);
	p->loops[0].poll.stack = UINT32_MAX;
	assert_int_equal(profile__name_loops(p), 0);
	assert_int_equal(p->loops[0].poll.cnt, 0);
	assert_int_equal(loops_list(p, of), 0);
	profile__free(p);
}

/* Long iterations are told where they are most of what blocked; else all that blocked is. */
static void check_slow_sentence(uint64_t times, uint64_t ns, const char *sentence)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int once = py(p, "BaseEventLoop._run_once", LIB "asyncio/base_events.py", 1, 1);
	int select = py(p, "EpollSelector.select", LIB "selectors.py", 3, 1);
	int price = py(p, "price", "/srv/app.py", 5, 1);
	int epoll = marker(p, "[waits: epoll_wait]"), net = marker(p, "[waits: net]");
	struct strbuf b = { 0 };
	struct view v;

	p->stats.values[0].event = EVENT_WALL;
	p->stats.values[0].rate_hz = 99;
	p->stats.duration_ns = 10000 * MS;
	add_stack(p, proc, 1, times * ns, (int[]){ once, price, net, -1 });
	p->stacks[0].samples = times;
	with_loop((int[]){ once, select, epoll, -1 }, (int[]){ once, price, net, -1 },
		  (int[]){ once, price, -1 }, p);
	p->loops[0].poll.stack = 1;
	p->loops[0].longest[0].stacks[0].stack = 2;
	p->loops[0].longest[0].stacks[1].stack = 3;
	assert_int_equal(profile__name_loops(p), 0);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(view_add_sentences(&b, &v), 0);
	if (strncmp(b.s, sentence, strlen(sentence)) != 0)
		fail_msg("\"%s\", not \"%s\"", b.s, sentence);
	strbuf__free(&b);
	view__free(&v);
	profile__free(p);
}

/* The longest has none: then one that has is told, too. */
static void test_slow_without_stack(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int once = py(p, "BaseEventLoop._run_once", LIB "asyncio/base_events.py", 1, 1);
	int select = py(p, "EpollSelector.select", LIB "selectors.py", 3, 1);
	int price = py(p, "price", "/srv/app.py", 5, 1);
	int epoll = marker(p, "[waits: epoll_wait]"), net = marker(p, "[waits: net]");
	static const char told[] = "The event loop was blocked 4 times for 50 ms or more, 1.10 s "
				   "in all, the longest 400 ms, one of 340 ms in price "
				   "(/srv/app.py:5).";
	struct profile_loop *l;
	struct strbuf b = { 0 };
	struct view v;

	(void)state;
	(void)proc;
	p->stats.values[0].event = EVENT_WALL;
	p->stats.duration_ns = 10000 * MS;
	with_loop((int[]){ once, select, epoll, -1 }, (int[]){ once, price, net, -1 },
		  (int[]){ once, price, -1 }, p);
	l = &p->loops[0];
	l->longest[1] = l->longest[0];
	l->longest[0] = (struct profile_stretch){ .ns = 400 * MS, .open = true };
	l->longest_cnt = 2;
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(view_add_sentences(&b, &v), 0);
	if (strncmp(b.s, told, strlen(told)) != 0)
		fail_msg("\"%s\", not \"%s\"", b.s, told);
	strbuf__free(&b);
	view__free(&v);
	profile__free(p);
}

static void test_slow_sentence(void **state)
{
	(void)state;
	check_slow_sentence(10, 100 * MS,
			    "The event loop was blocked 3 times for 50 ms or more, 0.70 s in all, "
			    "the longest 340 ms, in price (/srv/app.py:5).");
	check_slow_sentence(40, 50 * MS,
			    "The event loop was blocked for 2.00 s, in price (/srv/app.py:5).");
}

static void add_await(struct profile *p, int sym, int leaf, struct profile_await a)
{
	const uint32_t syms[] = { (uint32_t)sym, (uint32_t)leaf };

	a.space = p->procs[0].space;
	assert_int_equal(profile__add_await(p, &a, syms, leaf < 0 ? 1 : 2), 0);
}

/* The application's places that tasks come to; the others only if there are none. */
static void test_tasks(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int price = py(p, "price", "/srv/app.py", 5, 1),
	    serve = py(p, "serve", "/srv/app.py", 9, 8);
	int main_loop = py(p, "main_loop", LIB "site-packages/uvicorn/server.py", 3, 1);
	int read = py(p, "StreamReader.read", LIB "asyncio/streams.py", 7, 1);
	struct strbuf b = { 0 };

	(void)state;
	add_stack(p, proc, 0, MS, (int[]){ price, -1 });
	symbolized(p);
	assert_int_equal(loops_add_tasks(&b, p), 0);
	assert_int_equal(b.len, 0);
	add_await(p, main_loop, -1, (struct profile_await){ .looks = 40, .of = 40, .tasks = 40 });
	assert_int_equal(loops_add_tasks(&b, p), 0);
	assert_int_equal(b.len, 0);
	add_await(p, serve, -1,
		  (struct profile_await){ .own = true, .looks = 40, .of = 40, .tasks = 80 });
	assert_int_equal(loops_add_tasks(&b, p), 0);
	assert_string_equal(b.s, "In 100% of 40 looks the same tasks awaited in serve "
				 "(/srv/app.py:9) (2.0 on average).");
	strbuf__clear(&b);
	add_await(p, price, read,
		  (struct profile_await){
			  .own = true, .looks = 10, .of = 40, .tasks = 25, .came = 5 });
	assert_int_equal(loops_add_tasks(&b, p), 0);
	assert_string_equal(b.s, "In 25% of 40 looks tasks awaited in price (/srv/app.py:5) -> "
				 "StreamReader.read (2.5 on average).");
	strbuf__clear(&b);
	loops_add_looks(&b, p);
	assert_string_equal(b.s, "in 40 looks");
	strbuf__clear(&b);
	/* of another process */
	add_await(p, serve, -1,
		  (struct profile_await){
			  .own = true, .looks = 6, .of = 12, .cut = 2, .tasks = 6, .came = 1 });
	assert_int_equal(loops_add_tasks(&b, p), 0);
	assert_string_equal(b.s, "In 25% of 40 looks tasks awaited in price (/srv/app.py:5) -> "
				 "StreamReader.read (2.5 on average), in 50% of 12 looks in serve "
				 "(/srv/app.py:9) (1.0 on average).");
	strbuf__clear(&b);
	loops_add_looks(&b, p);
	assert_string_equal(b.s, "in 12 to 40 looks at each process, up to 2 of them at a part of "
				 "the tasks");
	strbuf__clear(&b);
	p->awaits[3].of = 40;
	loops_add_looks(&b, p);
	assert_string_equal(b.s, "in 40 looks, up to 2 of them at a part of the tasks");
	assert_true(loops_await_stands(&p->awaits[1]));
	assert_false(loops_await_stands(&p->awaits[2]));
	strbuf__free(&b);
	profile__free(p);
}

/* A stack without own code: the package's function that waits, not what the library does for it. */
static void test_causes_in_packages(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "celery", "/usr/bin/python3.11", "3.11.2", "", "");
	int task = py(p, "task", "/srv/app/shop.py", 22, 20);
	int loop = py(p, "synloop", "/venv/lib/python3.11/site-packages/celery/loops.py", 5, 1);
	int apply =
		py(p, "Pool.apply", "/venv/lib/python3.11/site-packages/billiard/pool.py", 9, 7);
	int wait = py(p, "Condition.wait", "/usr/lib/python3.11/threading.py", 327, 300);
	int acquire = py(p, "Semaphore.acquire", "/usr/lib/python3.11/threading.py", 400, 390);
	int lock = marker(p, "[waits: lock]");
	struct strbuf b = { 0 };
	struct view v;

	(void)state;
	STACK(p, proc, 0, 60, loop, apply, acquire, wait, lock);
	STACK(p, proc, 0, 30, loop, task, apply, acquire, wait, lock);
	STACK(p, proc, 0, 10, acquire, wait, lock);
	symbolized(p);
	p->stats.values[0] = (struct value_type){ .event = EVENT_WALL };
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(view_add_causes(&b, &v), 0);
	assert_string_equal(
		b.s, "60% of the thread time goes to a lock in Pool.apply (billiard/pool.py:9) -> "
		     "... -> Condition.wait, 30% to a lock in task (shop.py:22) -> ... -> "
		     "Condition.wait, 10% to a lock in Condition.wait (threading.py:327).");
	strbuf__free(&b);
	view__free(&v);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_iterations),    cmocka_unit_test(test_no_event_loop),
		cmocka_unit_test(test_slow_sentence), cmocka_unit_test(test_loops),
		cmocka_unit_test(test_tasks),	      cmocka_unit_test(test_slow_without_stack),
		cmocka_unit_test(test_sentence),      cmocka_unit_test(test_causes_in_packages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
