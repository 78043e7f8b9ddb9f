/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYTHON_EXEC_H
#define PYPERF_PYTHON_EXEC_H
/*
 * Finds the interpreter that a command executes in the end, behind whatever shells and wrappers:
 * the command runs until one of its processes has executed Python, which then stands before its
 * first instruction.
 *
 *	x = python_exec__begin(launch__pid(l));	the command is still held
 *	launch__go(l);
 *	pid = python_exec__wait(x, 0, path);	runs what comes before Python
 *	... breakpoints are set in `pid` ...
 *	python_exec__end(x);			it goes on
 *
 * A child of ours traces the command (ptrace) meanwhile, and lets all of it go when it ends. If we
 * end, whatever ends us, it does as python_exec__kill(). Whoever else executes Python is held, too.
 */
#include <sys/types.h>

#include "trace/target.h"

struct python_exec;

/* NULL and errno: the command cannot be traced so. It is not changed then. */
struct python_exec *python_exec__begin(pid_t command);
/*
 * Waits until a process has executed Python: its number, and the file that has its interpreter. 0:
 * the command has ended before. Negative errno; -ETIME: the seconds, 0: any, are over.
 */
pid_t python_exec__wait(struct python_exec *x, double seconds, char path[TARGET_PATH_MAX]);
/*
 * Instead of letting it go: ends Python, of which no instruction has been executed, and the
 * command, which might take that for a failure, and go on. NULL: nothing.
 */
void python_exec__kill(struct python_exec *x);
/* Lets everything go. NULL: nothing. */
void python_exec__end(struct python_exec *x);

#endif /* PYPERF_PYTHON_EXEC_H */
