/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * py_line() and py_utf8() against every interpreter of this machine: each says by dump_python.py
 * what it thinks of its own code objects and strings, and we must think the same at every unit of
 * bytecode.
 *
 *	test_pylines [--all | PYTHON...]	--all: every code object of every library
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "python/pylines.h"

#define MINOR_FIRST 6
#define MINOR_LAST  15
#define PYTHONS_MAX 64

/* One interpreter, and what came out. */
struct python {
	char path[PATH_MAX]; /* real path */
	char version[32];
	unsigned hex; /* 0: it did not run */
	uint64_t codes, offsets, mismatches, strings, string_mismatches;
	uint64_t asked, different; /* offsets of the interpreter's own second answer */
	bool ended;
};

static struct python pythons[PYTHONS_MAX];
static size_t python_cnt;
static const char *limits = "2000 60"; /* code objects, seconds */

/* ---- Finding interpreters ---- */

static void add_python(const char *path)
{
	char real[PATH_MAX];

	if (access(path, X_OK) || !realpath(path, real) || python_cnt == PYTHONS_MAX)
		return;
	for (size_t i = 0; i < python_cnt; i++)
		if (!strcmp(pythons[i].path, real))
			return;
	memcpy(pythons[python_cnt++].path, real, sizeof(real));
}

static void add_from_dir(const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/python2.7", dir);
	add_python(path);
	for (int minor = MINOR_FIRST; minor <= MINOR_LAST; minor++) {
		snprintf(path, sizeof(path), "%s/python3.%d", dir, minor);
		add_python(path);
		snprintf(path, sizeof(path), "%s/python3.%dt", dir, minor);
		add_python(path);
	}
}

static void find_pythons(void)
{
	const char *home = getenv("HOME"), *env = getenv("PATH");
	char *path = strdup(env ? env : ""), *save = NULL, pattern[PATH_MAX];
	glob_t found = { 0 };

	snprintf(pattern, sizeof(pattern), "%s/.pyenv/versions/*/bin", home ? home : "");
	if (!glob(pattern, 0, NULL, &found))
		for (size_t i = 0; i < found.gl_pathc; i++)
			add_from_dir(found.gl_pathv[i]);
	globfree(&found);
	for (char *dir = strtok_r(path, ":", &save); dir; dir = strtok_r(NULL, ":", &save))
		if (!strstr(dir, "/shims")) /* pyenv's scripts, not interpreters */
			add_from_dir(dir);
	add_from_dir("/usr/bin");
	free(path);
}

/* ---- One interpreter ---- */

static enum py_linetable kind_of(unsigned hex)
{
	if (hex < 0x300)
		return PY_LINES_LNOTAB_27;
	if (hex < 0x30a)
		return PY_LINES_LNOTAB;
	return hex < 0x30b ? PY_LINES_310 : PY_LINES_311;
}

/* Hex digits -> bytes, into memory of exactly that size, so that ASan sees a read beyond it. */
static uint8_t *unhex(const char *hex, size_t *size)
{
	uint8_t *data;
	unsigned byte;

	*size = strcmp(hex, "-") ? strlen(hex) / 2 : 0;
	data = malloc(*size);
	for (size_t i = 0; i < *size; i++) {
		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		data[i] = (uint8_t)byte;
	}
	return data;
}

static void on_code(struct python *py, char *args)
{
	char *save = NULL, *size = strtok_r(args, " ", &save), *first = strtok_r(NULL, " ", &save);
	size_t table_sz, offset = 0, run;
	uint8_t *table = unhex(strtok_r(NULL, " ", &save), &table_sz);
	size_t unit = py->hex < 0x306 ? 1 : 2; /* bytes; nothing executes between units */
	unsigned want, got;

	for (char *s; (s = strtok_r(NULL, " ", &save));) {
		assert_int_equal(sscanf(s, "%zux%u", &run, &want), 2);
		for (size_t end = offset + run; offset < end; offset += unit, py->offsets++) {
			got = py_line(kind_of(py->hex), table, table_sz, atoi(first),
				      (uint32_t)offset);
			if (got != want && py->mismatches++ < 3)
				print_error("%s: offset %zu: line %u, not %u\n", py->version,
					    offset, got, want);
		}
	}
	assert_int_equal(offset, strtoul(size, NULL, 10));
	py->codes++;
	free(table);
}

