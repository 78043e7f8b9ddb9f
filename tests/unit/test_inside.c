/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* inside.c: unnamed native code at the end of a stack is shown by who called it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "profile/export_stacks.h"
#include "profile/inside.h"
#include "unit/profiles.h"

static const char *leaf_of(const struct profile *v)
{
	const struct profile_stack *s = &v->stacks[0];

	return profile__str(v, export_sym(v, v->frame_syms[s->first + s->cnt - 1])->func);
}

static void test_stacks(void **state)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "", 0, 0);
	int ssl = add_module(p, "/usr/lib/libcrypto.so.3", "", 0, 0);
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int f = py(p, "f", "/a.py", 1, 1), findall = native(p, "re.Pattern.findall", exe, 1);
	int bare = native(p, "python3.11+0x201db0", exe, 2), none = native(p, "", ssl, 3);
	int call = native(p, "PyObject_Vectorcall", exe, 4),
	    sha = native(p, "SHA256_Final", ssl, 5);
	int fault = kern(p, "fault", 6);
	const struct {
		int syms[8];
		const char *leaf;
		int module;
	} cases[] = {
		{ { f, findall, bare, -1 }, "inside re.Pattern.findall", exe },
		{ { f, findall, call, bare, bare, -1 }, "inside re.Pattern.findall", exe },
		/* the library's code, whoever called it */
		{ { f, findall, none, -1 }, "inside re.Pattern.findall", ssl },
		{ { f, sha, none, -1 }, "inside SHA256_Final", ssl },
		/* nobody with a name, or one beyond Python or the kernel */
		{ { f, bare, -1 }, "python3.11+0x201db0", exe },
		{ { f, call, bare, -1 }, "python3.11+0x201db0", exe },
		{ { findall, f, none, -1 }, "", ssl },
		{ { findall, fault, none, -1 }, "", ssl },
		{ { none, -1 }, "", ssl },
		/* has a name */
		{ { f, sha, findall, -1 }, "re.Pattern.findall", exe },
		{ { f, findall, bare, fault, -1 }, "fault", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct profile *v;
		const struct profile_stack *s;

		p->stack_cnt = p->frame_cnt = 0;
		add_stack(p, proc, 0, 3 + i, cases[i].syms);
		symbolized(p);
		v = inside__view(p);
		assert_non_null(v);
		assert_string_equal(leaf_of(v), cases[i].leaf);
		s = &v->stacks[0];
		assert_int_equal(export_sym(v, v->frame_syms[s->first + s->cnt - 1])->module,
				 cases[i].module);
		assert_int_equal(profile__total(v), 3 + i);
		profile__free_view(v, p);
	}
	assert_true(inside_is_unnamed(p, &p->syms[bare]) && inside_is_unnamed(p, &p->syms[none]));
	assert_false(inside_is_unnamed(p, &p->syms[sha]) || inside_is_unnamed(p, &p->syms[fault]));
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_stacks) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
