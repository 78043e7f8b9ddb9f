/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_URGENT_H
#define PYPERF_URGENT_H
/*
 * Runs the calling thread before all programs of normal priority while it looks at new processes.
 *
 * A process that is not known yet costs samples. The look at one takes 0.1 ms; on a busy machine
 * the thread waits up to 30 ms for a CPU before it, at any nice value. So it waits for events with
 * the lowest real-time priority. Others must not suffer from that, so it has a credit of time: a
 * quarter of one CPU, and URGENT_CREDIT_NS at once. Whatever takes long (analysis of a new file,
 * building tables) calls urgent__end() before it begins. Threads and processes that are started
 * meanwhile have normal priority.
 *
 *	urgent__begin(&u);
 *	epoll_wait(...);
 *	urgent__woken(&u);
 *	...				     looks at what has happened
 *	urgent__end(&u);		     can be called twice
 *
 * Where real-time priority is not permitted, nothing of this happens. Valid when all zero: never
 * permitted.
 */
#include <stdbool.h>
#include <stdint.h>

#define URGENT_CREDIT_NS 10000000ULL
#define URGENT_LEAST_NS	 1000000ULL /* with less credit it does not begin */
#define URGENT_SHARE	 4	    /* of a CPU: one part in so many */

struct urgent {
	bool permitted;
	/* private */
	bool on;
	uint64_t woken_ns; /* 0: not since it began */
	uint64_t credit_ns, credited_ns;
};

void urgent__init(struct urgent *u);
void urgent__begin(struct urgent *u);
/* Time counts from now on. */
void urgent__woken(struct urgent *u);
void urgent__end(struct urgent *u);

/* What the three of them go by. Of times of now_ns(); no system call is made. */
void urgent__earn(struct urgent *u, uint64_t now);
void urgent__spend(struct urgent *u, uint64_t now);

#endif /* PYPERF_URGENT_H */
