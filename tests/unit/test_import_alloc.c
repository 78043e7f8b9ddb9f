/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fail the Nth allocation, for every N, while files are read: each must give -ENOMEM and leak
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
#include <sys/mman.h>

#include "unit/failing_alloc.h"
#include "../../user/base/hash.c"
#include "../../user/base/idmap.c"
#include "../../user/base/str.c"
#include "../../user/profile/profile.c"
#include "../../user/import/import.c"
#include "../../user/import/import_pprof.c"
#include "../../user/import/import_pprof_columns.c"
/* Names that two of them have. */
#define add_frame folded_add_frame
#define ends_with folded_ends_with
#define find	  folded_find
#define intern	  folded_intern
#define is	  folded_is
#include "../../user/import/import_folded.c"
#undef add_frame
#undef ends_with
#undef find
#undef intern
#undef is
#undef calloc
#undef malloc
#undef realloc
#undef reallocarray

#include "export/export.h"
#include "unit/profiles.h"

/* 0, -ENOMEM, or another error. */
static int load(const char *path)
{
	struct import *im = import__new(&(struct import_opts){ 0 });
	int err = im ? import__add(im, path) : -ENOMEM;

	if (!err)
		err = import__finish(im);
	import__free(im);
	return err;
}

static void check(int (*write)(const struct profile *, const struct export_opts *, FILE *))
{
	const struct export_opts o = { .lines = true, .threads = true };
	int fd = memfd_create("profile", MFD_CLOEXEC);
	FILE *f = fdopen(fd, "w");
	struct profile *p;
	char path[64];
	size_t allocs;

	assert_non_null(f);
	alloc_cnt = fail_at = 0;
	p = service();
	assert_int_equal(write(p, &o, f), 0);
	assert_int_equal(fflush(f), 0);
	profile__free(p);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	alloc_cnt = 0;
	assert_int_equal(load(path), 0);
	allocs = alloc_cnt;
	assert_true(allocs > 20);
	for (size_t n = 1; n <= allocs; n++) {
		int err;

		alloc_cnt = 0;
		fail_at = n;
		err = load(path);
		assert_true(alloc_cnt >= n); /* the fault was reached */
		if (err != -ENOMEM)
			fail_msg("allocation %zu of %zu: %d", n, allocs, err);
	}
	fail_at = 0;
	fclose(f);
}

static void test_pprof(void **state)
{
	(void)state;
	check(export__pprof);
}

static void test_folded(void **state)
{
	(void)state;
	check(export__folded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pprof),
		cmocka_unit_test(test_folded),
	};

	log_set_level(LOG_LEVEL_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
