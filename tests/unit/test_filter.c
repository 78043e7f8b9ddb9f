/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which functions a filter of trace means, and what of a name is compared. */
#include "trace/filter.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#define FILE_CART "/srv/shop/cart.py"

static void test_matches(void **state)
{
	static const struct {
		const char *filter, *function, *file;
		bool matches;
	} cases[] = {
		{ "price", "price", FILE_CART, true },
		{ "price", "Cart.price", FILE_CART, true },
		{ "price", "make.<locals>.price", FILE_CART, true },
		{ "price", "prices", FILE_CART, false },
		{ "pri*", "Cart.price", FILE_CART, true },
		{ "Cart.price", "Cart.price", FILE_CART, true },
		{ "Cart.price", "BigCart.price", FILE_CART, false },
		{ "Cart.*", "Cart.price", FILE_CART, true },
		{ "Cart.*", "price", FILE_CART, false },
		{ "shop.cart:*", "Cart.price", FILE_CART, true },
		{ "cart:price", "Cart.price", FILE_CART, true },
		{ "srv.shop.cart:price", "price", FILE_CART, true },
		{ "hop.cart:price", "price", FILE_CART, false },
		{ "shop:price", "price", FILE_CART, false },
		{ "shop.*:price", "price", FILE_CART, true },
		{ "shop:price", "price", "/srv/shop/__init__.py", true },
		{ "shop.__init__:price", "price", "/srv/shop/__init__.py", false },
		{ "cart.py:price", "price", FILE_CART, true },
		{ "shop/cart.py:price", "price", FILE_CART, true },
		{ "/srv/shop/cart.py:price", "price", FILE_CART, true },
		{ "/shop/cart.py:price", "price", FILE_CART, false },
		{ "art.py:price", "price", FILE_CART, false },
		{ "*:<module>", "<module>", FILE_CART, true },
		{ "<string>:f", "f", "<string>", true },
		{ "<string>:f", "f", "", false },
		{ "f", "", "", false },
		{ "os:walk", "walk", "<frozen os>", true },
		{ "importlib._bootstrap:f", "f", "<frozen importlib._bootstrap>", true },
		{ "bootstrap:f", "f", "<frozen importlib._bootstrap>", false },
		{ "os:walk", "walk", "<frozen ", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct trace_filter f;

		assert_int_equal(trace_filter__parse(&f, cases[i].filter), 0);
		if (trace_filter__matches(&f, cases[i].function, cases[i].file) != cases[i].matches)
			fail_msg("%s, %s", cases[i].filter, cases[i].function);
		trace_filter__free(&f);
	}
}

/* Without a colon a pattern with a dot may begin with a module. */
static void test_dotted(void **state)
{
	static const struct {
		const char *filter, *function, *file;
		bool matches;
	} cases[] = {
		{ "shop.*", "price", FILE_CART, true },
		{ "shop.*", "Cart.price", FILE_CART, true },
		{ "shop.*", "price", "/srv/shop/__init__.py", true },
		{ "shop.*", "price", "/srv/shop.py", true },
		{ "shop.*", "price", "shop.py", true },
		{ "shop.*", "price", "/srv/shop/deep/down/x.py", true },
		{ "shop.*", "price", "/srv/shops/cart.py", false },
		{ "shop.*", "price", "/srv/workshop/cart.py", false },
		{ "shop.*", "price", "/srv/my.shop/cart.py", false },
		{ "shop.*", "shop", "/srv/cart.py", false },
		{ "shop.*", "shop.price", "/srv/cart.py", true },
		{ "shop.cart.*", "Cart.price", FILE_CART, true },
		{ "shop.cart.*", "price", "/srv/shop/__init__.py", false },
		{ "shop.cart.price", "price", FILE_CART, true },
		{ "shop.cart.price", "Cart.price", FILE_CART, false },
		{ "shop.cart.Cart.price", "Cart.price", FILE_CART, true },
		{ "cart.price", "price", FILE_CART, true },
		{ "art.price", "price", FILE_CART, false },
		{ "srv.shop.cart.price", "price", FILE_CART, true },
		{ "shop.price", "price", "/srv/shop/__init__.py", true },
		{ "shop.__init__.price", "price", "/srv/shop/__init__.py", false },
		{ "shop.cart", "price", FILE_CART, false },
		{ "shop.cart", "cart", "/srv/shop.py", true },
		{ "sh?p.[a-d]art.pri*", "price", FILE_CART, true },
		{ "*.cart.price", "price", FILE_CART, true },
		{ "shop/cart.price", "price", FILE_CART, false },
		{ "Cart.price", "Cart.price", FILE_CART, true },
		{ "Cart.price", "price", FILE_CART, false },
		{ "os.walk", "walk", "<frozen os>", true },
		{ "importlib.*", "f", "<frozen importlib._bootstrap>", true },
		{ "x.f", "f", "", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct trace_filter f;

		assert_int_equal(trace_filter__parse(&f, cases[i].filter), 0);
		if (trace_filter__matches(&f, cases[i].function, cases[i].file) != cases[i].matches)
			fail_msg("%s, %s (%s)", cases[i].filter, cases[i].function, cases[i].file);
		trace_filter__free(&f);
	}
}

/* Only the last parts of a path are looked at: another program may have any. */
static void test_deep_paths(void **state)
{
	static const struct {
		const char *filter;
		size_t depth;
		bool matches;
	} cases[] = {
		{ "shop.*", 31, true },	       { "shop.*", 32, false },
		{ "shop/*:*", 31, true },      { "shop/*:*", 32, false },
		{ "*.shop.*", 4000, true },    { "/shop/*:*", 4000, true },
		{ "*x*x*x*y.f", 4000, false }, { "*x*x*x*y/*:f", 4000, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char file[8100] = "/shop/";
		struct trace_filter f;

		for (size_t k = 1; k < cases[i].depth; k++)
			strcat(file + 2 * k, "x/");
		strcat(file, "z.py");
		assert_int_equal(trace_filter__parse(&f, cases[i].filter), 0);
		if (trace_filter__matches(&f, "f", file) != cases[i].matches)
			fail_msg("%s, %zu", cases[i].filter, cases[i].depth);
		trace_filter__free(&f);
	}
}

static void test_together(void **state)
{
	static const struct {
		const char *filters[3], *function;
		bool selected;
	} cases[] = {
		{ { NULL }, "price", true },
		{ { "price" }, "price", true },
		{ { "price" }, "total", false },
		{ { "!price" }, "Cart.price", false },
		{ { "!price" }, "total", true },
		{ { "Cart.*", "!price" }, "Cart.price", false },
		{ { "!price", "Cart.*" }, "Cart.price", false },
		{ { "Cart.*", "!price" }, "Cart.total", true },
		{ { "Cart.*", "!price" }, "total", false },
		{ { "!shop.cart:price" }, "price", false },
		{ { "!shop.tax:price" }, "price", true },
		{ { "[!p]rice" }, "price", false },
		{ { "!shop.*" }, "price", false },
		{ { "shop.*", "!shop.cart.price" }, "price", false },
		{ { "shop.*", "!shop.cart.price" }, "Cart.price", true },
		{ { "shop.tax.*", "shop.cart.*" }, "price", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct trace_filter f[3];
		size_t cnt = 0;

		for (; cnt < 3 && cases[i].filters[cnt]; cnt++)
			assert_int_equal(trace_filter__parse(&f[cnt], cases[i].filters[cnt]), 0);
		if (trace_filters__select(f, cnt, cases[i].function, FILE_CART) !=
		    cases[i].selected)
			fail_msg("case %zu, %s", i, cases[i].function);
		while (cnt)
			trace_filter__free(&f[--cnt]);
	}
}

static void test_refused(void **state)
{
	static const char *const wrong[] = { "", ":", ":f", "shop.cart:", "!", "!:f" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct trace_filter f;

		assert_int_equal(trace_filter__parse(&f, wrong[i]), -EINVAL);
	}
}

/* Words behind -p. */
static void test_may_be(void **state)
{
	static const char *const names[] = { "price",
					     "Cart.price",
					     "shop.cart:price",
					     "_f",
					     "*",
					     "[ab]c",
					     "shop.*",
					     "shop.cart.total",
					     "<lambda>",
					     "/srv/cart.py:price",
					     "cart.py:*",
					     "\xc3\xa9t\xc3\xa9" };
	static const char *const others[] = { "",      "2",  "shop:", "shop:2", "/bin/sleep",
					      "./app", "-x", "a/b",   "{}",	"cart.py:a/b" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_true(trace_filter__may_be(names[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(trace_filter__may_be(others[i]));
}

/* As the program at a breakpoint compares. */
static bool is_meant(const struct trace_thread *t, const char *comm)
{
	uint64_t name[2] = { 0 };

	memcpy(name, comm, strnlen(comm, sizeof(name) - 1));
	return !((name[0] ^ t->name[0]) & t->mask[0]) && !((name[1] ^ t->name[1]) & t->mask[1]);
}

static void test_threads(void **state)
{
	static const struct {
		const char *filter, *comm;
		bool meant;
	} cases[] = {
		{ "pool", "pool", true },
		{ "pool", "pool-1", false },
		{ "pool", "poo", false },
		{ "pool*", "pool", true },
		{ "pool*", "pool-1", true },
		{ "pool*", "apool", false },
		{ "*", "", true },
		{ "*", "anything", true },
		{ "12a", "12a", true },
		{ "ThreadPoolExecutor-0_0", "ThreadPoolExecu", true },
		{ "ThreadPoolExecutor*", "ThreadPoolExecu", true },
		{ "ThreadPoolExecu", "ThreadPoolExec", false },
	};
	static const char *const wrong[] = { "", "0", "99999999999" };
	struct thread_filters f = { .cnt = 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++, f.cnt = 0) {
		assert_int_equal(thread_filters__add(&f, cases[i].filter), 0);
		if (f.at[0].tid || is_meant(&f.at[0], cases[i].comm) != cases[i].meant)
			fail_msg("%s, %s", cases[i].filter, cases[i].comm);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(thread_filters__add(&f, wrong[i]), -EINVAL);
	for (size_t i = 0; i < TRACE_THREADS; i++)
		assert_int_equal(thread_filters__add(&f, "4711"), 0);
	assert_true(f.cnt == TRACE_THREADS && f.at[TRACE_THREADS - 1].tid == 4711);
	assert_int_equal(thread_filters__add(&f, "4711"), -E2BIG);
}

/* What is compared to find the name that was meant. */
static void test_part(void **state)
{
	struct trace_filter f;

	(void)state;
	assert_int_equal(trace_filter__parse(&f, "shop.cart:prise"), 0);
	assert_string_equal(trace_filter__part(&f, "Cart.price"), "price");
	assert_string_equal(trace_filter__part(&f, "price"), "price");
	trace_filter__free(&f);
	assert_int_equal(trace_filter__parse(&f, "Crat.price"), 0);
	assert_string_equal(trace_filter__part(&f, "Cart.price"), "Cart.price");
	trace_filter__free(&f);
}

/* The kernel knows no modules. */
static void test_tail(void **state)
{
	static const char *const cases[][2] = {
		{ "total", "total" },
		{ "Cart.total", "total" },
		{ "shop.cart.total", "total" },
		{ "shop.cart:Cart.total", "total" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct trace_filter f;

		assert_int_equal(trace_filter__parse(&f, cases[i][0]), 0);
		assert_string_equal(trace_filter__tail(&f), cases[i][1]);
		trace_filter__free(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matches),	   cmocka_unit_test(test_dotted),
		cmocka_unit_test(test_deep_paths), cmocka_unit_test(test_together),
		cmocka_unit_test(test_refused),	   cmocka_unit_test(test_threads),
		cmocka_unit_test(test_may_be),	   cmocka_unit_test(test_part),
		cmocka_unit_test(test_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
