/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TESTS_PYTHONS_H
#define PYPERF_TESTS_PYTHONS_H
/*
 * The Python interpreters of this machine, for tests against real ones: those named in
 * PYPERF_PYTHONS (executables, separated by colons), else pyenv's and the system's.
 *
 *	struct pythons py = { 0 };
 *	pythons_find(&py);
 *	for (size_t i = 0; i < py.cnt; i++)
 *		... py.path[i] ...
 *	pythons_free(&py);
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PYTHONS_MAX 64

struct pythons {
	char *path[PYTHONS_MAX];
	size_t cnt;
};

/* ".../pythonX.Y" or "pythonX.Yt": not python3-config, not python3.8-gdb.py. */
static inline int pythons_is_name(const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	int used = 0;

	return (sscanf(base, "python%*1[23].%*[0-9]%n", &used) >= 0 && used > 0) &&
	       (!base[used] || !strcmp(base + used, "t"));
}

/* The executable behind links, once. */
static inline void pythons_add(struct pythons *py, const char *path)
{
	char *real = realpath(path, NULL);

	for (size_t i = 0; real && i < py->cnt; i++) {
		if (!strcmp(py->path[i], real)) {
			free(real);
			return;
		}
	}
	if (real && py->cnt < PYTHONS_MAX && !access(real, X_OK))
		py->path[py->cnt++] = real;
	else
		free(real);
}

static inline void pythons_add_glob(struct pythons *py, const char *dir, const char *pattern)
{
	char full[4096];
	glob_t g;

	snprintf(full, sizeof(full), "%s/%s", dir, pattern);
	if (glob(full, 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++)
		if (pythons_is_name(g.gl_pathv[i]))
			pythons_add(py, g.gl_pathv[i]);
	globfree(&g);
}

static inline void pythons_find(struct pythons *py)
{
	const char *named = getenv("PYPERF_PYTHONS"), *root = getenv("PYENV_ROOT");
	const char *home = getenv("HOME");
	char dir[2048];

	if (named) {
		char *copy = strdup(named), *save = NULL;

		for (char *p = strtok_r(copy, ":", &save); p; p = strtok_r(NULL, ":", &save))
			pythons_add(py, p);
		free(copy);
		return;
	}
	snprintf(dir, sizeof(dir), "%s%s", root ? root : home ? home : "", root ? "" : "/.pyenv");
	pythons_add_glob(py, dir, "versions/*/bin/python[23].*");
	pythons_add_glob(py, "/usr/bin", "python[23].*");
	pythons_add_glob(py, "/usr/local/bin", "python[23].*");
}

static inline void pythons_free(struct pythons *py)
{
	for (size_t i = 0; i < py->cnt; i++)
		free(py->path[i]);
	py->cnt = 0;
}

#endif /* PYPERF_TESTS_PYTHONS_H */
