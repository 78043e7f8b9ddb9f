/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_DIFF_H
#define PYPERF_DIFF_H
/*
 * Compares two profiles by function.
 *
 * A function is its kind, name and file, as they are shown: lines move from version to version. Its
 * total counts a stack once, however often the function is in it.
 *
 * Values are shares of all samples, so that runs of different length or load can be compared; or,
 * absolute, seconds of CPU time. A difference may be chance: a share p of n samples has a standard
 * deviation of sqrt(p(1-p)/n), and a count x one of sqrt(x). Where a sample stands for w events or
 * samples, n is divided by w, and the deviation of the count is sqrt(wx), see profile__weight(). A
 * change is significant when it exceeds DIFF_SIGMAS standard deviations of both sides together (the
 * two-proportion z test, and that of two Poisson rates). Samples of one long call are not
 * independent, so a change that is just significant can still be chance.
 *
 *	struct diff d;
 *
 *	err = diff__init(&d, before, after, false);
 *	...
 *	diff__free(&d);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

#define DIFF_SIGMAS 2.58 /* of a hundred unchanged functions one appears as changed */

enum diff_side { DIFF_BEFORE, DIFF_AFTER, DIFF_SIDES };

/* Self or total. */
struct diff_value {
	uint64_t samples[DIFF_SIDES];
	double value[DIFF_SIDES]; /* share (0 to 1), or seconds */
	bool significant;
};

struct diff_row {
	uint8_t kind;	     /* enum sym_kind */
	uint32_t name, file; /* texts, safe to show */
	struct diff_value self, total;
};

struct diff {
	struct strtab *texts;
	struct diff_row *rows; /* in the order of (name, file, kind) */
	size_t cnt, cap;
	uint64_t samples[DIFF_SIDES];
	double weight[DIFF_SIDES]; /* profile__weight() */
	bool absolute;
};

/* 0 or -ENOMEM. `absolute` needs the frequency of both. */
int diff__init(struct diff *d, const struct profile *before, const struct profile *after,
	       bool absolute);
void diff__free(struct diff *d);
const char *diff__text(const struct diff *d, uint32_t id); /* borrowed */

/* After minus before. */
double diff__change(const struct diff_value *v);

/* In which values are shown: percent, or, absolute, seconds or less, as suits the greatest one. */
struct diff_unit {
	double per; /* what a value of 1 is in it */
	const char *name, *symbol;
};
struct diff_unit diff__unit(const struct diff *d);

#endif /* PYPERF_DIFF_H */