static void on_string(struct python *py, char *args)
{
	char *save = NULL, *width = strtok_r(args, " ", &save);
	struct strbuf b = { 0 };
	size_t size, want_sz;
	uint8_t *data, *want;

	strtok_r(NULL, " ", &save); /* ASCII: no different from Latin-1 */
	data = unhex(strtok_r(NULL, " ", &save), &size);
	want = unhex(strtok_r(NULL, " ", &save), &want_sz);
	py_utf8(&b, data, size, (unsigned)atoi(width));
	py->strings++;
	if (b.len != want_sz || (b.len && memcmp(b.s, want, want_sz))) {
		py->string_mismatches++;
		print_error("%s: string %llu of width %s: '%s'\n", py->version,
			    (unsigned long long)py->strings, width, b.s);
	}
	strbuf__free(&b);
	free(data);
	free(want);
}

static void on_line(struct python *py, char *line)
{
	line[strcspn(line, "\n")] = '\0';
	if (!strncmp(line, "code ", 5))
		on_code(py, line + 5);
	else if (!strncmp(line, "string ", 7))
		on_string(py, line + 7);
	else if (!strncmp(line, "end ", 4))
		py->ended = sscanf(line, "end %*u %ju %ju", &py->asked, &py->different) == 2;
	else
		assert_int_equal(sscanf(line, "python %31s %x", py->version, &py->hex), 2);
}

static void run_python(struct python *py)
{
	char *cmd = NULL, *line = NULL, *here = strdup(__FILE__);
	size_t line_sz = 0;
	FILE *f;

	assert_true(asprintf(&cmd, "'%s' -W ignore -B -S -E '%s/dump_python.py' %s", py->path,
			     dirname(here), limits) > 0);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (getline(&line, &line_sz, f) > 0)
		on_line(py, line);
	assert_int_equal(pclose(f), 0);
	assert_true(py->hex && py->ended);
	free(line);
	free(cmd);
	free(here);
}

/* ---- All of them ---- */

static int by_version(const void *a, const void *b)
{
	const struct python *x = a, *y = b;

	return x->hex != y->hex ? (x->hex > y->hex) - (x->hex < y->hex) : strcmp(x->path, y->path);
}

static void print_table(void)
{
	qsort(pythons, python_cnt, sizeof(pythons[0]), by_version);
	printf("%-10s %9s %10s %10s %9s %10s  %s\n", "python", "codes", "offsets", "mismatches",
	       "strings", "mismatches", "path");
	for (size_t i = 0; i < python_cnt; i++) {
		const struct python *py = &pythons[i];

		printf("%-10s %9ju %10ju %10ju %9ju %10ju  %s\n", py->version, py->codes,
		       py->offsets, py->mismatches, py->strings, py->string_mismatches, py->path);
	}
}

static void print_missing(void)
{
	for (unsigned minor = MINOR_FIRST - 1; minor <= MINOR_LAST; minor++) {
		unsigned hex = minor < MINOR_FIRST ? 0x207 : 0x300 + minor;
		bool found = false;

		for (size_t i = 0; i < python_cnt; i++)
			found |= pythons[i].hex == hex;
		if (!found)
			printf("not found: python%u.%u\n", hex >> 8, hex & 0xff);
	}
}

static void test_interpreters(void **state)
{
	(void)state;
	for (size_t i = 0; i < python_cnt; i++)
		run_python(&pythons[i]);
	print_table();
	print_missing();
	for (size_t i = 0; i < python_cnt; i++) {
		const struct python *py = &pythons[i];

		assert_int_equal(py->different, 0); /* else it is no witness */
		assert_true(py->codes >= 100 && py->offsets > py->codes);
		assert_int_equal(py->mismatches, 0);
		assert_int_equal(py->string_mismatches, 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_interpreters) };

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--all"))
			limits = "0 0";
		else
			add_python(argv[i]);
	}
	if (!python_cnt)
		find_pythons();
	if (!python_cnt) {
		printf("skipped: no python2.7 or python3.%d to python3.%d found\n", MINOR_FIRST,
		       MINOR_LAST);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
