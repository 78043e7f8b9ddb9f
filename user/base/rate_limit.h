/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RATE_LIMIT_H
#define PYPERF_RATE_LIMIT_H
/*
 * Limits how often a message is printed in a span of time, and counts how often it was held back. A
 * span begins with its first message. Valid when all zero.
 *
 *	if (rate_limit__allows(&s->said, RATE_LIMIT_MINUTE, &held))
 *		log_warn("%" PRIu64 " windows dropped", held + 1);
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define RATE_LIMIT_MINUTE (60 * NS_PER_S)

struct rate_limit {
	uint64_t since_ns; /* when the span began; 0: none has */
	unsigned said;	   /* in it */
	uint64_t held;	   /* held back since the last message */
};

/*
 * True: print the message; *held: how many were held back before it. Times are those of now_ns().
 */
static inline bool rate_limit__allows_at(struct rate_limit *s, unsigned burst, uint64_t span_ns,
					 uint64_t now, uint64_t *held)
{
	if (!s->since_ns || now - s->since_ns >= span_ns) {
		s->since_ns = now;
		s->said = 0;
	}
	if (s->said == burst) {
		s->held++;
		return false;
	}
	s->said++;
	*held = s->held;
	s->held = 0;
	return true;
}

/* The same, once in a span, at the present time. */
static inline bool rate_limit__allows(struct rate_limit *s, uint64_t span_ns, uint64_t *held)
{
	return rate_limit__allows_at(s, 1, span_ns, now_ns(), held);
}

#endif /* PYPERF_RATE_LIMIT_H */
