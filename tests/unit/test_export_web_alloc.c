/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fail the Nth allocation, for every N: each page and picture must give -ENOMEM, and leak nothing.
 *
 * The sources are compiled into this program with allocators of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "unit/failing_alloc.h"
#include "../../user/base/hash.c"
#include "../../user/base/str.c"
#include "../../user/profile/export_stacks.c"
#include "../../user/profile/export_text.c"
#include "../../user/export/export_summary.c"
#include "../../user/export/export_page.c"
#define cmp_u64 flame_cmp_u64
#include "../../user/export/export_flame.c"
#undef cmp_u64
#include "../../user/export/export_html.c"
#include "../../user/export/export_svg.c"
#define fill	   lines_fill
#define cmp_places lines_cmp_places
#define cmp_lines  lines_cmp_lines
#include "../../user/export/export_lines.c"
#undef calloc
#undef malloc
#undef realloc
#undef reallocarray

static struct profile *small(uint64_t more)
{
	struct profile *p = profile__new();
	struct sym s = { .module = -1, .inlined = -1 };

	assert_non_null(p);
	profile__add_module(p,
			    &(struct profile_module){ .path = profile__intern_z(p, "/lib/x.so") });
	for (uint32_t i = 0; i < 12; i++) {
		struct profile_proc proc = { .space = i, .tgid = 0, .python = 1 };

		proc.comm = profile__intern_z(p, i % 2 ? "even" : "odd");
		proc.native_only = i % 5 ? 0 : proc.comm;
		assert_true(profile__add_proc(p, &proc) >= 0);
	}
	for (uint32_t i = 0; i < 40; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		s.func = profile__intern_z(p, name);
		s.kind = (uint8_t)(1 + i % 4);
		s.file = s.kind == SYM_PYTHON
				 ? profile__intern_z(p, i % 8 ? "/none/a.py" : "/none/b.py")
				 : 0;
		s.module = s.kind == SYM_NATIVE ? 0 : -1;
		s.line = i;
		profile__add_sym(p, &s);
		for (uint32_t j = 0; j < 3; j++) {
			uint64_t words[] = { PYTHON_WORD(j, 0), PYTHON_WORD(i, 0) };

			profile__add_stack(p, i % 12, i % 4 + 1, words, 2, i + more);
		}
	}
	p->frame_syms = calloc(p->frame_cnt, sizeof(*p->frame_syms));
	assert_non_null(p->frame_syms);
	for (size_t i = 0; i < p->frame_cnt; i++)
		p->frame_syms[i] = (uint32_t)PYTHON_CODE(p->frames[i]);
	return p;
}

static void check(int (*write)(const struct profile *, const struct export_opts *, FILE *))
{
	struct export_opts o = { .lines = true, .threads = true, .source = true };
	struct profile *p = small(1);
	size_t allocs;
	FILE *f = fopen("/dev/null", "w");

	assert_non_null(f);
	alloc_cnt = fail_at = 0;
	assert_int_equal(write(p, &o, f), 0);
	allocs = alloc_cnt;
	assert_true(allocs > 10);
	for (size_t n = 1; n <= allocs; n++) {
		int err;

		alloc_cnt = 0;
		fail_at = n;
		err = write(p, &o, f);
		assert_true(alloc_cnt >= n); /* the fault was reached */
		if (err != -ENOMEM)
			fail_msg("allocation %zu of %zu: %d", n, allocs, err);
	}
	fail_at = 0;
	fclose(f);
	profile__free(p);
}

static void test_html(void **state)
{
	(void)state;
	check(export__html);
}

static void test_svg(void **state)
{
	(void)state;
	check(export__svg);
}

static void test_lines(void **state)
{
	(void)state;
	check(export__lines);
}

static struct profile *base;

static int write_compared(const struct profile *p, const struct export_opts *o, FILE *f)
{
	return flame__html(p, base, o, 0, f);
}

static void test_compared(void **state)
{
	(void)state;
	base = small(7);
	check(write_compared);
	profile__free(base);
}

static int write_values(const struct profile *p, const struct export_opts *o, FILE *f)
{
	const struct profile *const views[] = { p, p };

	return export__html_values(views, 2, o, f);
}

static void test_values(void **state)
{
	(void)state;
	check(write_values);
}

/* Code may say any line: what a page takes is for what it shows, not for the number. */
static void test_line_of_nowhere(void **state)
{
	const struct export_opts o = { .lines = true };
	struct profile *p = small(1);
	FILE *f = fopen("/dev/null", "w");

	(void)state;
	assert_non_null(f);
	p->syms[4].line = 100000000;
	largest_alloc = 0;
	assert_int_equal(export__lines(p, &o, f), 0);
	assert_in_range(largest_alloc, 1, 1 << 20);
	fclose(f);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_html),	 cmocka_unit_test(test_values),
		cmocka_unit_test(test_svg),	 cmocka_unit_test(test_lines),
		cmocka_unit_test(test_compared), cmocka_unit_test(test_line_of_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
