/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RETIRED_H
#define PYPERF_RETIRED_H
/*
 * Removes the entries of processes that have ended from a map of the kernel, so that new processes
 * have room there. A step looks at some entries only, and the next one goes on: a round over all of
 * the map removes what belongs to all that had ended when it began.
 *
 *	struct retired r = { .fd = fd, .key_size = 16, .value_size = 32, .owner = owner };
 *
 *	retired__add(&r, 4711);
 *	from time to time: retired__step(&r);
 *	retired__free(&r);
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/idmap.h"

#define RETIRED_STEP 4096 /* entries that a step looks at */

struct retired {
	int fd; /* of a hash table */
	uint32_t key_size, value_size;
	/* The process that an entry belongs to. */
	pid_t (*owner)(const void *key, const void *value);
	/* An entry is about to be removed; or NULL. */
	void (*take)(void *ctx, const void *value);
	void *ctx;

	/* private to retired.c */
	struct idmap gone;   /* processes whose entries this round removes */
	struct idmap coming; /* ... the next one */
	uint32_t at;	     /* where the round is */
	bool runs, begun;
};

/* Without memory its entries stay. */
void retired__add(struct retired *r, pid_t pid);
/* Are there still entries of this process to remove? */
bool retired__has(const struct retired *r, pid_t pid);
/* Is there anything to remove? */
bool retired__waits(const struct retired *r);
/* 0 or negative errno: the next step begins the round again. */
int retired__step(struct retired *r);
/*
 * As many steps as it takes until all of this process is removed, before a process of its number,
 * or what it has executed, has entries. 0 or negative errno.
 */
int retired__finish(struct retired *r, pid_t pid);
void retired__free(struct retired *r);

#endif /* PYPERF_RETIRED_H */
