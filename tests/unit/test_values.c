/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Arguments and returned values as text: whatever was sent, it is bounded, safe, and no secret. */
#include "trace/values.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#define CODE 7

struct world {
	struct values *v;
	struct strbuf b;
};

static int open_world(void **state)
{
	static struct world w;
	const struct py_layout layout = { .version = 0x030c, .str = PY_STR_STATE32 };

	w = (struct world){ .v = values__new(&layout) };
	*state = &w;
	return !w.v;
}

static int open_python2(void **state)
{
	static struct world w;
	const struct py_layout layout = { .version = 0x0207, .str = PY_STR_BYTES };

	w = (struct world){ .v = values__new(&layout) };
	*state = &w;
	return !w.v;
}

static int close_world(void **state)
{
	struct world *w = *state;

	values__free(w->v);
	strbuf__free(&w->b);
	return 0;
}

static struct trace_value value(enum trace_value_kind kind, uint64_t number, const void *data,
				size_t size, uint8_t width)
{
	struct trace_value v = {
		.kind = (uint8_t)kind, .number = number, .size = (uint32_t)size, .width = width
	};

	v.sent = (uint16_t)(size < sizeof(v.data) ? size : sizeof(v.data));
	if (data)
		memcpy(v.data, data, v.sent);
	return v;
}

static void returns(struct world *w, const char *function, struct trace_value v, const char *want)
{
	strbuf__clear(&w->b);
	assert_true(values__add_return(w->v, &w->b, function, strlen(function), &v));
	assert_string_equal(w->b.s, want);
}

static void shows(struct world *w, struct trace_value v, const char *want)
{
	returns(w, "f", v, want);
}

static void set_name(struct trace_param *p, const char *name)
{
	size_t len = strlen(name);

	*p = (struct trace_param){ .size = (uint32_t)len, .width = 1 };
	p->sent = (uint16_t)(len < sizeof(p->data) ? len : sizeof(p->data) - 1);
	memcpy(p->data, name, p->sent);
}

static void calls(struct world *w, uint32_t cnt, const char *want)
{
	struct trace_value at[TRACE_ARGS_MAX];

	for (uint32_t i = 0; i < TRACE_ARGS_MAX; i++)
		at[i] = value(VALUE_WORD, i, NULL, 0, 0);
	strbuf__clear(&w->b);
	values__add_args(w->v, &w->b, CODE, at, cnt);
	assert_string_equal(w->b.s, want);
}

static void calls_any(struct world *w)
{
	struct trace_value at[TRACE_ARGS_MAX] = { { .kind = VALUE_STR, .size = ~0U, .width = 2 } };

	strbuf__clear(&w->b);
	values__add_args(w->v, &w->b, CODE, at, TRACE_ARGS_MAX);
}

static void test_ints(void **state)
{
	static const uint32_t small[] = { 12345 }, two[] = { 1, 1 },
			      most[] = { (1U << 30) - 1, (1U << 30) - 1, 15 };
	static const uint32_t more[] = { 0, 0, 16 };

	shows(*state, value(VALUE_INT, 1 << 3, small, 4, 0), "12345");
	shows(*state, value(VALUE_INT, 1 << 3 | 2, small, 4, 0), "-12345");
	shows(*state, value(VALUE_INT, 1, NULL, 0, 0), "0");
	shows(*state, value(VALUE_INT, 2 << 3 | 4, two, 8, 0), "1073741825"); /* bit 2: a flag */
	shows(*state, value(VALUE_INT, 3 << 3, most, 12, 0), "18446744073709551615");
	shows(*state, value(VALUE_INT, 3 << 3, more, 12, 0), "<int of up to 90 bits>");
	shows(*state, value(VALUE_INT, 3 << 3, NULL, ~0U, 0), "<int of up to 32212254690 bits>");
	shows(*state, value(VALUE_WORD, (uint64_t)-5, NULL, 0, 0), "-5");
}

