/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LAUNCH_H
#define PYPERF_LAUNCH_H
/*
 * The command behind "--": started before sampling, held before its first instruction until
 * everything is attached, then let go. It stays in our process group, so Ctrl-C reaches both; other
 * signals are ours alone, to be handed on.
 *
 *	l = launch__new(argv);	 a child that waits
 *	... launch__pid(l) is profiled ...
 *	launch__go(l);		 exec
 *	... SIGCHLD: launch__reap(l, &status) ...
 *	launch__free(l);	 a child that was never let go ends without running anything
 */
#include <stdbool.h>
#include <sys/types.h>

struct launch;

/* NULL after one message. */
struct launch *launch__new(char *const *argv);
void launch__free(struct launch *l);
pid_t launch__pid(const struct launch *l);
/*
 * The file that launch__go() will execute, as execvp(3) finds it: of a script, what its first line
 * names, env(1) looked through. Owned by `l`. NULL: there is none, or it is not plain to see.
 */
const char *launch__program(const struct launch *l);
/* 0, or negative errno after one message: the program could not be executed. */
int launch__go(struct launch *l);
bool launch__started(const struct launch *l);
/*
 * True when the command has ended: its exit status as a shell gives it (128 + signal). Never
 * blocks.
 */
bool launch__reap(struct launch *l, int *status);
/* Sends a signal to a command that was let go and has not been reaped. */
void launch__signal(struct launch *l, int sig);

#endif /* PYPERF_LAUNCH_H */
