/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FILTER_H
#define PYPERF_FILTER_H
/*
 * Which functions are meant: [PLACE:]FUNCTION, with the wildcards of a shell.
 *
 *	price			any function of that name: price(), Cart.price()
 *	Cart.*			by qualified name (known from CPython 3.11 on)
 *	shop.cart:*		all of a module, which is found by its file: .../shop/cart.py,
 *				.../shop/cart/__init__.py
 *	shop/cart.py:price	by file: its whole path, or its end
 */
#include <stdbool.h>
#include <stddef.h>

struct trace_filter {
	char *place; /* owned; NULL: anywhere */
	char *function;
	bool is_path; /* the place is a path, not a module */
};

/* 0; -EINVAL: a part is empty; -ENOMEM. */
int trace_filter__parse(struct trace_filter *f, const char *text);
void trace_filter__free(struct trace_filter *f);

/* Names as Python has them. */
bool trace_filter__matches(const struct trace_filter *f, const char *function, const char *file);

/*
 * What of a function's name is compared with the filter's: all, or what follows the last dot.
 * Borrowed.
 */
const char *trace_filter__part(const struct trace_filter *f, const char *function);

#endif /* PYPERF_FILTER_H */
