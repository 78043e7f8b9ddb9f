/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_HELD_H
#define PYPERF_HEAP_HELD_H
/*
 * Holds a command at its end, while its objects are still there: where Python begins to finalize
 * (Py_FinalizeEx, Py_Exit), before it runs atexit and frees modules, or where the process ends
 * otherwise (os._exit, a signal). Until then the command runs at full speed: the kernel stops it at
 * exec, at signals and at its end only.
 *
 *	held__begin(&h, pid);	a child of ours that has not called exec yet
 *	... exec ...
 *	SIGCHLD: held__look(&h) == HELD_AT_END	read its memory
 *	held__release(&h);	it ends
 *
 * It is a tracee (ptrace), and the places are breakpoints of the CPU by perf. Both end with us, so
 * a profiler that dies leaves a command that runs on. Only the first thread of the process is
 * watched, and none of its children. Call everything from one thread.
 */
#include <stdbool.h>
#include <sys/types.h>

#define HELD_PLACES 4 /* a CPU has no more */

enum held_state {
	HELD_RUNS,
	HELD_AT_END,
	HELD_GONE, /* it has ended without a stop; its status waits for waitpid() */
};

struct held {
	pid_t pid;
	int entry_fd; /* breakpoint where the program begins, its libraries loaded; -1 */
	int end_fds[HELD_PLACES]; /* breakpoints where Python ends; -1 */
	bool traced;
	bool python; /* what it runs now */
	bool exited; /* held where the process exits, not where Python begins to finalize */
};

/* 0 or negative errno: -EINVAL if the kernel is older than 5.13. */
int held__begin(struct held *h, pid_t pid);
/* Handles what has stopped it. Never blocks. */
enum held_state held__look(struct held *h);
/* Lets it go; it must be held, or gone. */
void held__release(struct held *h);

#endif /* PYPERF_HEAP_HELD_H */
