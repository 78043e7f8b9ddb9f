/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STOP_AT_END_H
#define PYPERF_STOP_AT_END_H
/*
 * Holds a command at its end, while its objects are still there: where Python begins to finalize
 * (Py_FinalizeEx, Py_Exit), before it runs atexit and frees modules, or where the process ends
 * otherwise (os._exit, a signal). Until then the command runs at full speed: the kernel stops it at
 * exec, at signals and at its end only.
 *
 *	stop_at_end__begin(&s, pid);	a child of ours that has not called exec yet
 *	... exec ...
 *	SIGCHLD: stop_at_end__look(&s) == COMMAND_AT_END	read its memory
 *	stop_at_end__release(&s, 5000);	it ends
 *
 * It is a tracee (ptrace), and the places are breakpoints of the CPU by perf. Both end with us, so
 * a profiler that dies leaves a command that runs on. Only the first thread of the process is
 * watched, and none of its children. Call everything from one thread.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STOP_PLACES 4 /* a CPU has no more */

enum command_state {
	COMMAND_RUNS,
	COMMAND_AT_END,
	COMMAND_GONE, /* it has ended without a stop; its status waits for waitpid() */
};

struct stop_at_end {
	pid_t pid;
	int entry_fd; /* breakpoint where the program begins, its libraries loaded; -1 */
	int end_fds[STOP_PLACES]; /* breakpoints where Python ends; -1 */
	bool traced;
	bool python; /* what it runs now */
	bool exited; /* held where the process exits, not where Python begins to finalize */
};

/* 0 or negative errno: -EINVAL if the kernel is older than 5.13. */
int stop_at_end__begin(struct stop_at_end *s, pid_t pid);
/* Handles what has stopped it. Never blocks. */
enum command_state stop_at_end__look(struct stop_at_end *s);
/*
 * Lets it go; it must be held, or gone. 0, or negative errno if it is neither for so long: then it
 * stays a tracee until we end.
 */
int stop_at_end__release(struct stop_at_end *s, uint64_t patience_ms);

#endif /* PYPERF_STOP_AT_END_H */
