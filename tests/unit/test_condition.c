/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Conditions on arguments: what is none is refused, and they hold as Python says. */
#include "trace/condition.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

static struct trace_value of_int(int64_t n)
{
	struct trace_value v = { .kind = VALUE_WORD, .number = (uint64_t)n };

	return v;
}

static struct trace_value of_double(double d)
{
	struct trace_value v = { .kind = VALUE_FLOAT };

	memcpy(&v.number, &d, sizeof(d));
	return v;
}

static struct trace_value of_text(enum trace_value_kind kind, const void *s, size_t size,
				  uint8_t width)
{
	struct trace_value v = { .kind = (uint8_t)kind, .size = (uint32_t)size, .width = width };

	v.sent = (uint16_t)(size < sizeof(v.data) ? size : sizeof(v.data));
	memcpy(v.data, s, v.sent);
	return v;
}

/* An int of three digits with this sign, as lv_tag has it. */
static struct trace_value of_digits(uint32_t a, uint32_t b, uint32_t c, unsigned sign)
{
	uint32_t digits[] = { a, b, c };
	struct trace_value v = of_text(VALUE_INT, digits, sizeof(digits), 0);

	v.number = 3 << 3 | sign;
	return v;
}

static void check(const char *text, struct trace_value v, bool holds)
{
	struct condition c;
	const char *why;

	if (condition__parse(&c, text, &why))
		fail_msg("%s: %s", text, why);
	if (condition__holds(&c, &v, true) != holds)
		fail_msg("%s: %d", text, !holds);
}

static void test_numbers(void **state)
{
	const uint32_t full = (1U << 30) - 1;

	(void)state;
	check("n > 5", of_int(6), true);
	check("n>5", of_int(5), false);
	check("  n >= -5", of_int(-5), true);
	check("n < 0", of_int(-1), true);
	check("n <= 0.5", of_int(1), false);
	check("n == 0.1", of_double(0.1), true);
	check("n != 1e3", of_double(1000), false);
	check("n == 1", of_double(1), true);
	check("n == True", of_int(1), true);
	check("n == 0", (struct trace_value){ .kind = VALUE_FALSE }, true);
	/* All bits count, and what has more of them is larger. */
	check("n == 18446744073709551615", of_digits(full, full, 15, 0), true);
	check("n == 18446744073709551614", of_digits(full, full, 15, 0), false);
	check("n > 18446744073709551615", of_digits(0, 0, 16, 0), true);
	check("n < -18446744073709551615", of_digits(0, 0, 16, 2), true);
	check("n == 1", of_text(VALUE_STR, "1", 1, 1), false);
	check("n != 1", of_text(VALUE_STR, "1", 1, 1), true);
	check("n < 1", (struct trace_value){ .kind = VALUE_NONE }, false);
}

static void test_texts(void **state)
{
	char many[80];

	(void)state;
	memset(many, 'x', sizeof(many));
	check("s == 'bob'", of_text(VALUE_STR, "bob", 3, 1), true);
	check("s == \"bob\"", of_text(VALUE_BYTES, "bob", 3, 0), true);
	check("s == 'bob'", of_text(VALUE_STR, "bobo", 4, 1), false);
	check("s != 'bob'", of_text(VALUE_STR, "boB", 3, 1), true);
	check("s == ''", of_text(VALUE_STR, "", 0, 1), true);
	check("s == '\u20ac'", of_text(VALUE_STR, u"\u20ac", 2, 2), true);
	check("s == '\u20ac'", of_text(VALUE_STR, u"\u20ac\u20ac", 4, 2), false);
	check("s == '\U0001f600'", of_text(VALUE_STR, U"\U0001f600", 4, 4), true);
	check("s == 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'", of_text(VALUE_STR, many, 32, 1), true);
	check("s == 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'", of_text(VALUE_STR, many, 80, 1), false);
	check("s == 'x'", of_int(1), false);
	check("s == None", (struct trace_value){ .kind = VALUE_NONE }, true);
	check("s != None", of_int(0), true);
}

/* What is not known fulfils no condition. */
static void test_unknown(void **state)
{
	struct trace_value bad = of_text(VALUE_STR, "x", 1, 1);

	(void)state;
	check("n != 1", (struct trace_value){ .kind = VALUE_OTHER }, false);
	check("n != None", (struct trace_value){ .kind = VALUE_OTHER }, false);
	check("n == None", (struct trace_value){ .kind = VALUE_UNSET }, false);
	check("n != None", (struct trace_value){ .kind = 99 }, false);
	bad.sent = 65535;
	bad.size = 65535;
	check("n == 'x'", bad, false);
	bad = of_digits(0, 0, 1, 0);
	bad.size = ~0U;
	check("n > 1", bad, true);
}

static void test_refused(void **state)
{
	static const char *const all[] = {
		"",
		"n",
		"n >",
		"n = 5",
		"5 > n",
		"n > five",
		"n > 0x5",
		"n > inf",
		"n > nan",
		"n > 5 6",
		"n > 1e99",
		"n < None",
		"n < 'x'",
		"n == 'x",
		"n == 'x'y",
		"n == x'",
		"n.m == 5",
		"n > 18446744073709551616",
		"n > -",
		"n > 1e",
		"n > 1-2",
		"n == nOnE",
		"n =! 5",
		"> 5",
		"n == 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'",
		"n == '\U0001f600xxxxxxxxxxxxxxxx'",
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn == 5",
	};
	struct condition c;
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		why = NULL;
		if (condition__parse(&c, all[i], &why) != -EINVAL || !why)
			fail_msg("%s", all[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
