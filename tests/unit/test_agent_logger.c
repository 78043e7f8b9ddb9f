/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent's messages: how many of a kind, in which form, and that nobody waits for their reader.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rate_limit.h"

static uint64_t fake_ns = NS_PER_S;
#define now_ns() fake_ns
#include "../../user/agent/logger.c"
#undef now_ns

#include <fcntl.h>

static int ends[2], real_stderr;

/* stderr is a pipe from here on. */
static void begin(bool json)
{
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	fflush(stderr);
	real_stderr = dup(STDERR_FILENO);
	assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
	close(ends[1]);
	logger__start(json);
	fake_ns += LOGGER_SPAN_S * NS_PER_S;
}

/* What has been written since; stderr is what it was. */
static const char *end(void)
{
	static char text[1 << 20];
	size_t len = 0;
	ssize_t n;

	log_set_writer(NULL);
	fflush(stderr);
	assert_true(dup2(real_stderr, STDERR_FILENO) >= 0);
	close(real_stderr);
	while ((n = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(ends[0]);
	text[len] = '\0';
	return text;
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

static void so_many_of_a_kind(void **state)
{
	const char *text;

	(void)state;
	begin(false);
	log_set_level(LOG_LEVEL_DEBUG);
	for (int i = 0; i < LOGGER_BURST + 5; i++) {
		log_warn("one %d", i);
		log_debug("asked for %d", i);
	}
	log_warn("other %d", 1);
	fake_ns += LOGGER_SPAN_S * NS_PER_S - 1;
	log_warn("other %d", 2);
	log_warn("one %d", -1);
	text = end();
	assert_int_equal(count(text, "one "), LOGGER_BURST);
	assert_int_equal(count(text, "asked for"), LOGGER_BURST + 5);
	assert_int_equal(count(text, "other"), 2);
	assert_int_equal(count(text, "left out"), 0);
}

static void complain(int i)
{
	log_err("of a kind %d", i);
}

static void who_was_left_out_is_counted(void **state)
{
	const char *text;

	(void)state;
	begin(true);
	for (int i = 0; i < LOGGER_BURST + 5; i++)
		complain(i);
	fake_ns += LOGGER_SPAN_S * NS_PER_S;
	complain(100);
	complain(101);
	text = end();
	assert_int_equal(count(text, "of a kind"), LOGGER_BURST + 2);
	assert_non_null(
		strstr(text, "\"message\":\"of a kind 100 (5 more like it were left out)\"}\n"));
	assert_non_null(strstr(text, "\"message\":\"of a kind 101\"}\n"));
}

static void foreign_text_stays_in_its_line(void **state)
{
	const char *text;

	(void)state;
	begin(true);
	log_info("%s", "a \"quote\", \\ and \x1b[31m\nnext");
	text = end();
	assert_non_null(
		strstr(text, "\"level\":\"info\",\"message\":\"a \\\"quote\\\", \\\\ and "));
	assert_null(strchr(text, 0x1b));
	assert_int_equal(count(text, "\n"), 2);
	assert_int_equal(count(text, "{\"time\":\"20"), 2);

	setenv("JOURNAL_STREAM", "8:1", 1);
	begin(false);
	log_err("%s", "bad \x1b[31m\nnext");
	text = end();
	unsetenv("JOURNAL_STREAM");
	assert_int_equal(count(text, "<3>pyperf-bpf: "), 2);
	assert_null(strchr(text, 0x1b));
}

/* Else this test would never end. */
static void nobody_waits_for_a_reader(void **state)
{
	static char drained[1 << 20];
	const char *text;

	(void)state;
	begin(false);
	log_set_level(LOG_LEVEL_DEBUG);
	for (int i = 0; i < 5000; i++)
		log_debug("%d %0100d", i, 0);
	assert_true(logger.stuck > 0);
	assert_true(read(ends[0], drained, sizeof(drained)) > 0);
	log_debug("again");
	text = end();
	assert_non_null(strstr(text, "again (nobody read the log: "));
	assert_int_equal(logger.stuck, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(so_many_of_a_kind),
		cmocka_unit_test(who_was_left_out_is_counted),
		cmocka_unit_test(foreign_text_stays_in_its_line),
		cmocka_unit_test(nobody_waits_for_a_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
