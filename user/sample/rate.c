/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/rate.h"

#include "base/clock.h"

#define PATIENCE_NS	((uint64_t)RATE_PATIENCE_S * NS_PER_S)
#define PATIENCE_MAX_NS ((uint64_t)RATE_PATIENCE_MAX_S * NS_PER_S)

void rate__init(struct rate *r)
{
	*r = (struct rate){ .slowed = 1, .patience_ns = PATIENCE_NS };
}

double rate__budget(long max_percent)
{
	long percent = max_percent > 0 && max_percent < 100 ? max_percent : RATE_DEFAULT_PERCENT;

	return RATE_SHARE * (double)percent / 100;
}

static uint32_t slower(uint32_t slowed, double share, double budget)
{
	while (share > budget && slowed < RATE_SLOWEST) {
		slowed *= 2;
		share /= 2;
	}
	return slowed;
}

/* A look without a measurement neither begins nor ends it. */
static void note_calm(struct rate *r, const struct rate_look *l)
{
	if (l->throttled || 2 * l->share > RATE_CALM * l->budget)
		r->calm_ns = 0;
	else if (l->share >= 0 && !r->calm_ns)
		r->calm_ns = l->now_ns;
}

uint32_t rate__look(struct rate *r, const struct rate_look *l)
{
	bool again = r->over;

	if (l->share >= 0)
		r->over = l->share > l->budget;
	note_calm(r, l);
	if (l->share >= 0 && r->over && again)
		return slower(r->slowed, l->share, l->budget);
	if (l->throttled && r->slowed < RATE_SLOWEST)
		return r->slowed * 2;
	if (r->slowed > 1 && l->may_double && r->calm_ns &&
	    l->now_ns - r->calm_ns >= r->patience_ns)
		return r->slowed / 2;
	return r->slowed;
}

void rate__set(struct rate *r, uint32_t slowed)
{
	if (slowed > r->slowed && r->raised && r->patience_ns < PATIENCE_MAX_NS)
		r->patience_ns *= 2;
	r->raised = slowed < r->slowed;
	r->slowed = slowed;
	r->over = false;
	r->calm_ns = 0;
}
