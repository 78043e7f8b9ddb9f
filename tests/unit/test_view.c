/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * view*.c and origin.c: profiles built by hand, and what a person reads of them: own time and what
 * it is made of, the call tree row by row, the sentences.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/cost.h"
#include "unit/viewing.h"

/* ---- Paths ---- */

static void check_path(const char *path, enum origin origin, const char *relative,
		       const char *package)
{
	size_t len;
	const char *name = origin_package(path, &len);

	assert_int_equal(origin_of(path), origin);
	assert_string_equal(origin_relative(path), relative);
	assert_int_equal(len, strlen(package));
	assert_memory_equal(name, package, len);
}

static void test_paths(void **state)
{
	(void)state;
	check_path("/srv/shop/cart.py", ORIGIN_OWN, "/srv/shop/cart.py", "cart");
	check_path(SITE "flask/app.py", ORIGIN_PACKAGE, "flask/app.py", "flask");
	check_path(SITE "six.py", ORIGIN_PACKAGE, "six.py", "six");
	check_path("/usr/lib/python3/dist-packages/yaml/__init__.py", ORIGIN_PACKAGE,
		   "yaml/__init__.py", "yaml");
	check_path(STDLIB "json/decoder.py", ORIGIN_STDLIB, "json/decoder.py", "json");
	check_path("/usr/lib/python311.zip/abc.py", ORIGIN_STDLIB, "abc.py", "abc");
	check_path("<frozen importlib._bootstrap>", ORIGIN_STDLIB, "<frozen importlib._bootstrap>",
		   "importlib");
	check_path("<frozen runpy>", ORIGIN_STDLIB, "<frozen runpy>", "runpy");
	check_path("<string>", ORIGIN_OWN, "<string>", "<string>");
	check_path("<dynamic-code>", ORIGIN_OWN, "<dynamic-code>", "<dynamic-code>");
	check_path("<attrs generated init a.B>", ORIGIN_STDLIB, "<attrs generated init a.B>",
		   "<attrs generated init a.B>");
	check_path("/srv/venv/bin/gunicorn", ORIGIN_PACKAGE, "bin/gunicorn", "gunicorn");
	check_path("/srv/bin/run.py", ORIGIN_OWN, "/srv/bin/run.py", "run");
	check_path("", ORIGIN_OWN, "", "");
	check_path("/", ORIGIN_OWN, "/", "");
	check_path(SITE, ORIGIN_PACKAGE, SITE, "");
	check_path(SITE "85cae__mypyc.cpython-312-x86_64-linux-gnu.so", ORIGIN_PACKAGE,
		   "85cae__mypyc.cpython-312-x86_64-linux-gnu.so", "mypyc");
}

/* ---- A service ---- */

static void test_own(void **state)
{
	struct profile *p = shop();
	struct view v;

	(void)state;
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(v.total, 100);
	check_own(&v, "pbkdf2", 76, 76, "libcrypto 70%, interpreter 6%");
	check_own(&v, "signup", 3, 79, "garbage collection 3%");
	check_own(&v, "listing", 1, 12, "interpreter 1%");
	check_own(&v, "by_price", 11, 11, "interpreter 11%");
	check_own(&v, "handle", 9, 100, "kernel 9%");
	check_own(&v, "SHA256_Update", 0, 70, "");
	assert_int_equal(v.functions[find(&v, "SHA256_Update")].self, 70);
	assert_int_equal(v.functions[find(&v, "signup")].charged, 79);
	assert_int_equal(v.functions[find(&v, "signup")].charged_line, 17);
	assert_int_equal(v.special[VIEW_COLLECTOR], 3);
	done(&v, p);
}

