/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FAMILY_H
#define PYPERF_FAMILY_H
/*
 * Sets breakpoints in a process and in all processes that it starts: a forked child has them before
 * its first instruction, an executed program as soon as the file is mapped. No other process that
 * maps the file gets any.
 *
 * Children inherit a perf event of a tracepoint. They do not inherit one of the PMU `uprobe`
 * (uprobe.h), because the kernel would read the path of the file again, in the memory of the child.
 * So each breakpoint is first defined in tracefs, under a name of its own. A definition that nobody
 * has opened is only a line in a file and sets no breakpoint. Definitions outlast this program, so
 * a child process waits for its end and deletes them, also after SIGKILL.
 *
 *	struct family *f = family__open(pid, 0);
 *	family__add(f, fd, &spot, prog_fd);
 *	family__attach(f);
 *	family__close(f);
 */
#include <sys/types.h>

struct family;
struct uprobe_spot;

/*
 * NULL and errno: tracefs is missing or not accessible; ENOTSUP: the kernel is older than 6.12. The
 * process need not have mapped the file yet. `python`, a descendant, 0: what the process has
 * started before is left out; else that has breakpoints, too, and so has `python`.
 */
struct family *family__open(pid_t pid, pid_t python);
/*
 * Adds a breakpoint in the file `fd`. `prog_fd` runs at each hit and gets the cookie.
 * UPROBE_NO_COOKIE: none. 0 or negative errno.
 */
int family__add(struct family *f, int fd, const struct uprobe_spot *spot, int prog_fd);
/* Sets all added breakpoints. 0 or negative errno. */
int family__attach(struct family *f);
/* Removes all of them. */
void family__close(struct family *f);

#endif /* PYPERF_FAMILY_H */
