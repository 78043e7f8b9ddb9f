// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/when.h"

#define NOW 1795255200ULL /* 2026-11-21T10:00:00Z */

static void check(const char *text, double want_s)
{
	uint64_t out;

	assert_int_equal(when_parse(text, NOW * NS_PER_S, &out), 0);
	assert_int_equal(out, (uint64_t)(want_s * 1e3) * 1000000);
}

static void utc_and_periods(void **state)
{
	uint64_t out;

	(void)state;
	check("now", NOW);
	check("-1h", NOW - 3600);
	check("-1h30m", NOW - 5400);
	check("-7d", NOW - 7 * 86400);
	check("-0s", NOW);
	check("1795255200", NOW);
	check("0", 0);
	check("2026-11-21T10:00:00Z", NOW);
	check("2026-11-21t10:00:00z", NOW);
	check("2026-11-21T11:30:00+01:30", NOW);
	check("2026-11-21 05:00:00.25-05:00", NOW + 0.25);
	assert_int_equal(when_parse("2026-11-21T10:00:00.1234567890123Z", 0, &out), 0);
	assert_int_equal(out, NOW * NS_PER_S + 123456789);
	check("2024-02-29T00:00:00Z", 1709164800);
}

/* A time zone with summer time, by its rule: no data base is needed. */
static void local(void **state)
{
	char text[WHEN_LEN];

	(void)state;
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	check("2026-11-21T11:00", NOW);
	check("2026-11-21 11:00:00", NOW);
	check("2026-11-21", NOW - 11 * 3600);
	check("2026-07-01 12:00", 1782900000); /* 10:00 UTC */
	when_print(NOW * NS_PER_S, text);
	assert_string_equal(text, "2026-11-21 11:00:00");
	when_print(1782900000 * NS_PER_S, text);
	assert_string_equal(text, "2026-07-01 12:00:00");
	when_print(UINT64_MAX, text); /* 2554 */
	assert_int_equal(text[4], '-');
	setenv("TZ", "UTC0", 1);
	tzset();
}

/* What is later than 64 bits of nanoseconds can say is as late as they can. */
static void far_away(void **state)
{
	static const char *const late[] = { "9223372036",	    "18446744073",
					    "18446744074",	    "253402300799",
					    "2300-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z" };
	uint64_t out;

	(void)state;
	check("9223372035", 9223372035.0);
	for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
		assert_int_equal(when_parse(late[i], NOW * NS_PER_S, &out), 0);
		assert_int_equal(out, INT64_MAX);
	}
}

static void refused(void **state)
{
	static const char *const bad[] = {
		"",
		"-",
		"-1",
		"1h",
		"+1h",
		"-1h ",
		"nowish",
		"yesterday",
		"10:00",
		"-99999999d",
		"2026-02-30T00:00:00Z",
		"2026-13-01",
		"2026-00-10",
		"2026-11-00",
		"2026-11-21T",
		"2026-11-21T10",
		"2026-11-21T24:00:00Z",
		"2026-11-21T10:60:00Z",
		"2026-11-21T10:00:61Z",
		"2026-11-21T10:00:00.Z",
		"2026-11-21T10:00:00+1:00",
		"2026-11-21T10:00:00+0100",
		"2026-11-21T10:00:00+01:00x",
		"2026-11-21x10:00",
		"26-11-21",
		"1960-01-01T00:00:00Z",
		"99999999999999",
		"-1h..now",
		"2026-11-21T10:00:00 Z",
	};
	uint64_t out;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (when_parse(bad[i], NOW * NS_PER_S, &out) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utc_and_periods),
		cmocka_unit_test(local),
		cmocka_unit_test(far_away),
		cmocka_unit_test(refused),
	};

	setenv("TZ", "UTC0", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
