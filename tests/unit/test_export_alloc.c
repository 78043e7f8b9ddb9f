/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fail the Nth allocation, for every N: each format must give -ENOMEM or do without, and leak
 * nothing.
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
#include "../../user/profile/origin.c"
#include "../../user/profile/view.c"
#include "../../user/profile/view_tree.c"
#include "../../user/profile/view_says.c"
#include "../../user/export/export_source.c"
#include "../../user/export/export_summary.c"
#include "../../user/export/export_folded.c"
#include "../../user/export/export_report.c"
#define cmp_functions pprof_cmp_functions
#include "../../user/export/export_pprof.c"
#include "../../user/export/gzip_message.c"
#undef cmp_functions
#include "../../user/base/json.c"
#include "../../user/export/export_json.c"
/* Names that two of them have. */
#define put	  speedscope_put
#define put_frame speedscope_put_frame
#include "../../user/export/export_speedscope.c"
#undef put
#undef put_frame
#define put_all	    firefox_put_all
#define put_samples firefox_put_samples
#define put_string  firefox_put_string
#define put_thread  firefox_put_thread
#define frame_sym   firefox_frame_sym
#define take_string firefox_take_string
#include "../../user/export/export_firefox.c"
#undef put_all
#undef put_samples
#undef put_string
#undef put_thread
#undef frame_sym
#undef take_string
#define cmp_functions csv_cmp_functions
#define cmp_rows      csv_cmp_rows
#define put_name      csv_put_name
#define put_row	      csv_put_row
#define put_text      csv_put_text
#define put_value     csv_put_value
#define write_table   csv_write_table
#include "../../user/export/export_csv.c"
#undef cmp_functions
#undef cmp_rows
#undef put_name
#undef put_row
#undef put_text
#undef put_value
#undef write_table
#undef calloc
#undef malloc
#undef realloc
#undef reallocarray

static struct profile *small(void)
{
	struct profile *p = profile__new();
	struct sym s = { .kind = SYM_PYTHON, .module = -1, .inlined = -1 };

	assert_non_null(p);
	profile__add_module(p,
			    &(struct profile_module){ .path = profile__intern_z(p, "/lib/x.so") });
	for (uint32_t i = 0; i < 12; i++) {
		struct profile_proc proc = { .space = i, .tgid = i, .python = 1 };

		proc.comm = profile__intern_z(p, i % 2 ? "even" : "odd");
		assert_true(profile__add_proc(p, &proc) >= 0);
	}
	for (uint32_t i = 0; i < 40; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		s.func = profile__intern_z(p, name);
		s.kind = i % 3 ? SYM_PYTHON : SYM_NATIVE;
		s.module = i % 3 ? -1 : 0;
		s.line = i;
		profile__add_sym(p, &s);
		for (uint32_t j = 0; j < 3; j++) {
			uint64_t words[] = { PYTHON_WORD(i, 0), PYTHON_WORD(j, 0) };

			profile__add_stack(p, i % 12, i % 4 + 1, words, 2, i + 1);
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
	struct export_opts o = { .lines = true, .threads = true, .width = 80, .color = true };
	struct profile *p = small();
	size_t allocs;
	FILE *f = fopen("/dev/null", "w");

	assert_non_null(f);
	alloc_cnt = fail_at = 0;
	assert_int_equal(write(p, &o, f), 0);
	allocs = alloc_cnt;
	assert_true(allocs > 5);
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

static void test_folded(void **state)
{
	(void)state;
	check(export__folded);
}

static void test_report(void **state)
{
	(void)state;
	check(export__report);
}

static void test_pprof(void **state)
{
	(void)state;
	check(export__pprof);
}

static void test_json(void **state)
{
	(void)state;
	check(export__json);
}

static void test_speedscope(void **state)
{
	(void)state;
	check(export__speedscope);
}

static void test_firefox(void **state)
{
	(void)state;
	check(export__firefox);
}

static void test_csv(void **state)
{
	(void)state;
	check(export__csv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folded),	   cmocka_unit_test(test_report),
		cmocka_unit_test(test_pprof),	   cmocka_unit_test(test_json),
		cmocka_unit_test(test_speedscope), cmocka_unit_test(test_firefox),
		cmocka_unit_test(test_csv),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
