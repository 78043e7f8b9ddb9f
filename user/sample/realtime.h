/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_REALTIME_H
#define PYPERF_REALTIME_H
/*
 * Runs the calling thread before all programs of normal priority while it looks at new processes.
 *
 * An unknown process costs samples. The look at one takes 0.1 ms, but on a busy machine the thread
 * first waits up to 30 ms for a CPU, at any nice value. So it waits for events with the lowest
 * real-time priority. Other programs must not suffer from that, so the thread has a credit of time:
 * a quarter of one CPU, and at most REALTIME_CREDIT_NS at once. Code that takes long (analysis of a
 * new file, building tables) calls realtime__end() first. Threads and processes that are started
 * meanwhile have normal priority.
 *
 *	realtime__begin(&u);
 *	epoll_wait(...);
 *	realtime__woken(&u);
 *	...				     handles the events
 *	realtime__end(&u);		     can be called twice
 *
 * Does nothing where real-time priority is not permitted. Valid when all zero: not permitted.
 */
#include <stdbool.h>
#include <stdint.h>

#define REALTIME_CREDIT_NS 10000000ULL
#define REALTIME_LEAST_NS  1000000ULL /* with less credit it does not begin */
#define REALTIME_SHARE	   4	      /* one part in so many of a CPU */

struct realtime {
	bool permitted;
	struct readers *readers; /* helpers that are asked meanwhile, see base/reader.h; or NULL */
	/* private */
	bool on;
	uint64_t woken_ns; /* 0: not since realtime__begin() */
	uint64_t credit_ns, credited_ns;
};

void realtime__init(struct realtime *u);
void realtime__begin(struct realtime *u);
/* Charges the credit from now on. */
void realtime__woken(struct realtime *u);
void realtime__end(struct realtime *u);

/* The credit behind these three. Takes times of now_ns(); makes no system call. */
void realtime__earn(struct realtime *u, uint64_t now);
void realtime__spend(struct realtime *u, uint64_t now);

#endif /* PYPERF_REALTIME_H */
