/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * view*.c: what a person reads of profiles without Python, of waits, of few samples and of other
 * values than CPU time, of a part of a profile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/viewing.h"

/* ---- Without Python ---- */

static void test_native(void **state)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "", 0, 0x1000);
	int blas = add_module(p, SITE "numpy.libs/libblas64_-32a4b2a6.so", "", 0, 0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int start = native(p, "_start", exe, 1), main = native(p, "Py_RunMain", exe, 2);
	int final = native(p, "Py_FinalizeEx", exe, 3), gc = native(p, "gc_collect_main", exe, 4);
	int clone = native(p, "clone3", exe, 5), serve = native(p, "blas_server", blas, 6);
	int gemm = native(p, "dgemm", blas, 7), fault = kern(p, "asm_exc_page_fault", 0xff);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 60, start, main, final, gc);
	STACK(p, proc, 0, 40, start, main, final, fault);
	STACK(p, proc, 0, 90, clone, serve, gemm);
	STACK(p, proc, 0, 10, clone, serve, gemm, fault);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_own(&v, "Py_FinalizeEx", 100, 100, "garbage collection 30%, kernel 20%");
	check_own(&v, "dgemm", 100, 100, "libblas64_ 45%, kernel 5%");
	check_tree(&v, "100 100 Py_FinalizeEx python3.11\n"
		       "100 0 blas_server numpy.libs/libblas64_-32a4b2a6.so\n"
		       " 100 100 dgemm numpy.libs/libblas64_-32a4b2a6.so\n");
	done(&v, p);
}

/* sys.exit() ends the interpreter below what runs the program: a program that returns does not. */
static void test_end(void **state)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "", 0, 0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int start = native(p, "_start", exe, 1), main = native(p, "Py_RunMain", exe, 2);
	int file = native(p, "_PyRun_AnyFileObject", exe, 3), bare = native(p, "", exe, 4);
	int final = native(p, "Py_FinalizeEx", exe, 5), gc = native(p, "gc_collect_main", exe, 6);
	int exits = native(p, "Py_Exit", exe, 7);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 150, start, main, file, bare, exits, final, gc);
	STACK(p, proc, 0, 50, start, main, final, gc);
	STACK(p, proc, 0, 50, start, main, file, bare);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_tree(&v, "200 200 Py_FinalizeEx python3.11\n"
		       "50 50 _PyRun_AnyFileObject python3.11\n");
	check_says(&v, "80% of the CPU time is the end of the interpreter (Py_FinalizeEx).\n"
		       "80% is in garbage collection.");
	done(&v, p);
}

/* An extension is called what it is imported as, and stands where it is imported from. */
static void test_extension(void **state)
{
	struct profile *p = profile__new();
	int etree = add_module(p, SITE "lxml/etree.cpython-311-x86_64-linux-gnu.so", "", 0, 0x1000);
	int lib = add_module(p, SITE "pandas/_libs/lib.cpython-311-x86_64-linux-gnu.so", "", 0,
			     0x1000);
	int rust = add_module(p, SITE "polars/_polars.abi3.so", "", 0, 0x1000);
	int json = add_module(p, STDLIB "lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", "", 0,
			      0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int work = py(p, "work", "/srv/app/a.py", 3, 1);
	int split = native(p, "split (lib.pyx)", lib, 7), serve = native(p, "serve", rust, 7);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 200, work, native(p, "parse", etree, 1));
	STACK(p, proc, 0, 60, work, native(p, "encode", json, 1));
	STACK(p, proc, 0, 40, work, native(p, "map", rust, 1));
	STACK(p, proc, 0, 60, work, split);
	STACK(p, proc, 0, 40, serve);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_own(&v, "work", 300, 360, "lxml.etree 50%, _json 15%, polars._polars 10%");
	check_own(&v, "split (lib.pyx)", 60, 60, "pandas._libs.lib 15%");
	check_tree(&v, "360 300 work a.py:3\n"
		       " 60 60 split (lib.pyx) pandas/_libs/lib.so\n"
		       "40 40 serve polars/_polars.so\n");
	check_says(&v, "90% of the CPU time is in work (a.py:3).\n50% is in lxml.etree.");
	done(&v, p);
}