/* Without its suffix a library keeps a name that tells something. */
static void test_library_names(void **state)
{
	static const char *const names[][2] = { { "/usr/lib/libz.so.1", "libz 100%" },
						{ "/srv/app/lib.so", "lib.so 100%" },
						{ "/srv/app/lib.so.1", "lib.so.1 100%" } };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct profile *p = profile__new();
		int lib = add_module(p, names[i][0], "", 0, 0x1000);
		int web = add_proc(p, 10, "app", "/usr/bin/python3.11", "3.11.2", "", "");
		int work = py(p, "work", "/srv/app/work.py", 5, 1);
		int spin = native(p, "spin", lib, 7);
		struct view v;

		STACK(p, web, 10, 100, work, spin);
		finished(p);
		assert_int_equal(view__init(&v, p, true), 0);
		check_own(&v, "work", 100, 100, names[i][1]);
		done(&v, p);
	}
}

static void test_tree(void **state)
{
	struct profile *p = shop();
	struct view v;

	(void)state;
	assert_int_equal(view__init(&v, p, true), 0);
	check_tree(&v, "100 0 [2: gunicorn]\n"
		       " 100 9 handle gunicorn/sync.py:9\n"
		       "  91 0 dispatch django/base.py:20\n"
		       "   79 3 signup views/user.py:17\n"
		       "    76 0 make_password django/hashers.py:88\n"
		       "     76 0 encode django/hashers.py:120\n"
		       "      76 76 pbkdf2 django/crypto.py:76\n"
		       "   12 1 listing views/shop.py:40\n"
		       "    11 11 by_price shop.py:4\n");
	check_says(&v, "76% of the CPU time is in signup (views/user.py:17) -> make_password ->"
		       " encode -> pbkdf2, 70% in libcrypto.");
	done(&v, p);
}

/* ---- An import ---- */

static struct profile *importer(void)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int job = py(p, "<module>", "/srv/app/jobs/job.py", 3, 1);
	int work = py(p, "work", "/srv/app/jobs/job.py", 9, 8);
	int load = py(p, "_find_and_load", BOOT, 1, 1);
	int code = py(p, "_compile_bytecode", BOOT, 2, 2);
	int pandas = py(p, "<module>", SITE "pandas/__init__.py", 1, 1);
	int core = py(p, "<module>", SITE "pandas/core.py", 5, 1);
	int numpy = py(p, "<module>", SITE "numpy/__init__.py", 1, 1);

	STACK(p, proc, 0, 200, job, load, load, pandas, load, core);
	STACK(p, proc, 0, 180, job, load, load, pandas, load, numpy);
	STACK(p, proc, 0, 100, job, load, load, pandas, load, numpy, load, code);
	STACK(p, proc, 0, 20, job, load, code);
	STACK(p, proc, 0, 100, job, work);
	return finished(p);
}

static void test_import(void **state)
{
	struct profile *p = importer();
	struct view v;

	(void)state;
	assert_int_equal(view__init(&v, p, true), 0);
	check_tree(&v, "600 0 <module> job.py:3\n"
		       " 480 0 <module> pandas/__init__.py:1\n"
		       "  280 180 <module> numpy/__init__.py:1\n"
		       "   100 100 _compile_bytecode " BOOT ":2\n"
		       "  200 200 <module> pandas/core.py:5\n"
		       " 100 100 work job.py:9\n"
		       " 20 20 _compile_bytecode " BOOT ":2\n");
	check_says(&v, "80% of the CPU time is importing pandas (job.py:3).");
	done(&v, p);
}

/* A module that mypyc compiled has no line to name as the place of its imports. */
static void test_import_by_compiled(void **state)
{
	struct profile *p = profile__new();
	int so = add_module(p, SITE "85cae__mypyc.cpython-312-x86_64-linux-gnu.so", "", 0, 0x1000);
	int proc = add_proc(p, 10, "mypy", "/usr/bin/python3.12", "3.12.1", "", "");
	int script = py(p, "<module>", "/srv/venv/bin/mypy", 8, 1);
	int finder = native(p, "modulefinder.<module>", so, 1);
	int load = py(p, "_find_and_load", BOOT, 1, 1);
	int spec = py(p, "<module>", SITE "pathspec/__init__.py", 1, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 100, script, load, finder, load, spec);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "100% of the CPU time is importing pathspec.");
	done(&v, p);
}

