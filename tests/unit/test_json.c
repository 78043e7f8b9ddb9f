/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* json.c: any bytes become a string that is JSON, UTF-8, and inert in a <script>. */
#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *written;
static size_t written_len;

static struct json begin(void)
{
	struct json j = { .f = open_memstream(&written, &written_len) };

	assert_non_null(j.f);
	return j;
}

static void expect(struct json *j, const char *want)
{
	assert_int_equal(ferror(j->f), 0);
	assert_int_equal(fclose(j->f), 0);
	assert_string_equal(written, want);
	free(written);
}

static void test_strings(void **state)
{
	static const struct {
		const char *s;
		size_t len;
		const char *want;
	} cases[] = {
		{ "", 0, "\"\"" },
		{ "plain text / 'x'", 16, "\"plain text / 'x'\"" },
		{ "a\"b\\c", 5, "\"a\\\"b\\\\c\"" },
		{ "\n\t\x1b\x7f", 4, "\"\\u000a\\u0009\\u001b\\u007f\"" },
		{ "nul\0x", 5, "\"nul\\u0000x\"" },
		{ "</script>&", 10, "\"\\u003c/script\\u003e\\u0026\"" },
		{ "\xe2\x80\xa8\xe2\x80\xa9", 6, "\"\\u2028\\u2029\"" },
		{ "\xe5\x87\xbd\xf0\x9f\x90\x8d", 7, "\"\xe5\x87\xbd\xf0\x9f\x90\x8d\"" },
		{ "a\xff"
		  "b\xc0\x80",
		  5,
		  "\"a\xef\xbf\xbd"
		  "b\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "cut\xe5\x87", 5, "\"cut\xef\xbf\xbd\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json j = begin();

		json__string(&j, NULL, cases[i].s, cases[i].len);
		expect(&j, cases[i].want);
	}
}

static void test_numbers(void **state)
{
	struct json j = begin();

	(void)state;
	json__array(&j, NULL);
	json__uint(&j, NULL, UINT64_MAX);
	json__int(&j, NULL, INT64_MIN);
	json__double(&j, NULL, 0.1);
	json__double(&j, NULL, 1795280479.8220445);
	json__double(&j, NULL, NAN);
	json__double(&j, NULL, -INFINITY);
	json__end(&j, ']');
	expect(&j, "[18446744073709551615,-9223372036854775808,0.1,1795280479.82204,null,null]");
}

static void test_structure(void **state)
{
	struct json j = begin();

	(void)state;
	json__object(&j, NULL);
	json__array(&j, "empty");
	json__end(&j, ']');
	json__object(&j, "o");
	json__end(&j, '}');
	json__array(&j, "a");
	json__bool(&j, NULL, true);
	json__newline(&j);
	json__null(&j, NULL);
	json__object(&j, NULL);
	json__stringz(&j, "k", "v");
	json__bool(&j, "b", false);
	json__end(&j, '}');
	json__end(&j, ']');
	json__end(&j, '}');
	expect(&j, "{\"empty\":[],\"o\":{},\"a\":[true,\nnull,{\"k\":\"v\",\"b\":false}]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_structure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
