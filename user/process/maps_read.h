/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MAPS_READ_H
#define PYPERF_MAPS_READ_H
/*
 * Reads the executable mappings of a process, ascending. Uses PROCMAP_QUERY (Linux 6.11), which
 * gives only these, some 30 of the 200 mappings of a Python. Else it reads all of /proc/PID/maps,
 * which takes the kernel four times as long.
 *
 *	struct exec_maps m = { 0 };
 *	err = exec_maps__read(&m, proc_fd);
 *	... m.lines[0 .. m.cnt) ...
 *	exec_maps__free(&m);
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/reader.h"
#include "base/str.h"
#include "process/maps_parse.h"

#define EXEC_MAPS_MAX 8192 /* limit for one process */

struct exec_maps {
	struct map_line *lines; /* names are borrowed from `text`, until the next read */
	size_t cnt, cap;
	bool truncated; /* there were more */
	struct strbuf text;
	bool no_query; /* the kernel has no PROCMAP_QUERY: do not try again */
};

void exec_maps__free(struct exec_maps *m);
/*
 * proc_fd: the process's directory in /proc. 0; -ESRCH: it has no memory (any more); -errno. Waits
 * for the lock of the process's memory, which the process may hold for any time.
 */
int exec_maps__read(struct exec_maps *m, int proc_fd);
/* The same, in the helper process that may wait; -ETIMEDOUT, too: see reader.h. */
int exec_maps__ask(struct exec_maps *m, struct readers *rs, uint32_t tgid, int proc_fd);
/*
 * Reads the mappings again: does the process still have this one, at the same place and of the same
 * file?
 */
bool maps_have(int proc_fd, const struct map_line *line);
/* The same, in the helper process that may wait. */
bool maps_still_have(struct readers *rs, uint32_t tgid, int proc_fd, const struct map_line *line);
/* Reads a whole file below the process's directory in /proc. 0 or negative errno. */
int read_proc(int proc_fd, const char *name, struct strbuf *b);

#endif /* PYPERF_MAPS_READ_H */
