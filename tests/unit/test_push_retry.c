// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* When to try again, what answers mean, addresses made of templates, configuration. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/push/push.h"
#include "agent/push/push_kind.h"
#include "agent/push/push_put.h"
#include "agent/push/push_retry.h"

static void delays_double_up_to_the_most(void **state)
{
	static const uint64_t most[] = { 1000, 2000, 4000, 8000, 10000, 10000 };

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(push_delay(i + 1, 1000, 10000, 0, 0), most[i] / 2);
		assert_in_range(push_delay(i + 1, 1000, 10000, 0, UINT32_MAX), most[i] - 2,
				most[i]);
	}
	assert_in_range(push_delay(UINT32_MAX, 1000, 3600000, 0, 1U << 31), 2699999, 2700001);
	assert_int_equal(push_delay(1, 1000, 1000, 0, 1U << 31), 750);
}

static void what_the_backend_asks_for_is_the_least(void **state)
{
	(void)state;
	assert_int_equal(push_delay(1, 1000, 60000, 30000, 0), 30000);
	assert_in_range(push_delay(1, 1000, 60000, 30000, UINT32_MAX), 32999, 33000);
	/* Less than we would wait anyway. */
	assert_int_equal(push_delay(7, 1000, 60000, 2000, 0), 30000);
}

static void retry_after(void **state)
{
	const time_t now = 784111777; /* Sun, 06 Nov 1994 08:49:37 GMT: the example of RFC 9110 */

	(void)state;
	assert_int_equal(push_retry_after("120", now), 120000);
	assert_int_equal(push_retry_after("0", now), 0);
	assert_int_equal(push_retry_after("", now), 0);
	assert_int_equal(push_retry_after("-5", now), 0);
	assert_int_equal(push_retry_after("1.5", now), 0);
	assert_int_equal(push_retry_after("soon", now), 0);
	assert_int_equal(push_retry_after("99999999", now), RETRY_AFTER_MAX_MS);
	assert_int_equal(push_retry_after("99999999999999999999999", now), RETRY_AFTER_MAX_MS);
	assert_int_equal(push_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now), 10000);
	assert_int_equal(push_retry_after("Sunday, 06-Nov-94 08:49:47 GMT", now), 10000);
	assert_int_equal(push_retry_after("Sun Nov  6 08:49:47 1994", now), 10000);
	assert_int_equal(push_retry_after("Sun, 06 Nov 1994 08:49:27 GMT", now), 0);
	assert_int_equal(push_retry_after("Fri, 31 Dec 1999 23:59:59 GMT", now),
			 RETRY_AFTER_MAX_MS);
}

static void answers(void **state)
{
	static const int sent[] = { 200, 201, 202, 204 };
	static const int retry[] = { 0, 408, 425, 429, 500, 502, 503, 504, 599 };
	static const int slow[] = { 301, 302, 307, 401, 403, 404, 405, 415, 501 };
	static const int rejected[] = { 400, 413, 414, 422, 431 };
#define EACH(list, verdict)                                                                        \
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)                                \
	assert_int_equal(push_judge(list[i]), verdict)

	(void)state;
	EACH(sent, PUSH_SENT);
	EACH(retry, PUSH_RETRY);
	EACH(slow, PUSH_SLOW);
	EACH(rejected, PUSH_REJECTED);
	assert_int_equal(push_judge(push_grpc_status(0)), PUSH_SENT);
	assert_int_equal(push_judge(push_grpc_status(3)), PUSH_REJECTED);
	assert_int_equal(push_judge(push_grpc_status(7)), PUSH_SLOW);
	assert_int_equal(push_judge(push_grpc_status(8)), PUSH_RETRY);
	assert_int_equal(push_judge(push_grpc_status(14)), PUSH_RETRY);
	assert_int_equal(push_judge(push_grpc_status(16)), PUSH_SLOW);
	assert_int_equal(push_judge(push_grpc_status(17)), PUSH_RETRY);
}

static void check_template(const char *template, const char *expected)
{
	static const struct label labels[] = {
		{ "dots", ".." },
		{ "empty", "" },
		{ "host", "h-1" },
		{ "service_name", "a/b c?\xc3\xa4" },
	};
	const struct window w = {
		.id = "000102030405060708090a0b0c0d0e0f",
		.start_unix_ns = 1700000000000000000,
		.duration_ns = 10000000000,
		.labels = labels,
		.label_cnt = 4,
	};
	struct strbuf out = { 0 };
	int err = push_template(&out, template, &w);

	if (!expected) {
		assert_int_equal(err, -EINVAL);
	} else {
		assert_int_equal(err, 0);
		assert_string_equal(out.s, expected);
	}
	strbuf__free(&out);
}

static void templates(void **state)
{
	(void)state;
	check_template("http://h/{service}/x", "http://h/a%2Fb%20c%3F%C3%A4/x");
	check_template("{host}{start}-{id}.pb.gz",
		       "h-120231114T221320Z-000102030405060708090a0b0c0d0e0f.pb.gz");
	check_template("{date}/{hour}/{seconds}", "2023-11-14/22/10");
	check_template("{label:dots}/{label:empty}/{label:none}", "_/unknown/unknown");
	check_template("none", "none");
	check_template("{nothing}", NULL);
	check_template("{", NULL);
	check_template("}", NULL);
	check_template("{host", NULL);
	check_template("{host{id}}", NULL);
	check_template("{}", NULL);
	check_template("{label:}", NULL);
	check_template("{label:a-b}", NULL);
}

