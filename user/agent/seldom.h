/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SELDOM_H
#define PYPERF_AGENT_SELDOM_H
/*
 * Says something at once, and then at most once in a while how often it happened since. Valid when all zero.
 *
 *	if (seldom(&dropped, SELDOM_MINUTE, &cnt))
 *		log_warn("%" PRIu64 " windows dropped", cnt);
 */
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

#define SELDOM_MINUTE 60000ULL /* milliseconds */

struct seldom {
	uint64_t next_ms;
	uint64_t held; /* since the last message */
};

/* True: say it now, of *cnt times. */
static inline bool seldom(struct seldom *s, uint64_t interval_ms, uint64_t *cnt)
{
	uint64_t now = now_ms();

	s->held++;
	if (now < s->next_ms)
		return false;
	*cnt = s->held;
	s->held = 0;
	s->next_ms = now + interval_ms;
	return true;
}

#endif /* PYPERF_AGENT_SELDOM_H */
