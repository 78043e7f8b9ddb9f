/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LAUNCH_H
#define PYPERF_LAUNCH_H
/*
 * Starts the command behind "--", holds it before its first instruction until everything is
 * attached, and then lets it go. The command stays in our process group, so Ctrl-C reaches both;
 * other signals reach only us, and we pass them on.
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

/*
 * Forks the child. The command gets the rights and the environment of the user who called sudo, if
 * there is one, unless `as_root`. NULL after one message.
 */
struct launch *launch__new(char *const *argv, bool as_root);
void launch__free(struct launch *l);
pid_t launch__pid(const struct launch *l);
/*
 * The file that launch__go() will execute, as execvp(3) finds it. For a script it is the
 * interpreter of its `#!` line, or the program that env(1) there starts. Owned by `l`. NULL: there
 * is none, or it cannot be told.
 */
const char *launch__program(const struct launch *l);
/* The same for any word that may be a command, into `path` of PATH_MAX bytes. False: not found. */
bool launch__resolve(const struct launch *l, const char *word, char *path);
/* 0, or negative errno after one message: the program could not be executed. */
int launch__go(struct launch *l);
bool launch__started(const struct launch *l);
/*
 * True when the command has ended: `*status` is its exit status as a shell gives it (128 + signal).
 * Never blocks.
 */
bool launch__reap(struct launch *l, int *status);
/* Sends a signal to the command, if it was let go and has not been reaped. */
void launch__signal(struct launch *l, int sig);

#endif /* PYPERF_LAUNCH_H */
