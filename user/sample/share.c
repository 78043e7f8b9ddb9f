/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int share__init(struct share *s, const struct object *object)
{
	s->object = object;
	s->costs = calloc((size_t)object__cpu_cap(object), sizeof(*s->costs));
	return s->costs ? 0 : -ENOMEM;
}

void share__free(struct share *s)
{
	free(s->costs);
	*s = (struct share){ 0 };
}

/* The share of one CPU that samples took since the last result, 0 to 1; negative: not known yet. */
static double cpu_share(struct cpu_cost *last, const struct cpu_cost *now)
{
	double samples = (double)(now->delivered - last->delivered), share = -1;
	uint64_t timed = now->timed - last->timed;

	if (last->at_ns && TIMED_EVERY * timed < SHARE_SAMPLES)
		return share;
	if (last->at_ns)
		share = samples * (double)(now->timed_ns - last->timed_ns) / (double)timed /
			(double)(now->at_ns - last->at_ns);
	*last = *now;
	return share;
}

double share__busiest(struct share *s)
{
	struct counters *per_cpu = object__cpu_counters(s->object);
	uint64_t now = now_ns();
	double busiest = -1;

	for (int cpu = 0; per_cpu && cpu < object__cpu_cap(s->object); cpu++) {
		const uint64_t *n = (const uint64_t *)per_cpu[cpu].n;
		struct cpu_cost cost = { n[CTR_delivered], n[CTR_timed_samples], n[CTR_timed_ns],
					 now };
		double share = cpu_share(&s->costs[cpu], &cost);

		busiest = share > busiest ? share : busiest;
	}
	free(per_cpu);
	return busiest;
}

void share__restart(struct share *s)
{
	memset(s->costs, 0, (size_t)object__cpu_cap(s->object) * sizeof(*s->costs));
	share__busiest(s);
}
