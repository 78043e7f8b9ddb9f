/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Processes follow each other under one number, and a call belongs to the one of its time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "trace/crowd.h"

static void test_number_is_used_again(void **state)
{
	struct crowd_process first = { .pid = 7, .found_ns = 100, .gone = true },
			     other = { .pid = 8, .found_ns = 150 },
			     second = { .pid = 7, .found_ns = 200, .gone = true },
			     third = { .pid = 7, .found_ns = 300 };
	struct crowd_process *all[] = { &first, &other, &second, &third };
	static const struct {
		pid_t pid;
		uint64_t ns;
		int is; /* -1: none */
	} cases[] = {
		{ 7, 99, -1 }, { 7, 100, 0 }, { 7, 199, 0 },	    { 7, 200, 2 },  { 7, 299, 2 },
		{ 7, 300, 3 }, { 8, 500, 1 }, { 7, UINT64_MAX, 3 }, { 9, 500, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_ptr_equal(crowd__process_at(all, 4, cases[i].pid, cases[i].ns),
				 cases[i].is < 0 ? NULL : all[cases[i].is]);
	/* The first one has made room. */
	assert_null(crowd__process_at(all + 1, 3, 7, 199));
	assert_null(crowd__process_at(NULL, 0, 7, 199));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_number_is_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
