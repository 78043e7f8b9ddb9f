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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/export_text.h"
#include "profile/narrow.h"
#include "profile/view.h"
#include "unit/profiles.h"

#define SITE   "/srv/venv/lib/python3.11/site-packages/"
#define STDLIB "/usr/lib/python3.11/"
#define BOOT   "<frozen importlib._bootstrap>"

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

/* ---- Reading a view ---- */

static uint32_t find(const struct view *v, const char *name)
{
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (!strcmp(profile__str(v->p, export_sym(v->p, v->functions[i].sym)->func), name))
			return i;
	fail_msg("no function %s", name);
	return 0;
}

static void check_own(const struct view *v, const char *name, uint64_t own, uint64_t total,
		      const char *parts)
{
	uint32_t f = find(v, name);
	struct strbuf b = { 0 };

	assert_int_equal(v->functions[f].own, own);
	assert_int_equal(v->functions[f].total, total);
	view_add_parts(&b, v, f);
	assert_int_equal(b.err, 0);
	assert_string_equal(b.len ? b.s : "", parts);
	strbuf__free(&b);
}

/* "  74 5 pbkdf2 crypto.py:76", a chain "  74 0 [3: gunicorn django]" */
static void add_text(struct strbuf *b, const struct view *v, const struct view_row *row)
{
	strbuf__addf(b, "%*s%u %u ", (int)row->depth, "", (unsigned)row->total, (unsigned)row->own);
	if (row->frames)
		strbuf__addf(b, "[%u:", row->frames);
	for (uint32_t i = 0; row->frames && i < row->package_cnt; i++) {
		size_t len;
		const char *name = view_package(v, row->packages[i], &len);

		strbuf__addc(b, ' ');
		strbuf__add(b, name, len);
	}
	if (!row->frames) {
		text_add_func(b, v->p, export_sym(v->p, v->functions[row->function].sym), "?");
		strbuf__addc(b, ' ');
		view_add_place(b, v, row->function, row->line);
	}
	strbuf__addz(b, row->frames ? "]\n" : "\n");
}

static void check_tree(const struct view *v, const char *want)
{
	struct view_tree t;
	struct strbuf b = { 0 };

	assert_int_equal(view_tree__init(&t, v), 0);
	for (size_t i = 0; i < t.cnt; i++)
		add_text(&b, v, &t.rows[i]);
	assert_int_equal(b.err, 0);
	assert_string_equal(b.len ? b.s : "", want);
	strbuf__free(&b);
	view_tree__free(&t);
}

static void check_says(const struct view *v, const char *want)
{
	struct strbuf b = { 0 };

	assert_int_equal(view_add_sentences(&b, v), 0);
	assert_string_equal(b.len ? b.s : "", want);
	strbuf__free(&b);
}

static struct profile *finished(struct profile *p)
{
	symbolized(p);
	p->stats.values[0].frequency_hz = 100;
	return p;
}

static void done(struct view *v, struct profile *p)
{
	view__free(v);
	profile__free(p);
}

/* ---- A service: 100 samples, 76 of them below a call into OpenSSL ---- */

