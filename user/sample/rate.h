/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RATE_H
#define PYPERF_RATE_H
/*
 * Decides how often to sample a CPU. Computes numbers only: reads and changes nothing.
 *
 * The kernel allows the handlers of samples a share of a CPU (kernel.perf_cpu_time_max_percent,
 * 25). When they take more, it lowers kernel.perf_event_max_sample_rate for the whole machine and
 * stops faster events until the next tick (perf_sample_event_took() and
 * __perf_event_account_interrupt() in kernel/events/core.c). The profile then lacks that time. So
 * we stay well below: RATE_SHARE of it, for our program alone. The rest is for the kernel's own
 * part of a sample, which it counts and we cannot see, and for its margin of a quarter.
 *
 * Sampling is slowed down at once when it takes too much. It speeds up again when twice the rate
 * would have been well within the budget for RATE_PATIENCE_S. Each time that it has to be slowed
 * down again, this patience doubles, so that a program with deep stacks now and then is not sampled
 * at a rate that changes every few seconds.
 *
 *	struct rate r;
 *	uint32_t slowed;
 *
 *	rate__init(&r);
 *	...
 *	slowed = rate__look(&r, &look);		 each second
 *	if (slowed != r.slowed && <it is done>)
 *		rate__set(&r, slowed);
 */
#include <stdbool.h>
#include <stdint.h>

#define RATE_SHARE	     0.6
/* with the sysctl at 0 or 100 the kernel sets no limit, but we do */
#define RATE_DEFAULT_PERCENT 25
#define RATE_SLOWEST	     8192
#define RATE_CALM	     0.8 /* of the budget, at twice the rate */
#define RATE_PATIENCE_S	     10
#define RATE_PATIENCE_MAX_S  640

struct rate {
	uint32_t slowed; /* sampling goes on at 1 / this of the full rate; a power of two */
	bool over;	 /* the last measurement was above the budget */
	/* private */
	uint64_t patience_ns, calm_ns; /* calm_ns: since when it is calm; 0: it is not */
	bool raised;		       /* the last change was to a higher rate */
};

struct rate_look {
	uint64_t now_ns; /* any clock; not 0 */
	double budget;	 /* rate__budget() */
	/* share of the busiest CPU that samples took, 0 to 1; negative: not measured this time */
	double share;
	bool throttled;	 /* the kernel stopped sampling, again and again */
	bool may_double; /* the kernel's limit allows twice the rate */
};

void rate__init(struct rate *r);

/*
 * The share of a CPU that our program may take, 0 to 1. `max_percent`: of the sysctl; negative: not
 * known.
 */
double rate__budget(long max_percent);

/*
 * Returns the new value for `slowed`. May change it by more than one power of two, so that an
 * excess lasts for two looks only. Two measurements in a row above the budget count as an excess,
 * because the time of a sample includes the time that a hypervisor took.
 */
uint32_t rate__look(struct rate *r, const struct rate_look *look);
/* Says that sampling now runs at 1 / `slowed` of its rate. */
void rate__set(struct rate *r, uint32_t slowed);

#endif /* PYPERF_RATE_H */
