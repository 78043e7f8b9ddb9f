/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* str.c, hash.c and log.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"

#define FFFD "\xef\xbf\xbd"

static void test_strbuf(void **state)
{
	struct strbuf b = { 0 };

	(void)state;
	strbuf__add(&b, NULL, 0);
	assert_null(b.s);
	strbuf__addz(&b, "ab");
	strbuf__addc(&b, 'c');
	strbuf__addf(&b, "%d-%s", 42, "x");
	strbuf__addf(&b, "%s", "");
	assert_string_equal(b.s, "abc42-x");
	assert_int_equal(b.len, 7);
	for (int i = 0; i < 10000; i++)
		strbuf__addf(&b, "%04d", i);
	assert_int_equal(b.len, 7 + 40000);
	assert_string_equal(b.s + b.len - 8, "99989999");

	strbuf__add(&b, "", SIZE_MAX); /* too big: refused before anything is read */
	assert_int_equal(b.err, -ENOMEM);
	strbuf__addz(&b, "more");
	assert_int_equal(b.len, 7 + 40000);
	strbuf__clear(&b);
	assert_int_equal(b.err, 0);
	assert_string_equal(b.s, "");
	strbuf__addz(&b, "z");
	assert_string_equal(b.s, "z");
	strbuf__free(&b);
	strbuf__free(&b);
	strbuf__free(NULL);
}

static void test_strtab(void **state)
{
	struct strtab *t = strtab__new();
	char name[32], *big = malloc(100000);
	const char *first;
	size_t len;

	(void)state;
	memset(big, 'x', 100000);
	assert_int_equal(strtab__add(t, "anything", 0), 0);
	assert_int_equal(strtab__add(t, NULL, 0), 0);
	assert_string_equal(strtab__get(t, 0, &len), "");
	assert_int_equal(len, 0);
	assert_int_equal(strtab__add(t, "a", 1), 1);
	first = strtab__get(t, 1, NULL);
	assert_int_equal(strtab__add(t, "a\0b", 3), 2);
	assert_int_equal(strtab__add(t, big, 100000), 3);
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "name %d", i);
		assert_int_equal(strtab__add(t, name, strlen(name)), 4 + i);
	}
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "name %d", i);
		assert_int_equal(strtab__add(t, name, strlen(name)), 4 + i);
		assert_string_equal(strtab__get(t, (uint32_t)(4 + i), &len), name);
		assert_int_equal(len, strlen(name));
	}
	assert_int_equal(strtab__count(t), 20004);
	assert_ptr_equal(strtab__get(t, 1, NULL), first);
	assert_memory_equal(strtab__get(t, 2, &len), "a\0b", 4);
	assert_int_equal(len, 3);
	assert_int_equal(strtab__add(t, big, 100000), 3);
	assert_string_equal(strtab__get(t, 20004, NULL), "");
	strtab__free(t);
	strtab__free(NULL);
	free(big);
}

/* Against CPython 3.11, whose hash() of bytes is SipHash-1-3, with PYTHONHASHSEED=0: a key of 0. */
static void test_hash(void **state)
{
	static const struct {
		const char *s;
		uint64_t want;
	} cases[] = {
		{ "a", 0x407448d2b89b1813 },
		{ "abcdefg", 0x6db12aae9070f506 },
		{ "abcdefgh", 0x3f7b849c0b8e35ea },
		{ "the quick brown fox", 0x5a17575ad3449cba },
	};
	struct hash_key zero = { { 0, 0 } }, here = hash_key(), again = hash_key();

	(void)state;
	assert_memory_equal(&here, &again, sizeof(here));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(hash_bytes(&zero, cases[i].s, strlen(cases[i].s)) == cases[i].want);
		assert_true(hash_bytes(&here, cases[i].s, strlen(cases[i].s)) != cases[i].want);
	}
}

