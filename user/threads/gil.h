/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_GIL_H
#define PYPERF_GIL_H
/*
 * Tells whether a thread holds the GIL of its interpreter or waits for it, from the memory of its
 * process. Needs no symbol and stops nothing. CPython 2.7, 3.6, and 3.7.4 to 3.15, but not
 * free-threaded builds, which have no GIL.
 *
 * The process runs on meanwhile: two threads that are read one after the other may both have held
 * the GIL, and only the last answer is still likely to be true.
 */
#include <stdbool.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "threads/hostwalk.h"

struct gil_look {
	uint64_t addr;	   /* identifies the GIL, of which each interpreter may have one; 0: none */
	bool holds, waits; /* not both */
};

/* `st`: the result of hostwalk__walk() or hostwalk__find() for the thread. */
void gil__look(struct hostwalk *h, const struct thread_now *t, const struct hoststack *st,
	       struct gil_look *out);

#endif /* PYPERF_GIL_H */
