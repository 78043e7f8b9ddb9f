/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A field is found by its name at the start of a line, however long the lines are. */
#include "base/procfield.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

/* 255 characters of a line are read at once: the second "Uid:" begins the next piece. */
static void test_fields(void **state)
{
	char path[] = "/tmp/test_procfield.XXXXXX", value[8];
	FILE *f = fdopen(mkstemp(path), "w");

	(void)state;
	assert_non_null(f);
	fprintf(f, "Name:\tUid:\t1\nGroups:\t%0247dUid:\t2\nUid:\t3\t4\nNSpid:\t123456789\nLast: x",
		0);
	fclose(f);
	assert_int_equal(procfield__read(path, "Uid", value, sizeof(value)), 0);
	assert_string_equal(value, "3\t4");
	assert_int_equal(procfield__read(path, "NSpid", value, sizeof(value)), 0);
	assert_string_equal(value, "1234567");
	assert_int_equal(procfield__read(path, "Last", value, sizeof(value)), 0);
	assert_string_equal(value, "x");
	assert_int_equal(procfield__read(path, "NSp", value, sizeof(value)), -ENOENT);
	assert_string_equal(value, "");
	unlink(path);
	assert_int_equal(procfield__read(path, "Uid", value, sizeof(value)), -ENOENT);
}

static void test_own_status(void **state)
{
	char pid[32];

	(void)state;
	assert_int_equal(procfield__read("/proc/self/status", "Tgid", pid, sizeof(pid)), 0);
	assert_int_equal(atoi(pid), getpid());
}

/* All four, or none; the lines behind are not looked at. */
static void test_ids(void **state)
{
	static const char *const bad[] = { "",
					   "\n1 2 3 4",
					   "1 2 3",
					   "1 2 3\n4",
					   "-1 0 0 0",
					   "1 x 3 4",
					   "1 2 3 4294967295",
					   "18446744073709551617 0 0 0" };
	struct proc_ids ids;

	(void)state;
	assert_true(procfield__ids("1\t2\t3\t4294967294\nGid:\t5", &ids));
	assert_int_equal(ids.real, 1);
	assert_int_equal(ids.effective, 2);
	assert_int_equal(ids.saved, 3);
	assert_int_equal(ids.files, 4294967294U);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(procfield__ids(bad[i], &ids));
}

/* A command may be called like a line. */
static void test_find(void **state)
{
	static const char text[] = "Name:\tUid:\\t0\nNSpid:\t7\t1\nUid:\t3\n";

	(void)state;
	assert_string_equal(procfield__find(text, "Uid"), "\t3\n");
	assert_ptr_equal(procfield__find(text, "Name"), text + 5);
	assert_null(procfield__find(text, "NS"));
	assert_null(procfield__find(text, "Gid"));
	assert_null(procfield__find("", "Uid"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_own_status),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