/* Three packages share the time of imports: "most of it" is said of more than half only. */
static void test_imports_shared(void **state)
{
	static const char *const packages[] = { "anyio", "rich", "attr" };
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int load = py(p, "_find_and_load", BOOT, 1, 1);
	int work = py(p, "work", "/srv/app/jobs/job.py", 9, 8);
	struct view v;

	(void)state;
	for (int i = 0; i < 3; i++) {
		char path[128];

		snprintf(path, sizeof(path), SITE "%s/__init__.py", packages[i]);
		STACK(p, proc, 0, i ? 100 : 120,
		      py(p, "<module>", "/srv/app/jobs/job.py", 3 + i, 1), load,
		      py(p, "<module>", path, 1, 1));
	}
	STACK(p, proc, 0, 680, work);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "68% of the CPU time is in work (job.py:9).\n"
		       "32% of the CPU time is importing modules; anyio has the most, 12%.");
	done(&v, p);
}

/* A script that imports at one line and works at another: neither line has the time of both. */
static void test_script(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int at_import = py(p, "<module>", "/srv/app/sp.py", 1, 1);
	int at_work = py(p, "<module>", "/srv/app/sp.py", 4, 1);
	int load = py(p, "_find_and_load", BOOT, 1, 1);
	int sympy = py(p, "<module>", SITE "sympy/__init__.py", 77, 1);
	int integrate = py(p, "integrate", SITE "sympy/integrals.py", 9, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 200, at_import, load, sympy);
	STACK(p, proc, 0, 300, at_work, integrate);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "60% of the CPU time is in <module> (sp.py:4) -> integrate.\n"
		       "40% of the CPU time is importing sympy.");
	done(&v, p);
}

/* Threads of a library, with code that was compiled; the script only waits for them. */
static void test_elsewhere(void **state)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "", 0, 0x1000);
	int so = add_module(p, SITE "sklearn/tree.so", "", 0, 0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int start = native(p, "_start", exe, 1);
	int script = py(p, "<module>", "/srv/app/fit.py", 5, 1);
	int wait = py(p, "wait", STDLIB "threading.py", 5, 1);
	int boot = py(p, "_bootstrap", STDLIB "threading.py", 9, 1);
	int fit = py(p, "fit", SITE "sklearn/tree.py", 7, 1);
	int split = native(p, "split (tree.pyx)", so, 7);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 100, start, script, wait);
	STACK(p, proc, 0, 240, start, boot, fit, split);
	STACK(p, proc, 0, 60, start, boot, fit);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "60% of the CPU time is in split (tree.pyx).");
	done(&v, p);
}

/*
 * Others' code that has more than any own function comes first, however many functions it ends in;
 * threads of several packages, none of which has more, do not: their first function is nobody's.
 */
static void test_spread_elsewhere(void **state)
{
	for (int packages = 1; packages <= 19; packages += 18) {
		struct profile *p = profile__new();
		int so = add_module(p, SITE "shop/_shop.abi3.so", "", 0, 0x1000);
		int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
		int cut = marker(p, "[truncated]");
		int boot = py(p, "_bootstrap", STDLIB "threading.py", 9, 1);
		int handle = py(p, "handle", "/srv/app/app.py", 9, 1);
		int serve = native(p, "serve", so, 1);
		struct view v;
		struct strbuf says = { 0 };
		char path[128], name[32];

		(void)state;
		STACK(p, proc, 0, 10, handle);
		for (int i = 0; i < 19; i++) {
			int cold, hot;

			snprintf(path, sizeof(path), SITE "p%d/pool.py", i % packages);
			snprintf(name, sizeof(name), "leaf_%d", i);
			cold = py(p, "step", path, 7, 5);
			hot = py(p, "step", path, 8, 5);
			STACK(p, proc, 0, 1, cut, boot, cold, py(p, name, path, 20, 19));
			STACK(p, proc, 0, 4, boot, hot, py(p, name, path, 20, 19));
			STACK(p, proc, 0, 3, serve, native(p, name, so, 16 * (uint64_t)(i + 1)));
		}
		finished(p);
		assert_int_equal(view__init(&v, p, true), 0);
		strbuf__addz(&says, packages == 1
					    ? "59% of the CPU time is in step (p0/pool.py:8).\n"
					    : "35% of the CPU time is in serve (shop/_shop.so).\n");
		strbuf__addz(&says, "35% is in shop._shop.");
		check_says(&v, says.s);
		strbuf__free(&says);
		done(&v, p);
	}
}

