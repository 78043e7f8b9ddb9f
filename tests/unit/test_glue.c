/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* glue.c: what of the interpreter is left out of a stack, and what never is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/glue.h"
#include "unit/profiles.h"

#define PYTHON	  "/usr/bin/python3.11"
#define LIBPYTHON "/usr/lib/x86_64-linux-gnu/libpython3.13.so.1.0"
#define HASHLIB	  "/usr/lib/python3.11/lib-dynload/_hashlib.cpython-311-x86_64-linux-gnu.so"

static bool is_glue(const char *func, const char *module)
{
	struct profile *p = profile__new();
	int m = *module ? add_module(p, module, "", 0, 0) : -1;
	int sym = native(p, func, m, 0x10);
	bool glue = glue_is(p, &p->syms[sym]);

	profile__free(p);
	return glue;
}

static void test_names(void **state)
{
	static const struct {
		const char *func;
		bool glue;
	} cases[] = {
		{ "", true },
		{ "python3.11+0x13ad00", true },
		{ "libpython3.13.so.1.0+0x13ad00", true },
		{ "_PyEval_EvalFrameDefault", true },
		{ "_PyEval_EvalFrameDefault.cold", true },
		{ "cfunction_vectorcall_FASTCALL.lto_priv.0", true },
		{ "PyObject_Vectorcall", true },
		{ "PyDict_GetItem", true },
		{ "Py_BytesMain", true },
		{ "_start", true },
		{ "builtins.exec", true },
		{ "builtins.__import__", true },
		{ "type (tp_call)", true },
		{ "builtin_function_or_method (tp_call)", true },
		{ "generator (tp_iternext)", true },
		{ "object (tp_dealloc) +12", true },
		{ "dict_lookup", true },
		/* of users */
		{ "list.sort", false },
		{ "builtins.sorted", false },
		{ "builtins.len", false },
		{ "re.Pattern.findall", false },
		{ "_io.BufferedRandom.read +1", false },
		{ "frame.f_locals (get)", false },
		{ "dict (mp_subscript)", false },
		{ "list (tp_dealloc)", false },
		{ "list_sort", false },
		{ "list_sort_impl", false },
		{ "list_sort_impl.isra.0", false },
		{ "builtin_sorted", false },
		{ "unicode_join", false },
		{ "os_stat_impl", false },
		{ "gc_collect_main", false },
		{ "gc.collect", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("%s\n", cases[i].func);
		assert_int_equal(is_glue(cases[i].func, PYTHON), cases[i].glue);
		assert_int_equal(is_glue(cases[i].func, LIBPYTHON), cases[i].glue);
	}
}

/* Whatever it is called, code of an extension or a library is no glue. */
static void test_files(void **state)
{
	static const char *const names[] = { "", "_hashlib.pbkdf2_hmac", "module_exec", "main",
					     "_hashlib.cpython-311-x86_64-linux-gnu.so+0x2d80" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_false(is_glue(names[i], HASHLIB));
		assert_false(is_glue(names[i], "/usr/lib/libpythonic.so"));
		assert_false(is_glue(names[i], ""));
	}
	assert_true(is_glue("start_thread", "/usr/lib/libc.so.6"));
	/* CPython linked into another program has its symbols there. */
	assert_true(is_glue("_PyEval_EvalFrameDefault", "/usr/bin/uwsgi"));
	assert_false(is_glue("uwsgi_request_wsgi", "/usr/bin/uwsgi"));
}

/* The frames of a view's only stack: "a b [CPython]", with '!' behind glue. */
static void check_view(const struct profile *p, enum glue_mode mode, const char *expected)
{
	const struct profile *v = glue__view(p, mode);
	struct strbuf b = { 0 };

	assert_non_null(v);
	assert_int_equal(v->stack_cnt, 1);
	for (uint32_t i = 0; i < v->stacks[0].cnt; i++) {
		const struct sym *s = export_sym(v, v->frame_syms[v->stacks[0].first + i]);
		const char *func = profile__str(v, s->func);

		strbuf__addf(&b, s->flags & SYM_GLUE_BOX ? "%s[%s]" : "%s%s", i ? " " : "", func);
		strbuf__addz(&b, s->flags & SYM_GLUE ? "!" : "");
	}
	assert_string_equal(b.s ? b.s : "", expected);
	assert_int_equal(profile__total(v), profile__total(p));
	strbuf__free(&b);
	profile__free_view(v, p);
}

static void test_stacks(void **state)
{
	struct profile *p = profile__new();
	int exe = add_module(p, PYTHON, "", 0, 0), ext = add_module(p, HASHLIB, "", 0, 0);
	int proc = add_proc(p, 1, "web", PYTHON, "3.11.2", "", "");
	int start = native(p, "_start", exe, 1), call = native(p, "call", exe, 2);
	int dict = native(p, "lookdict", exe, 3), sort = native(p, "list.sort", exe, 4);
	int hash = native(p, "hash", ext, 5), f = py(p, "f", "/a.py", 1, 1),
	    g = py(p, "g", "/a.py", 2, 2), fault = kern(p, "fault", 6);
	const struct {
		int syms[10];
		const char *hidden, *marked;
	} cases[] = {
		{ { start, f, call, g, -1 }, "f g", "_start! f call! g" },
		{ { start, f, call, call, hash, -1 }, "f hash", "_start! f call! call! hash" },
		{ { f, call, dict, -1 }, "f [CPython]", "f [CPython] call! lookdict!" },
		{ { f, call, sort, dict, call, -1 },
		  "f list.sort [CPython]",
		  "f call! list.sort [CPython] lookdict! call!" },
		{ { f, sort, call, g, -1 }, "f list.sort g", "f list.sort call! g" },
		{ { f, hash, dict, -1 }, "f hash [CPython]", "f hash [CPython] lookdict!" },
		{ { f, call, fault, -1 }, "f fault", "f call! fault" },
		/* of an interpreter without Python frames */
		{ { start, call, hash, -1 }, "_start! call! hash", "_start! call! hash" },
		{ { -1 }, "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p->stack_cnt = p->frame_cnt = 0;
		add_stack(p, proc, 0, 7 + i, cases[i].syms);
		symbolized(p);
		check_view(p, GLUE_HIDE, cases[i].hidden);
		check_view(p, GLUE_MARK, cases[i].marked);
	}
	assert_ptr_equal(glue__view(p, GLUE_KEEP), p);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