/* Chains are named after what a person knows: neither made-up files nor markers. */
static void test_chains(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int begin = marker(p, "[greenlet]"), none = marker(p, "[truncated]");
	int run = py(p, "run", SITE "gevent/greenlet.py", 5, 1);
	int work = py(p, "work", "/srv/app/a.py", 3, 1);
	int argmap = py(p, "argmap_1", "<class 'networkx.argmap'> compilation 30", 4, 1);
	int rank = py(p, "rank", SITE "networkx/rank.py", 4, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 300, begin, run, work);
	STACK(p, proc, 0, 100, none, argmap, rank, work);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_tree(&v, "300 0 [2: greenlet gevent]\n"
		       " 300 300 work a.py:3\n"
		       "100 0 [3: truncated generated code networkx]\n"
		       " 100 100 work a.py:3\n");
	done(&v, p);
}

/*
 * What the interpreter does is said if it is special, also where it has no symbols but the tables
 * of methods name it; a library that it calls there is a part of that.
 */
static void test_special(void **state)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "", 0, 0x1000);
	int libc = add_module(p, "/usr/lib/libc.so.6", "", 0, 0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int work = py(p, "work", "/srv/app/a.py", 3, 1), key = py(p, "key", "/srv/app/a.py", 9, 8);
	int eval = native(p, "_PyEval_EvalFrameDefault", exe, 1), bare = native(p, "", exe, 2);
	int sre = native(p, "sre_ucs1_match.lto_priv.0", exe, 3),
	    copy = native(p, "memcpy", libc, 1);
	int method = native(p, "re.Pattern.findall", exe, 4), sort = native(p, "list.sort", exe, 5);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 20, work, eval, sre);
	STACK(p, proc, 0, 20, work, eval, sre, copy);
	STACK(p, proc, 0, 10, work, eval, method, bare);
	STACK(p, proc, 0, 15, work, sort, bare);
	STACK(p, proc, 0, 10, work, sort, key, eval); /* that is not in sorting */
	STACK(p, proc, 0, 25, work, eval);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_own(&v, "work", 90, 100, "regular expressions 30%, interpreter 25%, libc 20%");
	check_says(&v, "90% of the CPU time is in work (a.py:3), 100% with the own code that it"
		       " calls.\n50% is in regular expressions, 15% in sorting.");
	done(&v, p);
}

/* One process is named that has clearly more than any other. */
static void test_who(void **state)
{
	static const struct {
		uint64_t first, second, third;
		const char *says;
	} cases[] = {
		{ 51, 49, 0, "" },
		{ 51, 40, 9, "" },
		{ 65, 35, 0, "\nOne process, app (10), has 65%." },
		{ 50, 30, 20, "\nOne process, app (10), has 50%." },
		{ 20, 80, 0, "\nOne process, app (11), has 80%." },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile *p = profile__new();
		int one = add_proc(p, 10, "app", "/usr/bin/python3.11", "3.11.2", "", "");
		int other = add_proc(p, 11, "app", "/usr/bin/python3.11", "3.11.2", "", "");
		int third = add_proc(p, 12, "app", "/usr/bin/python3.11", "3.11.2", "", "");
		int work = py(p, "work", "/srv/app/a.py", 3, 1);
		char said[128];
		struct view v;

		STACK(p, one, 0, cases[i].first, work);
		STACK(p, other, 0, cases[i].second, work);
		if (cases[i].third)
			STACK(p, third, 0, cases[i].third, work);
		finished(p);
		assert_int_equal(view__init(&v, p, true), 0);
		snprintf(said, sizeof(said), "100%% of the CPU time is in work (a.py:3).%s",
			 cases[i].says);
		check_says(&v, said);
		done(&v, p);
	}
}

/* All calls of malloc() end in one library: that is worth a sentence of the CPU only. */
static void test_by_definition(void **state)
{
	struct profile *p = profile__new();
	int libc = add_module(p, "/usr/lib/x86_64-linux-gnu/libc.so.6", "", 0, 0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int work = py(p, "work", "/srv/app/a.py", 3, 1), call = native(p, "malloc", libc, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 200, work, call);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "100% of the CPU time is in work (a.py:3), in libc."); /* and no "100% is" */
	p->stats.values[0] = (struct value_type){ .event = EVENT_PAGE_FAULTS };
	check_says(&v, "100% of the page faults are in work (a.py:3), in libc.");
	done(&v, p);
}

