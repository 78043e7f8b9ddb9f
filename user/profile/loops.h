/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LOOPS_H
#define PYPERF_LOOPS_H
/*
 * Finds blocked event loops. A coroutine that sleeps, reads a socket or takes a lock by a
 * synchronous call stops all others of its loop: asyncio's own, or uvloop's, which is libuv's. Such
 * a wait comes from the loop's iteration, not from its poll.
 *
 *	run_forever; _run_once; ...; block; price; [waits: sleep]	blocks the loop
 *	run_forever; _run_once; select; [waits: epoll_wait]		does not
 *
 * Reads a profile of waits with one value type by names, so it works on profiles from files, too.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "profile/profile.h"

struct loops {
	const struct profile *blocked; /* only stacks that block a loop; NULL: there are none */
	uint64_t count, samples;       /* of them */
};

/* 0 or -ENOMEM. `blocked` must not outlive `p`. Call loops__free() in any case. */
int loops__init(struct loops *l, const struct profile *p);
void loops__free(struct loops *l, const struct profile *p);

/*
 * ---- Iterations ----
 *
 * p->loops has threads that wait in a poll, and what they did between two waits (struct
 * loop_thread). It is an event loop's if no code that the loop has called waits there.
 */
bool loops_is_event_loop(const struct profile *p, const struct profile_loop *l);

/* Iterations of LOOP_SLOW_NS and more, of all event loops, with one that goes on. */
struct loops_slow {
	uint64_t cnt, ns;
	const struct profile_stretch *longest; /* NULL: there are none */
	const struct profile_stretch *sampled; /* the longest with a stack; NULL: none has one */
};
void loops_find_slow(const struct profile *p, struct loops_slow *out);

/* Most of it was a wait, other than for the CPU or the GIL. */
bool loops_blocks(const struct profile *p, const struct profile_stretch *s);
/* Appends what ran in it: "price (app.py:6) -> get -> ... -> readinto". 0 or -ENOMEM. */
int loops_add_path(struct strbuf *b, const struct profile *p, const struct profile_stretch *s);
/* Appends what its time went to, by its samples: "net 96%, on CPU 4%". */
void loops_add_reasons(struct strbuf *b, const struct profile *p, const struct profile_stretch *s);
/* Appends the bounds of a bucket of iterations: "64-128 us", "0-2 us". */
void loops_add_bucket(struct strbuf *b, unsigned bucket);
/* The buckets that are in use: [*first, returned). */
unsigned loops_buckets(const struct profile_loop *l, unsigned *first);
/* The event loops, the one with the longest iterations first. `out` has room for all loops. */
size_t loops_list(const struct profile *p, const struct profile_loop **out);
/* Appends "app.py (4711), thread 4711: 58 iterations, 3.14 s in all; 17 of 50 ms or more, ..." */
void loops_add_title(struct strbuf *b, const struct profile *p, const struct profile_loop *l);

/*
 * ---- Tasks ----
 *
 * p->awaits has the places where asyncio tasks were seen to wait (user/threads/taskbook.h).
 */

/* The same tasks were there at all looks, of which there were some. */
bool loops_await_stands(const struct profile_await *a);
/* Appends the place, and what it calls: "fetch (app.py:31) -> ... -> StreamReader.read". */
int loops_add_await(struct strbuf *b, const struct profile *p, const struct profile_await *a);
/* Appends how many looks there were, of which there is one: "in 12 to 40 looks at each process". */
void loops_add_looks(struct strbuf *b, const struct profile *p);
/*
 * Appends one sentence on the application's places that tasks came to, or if there are none, stood
 * at all the time; nothing if there are neither. 0 or -ENOMEM.
 */
int loops_add_tasks(struct strbuf *b, const struct profile *p);

#endif /* PYPERF_LOOPS_H */
