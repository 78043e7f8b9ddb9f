/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COUNTING_H
#define PYPERF_COUNTING_H
/*
 * `trace`: prints each second the functions that a process calls most (--count), or the output of
 * timing.h, stacked.h or imports.h.
 *
 *	Process 4711 (web), CPython 3.11.2: 12,345 calls/s, tracing takes 0.7% of its CPU time
 *	   CALLS/S       CALLS    RESUMED  FUNCTION
 *	     9,000      90,000          0  fib (/srv/app.py:12)
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile/profile.h"
#include "trace/filter.h"
#include "trace/timing.h"

#define SLOWDOWN_DEFAULT 10 /* percent */
#define TOP_DEFAULT	 20
#define COUNTING_SAY_NS	 10000000000ULL /* between two lines that say what lines of calls cost */

/* A command that waits to be started. */
struct counting_command {
	const char *interpreter; /* the file that it will run, now or later */
	pid_t python;		 /* the process that has just executed it; 0: none has */
	int (*go)(void *ctx);	 /* starts it: 0 or negative errno after a message */
	void *ctx;
};

enum counting_what {
	COUNTING_CALLS,
	/* with TIMING_CALLS also prints each one; not with TIMING_HIST */
	COUNTING_EXCEPTIONS,
	COUNTING_COLLECTIONS,
	COUNTING_IMPORTS, /* with TIMING_CALLS */
	COUNTING_AUDITS,
};

struct counting_opts {
	pid_t pid;
	/* of counting_all.h: these processes and their descendants; none: all of the machine */
	const pid_t *roots;
	size_t root_cnt;
	/* the command that is `pid`; NULL: a running process */
	const struct counting_command *command;
	double duration_s; /* 0: until it is stopped, or the process ends */
	double interval_s; /* between two tables */
	/* percent; refused if the rate of the first 100 ms, or of a second, costs more ... */
	double max_slowdown;
	bool force;   /* ... unless */
	uint32_t top; /* functions that are shown; 0: all */
	bool json;    /* one object a line */
	enum timing_mode mode;
	enum timing_format format; /* of TIMING_CALLS; unless it is TIMING_LINES, nothing else */
	struct timing_slow slow;   /* shown apart */
	uint32_t args;		   /* with TIMING_CALLS: so many arguments of each call; 0: none */
	bool returns;		   /* ... and what functions return */
	const struct condition *only; /* calls for which it holds; NULL: all */
	/* with a mode but TIMING_NONE: only what happens inside of its calls; NULL: all */
	const struct trace_filter *from;
	enum counting_what what;
	const char *audits; /* of COUNTING_AUDITS: a list that stacked__check_audits() accepts */
	const struct trace_filter *filters;   /* functions that match none of them are not shown */
	size_t filter_cnt;		      /* 0: all are */
	const struct thread_filters *threads; /* of COUNTING_CALLS; NULL: all */
	/* empty: get the calls, by call_picture.h, with a mode but TIMING_NONE; NULL: not wanted */
	struct profile *pictures[PICTURES]; /* PICTURE_OTHERS: with `slow` */
};

/*
 * Writes to stdout. The exit status: 0; 1 after a message; COUNTING_REFUSED after a message, and
 * after all that had come until then: it went on too expensively.
 */
#define COUNTING_REFUSED -1
int counting__run(const struct counting_opts *o);

#endif /* PYPERF_COUNTING_H */