static void test_old_ints(void **state)
{
	static const uint32_t one[] = { 3 };

	shows(*state, value(VALUE_INT, (uint64_t)-1, one, 4, 0), "-3");
	shows(*state, value(VALUE_INT, 1, one, 4, 0), "3");
	shows(*state, value(VALUE_BYTES, 0, "a\xff", 2, 0), "'a\\xff'");
	shows(*state, value(VALUE_STR, 0, U"\u20ac", 4, 4), "u'\u20ac'");
}

static void test_floats(void **state)
{
	static const struct {
		double d;
		const char *text;
	} all[] = { { 0, "0.0" },	    { -0.0, "-0.0" },
		    { 0.1, "0.1" },	    { 1e16, "1e+16" },
		    { 100, "100.0" },	    { 1e-5, "1e-05" },
		    { 123.456, "123.456" }, { 1.0 / 3, "0.3333333333333333" } };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		uint64_t bits;

		memcpy(&bits, &all[i].d, sizeof(bits));
		shows(*state, value(VALUE_FLOAT, bits, NULL, 0, 0), all[i].text);
	}
	shows(*state, value(VALUE_FLOAT, 0xfff0000000000000, NULL, 0, 0), "-inf");
	shows(*state, value(VALUE_FLOAT, 0x7ff8000000000001, NULL, 0, 0), "nan");
}

static void test_strings(void **state)
{
	char many[200];

	memset(many, 'x', sizeof(many));
	shows(*state, value(VALUE_STR, 0, "", 0, 1), "''");
	shows(*state, value(VALUE_STR, 0, "a'\\\n\x1b[m\x9b", 8, 1), "'a\\'\\\\\\n\\x1b[m\uFFFD'");
	shows(*state, value(VALUE_STR, 0, "\xe9", 1, 1), "'\u00e9'");
	shows(*state, value(VALUE_STR, 0, u"\u20ac\u202e", 4, 2), "'\u20ac\uFFFD'");
	shows(*state, value(VALUE_STR, 0, (uint16_t[]){ 0xd800 }, 2, 2), "'\uFFFD'");
	shows(*state, value(VALUE_STR, 0, (uint32_t[]){ 0x7fffffff }, 4, 4), "'\uFFFD'");
	shows(*state, value(VALUE_STR, 0, many, 32, 1), "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'");
	shows(*state, value(VALUE_STR, 0, many, 33, 1), "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'...");
	shows(*state, value(VALUE_BYTES, 0, "\0a\xff", 3, 0), "b'\\x00a\\xff'");
	shows(*state, value(VALUE_STR, 0, many, 9, 3), "<str>");
	shows(*state, value(VALUE_STR, 0, NULL, 0, 0), "<str>");
}

static void test_others(void **state)
{
	struct trace_value too_much = value(VALUE_OTHER, 0, "x", 1, 0);

	shows(*state, value(VALUE_NONE, 0, NULL, 0, 0), "None");
	shows(*state, value(VALUE_TRUE, 0, NULL, 0, 0), "True");
	shows(*state, value(VALUE_FALSE, 0, NULL, 0, 0), "False");
	shows(*state, value(VALUE_OTHER, 0, "Order", 5, 0), "<Order>");
	shows(*state, value(VALUE_OTHER, 0, "\x1b\xff", 2, 0), "<\uFFFD\uFFFD>");
	shows(*state, value(VALUE_OTHER, 0, NULL, 0, 0), "<?>");
	shows(*state, value(99, 0, NULL, 0, 0), "?");
	too_much.sent = 65535;
	shows(*state, too_much, "?");
}

static void test_nothing_returned(void **state)
{
	struct world *w = *state;
	struct trace_value v = value(VALUE_UNSET, 0, NULL, 0, 0);

	assert_false(values__add_return(w->v, &w->b, "f", 1, &v));
	assert_int_equal(w->b.len, 0);
}

static void test_secret_returns(void **state)
{
	struct trace_value v = value(VALUE_WORD, 1, NULL, 0, 0);

	returns(*state, "get_token", v, "***");
	returns(*state, "User.Password", v, "***");
	returns(*state, "Session.count", v, "1");
	returns(*state, "read_secret.<locals>.<lambda>", v, "***");
	returns(*state, "f.<locals>.<lambda>", v, "1");
	returns(*state, "", v, "1");
}

