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
	check_path("<attrs generated init a.B>", ORIGIN_STDLIB, "<attrs generated init a.B>",
		   "<attrs generated init a.B>");
	check_path("/srv/venv/bin/gunicorn", ORIGIN_PACKAGE, "bin/gunicorn", "gunicorn");
	check_path("/srv/bin/run.py", ORIGIN_OWN, "/srv/bin/run.py", "run");
	check_path("", ORIGIN_OWN, "", "");
	check_path("/", ORIGIN_OWN, "/", "");
	check_path(SITE, ORIGIN_PACKAGE, SITE, "");
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
	assert_int_equal(v.collecting, 3);
	done(&v, p);
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
		       "18% is in the interpreter itself, 70% in libcrypto.");
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
	check_says(&v, "100% of the CPU time is in build (sphinx/build.py:3).");
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
	check_tree(&v, "100 100 Py_FinalizeEx /usr/bin/python3.11\n"
		       "100 0 blas_server numpy.libs/libblas64_-32a4b2a6.so\n"
		       " 100 100 dgemm numpy.libs/libblas64_-32a4b2a6.so\n");
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
	check_says(&v, "100% of the page faults is in work (a.py:3).\n"
		       "Few samples: +-20 points; use -d or -F for more.");
	view_add_percent(&b, &v, 1);
	assert_string_equal(b.s, "4%");
	strbuf__free(&b);
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
	check_tree(&v, "100 0 [1023: y x]\n"
		       " 100 100 a x/a.py:3\n"
		       "70 70 fib a.py:3\n"
		       "30 0 [truncated] \n"
		       " 30 30 fib a.py:3\n");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),	 cmocka_unit_test(test_own),
		cmocka_unit_test(test_tree),	 cmocka_unit_test(test_import),
		cmocka_unit_test(test_promoted), cmocka_unit_test(test_native),
		cmocka_unit_test(test_narrow),	 cmocka_unit_test(test_few),
		cmocka_unit_test(test_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
