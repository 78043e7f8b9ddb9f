/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SELDOM_H
#define PYPERF_SELDOM_H
/*
 * Limits how often a message is printed in a span of time, and counts how often it was held back. A
 * span begins with its first message. Valid when all zero.
 *
 *	if (seldom(&s->said, SELDOM_MINUTE, &held))
 *		log_warn("%" PRIu64 " windows dropped", held + 1);
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define SELDOM_MINUTE (60 * NS_PER_S)

struct seldom {
	uint64_t since_ns; /* when the span began; 0: none has */
	unsigned said;	   /* in it */
	uint64_t held;	   /* held back since the last message */
};

/*
 * True: print the message; *held: how many were held back before it. Times are those of now_ns().
 */
static inline bool seldom_at(struct seldom *s, unsigned burst, uint64_t span_ns, uint64_t now,
			     uint64_t *held)
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
static inline bool seldom(struct seldom *s, uint64_t span_ns, uint64_t *held)
{
	return seldom_at(s, 1, span_ns, now_ns(), held);
}

#endif /* PYPERF_SELDOM_H */
