/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TEST_EXPORTING_H
#define PYPERF_TEST_EXPORTING_H
/*
 * Runs an exporter and compares what it writes with a golden text (UPDATE_GOLDEN=1 rewrites that).
 * Behind cmocka.h.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/export.h"
#include "unit/profiles.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

typedef int (*write_fn)(const struct profile *p, const struct export_opts *o, FILE *f);

static const struct export_opts defaults = { .lines = true };

/* The output, NUL-terminated; to be freed. */
TEST_UNUSED static char *output(write_fn write, const struct profile *p,
				const struct export_opts *o, size_t *len)
{
	char *s = NULL;
	size_t n;
	FILE *f = open_memstream(&s, &n);

	assert_non_null(f);
	assert_int_equal(write(p, o, f), 0);
	assert_int_equal(fclose(f), 0);
	if (len)
		*len = n;
	return s;
}

TEST_UNUSED static void beside(char *out, size_t size, const char *file)
{
	const char *slash = strrchr(__FILE__, '/');

	snprintf(out, size, "%.*s/../%s", (int)(slash - __FILE__), __FILE__, file);
}

TEST_UNUSED static char *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	char *s = calloc(1, 1 << 22);

	assert_non_null(f);
	assert_non_null(s);
	*len = fread(s, 1, (1 << 22) - 1, f);
	fclose(f);
	return s;
}

TEST_UNUSED static void check_golden(const char *name, const char *text)
{
	char path[PATH_MAX], *want;
	size_t len;
	FILE *f;

	beside(path, sizeof(path), "golden/export/");
	strncat(path, name, sizeof(path) - strlen(path) - 1);
	if (getenv("UPDATE_GOLDEN")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	want = read_file(path, &len);
	assert_string_equal(text, want);
	free(want);
}

TEST_UNUSED static void golden(const char *name, write_fn write, struct profile *p,
			       struct export_opts o)
{
	char *s = output(write, p, &o, NULL);

	check_golden(name, s);
	free(s);
	profile__free(p);
}

/* ---- files ---- */

TEST_UNUSED static char *temp_dir(void)
{
	static char dir[] = "/tmp/test_export.XXXXXX";

	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	return dir;
}

TEST_UNUSED static void remove_dir(const char *dir)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(dir);

	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			assert_return_code(unlink(path), errno);
	}
	closedir(d);
	assert_return_code(rmdir(dir), errno);
}

/* What a command prints; its exit status in *status. */
TEST_UNUSED static char *run(const char *command, int *status)
{
	FILE *f = popen(command, "r");
	char *s = calloc(1, 1 << 20);
	size_t len;

	assert_non_null(f);
	assert_non_null(s);
	len = fread(s, 1, (1 << 20) - 1, f);
	s[len] = '\0';
	*status = pclose(f);
	return s;
}

TEST_UNUSED static void save(const char *path, struct profile *p, const struct export_opts *o)
{
	struct export_file *x = export__open(path, export__find(path));

	assert_non_null(x);
	assert_int_equal(export__commit(x, p, o), 0);
	export__close(x);
}

TEST_UNUSED static char *decode(const char *pb, const char *args)
{
	char script[PATH_MAX], command[3 * PATH_MAX], *s;
	int status;

	beside(script, sizeof(script), "e2e/pprof_read.py");
	snprintf(command, sizeof(command), "python3 %s %s %s", script, args, pb);
	s = run(command, &status);
	assert_int_equal(status, 0);
	return s;
}

#endif /* PYPERF_TEST_EXPORTING_H */
