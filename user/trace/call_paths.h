/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CALL_PATHS_H
#define PYPERF_CALL_PATHS_H
/*
 * `trace --calls -o FILE`: which function called which, down to the innermost, as a tree of ways
 * with the own time of the calls that ended there. A call costs one look-up, however deep it is.
 *
 *	at = call_paths__call(paths, CALL_PATHS_TOP, number);	a function is called
 *	inner = call_paths__call(paths, at, other);		... and calls another one
 *	call_paths__add(paths, inner, own_ns);			that has ended
 *	call_paths__draw(paths, picture, word_of, ctx);
 *
 * Of many processes, CALL_PATHS_TOP is call_paths__top() of each.
 *
 * Always: at most CALL_PATHS_MAX ways of CALL_PICTURE_DEPTH functions, whatever the program calls.
 */
#include <stdint.h>

#include "trace/call_picture.h"

#define CALL_PATHS_MAX (1U << 20)
#define CALL_PATHS_TOP 0 /* below all that are called */

struct call_paths;

struct call_paths *call_paths__new(void); /* NULL: no memory */
void call_paths__free(struct call_paths *p);
/* Below all that a process calls; it has this number in the picture. Each time another one. */
uint32_t call_paths__top(struct call_paths *p, uint32_t proc);
/* Takes the place of a way that has no room: all that is called from there is left out. */
uint32_t call_paths__none(void);
/* The way that ends in this function, called from the end of `from`. */
uint32_t call_paths__call(struct call_paths *p, uint32_t from, uint32_t function);
void call_paths__add(struct call_paths *p, uint32_t at, uint64_t own_ns);
/*
 * Puts all ways with a time into the picture. `word_of`: the frame of a function; 0: no memory. 0
 * or -ENOMEM.
 */
int call_paths__draw(const struct call_paths *p, struct call_picture *picture,
		     uint64_t (*word_of)(void *ctx, uint32_t function), void *ctx);

#endif /* PYPERF_CALL_PATHS_H */
