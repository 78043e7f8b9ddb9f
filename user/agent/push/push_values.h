/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PUSH_VALUES_H
#define PYPERF_PUSH_VALUES_H
/*
 * Divides a window for Pyroscope and Parca, which take a pprof file as a profile of one kind,
 * identified by the label __name__ and the names of its sample types. So a window in which waits
 * are counted becomes several files: that of the clock and the events sampled beside it, and one
 * for each value type of waits, under the names that these backends know:
 *
 *	ours	  __name__  sample types
 *	wall	  wall	    samples/count, wall/nanoseconds
 *	off-cpu	  off_cpu   samples/count, off_cpu/nanoseconds
 *	gil	  block	    contentions/count, delay/nanoseconds
 *	gil-held  mutex	    contentions/count, delay/nanoseconds
 *
 * The last two names are Go's: block has the stacks of waiting threads, mutex those of the threads
 * that they wait for.
 */
#include <stddef.h>
#include <stdint.h>

#include "store/window.h"

/* One file. All is borrowed during the call. */
struct push_value {
	const char *name; /* __name__ */
	const void *pprof;
	size_t size;
	char id[WINDOW_ID_LEN + 1]; /* that of the window for the first file; unique */
};

/*
 * Calls `add` for each file of a window. If the window has no waits, or cannot be read, calls it
 * once with the file as it is. 0, the first error of `add`, or -ENOMEM.
 */
int push_values(const struct window *w, int (*add)(void *ctx, const struct push_value *v),
		void *ctx);

#endif /* PYPERF_PUSH_VALUES_H */
