/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* idle.c: who waits for work is folded into one line, and nothing of it is lost. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "profile/export_stacks.h"
#include "profile/idle.h"
#include "unit/profiles.h"

#define LIB "/usr/lib/python3.11/"

/* A profile, and the frames that its stacks are made of. */
struct world {
	struct profile *p;
	int proc;
	int top, worker, run_once, select, get, wait, user, mine, serve; /* Python */
	int uv_run, uv_inner, uv_user;					 /* native, of libuv */
	int start, cond, uv_poll, epoll, mutex, eval, raw, child;	 /* native */
	int lock, poll, cpu, gil, disk, accept, ended;			 /* waits */
};

static void setup(struct world *w)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "", 0, 0);
	int libc = add_module(p, "/usr/lib/libc.so.6", "", 0, 0);
	int uv = add_module(p, "/usr/lib/libuv.so.1", "", 0, 0);

	*w = (struct world){ .p = p };
	w->proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	w->top = py(p, "Thread.run", LIB "threading.py", 10, 1);
	w->worker = py(p, "_worker", LIB "concurrent/futures/thread.py", 20, 1);
	w->run_once = py(p, "BaseEventLoop._run_once", LIB "asyncio/base_events.py", 30, 1);
	w->select = py(p, "EpollSelector.select", LIB "selectors.py", 40, 1);
	w->get = py(p, "Queue.get", LIB "queue.py", 50, 1);
	w->wait = py(p, "Condition.wait", LIB "threading.py", 60, 1);
	w->user = py(p, "price", "/srv/app.py", 70, 1);
	w->serve = py(p, "_serve", "/venv/site-packages/grpc/_server.py", 90, 1);
	/* neither the file nor the function of a place */
	w->mine = py(p, "_worker", "/srv/myconcurrent/futures/thread.py", 80, 1);
	w->start = native(p, "start_thread", libc, 1);
	w->cond = native(p, "pthread_cond_wait", libc, 2);
	w->uv_poll = native(p, "uv__io_poll", libc, 3);
	w->epoll = native(p, "epoll_wait", libc, 4);
	w->mutex = native(p, "pthread_mutex_lock", libc, 5);
	w->eval = native(p, "_PyEval_EvalFrameDefault", exe, 6);
	w->raw = native(p, "syscall", libc, 7);
	w->child = native(p, "wait4", libc, 8);
	w->uv_run = native(p, "uv_run", uv, 9);
	w->uv_inner = native(p, "libuv.so.1+0x22a60", uv, 10);
	w->uv_user = native(p, "python3.11+0x1234", exe, 11);
	w->lock = marker(p, "[waits: lock]");
	w->poll = marker(p, "[waits: epoll_wait]");
	w->cpu = marker(p, "[waits: CPU]");
	w->gil = marker(p, "[waits: GIL]");
	w->disk = marker(p, "[waits: disk]");
	w->accept = marker(p, "[waits: accept]");
	w->ended = marker(p, "[waits: child process]");
}

/* The same without stacks: all numbers are as they were. */
static struct profile *renew(struct world *w)
{
	profile__free(w->p);
	setup(w);
	return w->p;
}

/* With one stack of its own and one that is busy: is the former idle? */
static bool is_idle(struct world *w, const int *syms, const struct idle_rules *rules)
{
	struct profile *p = renew(w);
	struct idle idle;
	bool found;

	add_stack(p, w->proc, 0, 5, syms);
	add_stack(p, w->proc, 0, 2, (int[]){ w->user, w->eval, -1 });
	symbolized(p);
	assert_int_equal(idle__init(&idle, p, rules), 0);
	found = idle.folded != p;
	assert_int_equal(profile__total(idle.folded), 7);
	assert_int_equal(profile__total(idle.busy), found ? 2 : 7);
	assert_int_equal(profile__all_samples(idle.busy), profile__all_samples(p));
	idle__free(&idle);
	return found;
}

