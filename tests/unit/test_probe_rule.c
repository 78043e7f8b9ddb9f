/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which hits of a probe count, and how much: the user's words, and the notes of static probes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "bpf/arch/arch.h"
#include "elf/usdt_args.h"
#include "follow/probe_place.h"
#include "follow/probe_rule.h"

static char why[PROBE_WHY_MAX];

static struct probe_rule rule_of(const char *text, const char *args)
{
	struct probe_words w;
	struct probe_rule r;

	if (probe_words__parse(&w, text, why) || probe_words__rule(&w, args, &r, why))
		fail_msg("'%s': %s", text, why);
	return r;
}

static void tests_are_of_registers(void **state)
{
	static const uint8_t regs[] = ARCH_ARG_REGS;
	struct probe_rule r = rule_of(" if arg1 > 5 and (uint32)arg6<=0xFFFF and arg2!=-1", NULL);

	(void)state;
	assert_int_equal(r.test_cnt, 3);
	assert_false(r.has_amount);
	assert_int_equal(r.tests[0].arg.reg, regs[0]);
	assert_int_equal(r.tests[0].arg.size, 8);
	assert_true(r.tests[0].arg.is_signed);
	assert_int_equal(r.tests[0].op, PROBE_GT);
	assert_int_equal(r.tests[0].value, 5);
	assert_int_equal(r.tests[1].arg.reg, regs[5]);
	assert_int_equal(r.tests[1].arg.size, 4);
	assert_false(r.tests[1].arg.is_signed);
	assert_int_equal(r.tests[1].op, PROBE_LE);
	assert_int_equal(r.tests[1].value, 0xffff);
	assert_int_equal(r.tests[2].op, PROBE_NE);
	assert_true(r.tests[2].value == UINT64_MAX);
	r = rule_of("", NULL);
	assert_true(!r.test_cnt && !r.has_amount);
	r = rule_of("if arg1 == -9223372036854775808 and arg1 >= 18446744073709551615", NULL);
	assert_true(r.tests[0].value == 1ULL << 63 && r.tests[1].value == UINT64_MAX);
	assert_int_equal(r.tests[1].op, PROBE_GE);
	assert_int_equal(rule_of("if arg1<1", NULL).tests[0].op, PROBE_LT);
}

static void amounts_stand_on_either_side(void **state)
{
	static const char *const texts[] = { " sum arg2 if arg1 == 1",
					     "if arg1 == 1 sum arg2 bytes",
					     "if arg1==1 hist arg2" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct probe_rule r = rule_of(texts[i], NULL);
		struct probe_words w;

		assert_true(r.test_cnt == 1 && r.has_amount);
		assert_int_equal(r.amount.reg, ARCH_REG_ARG1);
		assert_false(r.amount.is_signed);
		assert_int_equal(probe_words__parse(&w, texts[i], why), 0);
		assert_true(w.sum == (i < 2) && w.hist == (i == 2) && w.bytes == (i == 1));
	}
}

static void what_is_wrong_is_quoted(void **state)
{
	static const struct {
		const char *text, *quoted;
	} wrong[] = {
		{ "when arg1 > 5", "'when': must be if, sum or hist" },
		{ "if", "it ends where an argument" },
		{ "if arg > 5", "'arg': must be an argument" },
		{ "if arg0 > 5", "'arg0': must be an argument" },
		{ "if arg13 > 5", "'arg13': must be an argument" },
		{ "if rdi > 5", "'rdi': must be an argument" },
		{ "if (int)arg1 > 5", "'(int)arg1': must be (int8)" },
		{ "if arg1", "it ends where ==" },
		{ "if arg1 = 5", "'=': must be ==" },
		{ "if arg1 > 5k", "'5k': must be a number" },
		{ "if arg1 > -", "'-': must be a number" },
		{ "if arg1 > 18446744073709551616", "'18446744073709551616': must be a number" },
		{ "if arg1 > -9223372036854775809", "'-9223372036854775809': must be a number" },
		{ "if arg1 > 5 or arg2 > 5", "'or': must be if, sum or hist" },
		{ "if arg1 > 5 and", "it ends where an argument" },
		{ "sum", "it ends where an argument" },
		{ "sum arg1 sum arg2", "'sum': one argument at a time" },
		{ "sum arg1 hist arg2", "'hist': one argument at a time" },
		{ "sum arg1 kb", "'kb': must be if, sum or hist" },
		{ "if arg1>1 and arg1>2 and arg1>3 and arg1>4 and arg1>5", "at most 4 tests" },
	};
	struct probe_words w;
	struct probe_rule r;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(probe_words__parse(&w, wrong[i].text, why), -EINVAL);
		if (strncmp(why, wrong[i].quoted, strlen(wrong[i].quoted)) != 0)
			fail_msg("'%s': %s", wrong[i].text, why);
	}
	assert_int_equal(probe_words__parse(&w, "sum arg7", why), 0);
	assert_int_equal(probe_words__rule(&w, NULL, &r, why), -EINVAL);
	assert_int_equal(probe_words__rule(&w, "8@$1 8@$2", &r, why), -ENOENT);
	assert_string_equal(why, "arg7: the probe has fewer arguments");
	assert_int_equal(probe_words__parse(&w, "sum (int8)arg1", why), 0);
	assert_int_equal(probe_words__rule(&w, "8@$1 8@$2", &r, why), -EINVAL);
}

