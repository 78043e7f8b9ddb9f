/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TEST_FAILING_ALLOC_H
#define PYPERF_TEST_FAILING_ALLOC_H
/*
 * Allocators of which the Nth call fails, for sources that are compiled into the test behind this:
 *
 *	#include "unit/failing_alloc.h"
 *	#include "../../user/base/str.c"
 *	#undef calloc
 *	...
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define MAY_FAIL __attribute__((unused)) static void *

static size_t alloc_cnt;     /* allocations so far */
static size_t fail_at;	     /* the one that fails; 0: none */
static size_t largest_alloc; /* in bytes */

static bool fails(size_t size)
{
	largest_alloc = size > largest_alloc ? size : largest_alloc;
	if (++alloc_cnt != fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

MAY_FAIL nth_calloc(size_t cnt, size_t size)
{
	return fails(cnt * size) ? NULL : calloc(cnt, size);
}

MAY_FAIL nth_malloc(size_t size)
{
	return fails(size) ? NULL : malloc(size);
}

MAY_FAIL nth_realloc(void *p, size_t size)
{
	return fails(size) ? NULL : realloc(p, size);
}

MAY_FAIL nth_reallocarray(void *p, size_t cnt, size_t size)
{
	return fails(cnt * size) ? NULL : reallocarray(p, cnt, size);
}

#define calloc	     nth_calloc
#define malloc	     nth_malloc
#define realloc	     nth_realloc
#define reallocarray nth_reallocarray

#endif /* PYPERF_TEST_FAILING_ALLOC_H */
