/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LABEL_CACHE_H
#define PYPERF_LABEL_CACHE_H
/*
 * Labels of the sampled processes, kept from when a process is first known until after its last
 * samples. A process is noted where there is no time, and read a moment later:
 *
 *	label_cache__note(k, process, parent);	struct process_opts.known
 *	label_cache__read(k, procs);		when there is time: a few system calls for each
 *						one noted
 *	set = label_cache__labels(k, profile, proc);	when a period ends
 *	label_cache__forget(k, procs);		those that the process table has forgotten
 *
 * A child of fork has its parent's labels until it calls exec: environment, arguments and mostly
 * the control group are inherited, and so thousands of short workers cost nothing.
 */
#include <stdint.h>

#include "agent/labels.h"
#include "process/process.h"
#include "profile/profile.h"

struct label_cache;

/* `root` ("" but in tests) and `c` are borrowed. NULL: out of memory. */
struct label_cache *label_cache__new(const char *root, const struct labels_config *c);
void label_cache__free(struct label_cache *k);
/* Changes the configuration; labels that are known stay as they are. */
void label_cache__set_config(struct label_cache *k, const struct labels_config *c);

void label_cache__note(struct label_cache *k, const struct process *p,
		       const struct process *parent);
void label_cache__read(struct label_cache *k, const struct process_table *procs);
/*
 * A reference for the caller. For a process that ended before it was read, the labels that the
 * profile gives; NULL: out of memory.
 */
struct label_set *label_cache__labels(struct label_cache *k, const struct profile *p,
				      const struct profile_proc *proc);
void label_cache__forget(struct label_cache *k, const struct process_table *procs);
/* Processes with samples that ended before they were read. */
uint64_t label_cache__missed(const struct label_cache *k);

#endif /* PYPERF_LABEL_CACHE_H */
