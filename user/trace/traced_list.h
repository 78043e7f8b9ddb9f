/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACED_LIST_H
#define PYPERF_TRACED_LIST_H
/*
 * Functions and how often they were called.
 */
#include <stddef.h>
#include <stdint.h>

#include "symbolize/symbolize.h"

/* A function, with all code objects that are this function. */
struct traced {
	struct py_function function; /* names are borrowed until the tracer is closed */
	uint64_t calls;
	uint64_t resumed; /* entered again behind yield or await */
};

struct traced_list {
	struct traced *all; /* after traced_list__merge() most calls first */
	size_t cnt, cap;
	uint64_t calls, resumed;
};

/* Copied; its names stay borrowed. Adds to the sums. 0 or -ENOMEM. */
int traced_list__add(struct traced_list *list, const struct traced *f);
/* Code objects that are one function become one. */
void traced_list__merge(struct traced_list *list);
void traced_list__free(struct traced_list *list);

#endif /* PYPERF_TRACED_LIST_H */
