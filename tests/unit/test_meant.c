/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a filter meant that matches nothing: which name is suggested. */
#include "trace/meant.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#define FUNCTION(n, name_, file_, line)                                                            \
	{                                                                                          \
		.function = {                                                                      \
			.name = (name_),                                                           \
			.name_len = sizeof(name_) - 1,                                             \
			.file = (file_),                                                           \
			.file_len = sizeof(file_) - 1,                                             \
			.first_line = (line),                                                      \
			.number = (n)                                                              \
		}                                                                                  \
	}

static struct traced functions[] = {
	FUNCTION(1, "Cart.price", "/srv/shop/cart.py", 5),
	FUNCTION(2, "checkout", "/srv/shop/views.py", 7),
	FUNCTION(3, "price", "/srv/tax.py", 2),
	FUNCTION(4, "serve", "/srv/shop/__init__.py", 1),
	FUNCTION(5, "walk", "<frozen os>", 345),
	FUNCTION(TRACER_UNKNOWN, "<unknown>", "", 0),
	FUNCTION(7, "evil\33[31m", "/srv/odd.py", 3),
	FUNCTION(8, "handle", "/srv/django/core/handlers/exception_of_requests.py", 9),
};

static const struct traced_list called = { .all = functions,
					   .cnt = sizeof(functions) / sizeof(*functions) };

static void test_suggestions(void **state)
{
	static const struct {
		const char *filter, *meant;
		bool one;
	} cases[] = {
		{ "chekout", "checkout (/srv/shop/views.py:7)", false },
		{ "prise", "Cart.price (/srv/shop/cart.py:5)", false },
		{ "Crat.price", "Cart.price (/srv/shop/cart.py:5)", false },
		{ "nothing_like_it", "", false },
		/* A function at that place goes first. */
		{ "tax:prise", "price (/srv/tax.py:2)", false },
		{ "shop.cart:prise", "Cart.price (/srv/shop/cart.py:5)", false },
		{ "tax.py:prise", "price (/srv/tax.py:2)", false },
		/* A module or a file, if it has such a function. */
		{ "shp.cart:*", "shop.cart:*", false },
		{ "shp.cart:price", "shop.cart:price", false },
		{ "shop.crat:Cart.pri*", "shop.cart:Cart.pri*", false },
		{ "shop/crat.py:*", "shop/cart.py:*", false },
		{ "shpo:*", "shop:*", false },
		{ "django.core.handlers.exceptoin_of_requests:*",
		  "django.core.handlers.exception_of_requests:*", false },
		{ "shp.views:price", "Cart.price (/srv/shop/cart.py:5)", false },
		{ "osx:walk", "walk (<frozen os>:345)", false },
		/* Modules and classes in front of the last dot. */
		{ "shp.*", "shop.*", false },
		{ "shp.cart.*", "shop.cart.*", false },
		{ "Crat.*", "Cart.*", false },
		{ "shop.crat.Cart.price", "shop.cart.Cart.price (/srv/shop/cart.py:5)", false },
		{ "shop.veiws.checkout", "shop.views.checkout (/srv/shop/views.py:7)", false },
		/* The name of a module alone. */
		{ "shop", "shop.*", false },
		{ "tax", "tax.*", false },
		{ "shop.cart", "shop.cart.*", false },
		{ "tax", "", true },
		{ "shp.cart:price", "shop.cart:price", true },
		{ "evil", "evil\xef\xbf\xbd[31m (/srv/odd.py:3)", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct strbuf b = { 0 };
		struct trace_filter f;

		assert_int_equal(trace_filter__parse(&f, cases[i].filter), 0);
		meant__add(&b, &f, cases[i].one, &called);
		if (strcmp(b.s ? b.s : "", cases[i].meant))
			fail_msg("%s: %s", cases[i].filter, b.s ? b.s : "");
		strbuf__free(&b);
		trace_filter__free(&f);
	}
}

static void test_explain(void **state)
{
	struct trace_filter f[2];
	const struct meant m = { .filters = f, .cnt = 2, .did_what = "was called" };

	(void)state;
	assert_int_equal(trace_filter__parse(&f[0], "nothing_like_it"), 0);
	assert_int_equal(trace_filter__parse(&f[1], "!chekout"), 0);
	/* What is not wanted was not meant. */
	assert_false(meant__explain(&m, &called, true));
	trace_filter__free(&f[1]);
	assert_int_equal(trace_filter__parse(&f[1], "chekout"), 0);
	assert_true(meant__explain(&m, &called, false));
	trace_filter__free(&f[0]);
	trace_filter__free(&f[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suggestions),
		cmocka_unit_test(test_explain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
