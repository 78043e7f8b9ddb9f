// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Who holds up breakpoints: nobody, if it is the reader that cannot be had. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "follow/held.h"

static void without_a_reader(void **state)
{
	int next = open("/dev/null", O_RDONLY), found;
	struct held_watch w = { 0 };
	struct rlimit before;
	bool permitted;

	(void)state;
	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	/* Enough for /proc; a reader needs two descriptors. */
	assert_int_equal(
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)next + 1, before.rlim_max }), 0);
	found = held__find(NULL);
	permitted = held__permits(&w);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(found, -ECHILD);
	assert_false(permitted);
	held__end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
