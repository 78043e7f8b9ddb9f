/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OVERHEAD_H
#define PYPERF_OVERHEAD_H
/*
 * Measures the share of a CPU that samples take, by the run time of one sample in 16.
 *
 *	struct overhead o;
 *
 *	overhead__init(&o, object);
 *	overhead__busiest(&o) ...			each second
 *	overhead__restart(&o);			the rate has changed
 *	overhead__free(&o);
 */
#include <stdint.h>

#include "follow/object.h"

/* With fewer samples on a CPU there is no result for it. */
#define OVERHEAD_SAMPLES (64 * TIMED_EVERY)

struct cpu_cost {
	uint64_t delivered, timed, timed_ns, at_ns;
};

struct overhead {
	const struct object *object; /* borrowed */
	struct cpu_cost *costs;	     /* by CPU, at the last look */
};

/* 0 or -ENOMEM. */
int overhead__init(struct overhead *o, const struct object *object);
void overhead__free(struct overhead *o);
/*
 * The share of the busiest CPU, 0 to 1, since the last result. Negative: no CPU had as many as
 * OVERHEAD_SAMPLES since then.
 */
double overhead__busiest(struct overhead *o);
/* Discards measurements taken at the old rate. */
void overhead__restart(struct overhead *o);

#endif /* PYPERF_OVERHEAD_H */