#if defined(__x86_64__)
static void notes_say_where_arguments_are(void **state)
{
	static const char args[] =
		"8@%rdi -4@%r13d 2@-20(%rbp) -1@(%rsi) 8@16(%rsp,%rax,8) 4@$5 -8@$-1";
	static const struct probe_arg want[] = {
		{ PROBE_ARG_REG, 5, PROBE_NO_REG, 0, 8, 0, { 0 }, 0 },
		{ PROBE_ARG_REG, 13, PROBE_NO_REG, 0, 4, 1, { 0 }, 0 },
		{ PROBE_ARG_MEMORY, 6, PROBE_NO_REG, 1, 2, 0, { 0 }, -20 },
		{ PROBE_ARG_MEMORY, 4, PROBE_NO_REG, 1, 1, 1, { 0 }, 0 },
		{ PROBE_ARG_MEMORY, 7, 0, 8, 8, 0, { 0 }, 16 },
		{ PROBE_ARG_CONST, 0, PROBE_NO_REG, 0, 4, 0, { 0 }, 5 },
		{ PROBE_ARG_CONST, 0, PROBE_NO_REG, 0, 8, 1, { 0 }, -1 },
	};
	static const char *const not_read[] = { "8f@%xmm0",	   "8@%xmm0",  "8@counter(%rip)",
						"1@%ah",	   "8@(%rax,", "8@(%rax)x",
						"8@(%rax,%rbx,3)", "8@",       "8@$" };
	static const char *const senseless[] = { "@", "3@%rax", "x@%rax", "8", "8%rax", "0@%rax" };
	struct probe_arg a;

	(void)state;
	for (uint32_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_int_equal(usdt_args__find(args, i + 1, &a), 0);
		assert_memory_equal(&a, &want[i], sizeof(a));
	}
	assert_int_equal(usdt_args__find(args, 8, &a), -ENOENT);
	assert_int_equal(usdt_args__find("", 1, &a), -ENOENT);
	for (size_t i = 0; i < sizeof(not_read) / sizeof(not_read[0]); i++)
		assert_int_equal(usdt_args__find(not_read[i], 1, &a), -ENOTSUP);
	for (size_t i = 0; i < sizeof(senseless) / sizeof(senseless[0]); i++)
		assert_int_equal(usdt_args__find(senseless[i], 1, &a), -EINVAL);
}
#else
static void notes_say_where_arguments_are(void **state)
{
	(void)state;
}
#endif

static void assert_name(const char *kind, const char *text, const char *want)
{
	struct probe_place p;
	char name[32];

	assert_int_equal(probe_place__parse(&p, kind, text), 0);
	probe_place__name(&p, name, sizeof(name));
	assert_string_equal(name, want);
}

/* Of a name that is cut, the sum is left. */
static void names_tell_sums(void **state)
{
	struct probe_place p;

	(void)state;
	assert_name("uprobe", "/l/libc.so.6:malloc sum arg1", "libc.so.6:malloc sum arg1");
	assert_name("uprobe", "/l/libc.so.6:getsid if arg1 > 5", "libc.so.6:getsid if arg1 > 5");
	assert_name("uprobe", "/l/libc.so.6:malloc if arg1 > 50000", "malloc if arg1 > 50000");
	assert_name("uprobe", "/l/libc.so.6:malloc sum arg1 if arg1 > 4096 and arg1 < 10000",
		    "libc.so.6:malloc sum arg1");
	assert_name("uprobe", "/l/libc.so.6:a_function_with_a_long_name sum arg2 if arg1 > 1",
		    "a_function_with_a_long sum arg2");
	assert_name("uprobe", "/a dir/c if arg1:f if arg1 > 1", "c if arg1:f if arg1 > 1");
	assert_name("usdt", "/l/p:python:gc__start if arg1 == 2", "python:gc__start if arg1 == 2");
	assert_int_equal(probe_place__parse(&p, "uprobe", "/l/c:f sum arg7"), -EINVAL);
	assert_int_equal(probe_place__parse(&p, "usdt", "/l/c:p:f sum arg7"), 0);
	assert_int_equal(probe_place__parse(&p, "uprobe", "/l/c: if arg1 > 1"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tests_are_of_registers),
		cmocka_unit_test(amounts_stand_on_either_side),
		cmocka_unit_test(what_is_wrong_is_quoted),
		cmocka_unit_test(notes_say_where_arguments_are),
		cmocka_unit_test(names_tell_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
