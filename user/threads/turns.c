/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/turns.h"

#include <string.h>

uint32_t turns__user(const struct process *p)
{
	return p->ids_known ? SHARE_SLOT(p->payer) : 0;
}

void turns__begin(struct turns *t)
{
	memset(t->threads, 0, sizeof(t->threads));
	memset(t->seen, 0, sizeof(t->seen));
	t->round++;
}

void turns__add(struct turns *t, uint32_t user)
{
	t->threads[user % SHARE_SLOTS]++;
}

static uint64_t sum_of(const struct turns *t, uint32_t each)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SHARE_SLOTS; i++)
		sum += t->threads[i] < each ? t->threads[i] : each;
	return sum;
}

void turns__share(struct turns *t, uint32_t most)
{
	uint32_t low = 0, high = most;

	while (low < high) { /* the largest number with which all have no more than `most` */
		uint32_t mid = high - (high - low) / 2;

		if (sum_of(t, mid) > most)
			high = mid - 1;
		else
			low = mid;
	}
	t->each = low;
}

bool turns__take(struct turns *t, uint32_t user)
{
	uint32_t all = t->threads[user % SHARE_SLOTS], nth = t->seen[user % SHARE_SLOTS]++;
	uint64_t first;

	if (all <= t->each)
		return true;
	first = t->round * t->each % all;
	return (nth + all - first) % all < t->each;
}