static struct profile *shop(void)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "", 0, 0x1000);
	int ssl = add_module(p, "/usr/lib/libcrypto.so.3", "", 0, 0x1000);
	int hash = add_module(p, STDLIB "lib-dynload/_hashlib.cpython-311-x86_64-linux-gnu.so", "",
			      0, 0x1000);
	int libc = add_module(p, "/usr/lib/libc.so.6", "", 0, 0x1000);
	int web = add_proc(p, 10, "gunicorn", "/usr/bin/python3.11", "3.11.2", "", "");
	int start = native(p, "_start", exe, 1), main = native(p, "Py_RunMain", exe, 2);
	int call = native(p, "PyObject_Vectorcall", exe, 3), bare = native(p, "", exe, 4);
	int gc = native(p, "gc_collect_main.lto_priv.0", exe, 5);
	int boot = py(p, "<module>", "/srv/venv/bin/gunicorn", 8, 1);
	int run = py(p, "run", SITE "gunicorn/app.py", 5, 1);
	int handle = py(p, "handle", SITE "gunicorn/sync.py", 9, 1);
	int dispatch = py(p, "dispatch", SITE "django/base.py", 20, 1);
	int signup = py(p, "signup", "/srv/app/views/user.py", 17, 12);
	int signup2 = py(p, "signup", "/srv/app/views/user.py", 19, 12);
	int make = py(p, "make_password", SITE "django/hashers.py", 88, 80);
	int encode = py(p, "encode", SITE "django/hashers.py", 120, 110);
	int pbkdf2 = py(p, "pbkdf2", SITE "django/crypto.py", 76, 70);
	int in_hash = native(p, "", hash, 7), in_ssl = native(p, "SHA256_Update", ssl, 8);
	int list = py(p, "listing", "/srv/app/views/shop.py", 40, 33);
	int key = py(p, "by_price", "/srv/app/shop.py", 4, 3);
	int sort = native(p, "qsort", libc, 9), write = kern(p, "do_syscall_64", 0xff);

	STACK(p, web, 10, 70, start, main, boot, call, run, call, handle, call, dispatch, call,
	      signup, make, encode, call, pbkdf2, call, in_hash, in_ssl);
	STACK(p, web, 10, 6, start, main, boot, call, run, call, handle, call, dispatch, call,
	      signup, make, encode, call, pbkdf2, call, bare);
	STACK(p, web, 10, 3, start, main, boot, run, handle, dispatch, signup2, gc);
	STACK(p, web, 10, 11, start, main, boot, run, handle, dispatch, list, sort, call, key);
	STACK(p, web, 10, 1, start, main, boot, run, handle, dispatch, list, call, list, call);
	STACK(p, web, 10, 9, start, main, boot, run, handle, write);
	return finished(p);
}

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
		       " encode -> pbkdf2, in libcrypto.\n"
		       "70% is in libcrypto.");
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
static void test_called_there(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int thumb = py(p, "thumb", "/srv/app/thumbs.py", 16, 9);
	int open = py(p, "open", SITE "PIL/Image.py", 3, 1);
	int filter = py(p, "GaussianBlur.filter", SITE "PIL/ImageFilter.py", 7, 1);
	int scale = py(p, "scale", SITE "PIL/Image.py", 30, 1);
	int save = py(p, "save", SITE "PIL/Image.py", 40, 1);
	struct view v;

	(void)state;
	STACK(p, proc, 0, 130, thumb, open, filter, scale);
	STACK(p, proc, 0, 66, thumb, open, save);
	STACK(p, proc, 0, 4, thumb);
	finished(p);
	assert_int_equal(view__init(&v, p, true), 0);
	check_says(&v, "98% of the CPU time is in thumb (thumbs.py:16) -> open, 65% in"
		       " GaussianBlur.filter -> scale, called there.");
	done(&v, p);
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

static void test_narrow(void **state)
{
	struct profile *p = shop();
	struct view v;
	const pid_t other = 11, web = 10;

	(void)state;
	profile__narrow(p, &(struct narrowing){ .no_native = true, .no_kernel = true });
	for (size_t i = 0; i < p->stack_cnt; i++)
		for (uint32_t j = 0; j < p->stacks[i].cnt; j++)
			assert_int_equal(p->syms[p->frame_syms[p->stacks[i].first + j]].kind,
					 SYM_PYTHON);
	assert_int_equal(view__init(&v, p, true), 0);
	assert_int_equal(v.total, 100);
	check_own(&v, "pbkdf2", 76, 76, "");
	check_own(&v, "handle", 9, 100, "");
	view__free(&v);
	profile__narrow(p, &(struct narrowing){ .comm = "guni*", .pids = &web, .pid_cnt = 1 });
	assert_int_equal(profile__total(p), 100);
	profile__narrow(p, &(struct narrowing){ .pids = &other, .pid_cnt = 1 });
	assert_int_equal(profile__total(p), 0);
	assert_int_equal(profile__all_samples(p), 100); /* none is said to be lost */
	profile__free(p);
	p = shop();
	profile__narrow(p, &(struct narrowing){ .comm = "celery" });
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
		cmocka_unit_test(test_native),
		cmocka_unit_test(test_special),
		cmocka_unit_test(test_by_definition),
		cmocka_unit_test(test_tracepoints_are_in_the_kernel),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_few),
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_import_code),
		cmocka_unit_test(test_causes_without_a_place),
		cmocka_unit_test(test_without_a_cpu),
		cmocka_unit_test(test_seldom_on_a_cpu),
		cmocka_unit_test(test_text_of_text),
		cmocka_unit_test(test_spawned),
		cmocka_unit_test(test_spawned_package),
		cmocka_unit_test(test_mypyc),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_number_of_the_tree),
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_extension),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_deep_branches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
