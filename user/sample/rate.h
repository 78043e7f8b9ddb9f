/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RATE_H
#define PYPERF_RATE_H
/*
 * How often may a CPU be sampled? Numbers only: nothing is read or changed here.
 *
 * The kernel allows the handlers of samples a share of a CPU (kernel.perf_cpu_time_max_percent,
 * 25). When they take more it lowers kernel.perf_event_max_sample_rate for the whole machine, and
 * events that are faster are stopped until the next tick (perf_sample_event_took() and
 * __perf_event_account_interrupt() in kernel/events/core.c): time is missing in the profile. So we
 * stay well below: RATE_SHARE of it, for our program alone. The rest is what the kernel itself
 * needs for a sample, which it counts and we cannot see, and its margin of a quarter.
 *
 * Sampling is slowed down at once when it takes too much, and goes on faster when it would have
 * been well within the budget at twice the rate for RATE_PATIENCE_S. Each time that it has to be
 * slowed down again this is twice as long: a program whose stacks are deep now and then is not
 * sampled at a rate that changes every few seconds.
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
#define RATE_DEFAULT_PERCENT 25 /* where the sysctl is 0 or 100, the kernel does nothing; we do */
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
	/* what samples took of the busiest CPU, 0 to 1; negative: not measured this time */
	double share;
	bool throttled;	 /* the kernel stopped sampling, again and again */
	bool may_double; /* the kernel's limit allows twice the rate */
};

void rate__init(struct rate *r);

/*
 * The share of a CPU that our program may take, 0 to 1; `max_percent`: of the sysctl, negative: not
 * known.
 */
double rate__budget(long max_percent);

/*
 * What `slowed` should be from now on. More than one power of two at once, so that too much lasts
 * for two looks only. Above the budget counts when two measurements in a row say so: the time of a
 * sample is also what a hypervisor took in it.
 */
uint32_t rate__look(struct rate *r, const struct rate_look *look);
/* It is so now. */
void rate__set(struct rate *r, uint32_t slowed);

#endif /* PYPERF_RATE_H */
