/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TEST_TOOLS_H
#define PYPERF_TEST_TOOLS_H
/*
 * Files made by compilers and other tools, in a directory of the test's own: `dir`, a static array
 * that mkdtemp() has filled in. Behind cmocka.h and the array.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "owndir.h"

/* The exit status of a command line in the directory; what it says goes to `log` there. */
static __attribute__((format(printf, 1, 2), unused)) int try_sh(const char *fmt, ...)
{
	char what[2048], cmd[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(cmd, sizeof(cmd), "cd %s && { %s; } >log 2>&1", dir, what);
	return system(cmd);
}

#define sh(...) assert_int_equal(try_sh(__VA_ARGS__), 0)

static void write_file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_not_equal(fputs(text, f), EOF);
	assert_int_equal(fclose(f), 0);
}

#endif /* PYPERF_TEST_TOOLS_H */