/* Tracepoints are all hit in the kernel. */
static void test_tracepoints_are_in_the_kernel(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int work = py(p, "work", "/srv/app/a.py", 3, 1);
	int libc = add_module(p, "/usr/lib/x86_64-linux-gnu/libc.so.6", "", 0, 0x1000);
	int opens = kern(p, "do_sys_openat2", 0xffffffff81000000);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 200, work, native(p, "open", libc, 1), opens);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "100% of the CPU time is in work (a.py:3).\n100% is in the kernel.");
	p->stats.values[0] = (struct value_type){ .event = VALUE_FOREIGN };
	snprintf(p->stats.values[0].name, sizeof(p->stats.values[0].name),
		 "tracepoint:syscalls:sys_enter_openat");
	check_says(&v, "100% of the hits are in work (a.py:3).");
	done(&v, p);
}

/* ---- Waits ---- */

/* What threads waited for, and where: by function, a module's code by line. */
static void test_causes(void **state)
{
	struct profile *p = profile__new();
	int libc = add_module(p, "/usr/lib/x86_64-linux-gnu/libc.so.6", "", 0, 0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int index = py(p, "index", "/srv/app/shop.py", 22, 20);
	int query = py(p, "query", "/srv/app/shop.py", 12, 10);
	int lib = py(p, "SocketIO.readinto", "/usr/lib/python3.11/socket.py", 7, 5);
	int taken = py(p, "update", "/srv/app/shop.py", 14, 13);
	int naps = py(p, "update", "/srv/app/shop.py", 15, 13);
	int futex = native(p, "futex_wait", libc, 1), worker = native(p, "worker", libc, 2);
	int lock = marker(p, "[waits: lock]"), gil = marker(p, "[waits: GIL]");
	int net = marker(p, "[waits: net]"), sleep = marker(p, "[waits: sleep]");
	int held = marker(p, "[waits: sleep with the GIL held]");
	int gone = marker(p, "[stack-not-taken]");
	struct view v;

	(void)state;
	STACK(p, proc, 0, 30, index, taken, futex, lock);
	STACK(p, proc, 0, 10, index, naps, futex, lock);
	STACK(p, proc, 0, 11, index, taken, futex, gil);
	STACK(p, proc, 0, 20, index, query, lib, net);
	STACK(p, proc, 0, 10, index, naps, sleep);
	STACK(p, proc, 0, 10, index, held);
	STACK(p, proc, 0, 4, index);
	STACK(p, proc, 0, 3, worker, futex, lock);
	STACK(p, proc, 0, 2, gone, lock);
	finished(p);
	p->stats.values[0] = (struct value_type){ .event = EVENT_WALL };
	assert_int_equal(view__init(&v, p, true), 0);
	check_own(&v, "update", 61, 61, "lock 40%, GIL 11%, sleep 10%");
	check_own(&v, "SocketIO.readinto", 20, 20, "net 20%");
	check_own(&v, "futex_wait", 3, 54, "lock 3%");
	check_own(&v, "[stack-not-taken]", 2, 2, "lock 2%");
	check_own(&v, "[waits: lock]", 0, 45, "");
	check_says(&v, "40% of the thread time goes to a lock in update (shop.py:14), 20% to the "
		       "network in query (shop.py:12) -> SocketIO.readinto, 11% to the GIL in "
		       "update (shop.py:14), 10% to sleep with the GIL held in index (shop.py:22), "
		       "10% to sleep in update (shop.py:15).");
	p->stats.values[0] = (struct value_type){ .event = EVENT_GIL };
	check_says(&v, "61% of the time waited for the GIL is in update (shop.py:14).");
	done(&v, p);
}

/* Waiting for a CPU is no time on one, and a stack that was not taken is no place. */
static void test_causes_without_a_place(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int work = py(p, "work", "/srv/app/shop.py", 22, 20);
	int queue = marker(p, "[waits: CPU]"), lock = marker(p, "[waits: lock]");
	int gone = marker(p, "[stack-not-taken]");
	struct view v;

	(void)state;
	STACK(p, proc, 0, 60, gone, lock);
	STACK(p, proc, 0, 40, work, queue);
	finished(p);
	p->stats.values[0] = (struct value_type){ .event = EVENT_WALL };
	assert_int_equal(view__init(&v, p, true), 0);
	check_own(&v, "work", 40, 40, "run queue 40%");
	check_says(&v, "40% of the thread time goes to waiting for a CPU in work (shop.py:22).");
	done(&v, p);
}

/* What imports take is no function: one of the import statement's own is not named. */
static void test_import_code(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "flake8", "/usr/bin/python3.11", "3.11.2", "", "");
	int script = py(p, "<module>", "/srv/venv/bin/flake8", 8, 1);
	int load = py(p, "_find_and_load", BOOT, 1, 1), code = py(p, "_compile", BOOT, 2, 2);
	int module = py(p, "<module>", SITE "flake8/main.py", 3, 1);
	int check = py(p, "check", SITE "flake8/checker.py", 9, 1);
	int boot = py(p, "_bootstrap", STDLIB "threading.py", 9, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 60, boot, load, code);
	STACK(p, proc, 0, 40, script, load, module);
	STACK(p, proc, 0, 50, script, check);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "67% of the CPU time is importing modules; flake8 has the most, 27%.\n"
		       "33% of the CPU time is in check (flake8/checker.py:9).");
	done(&v, p);
}

