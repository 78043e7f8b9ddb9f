/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TEST_OWNDIR_H
#define PYPERF_TEST_OWNDIR_H
/*
 * A directory of the test's own: `dir`, a static array that ends in XXXXXX, behind which this is
 * included. Both are for cmocka_run_group_tests().
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Others may look into it, as the user that some tests become does. */
static __attribute__((unused)) int make_dir(void **state)
{
	(void)state;
	return !mkdtemp(dir) || chmod(dir, 0755);
}

static int remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

#endif /* PYPERF_TEST_OWNDIR_H */