/* Where the calls of a function fork, the sentence goes on to the one that has most. */
static void check_called_there(uint64_t unit)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int thumb = py(p, "thumb", "/srv/app/thumbs.py", 16, 9);
	int open = py(p, "open", SITE "PIL/Image.py", 3, 1);
	int filter = py(p, "GaussianBlur.filter", SITE "PIL/ImageFilter.py", 7, 1);
	int scale = py(p, "scale", SITE "PIL/Image.py", 30, 1);
	int save = py(p, "save", SITE "PIL/Image.py", 40, 1);
	struct view v;

	STACK(p, proc, 0, 130 * unit, thumb, open, filter, scale);
	STACK(p, proc, 0, 66 * unit, thumb, open, save);
	STACK(p, proc, 0, 4 * unit, thumb);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "98% of the CPU time is in thumb (thumbs.py:16) -> open, 65% in"
		       " GaussianBlur.filter -> scale, called there.");
	done(&v, p);
}

static void test_called_there(void **state)
{
	(void)state;
	check_called_there(1);
	check_called_there(1000000000000000); /* of a machine's threads in a day, in ns */
}

/* ---- Who is own code ---- */

/* `python -m sphinx` and what it calls; nothing of it outside of packages. */
static void test_promoted(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "sphinx", "/usr/bin/python3.11", "3.11.2", "", "");
	int runpy = py(p, "_run_code", "<frozen runpy>", 1, 1);
	int build = py(p, "build", SITE "sphinx/build.py", 3, 1);
	int parse = py(p, "parse", SITE "docutils/parse.py", 3, 1);
	int deep = py(p, "match", STDLIB "re.py", 3, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 150, runpy, build, parse, deep);
	STACK(p, proc, 0, 50, runpy, parse, build, deep);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_false(v.functions[find(&v, "build")].muted);
	assert_true(v.functions[find(&v, "parse")].muted);
	check_says(&v,
		   "100% of the CPU time is in build (sphinx/build.py:3), 75% in parse -> match,"
		   " called there.");
	done(&v, p);
}

/* The script that starts a package has a name of its own. */
static void test_promoted_by_script(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "sphinx-build", "/usr/bin/python3.11", "3.11.2", "", "");
	int script = py(p, "<module>", "/srv/venv/bin/sphinx-build", 8, 1);
	int build = py(p, "build", SITE "sphinx/build.py", 3, 1);
	int parse = py(p, "parse", SITE "docutils/parse.py", 3, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 150, script, build, parse);
	STACK(p, proc, 0, 50, script, build);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_false(v.functions[find(&v, "build")].muted);
	assert_true(v.functions[find(&v, "parse")].muted);
	check_says(&v, "100% of the CPU time is in build (sphinx/build.py:3), 75% in parse, called"
		       " there.");
	done(&v, p);
	/* A script that is called like its package, with a library between them */
	p = profile__new();
	proc = add_proc(p, 10, "uvicorn", "/usr/bin/python3.11", "3.11.2", "", "");
	script = py(p, "<module>", "/srv/venv/bin/uvicorn", 8, 1);
	parse = py(p, "main", SITE "click/core.py", 3, 1);
	build = py(p, "serve", SITE "uvicorn/server.py", 3, 1);
	STACK(p, proc, 0, 200, script, parse, build);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_false(v.functions[find(&v, "serve")].muted);
	assert_true(v.functions[find(&v, "main")].muted);
	done(&v, p);
}

/* ---- Generated, spawned, compiled ---- */

