/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_BALANCE_H
#define PYPERF_BALANCE_H
/*
 * The references to one object that each function took and dropped, from a profile of -e refcount.
 * A function here is a Python function, together with the function of an extension that it called,
 * if any: the interpreter's own functions take and drop references on behalf of these.
 *
 *	72 references were taken, 24 dropped: 48 more than before.
 *
 *	  TAKEN  DROPPED   LEFT  FUNCTION
 *	     48        0    +48  refresh (app.py:12) -> total (fastsum.c:21)
 *	     24       24      0  keep (app.py:8)
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "profile/profile.h"

#define BALANCE_ROWS_MAX 4096
#define BALANCE_SHOWN	 15

struct balance_row {
	uint32_t python, native; /* syms of the lines that took most; BALANCE_NONE: none */
	uint64_t taken, dropped;
	uint64_t most; /* by a single stack */
};

#define BALANCE_NONE UINT32_MAX

struct balance {
	struct balance_row *rows; /* sorted by references left, most first; owned */
	size_t cnt, cap;
	uint64_t taken, dropped;
};

/* 0 or -ENOMEM. */
int balance__make(struct balance *b, const struct profile *p);
void balance__print(const struct balance *b, const struct profile *p, FILE *f);
void balance__free(struct balance *b);

#endif /* PYPERF_BALANCE_H */
