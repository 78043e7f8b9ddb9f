/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which command a line is for, and what a wrong one is told. */
#include "cmd/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ARGS_MAX 8

/* What the last line led to. */
static struct {
	const char *command; /* that ran, or whose help was printed */
	int argc;
	const char *first; /* its argv[0] */
	char err[512];
} got;

static int run_first(int argc, char **argv)
{
	got.command = "record";
	got.argc = argc;
	got.first = argv[0];
	return 40;
}

static int run_second(int argc, char **argv)
{
	got.command = "report";
	got.argc = argc;
	got.first = argv[0];
	return 41;
}

static void usage_first(void)
{
	got.command = "usage of record";
}

static void usage_second(void)
{
	got.command = "usage of report";
}

static void overview(void)
{
	got.command = "overview";
}

static const struct command first = { "record", "the default", usage_first, run_first };
static const struct command second = { "report", "another one", usage_second, run_second };
static const struct command third = { "top", "a short one", usage_second, run_second };
static const struct command *const commands[] = { &first, &second, &third, NULL };

/* Words are separated by single blanks. Returns the exit status. */
static int run(const char *line)
{
	char *copy = strdup(line), *rest = copy, *word;
	char *argv[ARGS_MAX + 1] = { (char *)"pyperf-bpf" };
	int argc = 1, status, saved = dup(STDERR_FILENO);
	FILE *err = tmpfile();
	size_t len;

	assert_non_null(copy);
	assert_non_null(err);
	while (*line && argc < ARGS_MAX && (word = strsep(&rest, " ")))
		argv[argc++] = word;
	memset(&got, 0, sizeof(got));
	assert_true(dup2(fileno(err), STDERR_FILENO) >= 0);
	status = command__main(commands, overview, argc, argv);
	fflush(stderr);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	rewind(err);
	len = fread(got.err, 1, sizeof(got.err) - 1, err);
	got.err[len] = '\0';
	fclose(err);
	free(copy);
	return status;
}

static void test_chosen(void **state)
{
	static const struct {
		const char *line, *command;
		int argc, status;
	} cases[] = {
		{ "", "record", 1, 40 },
		{ "-d 5", "record", 3, 40 },
		{ "-- report", "record", 3, 40 },
		{ "record", "record", 1, 40 },
		{ "record -d 5", "record", 3, 40 },
		{ "report a b", "report", 3, 41 },
		{ "report --help", "report", 2, 41 },
		{ "-q --help", "record", 3, 40 },
		{ "4711", "record", 2, 40 }, /* it has something to say to that */
		{ "python3 app.py", "record", 3, 40 },
		{ "app", "record", 2, 40 },
		{ "help", "overview", 0, 0 },
		{ "--help", "overview", 0, 0 },
		{ "-h", "overview", 0, 0 },
		{ "-h report", "overview", 0, 0 },
		{ "help help", "overview", 0, 0 },
		{ "help --help", "overview", 0, 0 },
		{ "help record", "usage of record", 0, 0 },
		{ "help report", "usage of report", 0, 0 },
		{ "--version", NULL, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = run(cases[i].line);

		if (status != cases[i].status)
			print_error("'%s': %d, %s\n", cases[i].line, status, got.err);
		assert_int_equal(status, cases[i].status);
		assert_string_equal(got.err, "");
		assert_int_equal(got.argc, cases[i].argc);
		assert_string_equal(got.command ? got.command : "none",
				    cases[i].command ? cases[i].command : "none");
	}
}

static void test_unknown(void **state)
{
	static const struct {
		const char *line, *meant;
	} cases[] = {
		{ "reprot", "report" },
		{ "Report", "report" },
		{ "rapport x", "report" },
		{ "recrod", "record" },
		{ "rec -d 5", "record" },
		{ "recordin", "record" },
		{ "tpo", "top" },
		{ "to", "top" },
		{ "help reprot", "report" },
		{ "help recordd", "record" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char want[64];

		snprintf(want, sizeof(want), "did you mean '%s'?\n", cases[i].meant);
		assert_int_equal(run(cases[i].line), 2);
		assert_null(got.command);
		if (!strstr(got.err, want))
			print_error("'%s': %s", cases[i].line, got.err);
		assert_non_null(strstr(got.err, want));
		assert_ptr_equal(strchr(got.err, '\n'), got.err + strlen(got.err) - 1);
	}
	assert_int_equal(run("help xyzzy"), 2);
	assert_non_null(strstr(got.err, "unknown command 'xyzzy'; see 'pyperf-bpf --help'"));
	assert_int_equal(run("help aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
			 2);
	assert_int_equal(run("help 0123456789012345678901234567890"),
			 2); /* 31: the longest compared */
}

/* No argv[0] at all: execve() allows it. */
static void test_no_words(void **state)
{
	char *argv[] = { NULL };

	(void)state;
	assert_int_equal(command__main(commands, overview, 0, argv), 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chosen),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_no_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
