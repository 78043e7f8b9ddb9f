/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/due.h"

#include "base/clock.h"

#define ALL_NS	  (DUE_ALL_MS * NS_PER_MS)
#define LEAST_NS  (DUE_LEAST_MS * NS_PER_MS)
#define FORGOT_NS (DUE_FORGOT_MS * NS_PER_MS)
#define KEPT_MAX  (DUE_PAYERS_MAX / 2) /* from one time to the next: there is room for others */

static bool is_remembered(const struct due_part *p, uint64_t at_ns)
{
	return p->over_ns && p->over_ns + FORGOT_NS > at_ns;
}

void due__set(struct due *d, uint64_t at_ns)
{
	unsigned int many = 0, kept = 0;

	if (d->at_ns == at_ns)
		return;
	for (unsigned int i = 0; i < d->cnt; i++)
		many += is_remembered(&d->parts[i], at_ns);
	for (unsigned int i = 0; i < d->cnt; i++) {
		const struct due_part p = d->parts[i];

		if (is_remembered(&p, at_ns) && many-- <= KEPT_MAX)
			d->parts[kept++] =
				(struct due_part){ .payer = p.payer, .over_ns = p.over_ns };
	}
	d->cnt = kept;
	d->at_ns = at_ns;
	d->spent_ns = 0;
}

bool due__has_begun(const struct due *d, uint64_t now_ns)
{
	return d->at_ns && now_ns >= d->at_ns;
}

static uint64_t left_of_all(const struct due *d)
{
	return d->spent_ns < ALL_NS ? ALL_NS - d->spent_ns : 0;
}

static struct due_part *part_of(struct due *d, uint64_t payer)
{
	uint64_t half = left_of_all(d) / 2;
	struct due_part *p = NULL;

	for (unsigned int i = 0; !p && i < d->cnt; i++)
		p = d->parts[i].payer == payer ? &d->parts[i] : NULL;
	if (!p && d->cnt == DUE_PAYERS_MAX)
		p = &d->parts[d->cnt - 1];
	if (!p) {
		p = &d->parts[d->cnt++];
		*p = (struct due_part){ .payer = payer };
	}
	if (!p->limit_ns)
		p->limit_ns = p->over_ns || half < LEAST_NS ? LEAST_NS : half;
	return p;
}

uint64_t due__left(struct due *d, uint64_t payer)
{
	uint64_t all = left_of_all(d), left;
	const struct due_part *p;

	if (all < LEAST_NS)
		return 0;
	p = part_of(d, payer);
	left = p->spent_ns < p->limit_ns ? p->limit_ns - p->spent_ns : 0;
	return left < all ? left : all;
}

void due__charge(struct due *d, uint64_t payer, uint64_t ns)
{
	part_of(d, payer)->spent_ns += ns;
	d->spent_ns += ns;
}

void due__note_over(struct due *d, uint64_t payer, uint64_t now_ns)
{
	part_of(d, payer)->over_ns = now_ns;
}
