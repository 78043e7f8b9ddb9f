/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_KNOWN_H
#define PYPERF_AGENT_KNOWN_H
/*
 * Labels of the sampled processes, kept from when a process is first known until after its last
 * samples. A process is noted where there is no time, and read a moment later:
 *
 *	known__note(k, process, parent);	struct process_opts.known
 *	known__read(k, procs);			when there is time: a few system calls for each one
 *						noted
 *	set = known__labels(k, profile, proc);	when a period ends
 *	known__forget(k, procs);		those that the process table has forgotten
 *
 * A child of fork has its parent's labels until it calls exec: environment, arguments and mostly
 * the control group are inherited, and so thousands of short workers cost nothing.
 */
#include <stdint.h>

#include "agent/labels.h"
#include "process/process.h"
#include "profile/profile.h"

struct known;

/* `root` ("" but in tests) and `c` are borrowed. NULL: out of memory. */
struct known *known__new(const char *root, const struct labels_config *c);
void known__free(struct known *k);
/* Changes the configuration; labels that are known stay as they are. */
void known__set_config(struct known *k, const struct labels_config *c);

void known__note(struct known *k, const struct process *p, const struct process *parent);
void known__read(struct known *k, const struct process_table *procs);
/*
 * A reference for the caller. For a process that ended before it was read, the labels that the
 * profile gives; NULL: out of memory.
 */
struct label_set *known__labels(struct known *k, const struct profile *p,
				const struct profile_proc *proc);
void known__forget(struct known *k, const struct process_table *procs);
/* Processes with samples that ended before they were read. */
uint64_t known__missed(const struct known *k);

#endif /* PYPERF_AGENT_KNOWN_H */
