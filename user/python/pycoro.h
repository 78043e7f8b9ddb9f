/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYCORO_H
#define PYPERF_PYCORO_H
/*
 * Reads the stack of a coroutine that runs or waits, from the memory of another process. Every byte
 * may be hostile.
 *
 * A waiting coroutine is in no thread's chain of frames. The object that it awaits is the topmost
 * value of its own frame, and so on: coroutines, generators, asynchronous generators, and the small
 * objects between them. The chain ends at an object without a frame, mostly an asyncio.Future.
 * CPython 3.7 to 3.15.
 */
#include <stdbool.h>
#include <stdint.h>

#include "python/pystate.h"

#define PYCORO_FRAMES 256

enum pycoro_state {
	PYCORO_UNKNOWN = 0, /* not a coroutine, or it has no frame */
	PYCORO_NEW = 1,	    /* it has not begun */
	PYCORO_WAITS = 2,
	PYCORO_RUNS = 3,
	PYCORO_DONE = 4,
};

struct pycoro_frame {
	uint64_t code;
	uint32_t offset; /* in the bytecode, or OFFSET_NOT_STARTED */
	uint32_t pad;
};

struct pycoro {
	uint32_t state;	 /* enum pycoro_state */
	uint32_t cnt;	 /* of frames, outermost first */
	uint32_t tid;	 /* the thread that runs it, as the process sees it; 0: none, not known */
	uint32_t cut;	 /* there are more frames, or they could not be read */
	uint64_t awaits; /* the object at the end of the chain; 0: not known */
	struct pycoro_frame frames[PYCORO_FRAMES];
};

/* Reads a coroutine. Looks for running ones in the threads of `interps`. */
void pycoro__read(struct pymem *m, uint64_t coro, const uint64_t *interps, uint32_t interp_cnt,
		  struct pycoro *out);

#endif /* PYPERF_PYCORO_H */
