/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROCFIELD_H
#define PYPERF_PROCFIELD_H
/*
 * Reads one field of a file of /proc that has a line per field, such as /proc/PID/status:
 *
 *	char pid[32];
 *
 *	if (!procfield__read("/proc/self/status", "Tgid", pid, sizeof(pid)))
 *		printf("%s\n", pid);
 */
#include <stddef.h>

/*
 * Copies the value without leading blanks, cut to `size`. 0 or negative errno, -ENOENT also if
 * there is no such field; `value` is empty then.
 */
int procfield__read(const char *path, const char *name, char *value, size_t size);

#endif /* PYPERF_PROCFIELD_H */
