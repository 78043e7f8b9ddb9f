/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_DUE_H
#define PYPERF_DUE_H
/*
 * Divides the time that tenants may take from something that is due at a certain time, such as a
 * window of the agent: from then on all of them together may keep it DUE_ALL_MS.
 *
 *	due__set(&d, at_ns);
 *	if (due__has_begun(&d, now_ns()) && !due__left(&d, payer))
 *		... ask later ...
 *	due__charge(&d, payer, waited_ns);
 *
 * A payer (tenant.h) may take half of what is left when it is first charged, so the first one
 * leaves something for a second and a third. One that took all of its part has no more than
 * DUE_LEAST_MS at each later time, for ten minutes. When less than DUE_LEAST_MS is left, nobody has
 * any. Valid when all zero: nothing is due. No lock.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DUE_ALL_MS     300
#define DUE_LEAST_MS   20 /* who is healthy answers in that, also on a slow disk */
#define DUE_PAYERS_MAX 64 /* that are told apart; further ones have one part together */
#define DUE_FORGOT_MS  600000

struct due_part {
	uint64_t payer, limit_ns, spent_ns;
	uint64_t over_ns; /* when it had taken all of its part; 0: it never had */
};

struct due {
	uint64_t at_ns; /* 0: nothing is due */
	uint64_t spent_ns;
	struct due_part parts[DUE_PAYERS_MAX];
	unsigned int cnt;
};

/* Something else is due: everybody has a part again. 0: nothing is. */
void due__set(struct due *d, uint64_t at_ns);
bool due__has_begun(const struct due *d, uint64_t now_ns);
/* What the payer may still take. */
uint64_t due__left(struct due *d, uint64_t payer);
void due__charge(struct due *d, uint64_t payer, uint64_t ns);
/* It had taken all of its part, and was not done. */
void due__note_over(struct due *d, uint64_t payer, uint64_t now_ns);

#endif /* PYPERF_DUE_H */
