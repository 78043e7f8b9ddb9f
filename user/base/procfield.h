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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Copies the value without leading blanks, cut to `size`. 0 or negative errno, -ENOENT also if
 * there is no such field; `value` is empty then.
 */
int procfield__read(const char *path, const char *name, char *value, size_t size);

/* The four ids of "Uid" and "Gid", see proc(5). Files belong to the last one. */
struct proc_ids {
	uint32_t real, effective, saved, files;
};

/*
 * Parses such a value, "1000\t1000\t1000\t1000", up to the end of its line. False: not all four are
 * there, or one is no id.
 */
bool procfield__ids(const char *value, struct proc_ids *ids);
/* The value of a field in a text that was read already, or NULL. It goes on behind its line. */
const char *procfield__find(const char *text, const char *name);

#endif /* PYPERF_PROCFIELD_H */