static void test_parameters(void **state)
{
	struct world *w = *state;
	struct trace_params p = { .id = CODE, .argcount = 2, .kwonly = 1, .flags = 4 | 8 };
	static const char *const names[] = { "a", "b", "c", "args", "kwargs", "local" };

	calls(w, 3, "(...)");
	for (size_t i = 0; i < TRACE_ARGS_MAX; i++)
		set_name(&p.at[i], names[i]);
	assert_false(values__knows(w->v, CODE));
	assert_int_equal(values__take_params(w->v, &p), 0);
	assert_true(values__knows(w->v, CODE));
	calls(w, 6, "(a=0, b=1, c=2, *args=3, **kwargs=4)");
	calls(w, 5, "(a=0, b=1, c=2, *args=3, **kwargs=4)");
	calls(w, 2, "(a=0, b=1, ...)");
	/* It is known already. */
	p.argcount = 0;
	assert_int_equal(values__take_params(w->v, &p), 0);
	calls(w, 1, "(a=0, ...)");
}

static bool is_odd(void *ctx, uint64_t code)
{
	(void)ctx;
	return code & 1;
}

/* Code objects without a name make room; the others, and those that come then, are known. */
static void test_tidy(void **state)
{
	struct world *w = *state;
	struct trace_params p = { .argcount = 1 };

	set_name(&p.at[0], "a");
	for (p.id = CODE; p.id < CODE + 1000; p.id++)
		assert_int_equal(values__take_params(w->v, &p), 0);
	values__tidy(w->v, is_odd, NULL);
	for (uint64_t code = CODE; code < CODE + 1000; code++)
		assert_int_equal(values__knows(w->v, code), code & 1);
	p.id = CODE & ~1ULL;
	assert_int_equal(values__take_params(w->v, &p), 0);
	assert_true(values__knows(w->v, p.id));
}

static void test_secrets(void **state)
{
	struct world *w = *state;
	struct trace_params p = { .id = CODE, .argcount = 6 };
	static const char *const names[] = { "passwd",	   "client_SECRET", "Token",
					     "my_cookies", "authority",	    "plain" };

	for (size_t i = 0; i < TRACE_ARGS_MAX; i++)
		set_name(&p.at[i], names[i]);
	assert_int_equal(values__take_params(w->v, &p), 0);
	calls(w, 6,
	      "(passwd=***, client_SECRET=***, Token=***, my_cookies=***, authority=***, plain=5)");
}

/* What is not known may be a secret. */
static void test_hostile_parameters(void **state)
{
	struct world *w = *state;
	struct trace_params p = { .id = CODE, .argcount = ~0U, .kwonly = ~0U, .flags = ~0U };
	char name[200] = "", want[400];

	memset(name, 'n', sizeof(name) - 1);
	set_name(&p.at[0], name);
	set_name(&p.at[1], "x\x1b[2J");
	p.at[2] = (struct trace_param){ .size = 3, .width = 1, .sent = 65535 };
	p.at[3] = (struct trace_param){ .size = 3, .width = 3, .sent = 3 };
	p.at[4] = (struct trace_param){ .size = ~0U, .width = 4, .sent = 63 };
	set_name(&p.at[5], "");
	assert_int_equal(values__take_params(w->v, &p), 0);
	snprintf(want, sizeof(want), "(%.63s...=***, x\uFFFD[2J=1, ", name);
	calls(w, 2, strcat(want, "...)"));
	calls_any(w);
	assert_non_null(strstr(w->b.s, ", ?=***, ?=***, "));
	assert_non_null(strstr(w->b.s, ", =***, ...)"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
	const struct CMUnitTest tests[] = {
		TEST(test_ints),
		cmocka_unit_test_setup_teardown(test_old_ints, open_python2, close_world),
		TEST(test_floats),
		TEST(test_strings),
		TEST(test_others),
		TEST(test_nothing_returned),
		TEST(test_secret_returns),
		TEST(test_parameters),
		TEST(test_tidy),
		TEST(test_secrets),
		TEST(test_hostile_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
