/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FILTER_H
#define PYPERF_FILTER_H
/*
 * Selects functions: [!][PLACE:]FUNCTION, with the wildcards of a shell.
 *
 *	price			any function of that name: price(), Cart.price()
 *	Cart.*			by qualified name (known from CPython 3.11 on)
 *	shop.*			without a place, a pattern with a dot may also begin with modules:
 *				all functions of shop and of what is below it
 *	shop.cart.Cart.price	... one of them
 *	shop.cart:*		all functions of a module, which is found by its file:
 *				.../shop/cart.py, .../shop/cart/__init__.py
 *	shop/cart.py:price	by file: its whole path, or its end
 *	!price			all but these
 */
#include <stdbool.h>
#include <stddef.h>

#include "bpf/trace.h"

struct trace_filter {
	char *place; /* owned; NULL: anywhere */
	char *function;
	bool is_path;  /* the place is a path, not a module */
	bool excludes; /* what matches is not selected */
};

/* 0; -EINVAL: a part is empty; -ENOMEM. */
int trace_filter__parse(struct trace_filter *f, const char *text);
/* Can the word be a filter: is its function a name, or a pattern of names? */
bool trace_filter__may_be(const char *text);
void trace_filter__free(struct trace_filter *f);

/* Is the function meant, be it selected or excluded? Names as Python has them. */
bool trace_filter__matches(const struct trace_filter *f, const char *function, const char *file);

/*
 * Do they select the function together: one of those that select, if there are any, and none that
 * excludes?
 */
bool trace_filters__select(const struct trace_filter *all, size_t cnt, const char *function,
			   const char *file);

/*
 * The module of a file, with slashes, from the beginning of the path on; owned by the caller. NULL:
 * no memory.
 *
 *	/srv/shop/cart.py		/srv/shop/cart
 *	/srv/shop/__init__.py		/srv/shop
 *	<frozen importlib._bootstrap>	importlib/_bootstrap
 */
char *trace_filter__module(const char *file);

/*
 * All names of functions end with it that the filter can mean, if its wildcards are wildcards: what
 * stands before a dot may be a module. Borrowed.
 */
const char *trace_filter__tail(const struct trace_filter *f);

/*
 * The part of a function's name that is compared with the filter: all of it, or the part after the
 * last dot. Borrowed.
 */
const char *trace_filter__part(const struct trace_filter *f, const char *function);

/* Threads that are wanted, of all processes. */
struct thread_filters {
	struct trace_thread at[TRACE_THREADS];
	size_t cnt; /* 0: all are */
};

/*
 * Adds a thread's number, or a name as the kernel has it, whose last letters may be *. 0; -EINVAL:
 * it is neither; -E2BIG: there are too many.
 */
int thread_filters__add(struct thread_filters *f, const char *text);

#endif /* PYPERF_FILTER_H */
