/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MAPS_READ_H
#define PYPERF_MAPS_READ_H
/*
 * The executable mappings of a process, ascending. By PROCMAP_QUERY (Linux 6.11), which gives just
 * these, some 30 of a Python's 200; else by the whole text of /proc/PID/maps, which takes the
 * kernel four times as long.
 *
 *	struct exec_maps m = { 0 };
 *	err = exec_maps__read(&m, proc_fd);
 *	... m.lines[0 .. m.cnt) ...
 *	exec_maps__free(&m);
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "process/maps_parse.h"

#define EXEC_MAPS_MAX 8192 /* taken of one process */

struct exec_maps {
	struct map_line *lines; /* names are borrowed from `text`, until the next read */
	size_t cnt, cap;
	bool truncated; /* there were more */
	struct strbuf text;
	bool no_query; /* not this kernel: do not ask again */
};

void exec_maps__free(struct exec_maps *m);
/* proc_fd: the process's directory in /proc. 0; -ESRCH: it has no memory (any more); -errno. */
int exec_maps__read(struct exec_maps *m, int proc_fd);
/* The process has this mapping, where and of what file it was: it is read again. */
bool maps_have(int proc_fd, const struct map_line *line);
/* A whole file below that directory. 0 or negative errno. */
int read_proc(int proc_fd, const char *name, struct strbuf *b);

#endif /* PYPERF_MAPS_READ_H */