/* Two chains of equal hashes that meet, one of which goes around the end. */
static void test_hash_index(void **state)
{
	static const uint64_t hashes[] = { 0, UINT64_MAX };
	struct hash_index x = { 0 };
	uint8_t seen[1000] = { 0 };
	size_t at = 0;
	uint32_t i;

	(void)state;
	assert_int_equal(hash_index__next(&x, 7, &at), HASH_NONE);
	for (i = 0; i < 1000; i++)
		assert_int_equal(hash_index__add(&x, hashes[i % 2], i), 0);
	for (uint32_t odd = 0; odd < 2; odd++)
		for (at = 0; (i = hash_index__next(&x, hashes[odd], &at)) != HASH_NONE;) {
			assert_true(i < 1000 && i % 2 == odd);
			assert_int_equal(seen[i]++, 0);
		}
	for (i = 0; i < 1000; i++)
		assert_int_equal(seen[i], 1);
	hash_index__free(&x);
}

static void test_array_grow(void **state)
{
	uint64_t *array = NULL;
	size_t cap = 0;

	(void)state;
	assert_int_equal(array_grow(&array, &cap, 0, 5, 8, 100), 0);
	assert_true(array && cap >= 5 && cap <= 100);
	assert_int_equal(array_grow(&array, &cap, 99, 1, 8, 100), 0);
	assert_int_equal(cap, 100);
	assert_int_equal(array_grow(&array, &cap, 100, 1, 8, 100), -ENOMEM);
	assert_int_equal(array_grow(&array, &cap, 2, SIZE_MAX, 8, SIZE_MAX), -ENOMEM);
	assert_int_equal(array_grow(&array, &cap, 2, SIZE_MAX / 4, 8, SIZE_MAX), -ENOMEM);
	assert_int_equal(cap, 100);
	free(array);
}

static void check_next(const char *s, size_t len, uint32_t want, size_t want_taken)
{
	uint32_t c;

	assert_int_equal(utf8_next(s, len, &c), want_taken);
	assert_int_equal(c, want);
}

static void test_utf8_next(void **state)
{
	(void)state;
	check_next("a", 1, 'a', 1);
	check_next("\0", 1, 0, 1);
	check_next("\xc3\xa4", 2, 0xe4, 2);
	check_next("\xe2\x80\xa6", 3, 0x2026, 3);
	check_next("\xf0\x9f\x90\x8d", 4, 0x1f40d, 4);
	check_next("\xf4\x8f\xbf\xbf", 4, 0x10ffff, 4);
	check_next("\xf4\x90\x80\x80", 4, 0xfffd, 1); /* U+110000 */
	check_next("\xc0\x80", 2, 0xfffd, 1);	      /* overlong */
	check_next("\xe0\x9f\xbf", 3, 0xfffd, 1);
	check_next("\xf0\x8f\xbf\xbf", 4, 0xfffd, 1);
	check_next("\xed\xa0\x80", 3, 0xfffd, 1); /* surrogate */
	check_next("\x80", 1, 0xfffd, 1);
	check_next("\xff", 1, 0xfffd, 1);
	check_next("\xe2\x80", 2, 0xfffd, 2); /* cut */
	check_next("\xe2", 1, 0xfffd, 1);
	check_next("\xf0\x9f\x90"
		   "a",
		   4, 0xfffd, 3);
}

/* Every character there is, there and back. */
static void test_utf8_round(void **state)
{
	struct strbuf b = { 0 };
	uint32_t got;

	(void)state;
	for (uint32_t c = 0; c < 0x110010; c++) {
		bool valid = c < 0x110000 && (c < 0xd800 || c > 0xdfff);

		strbuf__clear(&b);
		utf8_add(&b, c);
		assert_int_equal(utf8_next(b.s, b.len, &got), b.len);
		assert_int_equal(got, valid ? c : 0xfffd);
	}
	strbuf__free(&b);
}

static void check_sanitise(const char *s, size_t len, size_t max, const char *want)
{
	struct strbuf b = { 0 };

	str_sanitise(&b, s, len, max);
	assert_string_equal(b.s ? b.s : "", want);
	strbuf__free(&b);
}

