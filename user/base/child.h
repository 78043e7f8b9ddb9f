/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CHILD_H
#define PYPERF_CHILD_H
/*
 * Runs untrusted work in a child process. The parent limits its time, and the child can affect the
 * parent only by what it writes to one descriptor.
 *
 *	pid = child__fork(file, pipe[1]);
 *	if (!pid) {
 *		work(CHILD_IN, CHILD_OUT);
 *		_exit(0);
 *	}
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_IN  3
#define CHILD_OUT 4

/*
 * At the beginning of main(): those two numbers are nobody's from now on. A child's dup2() to one
 * would close what the parent has there, and to close a file of a tenant may take for ever.
 */
void child__reserve(void);
/*
 * fork(). In the child, `in` (-1: none) and `out` have the numbers above; all other descriptors but
 * the first three are closed, signals have their default action, and the child ends with its
 * parent. The child may call any function: the C library repairs its own locks after fork().
 * Returns the pid, 0 in the child, or -errno.
 */
pid_t child__fork(int in, int out);
struct child_program {
	const char *name;
	uint64_t caps; /* the most that it may have, by number */
	int in, out;   /* as for child__fork() */
	bool is_deaf;  /* to signals of the terminal, and SIGTERM */
};

/*
 * Executes this program anew, in a child, under another name: nothing of our memory and of our
 * environment is there, nor our standard files. It is under no_new_privs, and capabilities of the
 * file add none. Returns its pid, or negative errno. If it cannot be executed it ends with a status
 * for child__why_not().
 */
pid_t child__execute(const struct child_program *program);
/*
 * Is this process such a one? For a constructor, before main(). Who merely calls the program by
 * that name gains no right by it: that process ends.
 */
bool child__is(const char *name);
/* Why it could not be executed; `status` as wait() gives it. A positive errno. */
int child__why_not(int status);
/* Returns the wait status of the child. `kill_it`: kills it first, and waits only briefly. */
int child__wait(pid_t pid, bool kill_it);
/*
 * Waits until `fd` is readable. 0, or -ETIMEDOUT when now_ms() reaches `until_ms` or when this
 * process has to end (ending.h).
 */
int child__poll(int fd, uint64_t until_ms);

#endif /* PYPERF_CHILD_H */
