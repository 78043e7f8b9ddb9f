/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_GIL_H
#define PYPERF_GIL_H
/*
 * What a thread has to do with the GIL of its interpreter, by what lies in the memory of its
 * process. No symbol is needed, nothing is stopped; CPython 3.7.4 to 3.15, not free-threaded
 * builds, which have none.
 *
 * The process runs on meanwhile: of two threads that were looked at one after the other both may
 * have held it, and only what was seen last is still likely to be true.
 */
#include <stdbool.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "threads/hostwalk.h"

struct gil_look {
	uint64_t
		/* which GIL: each interpreter may have its own; 0: not known, or there is none */
		addr;
	bool holds, waits; /* not both */
};

/* `st` is what hostwalk__walk() or hostwalk__find() said of the thread. */
void gil__look(const struct hostwalk *h, const struct thread_now *t, const struct hoststack *st,
	       struct gil_look *out);

#endif /* PYPERF_GIL_H */