static void test_sanitise(void **state)
{
	(void)state;
	check_sanitise("", 0, 0, "");
	check_sanitise("plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x90\x8d", 17, 0,
		       "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x90\x8d");
	check_sanitise("a\x1b[31m", 6, 0, "a" FFFD "[31m");
	check_sanitise("a\nb\rc\td\0e\x7f", 10, 0, "a" FFFD "b" FFFD "c" FFFD "d" FFFD "e" FFFD);
	check_sanitise("\xc2\x9b"
		       "31m",
		       5, 0, FFFD "31m"); /* C1: CSI */
	check_sanitise("\xe2\x80\xa8\xe2\x80\xa9", 6, 0, FFFD FFFD);
	check_sanitise("\xe2\x80\xae"
		       "gpj",
		       6, 0, FFFD "gpj"); /* RLO */
	check_sanitise("\xe2\x81\xa6\xd8\x9c\xe2\x80\x8f", 8, 0, FFFD FFFD FFFD);
	check_sanitise("\xff\xfe", 2, 0, FFFD FFFD);
	check_sanitise("\xe2\x82", 2, 0, FFFD);
	check_sanitise("abcd", 4, 4, "abcd");
	check_sanitise("abcde", 5, 4, "abcd\xe2\x80\xa6");
	check_sanitise("\xc3\xa4\xc3\xa4\xc3\xa4", 6, 2, "\xc3\xa4\xc3\xa4\xe2\x80\xa6");
}

static void check_int(const char *s, long long min, long long max, int want_err, long long want)
{
	long long out = -77;

	assert_int_equal(parse_int(s, min, max, &out), want_err);
	assert_true(out == (want_err ? -77 : want));
}

static void assert_kept(const char *text, size_t max, const char *want)
{
	char *s = strdup(text);

	assert_non_null(s);
	str_keep_end(s, max);
	assert_string_equal(s, want);
	free(s);
}

static void test_keep_end(void **state)
{
	struct strbuf b = { 0 };
	char last[32];

	(void)state;
	assert_kept("", 0, "");
	assert_kept("one line", 0, "one line");
	assert_kept("first\nlast", 4, "first\nlast");
	assert_kept("first\nlast", 0, "first\nlast"); /* the note would be longer */
	for (int i = 0; i < 1000; i++)
		strbuf__addf(&b, "%slog line %d", i ? "\n" : "", i);
	assert_int_equal(b.err, 0);
	assert_kept(b.s, b.len, b.s);
	snprintf(last, sizeof(last), "log line 999");
	assert_kept(b.s, strlen(last), "log line 0\n[998 lines left out]\nlog line 999");
	assert_kept(b.s, strlen(last) + 5, "log line 0\n[998 lines left out]\nlog line 999");
	assert_kept(b.s, strlen(last) * 2 + 1,
		    "log line 0\n[997 lines left out]\nlog line 998\nlog line 999");
	assert_kept(b.s, 3, "log line 0\n[998 lines left out]\n999");
	strbuf__free(&b);
}

static void test_parse_int(void **state)
{
	(void)state;
	check_int("0", 0, 10, 0, 0);
	check_int("10", 0, 10, 0, 10);
	check_int("010", 0, 10, 0, 10);
	check_int("11", 0, 10, -ERANGE, 0);
	check_int("0", 1, 10, -ERANGE, 0);
	check_int("-1", -5, 5, 0, -1);
	check_int("-1", 0, 5, -EINVAL, 0);
	check_int("+1", -5, 5, -EINVAL, 0);
	check_int("", -5, 5, -EINVAL, 0);
	check_int("-", -5, 5, -EINVAL, 0);
	check_int("--1", -5, 5, -EINVAL, 0);
	check_int(" 1", -5, 5, -EINVAL, 0);
	check_int("1 ", -5, 5, -EINVAL, 0);
	check_int("0x1", 0, 5, -EINVAL, 0);
	check_int("9223372036854775807", 0, LLONG_MAX, 0, LLONG_MAX);
	check_int("9223372036854775808", 0, LLONG_MAX, -ERANGE, 0);
	check_int("-9223372036854775808", LLONG_MIN, 0, 0, LLONG_MIN);
	check_int("-9223372036854775809", LLONG_MIN, 0, -ERANGE, 0);
	check_int("368934881474191032400", 0, LLONG_MAX, -ERANGE, 0); /* wraps to 80 */
	check_int("99999999999999999999999999", 0, LLONG_MAX, -ERANGE, 0);
	check_int("99999999999999999999999999x", 0, LLONG_MAX, -EINVAL, 0);
}

