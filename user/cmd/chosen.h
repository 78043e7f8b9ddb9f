/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CHOSEN_H
#define PYPERF_CHOSEN_H
/*
 * Finds the running processes that --name and -t select and adds them to those of -p, the control
 * group of --pod and --container, and the process behind a wrapper whose number was given.
 *
 *	err = chosen__find(&targets);	after the command line, before session__check()
 *	err = chosen__stand_in(&pid, NULL);	for a command that looks at one process
 */
#include <stdbool.h>
#include <sys/types.h>

#include "sample/spec.h"

/* 0, or negative errno after a message. */
int chosen__find(struct sample_spec *t);
/*
 * For a command that looks at processes once: of those that are chosen it keeps those in the group
 * that chosen__find() found for --pod or --container; if none is chosen yet, it takes all in that
 * group. 0, or negative errno after a message.
 */
int chosen__in_group(struct sample_spec *t);
/* Adds a process, unless it is in the list. 0, or -ENOMEM after a message. */
int chosen__add(struct sample_spec *t, pid_t pid);
/*
 * For a command that looks at processes once: adds the descendants that have Python. Those of the
 * list that have none leave it, unless nothing would be left. 0, or negative errno after a message.
 */
int chosen__add_children(struct sample_spec *t);
/*
 * If the process has no Python (sh -c, timeout, sudo), replaces `*pid` by its only descendant with
 * Python, with a message. If several descendants have Python, sets `*several`; with `several` NULL
 * that is an error. 0, also if there is no such descendant: the command then says why it cannot use
 * the process. -EINVAL after a message.
 */
int chosen__stand_in(pid_t *pid, bool *several);
/*
 * The same for a command that takes one process, with the number of its descendants that have
 * Python. Looks at each process once.
 */
int chosen__stand_in_of(pid_t *pid, size_t *children);

#endif /* PYPERF_CHOSEN_H */