/* ---- Few, none, other values ---- */

static void test_few(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int work = py(p, "work", "/srv/app/a.py", 3, 1);
	struct strbuf b = { 0 };
	struct view v;

	(void)state;
	STACK(p, proc, 0, 25, work);
	finished(p);
	p->stats.values[0] = (struct value_type){ .event = EVENT_PAGE_FAULTS };
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "100% of the page faults are in work (a.py:3).\n"
		       "Few samples: +-20 points; use -d or -F for more.");
	view_add_percent(&b, &v, 1);
	assert_string_equal(b.s, "4%");
	strbuf__clear(&b);
	p->stats.values[0] = (struct value_type){ .event = EVENT_OFF_CPU };
	assert_int_equal(view_error_points(&v), 0); /* waits are measured */
	view_add_percent(&b, &v, 1);
	assert_string_equal(b.s, "4.0%");
	strbuf__free(&b);
	p->stats.values[0] = (struct value_type){ .event = EVENT_PAGE_FAULTS, .period = 1 };
	check_says(&v, "100% of the page faults are in work (a.py:3).");
	p->stats.values[0].period = 2;
	assert_int_equal(view_error_points(&v), 20);
	p->stats.values[0] = (struct value_type){ .event = VALUE_FOREIGN,
						  .name = "uprobe:/lib/libc.so.6:getppid" };
	check_says(&v, "100% of the hits are in work (a.py:3).");
	done(&v, p);
	p = finished(profile__new());
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "");
	check_tree(&v, "");
	done(&v, p);
}

/*
 * Recursion, markers, stacks of any depth: no stack is lost, and each branch has what its callees
 * have.
 */
static void test_deep(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int cut = marker(p, "truncated"), fib = py(p, "fib", "/srv/app/a.py", 3, 1);
	int a = py(p, "a", SITE "x/a.py", 3, 1), b = py(p, "b", SITE "y/b.py", 3, 1);
	uint64_t *words = calloc(5000, sizeof(*words));
	struct view v;

	(void)state;
	assert_non_null(words);
	STACK(p, proc, 0, 30, cut, fib, fib, fib);
	STACK(p, proc, 0, 70, fib, fib);
	for (int i = 0; i < 5000; i++)
		words[i] = word(p, i % 2 ? a : b);
	assert_true(profile__add_stack(p, (uint32_t)proc, 0, words, 5000, 100) >= 0);
	free(words);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_tree(&v, "100 0 [4999: y x]\n"
		       " 100 100 a x/a.py:3\n"
		       "70 70 fib a.py:3\n"
		       "30 0 [truncated] \n"
		       " 30 30 fib a.py:3\n");
	done(&v, p);
}

/*
 * Branches part far from the root, where the first cuts have too many rows: each stands below its
 * own caller.
 */
static void test_deep_branches(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int a = py(p, "a", "/srv/app/a.py", 3, 1), b = py(p, "b", "/srv/app/b.py", 3, 1);
	int heavy = py(p, "heavy", "/srv/app/h.py", 3, 1);
	int cheap = py(p, "cheap", "/srv/app/c.py", 3, 1);
	int below = py(p, "below", "/srv/app/d.py", 3, 1);
	enum { DEPTH = 3000 };
	uint64_t *words = calloc(DEPTH + 2, sizeof(*words));
	struct view v;

	(void)state;
	assert_non_null(words);
	for (int i = 0; i < DEPTH; i++)
		words[i] = word(p, i % 2 ? a : b);
	words[DEPTH + 1] = word(p, below);
	words[DEPTH] = word(p, heavy);
	assert_true(profile__add_stack(p, (uint32_t)proc, 0, words, DEPTH + 2, 60) >= 0);
	words[DEPTH] = word(p, cheap);
	assert_true(profile__add_stack(p, (uint32_t)proc, 0, words, DEPTH + 1, 40) >= 0);
	free(words);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_tree(&v, "100 0 [2999: b a]\n"
		       " 100 0 a a.py:3\n"
		       "  60 0 heavy h.py:3\n"
		       "   60 60 below d.py:3\n"
		       "  40 40 cheap c.py:3\n");
	done(&v, p);
}

