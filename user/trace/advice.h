/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ADVICE_H
#define PYPERF_ADVICE_H
/*
 * Why a trace costs too much, and what to leave out of it: the functions whose calls make the rate.
 *
 *	162402 calls/s at 0.71 us each would slow it down by 565% of its CPU time, more than 10%
 *	(--max-slowdown 679 or --force allows that); 82% of the calls are of convert
 *	(/srv/batch.py:1): -f '!convert' would leave 470%, as each call still costs its trap
 */
#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"
#include "trace/price.h"
#include "trace/tracer.h"

struct advice {
	const struct price_look *price; /* borrowed */
	double hit_ns, max_slowdown;
	const char *what; /* the hits: "calls" */
	bool filtered;	  /* not all calls are wanted; then the shares are of those that are */
};

/*
 * Appends it for a process, or 0: for all. Without functions if no calls were counted, which is so
 * of everything but calls.
 */
void advice__add(struct strbuf *b, struct tracer *tr, pid_t pid, const struct advice *a);

#endif /* PYPERF_ADVICE_H */
