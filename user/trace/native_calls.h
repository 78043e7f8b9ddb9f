/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NATIVE_CALLS_H
#define PYPERF_NATIVE_CALLS_H
/*
 * `trace --native-from`: what a native function calls until it returns: the functions of its file,
 * and with `python` the Python functions in between.
 *
 *	    SECONDS   THREAD      TOTAL        OWN  FUNCTION
 *	   0.004012     4711                        -> row_to_tuple [_mysql.so]
 *	   0.004015     4711                          -> convert [_mysql.so]
 *	   0.004020     4711                            => decode (shop/text.py:12)
 *	   0.004031     4711    11.0 us    11.0 us      <= decode
 *	   0.004040     4711    28.1 us              <- row_to_tuple
 *
 * Functions that call each other are told by the addresses of their frames. A function whose end is
 * not wanted is over when something happens further out; so the order is exact, its time is not
 * known.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile/profile.h"
#include "trace/counting.h"
#include "trace/filter.h"

struct native_opts {
	pid_t pid;
	/*
	 * The command that is `pid`; NULL: a running process. Its functions are followed in the
	 * processes that it starts, too: from the first call on in the command itself, if `lib` is
	 * a path, else from a moment after the file is mapped. `interpreter` is set with `python`.
	 */
	const struct counting_command *command;
	const char *function; /* from which on; its symbol or name */
	const char *lib;      /* file that the process maps: a path, or the last part of it */
	bool ends;	      /* breakpoints at the ends of all functions, too: times */
	bool python;	      /* Python functions in between, too */
	const struct trace_filter *filters; /* ... only these; 0: all */
	size_t filter_cnt;
	double duration_s; /* 0: until it is stopped, or the process ends */
	uint32_t top;	   /* functions in the table at the end; 0: all */
	bool json;	   /* one object a line */
	/* Percent: refused if the first 100 ms slow the process down by more ... */
	double max_slowdown;
	bool force;		 /* ... unless */
	struct profile *picture; /* empty: gets the calls, by call_picture.h; NULL: not wanted */
};

/* Writes to stdout. The exit status: 0; 1 after a message. */
int native_calls__run(const struct native_opts *o);

#endif /* PYPERF_NATIVE_CALLS_H */
