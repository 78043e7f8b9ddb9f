/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_PAGE_H
#define PYPERF_HEAP_PAGE_H
/*
 * A heap that was read several times, as an HTML page of one file: a line for each type over time,
 * and a slider. The JSON in it:
 *
 *	{"when":[ms, ...],"types":[{"name":"Order","sure":true,"rate":2153.1,"error":8.2,
 *	 "bytes":[...],"count":[...]}, ...]}
 *
 * `rate` is in objects a minute, `sure` says that it is more than chance. Types are those that
 * changed most, in that order.
 */
#include <stdio.h>

#include "heap/show.h"

/* view->growth is there. 0 or negative errno. */
int heap_page__write(FILE *f, const struct heap_view *view);

#endif /* PYPERF_HEAP_PAGE_H */
