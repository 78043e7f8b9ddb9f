/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SHARE_H
#define PYPERF_SHARE_H
/*
 * What samples take of a CPU: the run time of one in 16 is measured.
 *
 *	struct share s;
 *
 *	share__init(&s, object);
 *	share__busiest(&s) ...				each second
 *	share__restart(&s);				the rate is another
 *	share__free(&s);
 */
#include <stdint.h>

#include "follow/object.h"

/* Fewer samples on a CPU say nothing. */
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
 * Of the busiest CPU, 0 to 1, since it was last told. Negative: each CPU had fewer than
 * SHARE_SAMPLES since then.
 */
double share__busiest(struct share *s);
/* Discards measurements taken at the old rate. */
void share__restart(struct share *s);

#endif /* PYPERF_SHARE_H */