static void check_double(const char *s, double min, double max, int want_err, double want)
{
	double out = -77;

	assert_int_equal(parse_double(s, min, max, &out), want_err);
	assert_true(out == (want_err ? -77 : want));
}

static void test_parse_double(void **state)
{
	static const char *const bad[] = { "",	  ".",	  "-",	   "+1",   " 1",
					   "1 ",  "1..2", "1.2.3", "1,5",  "1e3",
					   "0x1", "inf",  "nan",   "-0.5", "1.5s" };

	(void)state;
	/* A decimal comma, where that locale is installed. */
	(void)setlocale(LC_ALL, "de_DE.UTF-8");
	check_double("0.5", 0, 10, 0, 0.5);
	check_double("5", 0, 10, 0, 5);
	check_double(".25", 0, 10, 0, 0.25);
	check_double("7.", 0, 10, 0, 7);
	check_double("10.1", 0, 10, -ERANGE, 0);
	check_double("-0.5", -1, 1, 0, -0.5);
	check_double("0.0001", 0.001, 1, -ERANGE, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_double(bad[i], 0, 10, -EINVAL, 0);
	(void)setlocale(LC_ALL, "C");
}

static void test_glob(void **state)
{
	static const struct {
		const char *pattern, *s;
		bool want;
	} cases[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "*", "", true },
		{ "*", "abc", true },
		{ "abc", "abc", true },
		{ "abc", "abcd", false },
		{ "abc", "ab", false },
		{ "a?c", "abc", true },
		{ "?", "", false },
		{ "python*", "python3.11", true },
		{ "*.py", "a.py", true },
		{ "*.py", "a.pyc", false },
		{ "a*b*c", "aXbXbc", true },
		{ "a*b*c", "aXbXb", false },
		{ "[a-c]x", "bx", true },
		{ "[a-c]x", "dx", false },
		{ "[!a-c]x", "dx", true },
		{ "[!a-c]x", "ax", false },
		{ "[]]", "]", true },
		{ "[!]]", "]", false },
		{ "[a-]", "-", true },
		{ "[abc", "[abc", true },
		{ "[", "[", true },
		{ "[]", "[]", true },
		{ "*[0-9]", "a1b2", true },
		{ "***a", "bba", true },
		{ "[\x80-\xff]", "\xe4", true },
		{ "[c-a]", "b", false },
	};
	char pattern[64], s[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (glob_match(cases[i].pattern, cases[i].s) != cases[i].want)
			fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].s);
	/* Many stars take polynomial time. */
	for (size_t i = 0; i < sizeof(pattern) - 1; i++)
		pattern[i] = i % 2 ? 'a' : '*';
	pattern[sizeof(pattern) - 2] = '\0'; /* ends in an `a` */
	memset(s, 'a', sizeof(s) - 1);
	s[sizeof(s) - 2] = 'b';
	s[sizeof(s) - 1] = '\0';
	assert_false(glob_match(pattern, s));
}

/* What log_msg() writes for one call. */
static void check_log(enum log_level level, const char *arg, const char *want)
{
	int saved = dup(STDERR_FILENO), fds[2];
	char got[512];
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	errno = EBUSY;
	log_msg(level, "cpu %d: %s", 3, arg);
	assert_int_equal(errno, EBUSY);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[1]);
	n = read(fds[0], got, sizeof(got) - 1);
	close(fds[0]);
	assert_true(n >= 0);
	got[n] = '\0';
	assert_string_equal(got, want);
}

