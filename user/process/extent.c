/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/extent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

int extents__init(struct extents *x, uint32_t slots)
{
	*x = (struct extents){ .slots = slots };
	if (ARRAY_GROW(x->free, x->free_cap, 0, UINT32_MAX))
		return -ENOMEM;
	if (slots)
		x->free[x->free_cnt++] = (struct extent_range){ 0, slots };
	return 0;
}

void extents__free(struct extents *x)
{
	free(x->free);
	free(x->buried);
	*x = (struct extents){ 0 };
}

int extent__alloc(struct extents *x, uint32_t cnt, uint32_t *first)
{
	if (!cnt)
		return -EINVAL;
	for (size_t i = 0; i < x->free_cnt; i++) {
		struct extent_range *r = &x->free[i];

		if (r->cnt < cnt)
			continue;
		*first = r->first;
		r->first += cnt;
		r->cnt -= cnt;
		if (!r->cnt) {
			x->free_cnt--;
			memmove(r, r + 1, (x->free_cnt - i) * sizeof(*r));
		}
		x->used += cnt;
		return 0;
	}
	return -ENOSPC;
}

int extent__release(struct extents *x, uint32_t first, uint32_t cnt)
{
	size_t lo = 0, hi = x->free_cnt;
	bool joins_prev, joins_next;
	struct extent_range *r;

	if (!cnt)
		return 0;
	if (ARRAY_GROW(x->free, x->free_cap, x->free_cnt, UINT32_MAX))
		return -ENOMEM;
	while (lo < hi) { /* lo: the first free range behind ours */
		size_t mid = lo + (hi - lo) / 2;

		if (x->free[mid].first < first)
			lo = mid + 1;
		else
			hi = mid;
	}
	r = &x->free[lo];
	joins_prev = lo > 0 && r[-1].first + r[-1].cnt == first;
	joins_next = lo < x->free_cnt && first + cnt == r->first;
	x->used -= cnt;
	if (joins_prev) {
		r[-1].cnt += cnt;
		if (joins_next) {
			r[-1].cnt += r->cnt;
			x->free_cnt--;
			memmove(r, r + 1, (x->free_cnt - lo) * sizeof(*r));
		}
	} else if (joins_next) {
		r->first = first;
		r->cnt += cnt;
	} else {
		memmove(r + 1, r, (x->free_cnt - lo) * sizeof(*r));
		*r = (struct extent_range){ first, cnt };
		x->free_cnt++;
	}
	return 0;
}

int extent__bury(struct extents *x, uint32_t first, uint32_t cnt)
{
	if (!cnt)
		return 0;
	if (ARRAY_GROW(x->buried, x->buried_cap, x->buried_cnt, UINT32_MAX))
		return -ENOMEM;
	x->buried[x->buried_cnt++] = (struct extent_range){ first, cnt };
	return 0;
}

void extent__reclaim(struct extents *x)
{
	for (size_t i = 0; i < x->buried_cnt; i++)
		extent__release(x, x->buried[i].first, x->buried[i].cnt);
	x->buried_cnt = 0;
}
