/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PERIOD_H
#define PYPERF_AGENT_PERIOD_H
/*
 * The samples between two borders of the schedule: the drains added up, within the budgets, and the
 * labels of the processes.
 *
 * No sample is left out: one without room keeps its process and loses its stack (the marker
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

/*
 * When there are `stacks` of them, up to a quarter more are taken of users who have fewer than a
 * sixteenth: one user's do not take the room of all.
 */
struct period_limits {
	uint32_t stacks;    /* distinct ones; each process may have one more */
	uint32_t processes; /* kept apart */
};

#define PERIOD_USERS 64 /* further ones have no room of their own */

struct period_user {
	uint32_t uid, stacks;
};

struct period {
	struct span span;
	uint32_t frequency_hz;
	/*
	 * At that frequency: where sampling was slowed down, those that were taken stand for those
	 * that were left out.
	 */
	uint64_t samples;
	uint64_t over_stacks, over_processes; /* of them */
	struct profile *profile;	      /* owned */
	struct period_user users[PERIOD_USERS];
	size_t user_cnt;
	/* By index of the profile's processes; NULL until period__label(). */
	struct label_set **labels;
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
/* Gets the labels of all its processes. 0 or -ENOMEM. */
int period__label(struct period *p, period_labels_fn fn, void *ctx);

#endif /* PYPERF_AGENT_PERIOD_H */
