// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The text that Prometheus reads. A parser of others reads it in tests/e2e/test_agent_http.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/http/metrics.h"

static char *text;
static size_t text_len;

static FILE *begin(void)
{
	FILE *f = open_memstream(&text, &text_len);

	assert_non_null(f);
	return f;
}

static void labels_are_escaped(void **state)
{
	FILE *f = begin();

	(void)state;
	metric__family(f, "x_total", METRIC_COUNTER, "Some.");
	metric__uint(f, "x_total", "to", "a\"b\\c\nd\xff", 12);
	metric__uint(f, "x_total", NULL, NULL, UINT64_MAX);
	fclose(f);
	assert_string_equal(text, "# HELP x_total Some.\n"
				  "# TYPE x_total counter\n"
				  "x_total{to=\"a\\\"b\\\\c\xef\xbf\xbd"
				  "d\xef\xbf\xbd\"} 12\n"
				  "x_total 18446744073709551615\n");
	free(text);
}

static void seconds_are_exact(void **state)
{
	FILE *f = begin();

	(void)state;
	metric__seconds(f, "t_seconds", NULL, NULL, 0);
	metric__seconds(f, "t_seconds", NULL, NULL, 1700000000000000001ULL);
	metric__seconds(f, "t_seconds", "to", "x", 50000000);
	fclose(f);
	assert_string_equal(text, "t_seconds 0.000000000\n"
				  "t_seconds 1700000000.000000001\n"
				  "t_seconds{to=\"x\"} 0.050000000\n");
	free(text);
}

/* Each counter of the kernel is in it, under its own name. */
static void no_counter_is_left_out(void **state)
{
	struct agent_stats s = { 0 };
	FILE *f = begin();

	(void)state;
	for (size_t i = 0; i < CTR_CNT; i++)
		s.run.counters[i] = 1000 + i;
	metrics__agent(&s, f);
	fclose(f);
	for (size_t i = 0; i < CTR_CNT; i++) {
		char value[16], seconds[16];

		snprintf(value, sizeof(value), " %zu\n", 1000 + i);
		snprintf(seconds, sizeof(seconds), " 0.%09zu\n", 1000 + i);
		assert_true(strstr(text, value) || strstr(text, seconds));
	}
	assert_non_null(strstr(text, "pyperf_samples_lost_total{reason=\"counts_full\"} "));
	free(text);
}

/* Without a kernel behind it there are none; a family without values is allowed. */
static void tables_that_can_be_full(void **state)
{
	struct agent_stats s = { .fill = { { "counts", 12, 16384 }, { "procs", 3, 100 } } };
	FILE *f = begin();

	(void)state;
	metrics__agent(&s, f);
	fclose(f);
	assert_non_null(strstr(text, "pyperf_map_entries{map=\"counts\"} 12\n"));
	assert_non_null(strstr(text, "pyperf_map_entries_max{map=\"counts\"} 16384\n"));
	assert_non_null(strstr(text, "pyperf_map_entries_max{map=\"procs\"} 100\n"));
	free(text);
}

static void what_samples_take(void **state)
{
	struct agent_stats s = { .samples_ns = 1500000001 };
	FILE *f = begin();

	(void)state;
	metrics__agent(&s, f);
	fclose(f);
	assert_non_null(strstr(text, "\npyperf_samples_cpu_seconds_total 1.500000001\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_are_escaped),	  cmocka_unit_test(seconds_are_exact),
		cmocka_unit_test(no_counter_is_left_out), cmocka_unit_test(tables_that_can_be_full),
		cmocka_unit_test(what_samples_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