/* The number of the sentence stands in the tree, too, or it says both. */
static void test_number_of_the_tree(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int main = py(p, "<module>", "/srv/app/a.py", 30, 1);
	int build = py(p, "build", "/srv/app/a.py", 4, 3);
	int part = py(p, "build.<locals>.<listcomp>", "/srv/app/a.py", 4, 4);
	int price = py(p, "price", "/srv/app/a.py", 12, 11);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 60, main, build, part);
	STACK(p, proc, 0, 16, main, build, part, price);
	STACK(p, proc, 0, 24, main, price);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_tree(&v, "100 0 <module> a.py:30\n"
		       " 76 0 build a.py:4\n"
		       "  76 60 build.<locals>.<listcomp> a.py:4\n"
		       "   16 16 price a.py:12\n"
		       " 24 24 price a.py:12\n");
	check_says(&v, "60% of the CPU time is in build (a.py:4), 76% with the own code that it"
		       " calls.");
	done(&v, p);
}

/* What execnet sends to its workers is no code of the application. */
static void test_text_of_text(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int line = py(p, "<module>", "<string>", 1, 1), sent = py(p, "<module>", "<string>", 8, 1);
	int serve = py(p, "serve", SITE "execnet/gateway_base.py", 1806, 1800);
	int call = py(p, "_multicall", SITE "pluggy/_callers.py", 53, 50);
	int work = py(p, "work", "/srv/test_a.py", 5, 2);
	struct view v;

	(void)state;
	STACK(p, proc, 10, 80, line, sent, serve, call);
	STACK(p, proc, 10, 30, line, sent, serve, call, work);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(v.functions[find(&v, "<module>")].charged, 0);
	assert_int_equal(v.functions[find(&v, "work")].charged, 30);
	done(&v, p);
	/* -c 'import shop; shop.work()' is one's own. */
	p = profile__new();
	proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	line = py(p, "<module>", "<string>", 1, 1);
	call = py(p, "_multicall", SITE "pluggy/_callers.py", 53, 50);
	STACK(p, proc, 10, 80, line, call);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(v.functions[find(&v, "<module>")].charged, 80);
	done(&v, p);
}

/* Nor is the line by which multiprocessing starts its processes. */
static void test_spawned(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int line = py(p, "<module>", "<string>", 1, 1);
	int spawn = py(p, "spawn_main", STDLIB "multiprocessing/spawn.py", 122, 106);
	int run = py(p, "Handle._run", STDLIB "asyncio/events.py", 89, 80);
	int work = py(p, "work", "/srv/shop.py", 5, 2);
	struct view v;

	(void)state;
	STACK(p, proc, 10, 70, line, spawn, run);
	STACK(p, proc, 10, 30, line, spawn, run, work);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(v.functions[find(&v, "<module>")].charged, 0);
	assert_int_equal(v.functions[find(&v, "work")].charged, 30);
	done(&v, p);
}

/* In the tree it is none, either; nor does it make own code of what dataclasses compile. */
static void test_spawned_package(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int line = py(p, "<module>", "<string>", 1, 1);
	int spawn = py(p, "spawn_main", STDLIB "multiprocessing/spawn.py", 122, 106);
	int load = py(p, "_find_and_load", BOOT, 1, 1);
	int convert = py(p, "convert", SITE "pages/convert.py", 5, 2);
	int init = py(p, "__create_fn__.<locals>.__init__", "<string>", 3, 2);
	struct view v;

	(void)state;
	STACK(p, proc, 10, 120, line, spawn, convert, init);
	STACK(p, proc, 10, 78, line, spawn, convert);
	STACK(p, proc, 10, 1, line, load);
	STACK(p, proc, 10, 1, line);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_tree(&v, "198 0 spawn_main multiprocessing/spawn.py:122\n"
		       " 198 78 convert pages/convert.py:5\n"
		       "  120 120 __create_fn__.<locals>.__init__ <string>:3\n");
	check_says(&v, "99% of the CPU time is in convert (pages/convert.py:5), 60% in"
		       " __create_fn__.<locals>.__init__, called there.");
	done(&v, p);
	/* Threads of a program that is text, without the text's own frame. */
	p = profile__new();
	proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int boot = py(p, "Thread._bootstrap", STDLIB "threading.py", 9, 1);
	int work = py(p, "work", "<string>", 3, 1);

	init = py(p, "__create_fn__.<locals>.__init__", "<string>", 3, 2);
	STACK(p, proc, 10, 200, boot, work, init);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_false(v.functions[find(&v, "work")].muted);
	assert_true(v.functions[find(&v, "__create_fn__.<locals>.__init__")].muted);
	done(&v, p);
}

