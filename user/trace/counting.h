/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COUNTING_H
#define PYPERF_COUNTING_H
/*
 * `trace --count`: the functions that a process calls most, each second.
 *
 *	Process 4711 (web), CPython 3.11.2: 12,345 calls/s, tracing takes 0.7% of its CPU time
 *
 *	   CALLS/S       CALLS    RESUMED  FUNCTION
 *	     9,000      90,000          0  fib (/srv/app.py:12)
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/filter.h"

#define SLOWDOWN_DEFAULT 10 /* percent */
#define TOP_DEFAULT	 20

struct counting_opts {
	pid_t pid;
	double duration_s;   /* 0: until it is stopped, or the process ends */
	double interval_s;   /* between two tables */
	double max_slowdown; /* percent; the rate of the first 100 ms is refused above it ... */
	bool force;	     /* ... unless */
	uint32_t top;	     /* functions that are shown; 0: all */
	bool json;	     /* one object a line */
	const struct trace_filter *filters; /* functions that match none of them are not shown */
	size_t filter_cnt;		    /* 0: all are */
};

/* Writes to stdout. The exit status: 0; 1 after a message. */
int counting__run(const struct counting_opts *o);

#endif /* PYPERF_COUNTING_H */