/* ---- Narrowed ---- */

static void test_reduce(void **state)
{
	struct profile *p = shop();
	struct view v;
	const pid_t other = 11, web = 10;

	(void)state;
	profile__reduce(p, &(struct reduction){ .no_native = true, .no_kernel = true });
	for (size_t i = 0; i < p->stack_cnt; i++)
		for (uint32_t j = 0; j < p->stacks[i].cnt; j++)
			assert_int_equal(p->syms[p->frame_syms[p->stacks[i].first + j]].kind,
					 SYM_PYTHON);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(v.total, 100);
	check_own(&v, "pbkdf2", 76, 76, "");
	check_own(&v, "handle", 9, 100, "");
	view__free(&v);
	profile__reduce(p, &(struct reduction){ .comm = "guni*", .pids = &web, .pid_cnt = 1 });
	assert_int_equal(profile__total(p), 100);
	profile__reduce(p, &(struct reduction){ .pids = &other, .pid_cnt = 1 });
	assert_int_equal(profile__total(p), 0);
	assert_int_equal(profile__all_samples(p), 100); /* none is said to be lost */
	profile__free(p);
	p = shop();
	profile__reduce(p, &(struct reduction){ .comm = "celery" });
	assert_int_equal(profile__total(p), 0);
	profile__free(p);
}

/*
 * A function's generators and lambdas are parts of it: its time is not split between them. A lambda
 * of another function, a nested function with a name and an expression called from elsewhere are
 * not.
 */
static void test_expressions(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int main = py(p, "<module>", "/srv/app/a.py", 30, 1);
	int total = py(p, "total", "/srv/app/a.py", 4, 3);
	int part = py(p, "total.<locals>.<genexpr>", "/srv/app/a.py", 4, 4);
	int inner = py(p, "total.<locals>.<genexpr>.<locals>.<genexpr>", "/srv/app/a.py", 4, 4);
	int nested = py(p, "total.<locals>.<listcomp>.<listcomp>", "/srv/app/a.py", 4, 4);
	int clean = py(p, "clean", "/srv/app/a.py", 9, 8);
	int apply = py(p, "apply", SITE "pandas/series.py", 9, 1);
	int fill = py(p, "clean.<locals>.<lambda>", "/srv/app/a.py", 9, 9);
	int named = py(p, "clean.<locals>.work", "/srv/app/a.py", 12, 11);
	int old = py(p, "old", "/srv/app/b.py", 3, 2);
	int bare = py(p, "<genexpr>", "/srv/app/b.py", 3, 3);
	int key = py(p, "<lambda>", "/srv/app/b.py", 1, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 100, main, total, part, inner);
	STACK(p, proc, 0, 100, main, total, part, nested);
	STACK(p, proc, 0, 150, main, total, part);
	STACK(p, proc, 0, 50, main, total);
	STACK(p, proc, 0, 270, main, clean, apply, fill);
	STACK(p, proc, 0, 30, main, apply, fill);
	STACK(p, proc, 0, 60, main, clean, named);
	STACK(p, proc, 0, 90, main, old, bare, bare);
	STACK(p, proc, 0, 150, main, old, key);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(v.functions[find(&v, "total")].charged, 400);
	assert_int_equal(v.functions[find(&v, "total.<locals>.<genexpr>")].charged, 0);
	assert_int_equal(v.functions[find(&v, "clean")].charged, 270);
	assert_int_equal(v.functions[find(&v, "clean.<locals>.<lambda>")].charged, 30);
	assert_int_equal(v.functions[find(&v, "clean.<locals>.work")].charged, 60);
	assert_int_equal(v.functions[find(&v, "old")].charged, 90);
	assert_int_equal(v.functions[find(&v, "<lambda>")].charged, 150);
	check_says(&v, "40% of the CPU time is in total (a.py:4).");
	done(&v, p);
}