/* A package whose modules mypyc put into one file: its functions are functions, and its own. */
static void test_mypyc(void **state)
{
	struct profile *p = profile__new();
	int so = add_module(p, SITE "85cae__mypyc.cpython-312-x86_64-linux-gnu.so", "", 0, 0x1000);
	int tokens =
		add_module(p, SITE "fd7dc__mypyc.cpython-312-x86_64-linux-gnu.so", "", 0, 0x1000);
	int proc = add_proc(p, 10, "black", "/usr/bin/python3.12", "3.12.1", "", "");
	int script = py(p, "<module>", "/srv/venv/bin/black", 8, 1);
	int main = native(p, "black.patched_main", so, 1);
	int invoke = py(p, "invoke", SITE "click/core.py", 11, 1);
	int parse = native(p, "parse.Parser.push", so, 2),
	    alloc = native(p, "CPyList_Build", so, 3);
	int next = native(p, "pytokens.Iterator.next", tokens, 2);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 160, script, main, main, invoke, parse, alloc);
	STACK(p, proc, 0, 40, script, main, main, invoke, parse, next);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_own(&v, "parse.Parser.push", 160, 200, "mypyc 80%");
	assert_true(v.functions[find(&v, "pytokens.Iterator.next")].muted);
	check_tree(&v, "200 0 <module> bin/black:8\n"
		       " 200 0 black.patched_main mypyc\n"
		       "  200 0 invoke click/core.py:11\n"
		       "   200 160 parse.Parser.push mypyc\n"
		       "    40 40 pytokens.Iterator.next mypyc\n");
	check_says(&v, "100% of the CPU time is in parse.Parser.push.\n100% is in mypyc.");
	done(&v, p);
}

/* One stack of n functions of the kernel, as a file may say. */
static uint64_t cost_of_deep_stack(size_t n)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "app", "/usr/bin/app", "", "", "");
	int read = kern(p, "vfs_read", 1), copy = kern(p, "copy_from_user", 2);
	uint64_t *words = calloc(n, sizeof(*words)), begin, ns;
	struct view v;

	assert_non_null(words);
	for (size_t i = 0; i < n; i++)
		words[i] = word(p, i % 2 ? read : copy);
	assert_true(profile__add_stack(p, (uint32_t)proc, 10, words, n, 1) >= 0);
	free(words);
	finished(p);
	begin = cpu_ns();
	assert_int_equal(view__init(&v, p, true), 0);
	ns = cpu_ns() - begin;
	assert_int_equal(v.total, 1);
	done(&v, p);
	return ns;
}

static void test_deep_stack(void **state)
{
	(void)state;
	assert_not_quadratic(cost_of_deep_stack, 4000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_library_names),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_import),
		cmocka_unit_test(test_import_by_compiled),
		cmocka_unit_test(test_imports_shared),
		cmocka_unit_test(test_script),
		cmocka_unit_test(test_elsewhere),
		cmocka_unit_test(test_spread_elsewhere),
		cmocka_unit_test(test_called_there),
		cmocka_unit_test(test_promoted),
		cmocka_unit_test(test_promoted_by_script),
		cmocka_unit_test(test_text_of_text),
		cmocka_unit_test(test_spawned),
		cmocka_unit_test(test_spawned_package),
		cmocka_unit_test(test_mypyc),
		cmocka_unit_test(test_number_of_the_tree),
		cmocka_unit_test(test_deep_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
