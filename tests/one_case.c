// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Part of each program of unit and bpf: PYPERF_TEST_CASE=PATTERN runs the cases of such names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void choose_case(void)
{
	const char *pattern = getenv("PYPERF_TEST_CASE");

	if (pattern)
		cmocka_set_test_filter(pattern);
}
