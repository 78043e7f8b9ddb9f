/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_INVOKER_H
#define PYPERF_INVOKER_H
/*
 * The user who called sudo. A command that is to be profiled runs as that user, with the groups and
 * the environment that it would have without sudo.
 *
 *	err = invoker__find(&in);		in is NULL: nobody called sudo
 *	env = invoker__environment(in);		borrowed until free
 *	err = invoker__become(in);		in the child
 *	invoker__free(in);
 */

struct invoker;

/* Finds the user by SUDO_UID, if we are root and that user is not. 0 or -ENOMEM. */
int invoker__find(struct invoker **found);
void invoker__free(struct invoker *in);
char *const *invoker__environment(const struct invoker *in);
/* Gives up root for good. 0 or -errno. */
int invoker__become(const struct invoker *in);

#endif /* PYPERF_INVOKER_H */