/* ---- Seldom on a CPU ---- */

/* Time without a CPU is no waiting: 100 samples at 100 Hz are 1 s of the 4 s. */
static void test_without_a_cpu(void **state)
{
	static const struct {
		uint64_t ready_ms, throttled_ms;
		const char *says;
	} cases[] = {
		{ 0, 0, NULL }, /* not known: several processes, or one that came or went */
		{ 1, 0, "It was on a CPU for 25% of the time; the rest it waited." },
		{ 100, 100, "It was on a CPU for 25% of the time; the rest it waited." },
		{ 1000, 0,
		  "It was on a CPU for 25% of the time, ready to run but without a CPU for 25%; "
		  "the rest it waited." },
		{ 3000, 0,
		  "It was on a CPU for 25% of the time, ready to run but without a CPU for 75%." },
		{ 0, 1240,
		  "It was on a CPU for 25% of the time, throttled by its container's CPU limit "
		  "for 31%; the rest it waited." },
		{ 3120, 0,
		  "It was on a CPU for 25% of the time, ready to run but without a CPU for 75%." },
		/* Several threads: their parts are no shares of the time. */
		{ 4320, 0,
		  "Its threads together were on a CPU for 1.0 s, ready to run but without a CPU "
		  "for 4.3 s." },
		{ 3800, 0,
		  "Its threads together were on a CPU for 1.0 s, ready to run but without a CPU "
		  "for 3.8 s." },
		/* Kernels that count time under the limit as ready, too */
		{ 3000, 2000,
		  "It was on a CPU for 25% of the time, throttled by its container's CPU limit "
		  "for 50% and ready to run but without a CPU for 25%." },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile *p = shop();
		struct strbuf b = { 0 };
		const char *line;
		struct view v;
		bool starved;

		p->stats.duration_ns = 4000000000;
		p->stats.ready_ns = cases[i].ready_ms * 1000000;
		p->stats.throttled_ns = cases[i].throttled_ms * 1000000;
		/* Garbage collection is worth a sentence. */
		p->stacks[2].count += 3;
		p->stacks[3].count -= 3;
		assert_int_equal(view__init(&v, p, true), 0);
		assert_int_equal(view_add_sentences(&b, &v), 0);
		/* A fifth of the time without a CPU comes before what the time on one went to. */
		starved = cases[i].ready_ms + cases[i].throttled_ms >= 800;
		if (!cases[i].says) {
			assert_null(strstr(b.s, "It was"));
			strbuf__free(&b);
			done(&v, p);
			continue;
		}
		line = starved ? strchr(b.s, '\n') : strrchr(b.s, '\n');
		assert_non_null(line);
		assert_memory_equal(line + 1, cases[i].says, strlen(cases[i].says));
		assert_int_equal(line[1 + strlen(cases[i].says)], starved ? '\n' : '\0');
		strbuf__free(&b);
		done(&v, p);
	}
}

/* A service that is seldom on a CPU waits: that is said before what kinds of code it has. */
static void test_seldom_on_a_cpu(void **state)
{
	struct profile *p = profile__new();
	int libc = add_module(p, "/usr/lib/libc.so.6", "", 0, 0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int work = py(p, "work", "/srv/app/a.py", 3, 1), read = native(p, "read", libc, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 10, work, read, kern(p, "do_syscall_64", 0xff));
	STACK(p, proc, 0, 15, work, read);
	finished(p);
	p->stats.duration_ns = 5000000000;
	p->stats.ready_ns = 1000000;
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "100% of the CPU time is in work (a.py:3).\n"
		       "It was on a CPU for 5% of the time; the rest it waited.\n"
		       "Few samples: +-20 points; -e wall shows what it waits for.");
	done(&v, p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_native),
		cmocka_unit_test(test_special),
		cmocka_unit_test(test_who),
		cmocka_unit_test(test_by_definition),
		cmocka_unit_test(test_tracepoints_are_in_the_kernel),
		cmocka_unit_test(test_reduce),
		cmocka_unit_test(test_few),
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_import_code),
		cmocka_unit_test(test_causes_without_a_place),
		cmocka_unit_test(test_without_a_cpu),
		cmocka_unit_test(test_seldom_on_a_cpu),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_extension),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_deep_branches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
