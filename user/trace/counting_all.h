/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COUNTING_ALL_H
#define PYPERF_COUNTING_ALL_H
/*
 * `trace` without a process: prints each second which processes call most, and which functions, of
 * all Python processes; or their calls (timing.h, blocks.h).
 *
 *	12 Python processes: 12,345 calls/s
 *	   CALLS/S       CALLS   SLOWER  PROCESS
 *	     9,000      90,000     1.2%  4711 gunicorn: worker (CPython 3.11.2)
 *
 *	   CALLS/S       CALLS    RESUMED  FUNCTION
 *	     9,000      90,000          0  fib (/srv/app.py:12)
 */
#include "trace/counting.h"

/*
 * Takes the options of counting and timing calls. Writes to stdout. The exit status: 0; 1 after a
 * message.
 */
int counting_all__run(const struct counting_opts *o);

#endif /* PYPERF_COUNTING_ALL_H */
