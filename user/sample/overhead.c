/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/overhead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int overhead__init(struct overhead *o, const struct object *object)
{
	o->object = object;
	o->costs = calloc((size_t)object__cpu_cap(object), sizeof(*o->costs));
	return o->costs ? 0 : -ENOMEM;
}

void overhead__free(struct overhead *o)
{
	free(o->costs);
	*o = (struct overhead){ 0 };
}

/* The share of one CPU that samples took since the last result, 0 to 1; negative: not known yet. */
static double cpu_share(struct cpu_cost *last, const struct cpu_cost *now)
{
	double samples = (double)(now->delivered - last->delivered), share = -1;
	uint64_t timed = now->timed - last->timed;

	if (last->at_ns && TIMED_EVERY * timed < OVERHEAD_SAMPLES)
		return share;
	if (last->at_ns)
		share = samples * (double)(now->timed_ns - last->timed_ns) / (double)timed /
			(double)(now->at_ns - last->at_ns);
	*last = *now;
	return share;
}

double overhead__busiest(struct overhead *o)
{
	struct counters *per_cpu = object__cpu_counters(o->object);
	uint64_t now = now_ns();
	double busiest = -1;

	for (int cpu = 0; per_cpu && cpu < object__cpu_cap(o->object); cpu++) {
		const uint64_t *n = (const uint64_t *)per_cpu[cpu].n;
		struct cpu_cost cost = { n[CTR_delivered], n[CTR_timed_samples], n[CTR_timed_ns],
					 now };
		double share = cpu_share(&o->costs[cpu], &cost);

		busiest = share > busiest ? share : busiest;
	}
	free(per_cpu);
	return busiest;
}

void overhead__restart(struct overhead *o)
{
	memset(o->costs, 0, (size_t)object__cpu_cap(o->object) * sizeof(*o->costs));
	overhead__busiest(o);
}