static void test_places(void **state)
{
	struct world w;

	(void)state;
	setup(&w);
	const struct {
		int syms[8];
		bool idle;
	} cases[] = {
		{ { w.top, w.worker, w.lock, -1 }, true },
		{ { w.top, w.worker, w.get, w.wait, w.cond, w.lock, -1 }, true },
		{ { w.top, w.run_once, w.select, w.epoll, w.poll, -1 }, true },
		{ { w.user, w.uv_poll, w.epoll, w.poll, -1 }, true },
		{ { w.user, w.uv_run, w.uv_inner, w.epoll, w.poll, -1 }, true },
		{ { w.start, w.cond, w.lock, -1 }, true },
		{ { w.start, w.raw, w.lock, -1 }, true },
		{ { w.top, w.serve, w.raw, w.lock, -1 }, true },
		{ { w.user, w.accept, -1 }, true },
		{ { w.start, w.child, w.ended, -1 }, true },
		/* a function of the user's waits */
		{ { w.worker, w.user, w.lock, -1 }, false },
		{ { w.user, w.child, w.ended, -1 }, false },
		{ { w.worker, w.user, w.get, w.wait, w.lock, -1 }, false },
		{ { w.worker, w.user, w.select, w.poll, -1 }, false },
		{ { w.top, w.mine, w.lock, -1 }, false },
		/* an event loop in a lock calls somebody */
		{ { w.run_once, w.cond, w.lock, -1 }, false },
		{ { w.top, w.wait, w.lock, -1 }, false },
		{ { w.user, w.uv_run, w.uv_user, w.epoll, w.poll, -1 }, false },
		{ { w.user, w.uv_run, w.uv_inner, w.uv_user, w.epoll, w.poll, -1 }, false },
		{ { w.user, w.uv_run, w.uv_inner, w.epoll, w.lock, -1 }, false },
		{ { w.uv_run, w.poll, -1 }, false },
		/* not for want of work */
		{ { w.top, w.worker, w.cpu, -1 }, false },
		{ { w.top, w.worker, w.gil, -1 }, false },
		{ { w.top, w.worker, w.disk, -1 }, false },
		/* native code that waits for another thread, and Python that is not read */
		{ { w.start, w.mutex, w.lock, -1 }, false },
		{ { w.start, w.eval, w.cond, w.lock, -1 }, false },
		{ { w.start, w.cond, -1 }, false },
		/* another system call, and a lock of the user's */
		{ { w.start, w.raw, w.poll, -1 }, false },
		{ { w.user, w.raw, w.lock, -1 }, false },
		{ { w.start, w.raw, w.mutex, w.lock, -1 }, false },
		{ { w.lock, -1 }, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (is_idle(&w, cases[i].syms, NULL) != cases[i].idle)
			fail_msg("case %zu", i);
	profile__free(w.p);
}

static void test_rules(void **state)
{
	regex_t price, worker;
	const struct idle_rules idle = { .idle = &price }, busy = { .busy = &worker };
	const struct idle_rules both = { .idle = &price, .busy = &worker };
	struct world w;

	(void)state;
	setup(&w);
	assert_int_equal(regcomp(&price, "^price \\(.*app\\.py\\)$", REG_EXTENDED | REG_NOSUB), 0);
	assert_int_equal(regcomp(&worker, "futures/thread", REG_EXTENDED | REG_NOSUB), 0);
	const int known[] = { w.top, w.worker, w.lock, -1 };
	const int mine[] = { w.worker, w.user, w.lock, -1 };
	const int cpu[] = { w.user, w.cpu, -1 };

	assert_true(is_idle(&w, known, &idle) && !is_idle(&w, known, &busy));
	assert_true(is_idle(&w, mine, &idle) && !is_idle(&w, mine, &busy));
	assert_false(is_idle(&w, known, &both) || is_idle(&w, mine, &both));
	assert_false(is_idle(&w, cpu, &idle));
	regfree(&price);
	regfree(&worker);
	profile__free(w.p);
}

/* The line of a profile with these stacks, a second each. */
static void check_line(struct world *w, const int *const *stacks, uint32_t event, const char *line,
		       bool left_out)
{
	struct profile *p = renew(w);
	struct strbuf b = { 0 };
	struct idle idle;

	p->stats.values[0].event = event;
	p->stats.duration_ns = 2000000000;
	for (; *stacks; stacks++)
		add_stack(p, w->proc, 0, 1000000000, *stacks);
	symbolized(p);
	assert_int_equal(idle__init(&idle, p, NULL), 0);
	idle_add_line(&b, &idle);
	assert_string_equal(b.len ? b.s : "", line);
	assert_int_equal(idle.busy != p, left_out);
	strbuf__free(&b);
	idle__free(&idle);
}

static void test_line(void **state)
{
	struct world w;

	(void)state;
	setup(&w);
	const int worker[] = { w.top, w.worker, w.lock, -1 };
	const int other[] = { w.worker, w.get, w.lock, -1 };
	const int loop[] = { w.run_once, w.select, w.poll, -1 };
	const int user[] = { w.user, w.lock, -1 };
	const int ran[] = { w.user, w.eval, -1 };

	check_line(&w, (const int *[]){ worker, other, loop, user, ran, NULL }, EVENT_WALL,
		   "Idle, in no share below: ThreadPoolExecutor 2.0 s, asyncio's event loop 1.0 s",
		   true);
	/* Never empty. */
	check_line(&w, (const int *[]){ worker, loop, NULL }, EVENT_WALL,
		   "It used 0.0% of a CPU; it waits in ThreadPoolExecutor 1.0 s, "
		   "asyncio's event loop 1.0 s",
		   false);
	check_line(&w, (const int *[]){ worker, NULL }, EVENT_OFF_CPU,
		   "All idle: ThreadPoolExecutor 1.0 s", false);
	check_line(&w, (const int *[]){ user, ran, NULL }, EVENT_WALL, "", false);
	/* Who has the GIL is not idle. */
	check_line(&w, (const int *[]){ worker, ran, NULL }, EVENT_GIL_HELD, "", false);
	check_line(&w, (const int *[]){ NULL }, EVENT_WALL, "", false);
	profile__free(w.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
