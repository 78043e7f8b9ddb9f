/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/traced_list.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

static int by_number(const void *a, const void *b)
{
	uint32_t x = ((const struct traced *)a)->function.number;
	uint32_t y = ((const struct traced *)b)->function.number;

	return (x > y) - (x < y);
}

static int by_calls(const void *a, const void *b)
{
	const struct traced *x = a, *y = b;

	if (x->calls + x->resumed != y->calls + y->resumed)
		return x->calls + x->resumed < y->calls + y->resumed ? 1 : -1;
	return by_number(a, b);
}

int traced_list__add(struct traced_list *list, const struct traced *f)
{
	if (ARRAY_GROW(list->all, list->cap, list->cnt, SIZE_MAX / 64))
		return -ENOMEM;
	list->all[list->cnt++] = *f;
	list->calls += f->calls;
	list->resumed += f->resumed;
	return 0;
}

void traced_list__merge(struct traced_list *list)
{
	size_t kept = 0;

	if (!list->cnt)
		return;
	qsort(list->all, list->cnt, sizeof(*list->all), by_number);
	for (size_t i = 1; i < list->cnt; i++) {
		struct traced *last = &list->all[kept], *f = &list->all[i];

		if (last->function.number == f->function.number) {
			last->calls += f->calls;
			last->resumed += f->resumed;
		} else {
			list->all[++kept] = *f;
		}
	}
	list->cnt = kept + 1;
	qsort(list->all, list->cnt, sizeof(*list->all), by_calls);
}

void traced_list__free(struct traced_list *list)
{
	free(list->all);
	*list = (struct traced_list){ 0 };
}
