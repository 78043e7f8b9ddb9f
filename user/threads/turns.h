/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TURNS_H
#define PYPERF_TURNS_H
/*
 * Whose turn it is, where there are more threads than may be looked at: each user has the same
 * number of turns, as long as it has so many threads, and one round begins with the thread at which
 * the round before has ended. So a user with many threads takes nothing from the others.
 *
 *	turns__begin(&t);
 *	turns__add(&t, user);		each thread, in an order that stays the same
 *	turns__share(&t, most);
 *	turns__take(&t, user);		again, in the same order: is it this thread's turn?
 */
#include <stdbool.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "process/process.h"

struct turns {
	uint32_t threads[SHARE_SLOTS]; /* of each user */
	uint32_t seen[SHARE_SLOTS];    /* ... of which turns__take() was asked */
	uint32_t each;		       /* turns of a user */
	uint64_t round;
};

/* Whose threads those of a process are. Two users may have the same number. */
uint32_t turns__user(const struct process *p);
void turns__begin(struct turns *t);
void turns__add(struct turns *t, uint32_t user);
void turns__share(struct turns *t, uint32_t most);
bool turns__take(struct turns *t, uint32_t user);

#endif /* PYPERF_TURNS_H */
