/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CALLED_H
#define PYPERF_CALLED_H
/* Titles of running processes (application.h), and the processes whose names match a pattern. */
#include <limits.h>
#include <regex.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/reader.h"
#include "base/str.h"

/*
 * The title of a process, as application__title() makes it. False: it has none, is gone, or its
 * memory does not answer. `out` must be empty.
 */
bool called__title(struct readers *rs, pid_t pid, struct strbuf *out);
/*
 * Does the pattern match the command name, the title or the program name of the process? Kernel
 * threads, processes that are gone, and those whose memory does not answer have no name.
 */
bool called__matches(struct readers *rs, pid_t pid, const regex_t *re);
/*
 * Finds all processes of /proc but the caller for which called__matches() is true. The caller frees
 * *pids. 0 or -errno.
 */
int called__find(struct readers *rs, const regex_t *re, pid_t **pids, size_t *cnt);
/*
 * The path of the file that the process executes, as readlink() of /proc/PID/exe has it:
 * " (deleted)" may follow. False: the process is gone, a kernel thread, or another user's.
 */
bool called__program(pid_t pid, char path[PATH_MAX]);
/* The number of the parent of a process, or 0. */
pid_t called__parent(pid_t pid);
/*
 * Does the process descend from `ancestor`, in at most 64 generations? Who was handed to init when
 * its parent ended does not.
 */
bool called__descends(pid_t pid, pid_t ancestor);

#endif /* PYPERF_CALLED_H */
