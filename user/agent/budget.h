/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_BUDGET_H
#define PYPERF_AGENT_BUDGET_H
/*
 * What to do when the agent takes more than it may. Asked at the end of each period; nothing here asks a clock or the
 * kernel.
 *
 *	processor	more than the share: the frequency falls by a third, until it fits or is 1 Hz. Back up by a half when
 *			three periods in a row would have been below four fifths of the budget at that frequency. It stays
			where less than a quarter of the time is for samples: the rest, following processes that start
			and end, would not become less.
 *	memory		more than the budget: what was kept for later (symbols) is given back; if that was not enough, half
 *			as many stacks fit into a period, down to BUDGET_STACKS_MIN. Twice as many again after three
 *			periods below three quarters.
 *
 * A frequency holds for whole periods, so all samples of a window weigh the same.
 */
#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"

#define BUDGET_STACKS_MIN 500U
#define BUDGET_GRACE	  2 /* periods at the start, in which files are read for the first time */
#define BUDGET_CALM	  3 /* periods */

struct budget {
	struct budget_config limits;
	uint32_t frequency_cfg;
	/* What holds now. */
	uint32_t frequency_hz, stacks;
	bool give_back; /* caches, in the next period */
	/* private */
	unsigned periods, calm_cpu, calm_memory;
	bool said_cpu, said_memory; /* that a budget cannot be kept; again only after it could */
};

void budget__init(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz);
/* Other limits: from there on as at the start, but without grace. */
void budget__set(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz);

/* The agent and its BPF programs ran for `used_ns` in `duration_ns`, `samples_ns` of it for samples. Says what it changes. */
void budget__cpu(struct budget *b, uint64_t used_ns, uint64_t samples_ns, uint64_t duration_ns);
/* Memory that is the agent's own. Says what it changes. */
void budget__memory(struct budget *b, uint64_t bytes);

#endif /* PYPERF_AGENT_BUDGET_H */