/* errno survives even when the message cannot be written. */
static void check_log_full(void)
{
	int saved = dup(STDERR_FILENO), full = open("/dev/full", O_WRONLY);

	assert_true(full >= 0);
	dup2(full, STDERR_FILENO);
	errno = EBUSY;
	log_err("lost");
	assert_int_equal(errno, EBUSY);
	dup2(saved, STDERR_FILENO);
	clearerr(stderr);
	close(saved);
	close(full);
}

static void test_log(void **state)
{
	(void)state;
	assert_int_equal(log_get_level(), LOG_LEVEL_INFO);
	check_log(LOG_LEVEL_INFO, "text", "pyperf-bpf: cpu 3: text\n");
	check_log(LOG_LEVEL_DEBUG, "text", "");
	check_log(LOG_LEVEL_ERR, "two\nlines\n", "pyperf-bpf: cpu 3: two\npyperf-bpf: lines\n");
	check_log(LOG_LEVEL_ERR, "\x1b]0;x\x07", "pyperf-bpf: cpu 3: " FFFD "]0;x" FFFD "\n");
	check_log_full();
	log_set_level(LOG_LEVEL_ERR);
	check_log(LOG_LEVEL_WARN, "text", "");
	log_set_level(LOG_LEVEL_DEBUG);
	check_log(LOG_LEVEL_DEBUG, "text", "pyperf-bpf: cpu 3: text\n");
	log_set_level(LOG_LEVEL_INFO);
}

static void check_unit(int (*parse)(const char *, uint64_t, uint64_t, uint64_t *), const char *s,
		       int want_err, uint64_t want)
{
	uint64_t out = 77;

	assert_int_equal(parse(s, 1, 1ULL << 50, &out), want_err);
	assert_int_equal(out, want_err ? 77 : want);
}

static void test_parse_bytes(void **state)
{
	static const char *const bad[] = { "",	    "B",    "MB",   "1b",
					   "1 MB",  "-1",   "1k",   "1Ki",
					   "1MiBx", "1.5G", "1EiB", "99999999999999999999" };

	(void)state;
	check_unit(parse_bytes, "1", 0, 1);
	check_unit(parse_bytes, "512B", 0, 512);
	check_unit(parse_bytes, "500MB", 0, 500000000);
	check_unit(parse_bytes, "2GiB", 0, 2ULL << 30);
	check_unit(parse_bytes, "2G", 0, 2ULL << 30);
	check_unit(parse_bytes, "3K", 0, 3072);
	check_unit(parse_bytes, "1TB", 0, 1000000000000);
	check_unit(parse_bytes, "0", -ERANGE, 0);
	check_unit(parse_bytes, "2000T", -ERANGE, 0);
	check_unit(parse_bytes, "18446744073709551615K", -ERANGE, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_unit(parse_bytes, bad[i], -EINVAL, 0);
}

static void test_parse_period(void **state)
{
	static const char *const bad[] = { "",
					   "h",
					   "1",
					   "1H",
					   "-1h",
					   "1h 30m",
					   "1h30",
					   "1m1h",
					   "1h1h",
					   "1.5h",
					   "99999999999999999999s" };

	(void)state;
	check_unit(parse_period, "90s", 0, 90);
	check_unit(parse_period, "1h30m", 0, 5400);
	check_unit(parse_period, "1w2d3h4m5s", 0, 788645);
	check_unit(parse_period, "0h", -ERANGE, 0);
	check_unit(parse_period, "18446744073709551615w", -ERANGE, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_unit(parse_period, bad[i], -EINVAL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strbuf),	     cmocka_unit_test(test_strtab),
		cmocka_unit_test(test_hash),	     cmocka_unit_test(test_hash_index),
		cmocka_unit_test(test_array_grow),   cmocka_unit_test(test_utf8_next),
		cmocka_unit_test(test_utf8_round),   cmocka_unit_test(test_sanitise),
		cmocka_unit_test(test_keep_end),     cmocka_unit_test(test_parse_int),
		cmocka_unit_test(test_parse_double), cmocka_unit_test(test_parse_bytes),
		cmocka_unit_test(test_parse_period), cmocka_unit_test(test_glob),
		cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
