/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WINDOW_H
#define PYPERF_WINDOW_H
/*
 * The last calls of each function, to tell which of them are the slowest 1%, and what these do that
 * the others do not: `trace --slow p99`.
 *
 *	w = window__new(all);
 *	window__add(w, &call, stack, called);
 *	...
 *	window__split(w, percentile, &c, &limit_ns);	the slow ones, and the others
 *
 * Calls stay until there are WINDOW_CALLS newer ones of the function, or until all windows together
 * need more than WINDOWS_BYTES: then windows with more than WINDOW_ENOUGH calls become shorter.
 * Stacks that are equal are kept once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/comparison.h"

#define WINDOW_CALLS  10000
#define WINDOW_ENOUGH 200	   /* calls, before any can be called slow */
#define WINDOWS_BYTES (128U << 20) /* of all windows */

struct windows;
struct window;

struct windows *windows__new(void); /* NULL: no memory */
void windows__free(struct windows *all);
size_t windows__bytes(const struct windows *all); /* that all of them need */
struct window *window__new(struct windows *all);  /* owned by `all`; NULL: no memory */
void window__free(struct window *w);		  /* before the others; NULL: nothing */

/* `call` and `called` (or NULL) are copied. 0 or -ENOMEM. */
int window__add(struct window *w, const struct ended_call *call, const struct called *called);

/* Calls that it has had: more than it holds, if some have gone. */
size_t window__cnt(const struct window *w);
/* It is shorter than WINDOW_CALLS because of the others. */
bool window__is_cut(const struct window *w);

/*
 * How long a call takes at least to be one of the slowest, UINT64_MAX: there are too few to say.
 * `percentile`: from 50 to below 100, always the same. Known anew after each 1% of calls.
 */
uint64_t window__limit(struct window *w, double percentile);

/*
 * Adds all its calls to `c`, and tells how long a slow one takes at least. Stacks are borrowed, as
 * of comparison__add(). 0; -EAGAIN: there are fewer calls than WINDOW_ENOUGH; -ENOMEM.
 */
int window__split(const struct window *w, double percentile, struct comparison *c,
		  uint64_t *limit_ns);

#endif /* PYPERF_WINDOW_H */
