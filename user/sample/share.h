/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SHARE_H
#define PYPERF_SHARE_H
/*
 * Measures the share of a CPU that samples take, by the run time of one sample in 16.
 *
 *	struct share s;
 *
 *	share__init(&s, object);
 *	share__busiest(&s) ...				each second
 *	share__restart(&s);				the rate has changed
 *	share__free(&s);
 */
#include <stdint.h>

#include "follow/object.h"

/* With fewer samples on a CPU there is no result for it. */
#define SHARE_SAMPLES (64 * TIMED_EVERY)

struct cpu_cost {
	uint64_t delivered, timed, timed_ns, at_ns;
};

struct share {
	const struct object *object; /* borrowed */
	struct cpu_cost *costs;	     /* by CPU, at the last look */
};

/* 0 or -ENOMEM. */
int share__init(struct share *s, const struct object *object);
void share__free(struct share *s);
/*
 * The share of the busiest CPU, 0 to 1, since the last result. Negative: no CPU had SHARE_SAMPLES
 * since then.
 */
double share__busiest(struct share *s);
/* Discards measurements taken at the old rate. */
void share__restart(struct share *s);

#endif /* PYPERF_SHARE_H */
