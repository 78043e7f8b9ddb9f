/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PERIOD_H
#define PYPERF_AGENT_PERIOD_H
/*
 * What was sampled between two borders of the schedule: the drains added up, within the budgets,
 * and who the processes are.
 *
 * No sample is left out: one that finds no room keeps its process and loses its stack (the marker
 * [too-many-stacks]), or loses its process, too, and belongs to PERIOD_OTHERS. Both are counted.
 *
 * Made by the main thread; when it is finished it does not change any more, and the delivery thread
 * owns it.
 */
#include <stddef.h>
#include <stdint.h>

#include "agent/labels.h"
#include "agent/schedule.h"
#include "profile/profile.h"

#define PERIOD_OTHERS "(others)" /* comm of what is beyond the budget of processes */

struct period_limits {
	uint32_t stacks;    /* distinct ones; each process may have one more */
	uint32_t processes; /* kept apart */
};

struct period {
	struct span span;
	uint32_t frequency_hz;
	uint64_t
		/*
		 * at that frequency: of those that sampling left out when it was slowed down,
		 * others stand for
		 */
		samples;
	uint64_t over_stacks, over_processes; /* of them */
	struct profile *profile;	      /* owned */
	struct label_set *
		*labels; /* by index of the profile's processes; NULL until period__label() */
	size_t label_cnt;
};

struct period *period__new(void); /* NULL: out of memory */
void period__free(struct period *p);

/* Adds what a drain found. 0 or -ENOMEM: part of it may be missing. */
int period__add(struct period *p, const struct profile *drained,
		const struct period_limits *limits);

/* A label set of a process, a reference for the caller; NULL: out of memory. */
typedef struct label_set *(*period_labels_fn)(void *ctx, const struct profile *p,
					      const struct profile_proc *proc);
/* Asks for the labels of all its processes. 0 or -ENOMEM. */
int period__label(struct period *p, period_labels_fn fn, void *ctx);

#endif /* PYPERF_AGENT_PERIOD_H */