/* ---- Configuration --------------------------------------------------------------------------- */

static int set(struct push_config *c, const char *key, const char *value)
{
	const char *why = NULL;
	int err = push_config__set(c, key, value, &why);

	assert_true(err == 0 || err == -ENOENT || (why && *why));
	return err;
}

static void names_of_destinations(void **state)
{
	struct push_config c;
	char name[66] = { 0 };

	(void)state;
	assert_int_equal(push_config__init(&c, "eu-1_a"), 0);
	assert_int_equal(push_config__init(&c, ""), -EINVAL);
	assert_int_equal(push_config__init(&c, ".."), -EINVAL);
	assert_int_equal(push_config__init(&c, "a/b"), -EINVAL);
	assert_int_equal(push_config__init(&c, "-a"), -EINVAL);
	memset(name, 'a', 65);
	assert_int_equal(push_config__init(&c, name), -EINVAL);
	name[64] = 0;
	assert_int_equal(push_config__init(&c, name), 0);
}

static void values(void **state)
{
	static const char *const bad[][2] = {
		{ "kind", "kafka" },
		{ "url", "ftp://h/" },
		{ "url", "http://" },
		{ "url", "http:///x" },
		{ "url", "https://user:secret@h/" },
		{ "url", "http://h/a b" },
		{ "url", "http://h/\r\nX: y" },
		{ "header", "no colon" },
		{ "header", "X-A:" },
		{ "header", "X A: b" },
		{ "header", "X-A: b\nX-B: c" },
		{ "header", "Content-Length: 5" },
		{ "header", "host: other" },
		{ "header-file", "X-A: relative" },
		{ "bearer-token-file", "token" },
		{ "insecure-skip-verify", "true" },
		{ "compression", "zstd" },
		{ "timeout", "0s" },
		{ "timeout", "2h" },
		{ "timeout", "30" },
		{ "max-in-flight", "0" },
		{ "max-in-flight", "17" },
		{ "spool-max-size", "1KiB" },
		{ "proxy", "http://user:secret@p:1" },
		{ "tenant", "" },
	};
	struct push_config c;

	(void)state;
	assert_int_equal(push_config__init(&c, "x"), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(set(&c, bad[i][0], bad[i][1]), -EINVAL);
	assert_int_equal(set(&c, "nothing", "x"), -ENOENT);
	assert_int_equal(set(&c, "timeout", "1m30s"), 0);
	assert_int_equal(c.timeout_ms, 90000);
	assert_int_equal(set(&c, "spool-max-size", "1MiB"), 0);
	assert_int_equal(c.spool.max_bytes, 1 << 20);
	assert_int_equal(set(&c, "compression", "none"), 0);
	assert_int_equal(c.compression, 0);
	assert_int_equal(set(&c, "insecure-skip-verify", "yes"), 0);
	assert_true(c.insecure_skip_verify);
	for (int i = 0; i < PUSH_HEADERS_MAX; i++)
		assert_int_equal(set(&c, "header", "X-A: b"), 0);
	assert_int_equal(set(&c, "header", "X-A: b"), -EINVAL);
	push_config__free(&c);
}

static bool is_complete(const char *const *settings)
{
	struct push_config c;
	const char *why;
	int err;

	assert_int_equal(push_config__init(&c, "x"), 0);
	for (; *settings; settings += 2)
		assert_int_equal(set(&c, settings[0], settings[1]), 0);
	err = push_config__check(&c, &why);
	assert_true(!err == !why);
	push_config__free(&c);
	return !err;
}

#define COMPLETE(...) is_complete((const char *const[]){ __VA_ARGS__, NULL })

static void the_whole(void **state)
{
	(void)state;
	assert_true(COMPLETE("kind", "put", "url", "http://h/{id}"));
	assert_true(COMPLETE("kind", "otlp", "url", "https://h:4318/prefix/"));
	assert_false(COMPLETE("kind", "put"));
	assert_false(COMPLETE("url", "http://h/"));
	assert_false(COMPLETE("kind", "put", "url", "http://h/{pid}"));
	assert_false(COMPLETE("kind", "parca", "url", "http://h/{id}"));
	assert_false(COMPLETE("kind", "parca", "url", "http://h/", "username", "u"));
	assert_false(COMPLETE("kind", "parca", "url", "http://h/", "key-file", "/dev/null"));
	assert_false(COMPLETE("kind", "parca", "url", "http://h/", "ca-file", "/nonexistent"));
	assert_false(COMPLETE("kind", "parca", "url", "http://h/", "retry-max", "1s", "retry-min",
			      "2s"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_double_up_to_the_most),
		cmocka_unit_test(what_the_backend_asks_for_is_the_least),
		cmocka_unit_test(retry_after),
		cmocka_unit_test(answers),
		cmocka_unit_test(templates),
		cmocka_unit_test(names_of_destinations),
		cmocka_unit_test(values),
		cmocka_unit_test(the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
