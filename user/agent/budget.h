/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_BUDGET_H
#define PYPERF_AGENT_BUDGET_H
/*
 * Decides what to do when the agent exceeds its budget. Called at the end of each period; reads no
 * clock and asks the kernel nothing.
 *
 *	processor	cost = a + b x frequency. b is known from two periods at different
 *			frequencies; until then the first that is too dear lowers the frequency by a
 *			third and so finds out. The frequency falls, to where it fits, only when b x
 *			frequency is what exceeds: when it is at least half of the excess. If not,
 *			it goes back to what is configured, and what is paid per window is paid less
 *			often: windows get twice and four times as long. What is left is following
 *			processes, which is said. Back up by a half, and to shorter windows, when
 *			three periods in a row would have been below four fifths of the budget then.
 *	users		before any of that: if some users alone are what exceeds, the costliest of
 *			them pays: half of its samples are taken, a quarter ... and its new programs
 *			wake nobody. All others are sampled as before. Undone, after all else, as
 *			the rest is.
 *	memory		more than the budget: cached symbols are freed; if
 *			that was not enough, half as many stacks fit into a period, down to
 *			BUDGET_STACKS_MIN. Twice as many again after three periods below three
 *			quarters.
 *
 * A frequency holds for whole periods, so all samples of a window weigh the same.
 */
#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"
#include "sample/bills.h"

#define BUDGET_HZ_MIN	   7U /* unless less is configured */
#define BUDGET_STRETCH_MAX 4U
#define BUDGET_MODEL	   60 /* periods for which the two measurements hold */
#define BUDGET_STACKS_MIN  500U
#define BUDGET_GRACE	   2 /* periods at the start, in which files are read for the first time */
#define BUDGET_CALM	   3 /* periods */

struct budget {
	struct budget_config limits;
	uint32_t frequency_cfg;
	/* What holds now. */
	uint32_t frequency_hz, stacks;
	uint32_t stretch; /* windows are so many times as long */
	bool give_back;	  /* caches, in the next period */
	/* private */
	unsigned periods, calm_cpu, calm_memory;
	uint32_t last_hz;    /* of the last period; 0: it does not compare with the next one */
	double last_samples; /* percent, for samples */
	double per_hz;	     /* b, in percent; as long as model_periods is not 0 */
	unsigned model_periods;
	bool said_cpu, said_memory; /* reported as not kept; again only after it was */
};

/* What a period cost. */
struct budget_period {
	uint64_t duration_ns;
	uint64_t used_ns;	  /* CPU time of the agent and of its BPF programs */
	uint64_t samples_ns;	  /* ... of it for samples */
	const struct bill *users; /* borrowed; who is charged with it */
	size_t user_cnt;
};

void budget__init(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz);
/* Other limits: judges as after the start, but without the grace periods. */
void budget__set(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz);

/*
 * Judges a period, and says what it changes. The user of whose samples another share is to be taken
 * from now on, one of *one_of; or NULL.
 */
const struct bill *budget__cpu(struct budget *b, const struct budget_period *p, uint32_t *one_of);
/* Memory that is the agent's own. Says what it changes. */
void budget__memory(struct budget *b, uint64_t bytes);

#endif /* PYPERF_AGENT_BUDGET_H */
