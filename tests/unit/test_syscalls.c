/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The table of system calls, against the C library's numbers. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/syscall.h>

#include "base/syscalls.h"

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(syscall_name(SYS_read), "read");
	assert_string_equal(syscall_name(SYS_futex), "futex");
	assert_string_equal(syscall_name(SYS_clock_nanosleep), "clock_nanosleep");
	assert_string_equal(syscall_name(SYS_epoll_pwait), "epoll_pwait");
	assert_string_equal(syscall_name(SYS_restart_syscall), "restart_syscall");
	assert_string_equal(syscall_name(SYS_io_uring_enter), "io_uring_enter");
}

/* Numbers in the middle are free on some machines: the table has holes. */
static void test_not_known(void **state)
{
	int known = 0;

	(void)state;
	assert_null(syscall_name(-1));
	assert_null(syscall_name(INT64_MIN));
	assert_null(syscall_name(INT64_MAX));
	assert_null(syscall_name(100000));
	for (int64_t n = 0; n < 1000; n++)
		known += syscall_name(n) != NULL;
	assert_true(known > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_not_known),
	};

	return cmocka_run_group_tests_name("syscalls", tests, NULL, NULL);
}
