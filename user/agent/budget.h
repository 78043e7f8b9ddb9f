/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_BUDGET_H
#define PYPERF_AGENT_BUDGET_H
/*
 * What to do when the agent takes more than it may. Asked at the end of each period; nothing here
 * asks a clock or the kernel.
 *
 *	processor	cost = a + b x frequency. b is known from two periods at different
 *			frequencies; until then the first that is too dear lowers the frequency by a
 *			third and so finds out. The frequency falls, to where it fits, only when b x
 *			frequency is what exceeds: when it is at least half of the excess. If not,
 *			it goes back to what is configured, and what is paid per window is paid less
 *			often: windows get twice and four times as long. What is left is following
 *			processes, which is said. Back up by a half, and to shorter windows, when
 *			three periods in a row would have been below four fifths of the budget then.
 *	memory		more than the budget: what was kept for later (symbols) is given back; if
 *			that was not enough, half as many stacks fit into a period, down to
 *			BUDGET_STACKS_MIN. Twice as many again after three periods below three
 *			quarters.
 *
 * A frequency holds for whole periods, so all samples of a window weigh the same.
 */
#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"

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
	bool said_cpu, said_memory; /* that a budget cannot be kept; again only after it could */
};

void budget__init(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz);
/* Other limits: from there on as at the start, but without grace. */
void budget__set(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz);

/*
 * The agent and its BPF programs ran for `used_ns` in `duration_ns`, `samples_ns` of it for
 * samples. Says what it changes.
 */
void budget__cpu(struct budget *b, uint64_t used_ns, uint64_t samples_ns, uint64_t duration_ns);
/* Memory that is the agent's own. Says what it changes. */
void budget__memory(struct budget *b, uint64_t bytes);

#endif /* PYPERF_AGENT_BUDGET_H */
