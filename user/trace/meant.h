/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MEANT_H
#define PYPERF_MEANT_H
/*
 * What a filter probably meant that no function has matched: a function or a module with a similar
 * name, among the functions that were called. Only what was called is known.
 *
 *	shop.cart:prise: no matching function was called; did you mean price (/srv/shop/cart.py:5)?
 *	shp.cart:*: no matching function was called; did you mean shop.cart:*?
 *	shp.*: no matching function was called; did you mean shop.*?
 */
#include "base/str.h"
#include "trace/filter.h"
#include "trace/tracer.h"

struct meant {
	const struct trace_filter *filters; /* borrowed */
	size_t cnt;
	bool one;	      /* they name one function, so wildcards are no help */
	const char *did_what; /* "was called" */
};

/*
 * Appends what one filter probably meant, safe for a terminal. Nothing: no name is near. `one`: as
 * above.
 */
void meant__add(struct strbuf *b, const struct trace_filter *f, bool one,
		const struct traced_list *called);

/*
 * A message for each filter that selects: what it probably meant, and, if this is `final`, also
 * that nothing is near. True: something was near.
 */
bool meant__explain(const struct meant *m, const struct traced_list *called, bool final);

#endif /* PYPERF_MEANT_H */
