/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The command line: what each good one means, and what each bad one is told. */
#include "cmd/options.h"
#include "bpf/pyperf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "export/export.h"

#define ARGS_MAX    16
#define LINES_MAX   44
#define COLUMNS_MAX 80

/* A parse of one line, and what it wrote. */
struct run {
	struct options o;
	enum cmdline_result result;
	char out[8192];
	char err[8192];
	char *line;	      /* copy of the words; argv points into it */
	char *argv[ARGS_MAX]; /* argv[0] is the program */
	int argc;
};

/* Words are separated by single blanks; "''" is the empty word. */
static void split(struct run *r, const char *line)
{
	char *rest, *word;

	r->line = rest = strdup(line);
	assert_non_null(rest);
	r->argv[r->argc++] = (char *)"pyperf-bpf";
	while (*line && (word = strsep(&rest, " "))) {
		assert_true(r->argc < ARGS_MAX - 1);
		if (!strcmp(word, "''"))
			*word = '\0';
		r->argv[r->argc++] = word;
	}
}

/* Sends `fd` to a file of its own. Returns a copy of what it was. */
static int divert(int fd, FILE **to)
{
	int saved = dup(fd);

	*to = tmpfile();
	assert_non_null(*to);
	assert_true(saved >= 0 && dup2(fileno(*to), fd) == fd);
	return saved;
}

static void restore(int fd, int saved, FILE *from, char *text, size_t size)
{
	size_t len;

	assert_int_equal(dup2(saved, fd), fd);
	close(saved);
	rewind(from);
	len = fread(text, 1, size - 1, from);
	text[len] = '\0';
	fclose(from);
}

static void parse(struct run *r, const char *line)
{
	FILE *out, *err;
	int saved_out, saved_err;

	memset(r, 0, sizeof(*r));
	split(r, line);
	fflush(stdout);
	saved_out = divert(STDOUT_FILENO, &out);
	saved_err = divert(STDERR_FILENO, &err);
	r->result = options__parse(&r->o, r->argc, r->argv);
	fflush(stdout);
	fflush(stderr);
	restore(STDERR_FILENO, saved_err, err, r->err, sizeof(r->err));
	restore(STDOUT_FILENO, saved_out, out, r->out, sizeof(r->out));
}

static void done(struct run *r)
{
	options__free(&r->o);
	free(r->line);
}

/* A line that must parse, silently. */
static void parse_good(struct run *r, const char *line)
{
	parse(r, line);
	if (r->result != CMDLINE_RUN)
		print_error("'%s': %s", line, r->err);
	assert_int_equal(r->result, CMDLINE_RUN);
	assert_string_equal(r->out, "");
	assert_string_equal(r->err, "");
}

static void test_defaults(void **state)
{
	struct run r;

	(void)state;
	parse_good(&r, "");
	assert_true(r.o.duration_s == 0);
	assert_int_equal(r.o.targets.frequency_hz, 99);
	assert_int_equal(r.o.targets.pid_cnt, 0);
	assert_int_equal(r.o.outputs.cnt, 0);
	assert_null(r.o.targets.cgroup);
	assert_null(r.o.targets.comm);
	assert_null(r.o.command);
	assert_int_equal(r.o.verbosity, 0);
	assert_false(r.o.targets.children || r.o.targets.all || r.o.outputs.folded || r.o.threads);
	assert_false(r.o.no_native || r.o.no_kernel || r.o.no_lines);
	done(&r);
}

static void test_duration(void **state)
{
	static const struct {
		const char *line;
		double want;
	} good[] = {
		{ "-d 30", 30 },
		{ "-d 0.5", 0.5 },
		{ "-d2.25", 2.25 },
		{ "--duration 100", 100 },
		{ "--duration=.125", 0.125 },
		{ "-d 0.001", 0.001 },
		{ "-d 5 -d 7", 7 },
	};
	struct run r;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		parse_good(&r, good[i].line);
		assert_true(r.o.duration_s == good[i].want);
		done(&r);
	}
}

static void test_numbers(void **state)
{
	static const struct {
		const char *line;
		uint32_t want;
	} good[] = {
		{ "-F 1", 1 },
		{ "-F999", 999 },
		{ "--frequency 50000", FREQUENCY_MAX },
		{ "--frequency=19", 19 },
	};
	struct run r;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		parse_good(&r, good[i].line);
		assert_int_equal(r.o.targets.frequency_hz, good[i].want);
		assert_int_equal(r.o.max_frames, STACK_DEPTH_DEFAULT);
		done(&r);
	}
	parse_good(&r, "--max-frames 16384");
	assert_int_equal(r.o.max_frames, STACK_DEPTH_MAX);
	assert_int_equal(r.o.table_mib, TABLE_MIB_DEFAULT);
	done(&r);
	parse_good(&r, "--table-memory 8");
	assert_int_equal(r.o.table_mib, 8);
	done(&r);
}

static void test_pids(void **state)
{
	static const pid_t want[] = { 12, 34, 4194304, 5 };
	struct run r;

	(void)state;
	parse_good(&r, "-p 12,34 --pid=4194304 -p 34,5,12 --children");
	assert_int_equal(r.o.targets.pid_cnt, 4);
	assert_memory_equal(r.o.targets.pids, want, sizeof(want));
	assert_true(r.o.targets.children);
	done(&r);
}

/* Descendants belong to a process, unless a probe would have to be in all programs for that. */
static void test_children(void **state)
{
	static const struct {
		const char *line;
		bool want;
	} good[] = {
		{ "", false },
		{ "-p 12", true },
		{ "-p 12 --no-children", false },
		{ "-p 12 --no-children --children", true },
		{ "--name web", true },
		{ "--name web --no-children", false },
		{ "-t 12", false },
		{ "-p 12 -e uprobe:/bin/sh:main", false },
		{ "-p 12 -e uprobe:/bin/sh:main --children", true },
		{ "-p 12 -e tracepoint:sched:sched_process_fork", true },
		{ "-p 12 -e tracepoint:sched:sched_switch,uprobe:/bin/sh:main", false },
	};
	struct run r;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		parse_good(&r, good[i].line);
		if (r.o.targets.children != good[i].want)
			print_error("'%s'", good[i].line);
		assert_true(r.o.targets.children == good[i].want);
		done(&r);
	}
}

static void test_chosen(void **state)
{
	struct run r;

	(void)state;
	parse_good(&r, "--name ^web$ -u root -t 3,4 -t 5 --cpu 0-3,8 --delay 1.5 --as-root");
	assert_string_equal(r.o.targets.name, "^web$");
	assert_true(r.o.targets.by_user && !r.o.targets.uid);
	assert_int_equal(r.o.targets.tid_cnt, 3);
	assert_int_equal(r.o.targets.tids[2], 5);
	assert_string_equal(r.o.targets.cpus, "0-3,8");
	assert_true(r.o.delay_s == 1.5 && r.o.as_root);
	done(&r);
	parse_good(&r, "-u 4711");
	assert_true(r.o.targets.by_user);
	assert_int_equal(r.o.targets.uid, 4711);
	done(&r);
}

/* --format is for all outputs, and says what stdout shows. */
static void test_format(void **state)
{
	static const struct {
		const char *line, *suffix;
	} good[] = {
		{ "-o x.pb", ".pb" },
		{ "-o x.pprof", ".pprof" },
		{ "-o x.pprof.gz", ".pprof.gz" },
		{ "-o x.collapsed", ".collapsed" },
		{ "-o -", ".txt" },
		{ "--format html -o -", ".html" },
		{ "-o x.out --format PProf", ".pb.gz" },
		{ "--format firefox.json -o x", ".firefox.json" },
	};
	struct run r;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		parse_good(&r, good[i].line);
		assert_string_equal(r.o.outputs.list[0].format->suffix, good[i].suffix);
		done(&r);
	}
}

static void test_outputs(void **state)
{
	struct run r;

	(void)state;
	parse_good(&r, "-o a.folded -o /x/b.pb.gz --output=- -o c.d.txt");
	assert_int_equal(r.o.outputs.cnt, 4);
	assert_string_equal(r.o.outputs.list[0].path, "a.folded");
	assert_string_equal(r.o.outputs.list[0].format->suffix, ".folded");
	assert_string_equal(r.o.outputs.list[1].format->suffix, ".pb.gz");
	assert_string_equal(r.o.outputs.list[2].path, "-");
	assert_string_equal(r.o.outputs.list[2].format->suffix, ".txt");
	assert_string_equal(r.o.outputs.list[3].format->suffix, ".txt");
	done(&r);
}

static void test_filters(void **state)
{
	struct run r;

	(void)state;
	parse_good(&r, "-C /sys/fs/cgroup/a.slice --comm gunicorn*");
	assert_string_equal(r.o.targets.cgroup, "/sys/fs/cgroup/a.slice");
	assert_string_equal(r.o.targets.comm, "gunicorn*");
	assert_false(r.o.targets.all);
	done(&r);

	parse_good(&r, "--cgroup=x --comm 123456789012345 -a");
	assert_string_equal(r.o.targets.cgroup, "x");
	assert_true(r.o.targets.all);
	done(&r);

	parse_good(&r, "--pod shop/web-0 --container app");
	assert_string_equal(r.o.targets.pod, "shop/web-0");
	assert_string_equal(r.o.targets.container, "app");
	assert_null(r.o.targets.cgroup);
	done(&r);
}

static void test_flags(void **state)
{
	struct run r;

	(void)state;
	parse_good(&r, "-af");
	assert_true(r.o.targets.all && r.o.outputs.folded);
	assert_false(r.o.no_native || r.o.no_kernel || r.o.no_lines || r.o.threads);
	assert_false(r.o.inlines);
	done(&r);
	parse_good(&r, "--all --folded --no-native");
	assert_true(r.o.targets.all && r.o.outputs.folded && r.o.no_native);
	assert_false(r.o.no_kernel || r.o.no_lines || r.o.threads);
	done(&r);
	parse_good(&r, "--no-kernel --threads");
	assert_true(r.o.no_kernel && r.o.threads);
	assert_false(r.o.no_native || r.o.no_lines || r.o.targets.all || r.o.outputs.folded);
	done(&r);
	parse_good(&r, "--inlines");
	assert_true(r.o.inlines);
	assert_false(r.o.no_lines || r.o.no_native);
	done(&r);
	parse_good(&r, "--no-lines");
	assert_true(r.o.no_lines);
	assert_false(r.o.no_native || r.o.no_kernel || r.o.threads);
	done(&r);
}

static void test_verbosity(void **state)
{
	static const struct {
		const char *line;
		int want;
	} good[] = {
		{ "-v", 1 },
		{ "-vv", 2 },
		{ "-vvvv", 2 },
		{ "-v --verbose", 2 },
		{ "-q", -1 },
		{ "-vvq", -1 },
		{ "--quiet --verbose", 1 },
	};
	struct run r;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		parse_good(&r, good[i].line);
		assert_int_equal(r.o.verbosity, good[i].want);
		done(&r);
	}
}

static void test_command(void **state)
{
	struct run r;

	(void)state;
	parse_good(&r, "-d 5 -- python3 -c pass -d x -- y");
	assert_ptr_equal(r.o.command, r.argv + 4);
	assert_string_equal(r.o.command[0], "python3");
	assert_string_equal(r.o.command[6], "y");
	assert_null(r.o.command[7]);
	assert_true(r.o.duration_s == 5);
	done(&r);

	/* A command may have any name, also that of a subcommand, and be joined by -p. */
	parse_good(&r, "-p 1 --children -- record");
	assert_string_equal(r.o.command[0], "record");
	assert_null(r.o.command[1]);
	assert_int_equal(r.o.targets.pid_cnt, 1);
	done(&r);

	/* "--" as a value is a value. */
	parse_good(&r, "-C -- -a");
	assert_string_equal(r.o.targets.cgroup, "--");
	assert_true(r.o.targets.all);
	assert_null(r.o.command);
	done(&r);
}

/* Each message is one line that holds `want`. */
static void test_usage_errors(void **state)
{
	static const struct {
		const char *line, *want;
	} bad[] = {
		{ "-d 0", "-d 0: must be from 0.001 to 1000000000 seconds" },
		{ "-d 0.0000001", "must be from 0.001" },
		{ "-d -1", "-d -1: " },
		{ "-d 10000000000", "must be from 0.001" },
		{ "-d inf", "-d inf: " },
		{ "-d nan", "-d nan: " },
		{ "-d 1e3", "-d 1e3: not a number" },
		{ "-d 5s", "-d 5s: not a number of seconds, like 30 or 2.5" },
		{ "-d ''", "not a number of seconds" },
		{ "-d", "-d needs a value" },
		{ "--duration", "--duration needs a value" },
		{ "-F 0", "-F 0: must be a whole number from 1 to 50000" },
		{ "-F 50001", "from 1 to 50000" },
		{ "--table-memory 0", "a whole number from 1 to 65536 (MiB)" },
		{ "--max-frames 127", "from 128 to 16384" },
		{ "--max-frames 16385", "--max-frames 16385: must be a whole number" },
		{ "-F 99.5", "-F 99.5: must be a whole number" },
		{ "-F 18446744073709551615", "from 1 to 50000" },
		{ "-F +5", "-F +5: must be" },
		{ "-p 0", "-p 0: '0' is not a process id (from 1 to 4194304)" },
		{ "-p 4194305", "'4194305' is not a process id" },
		{ "-p 1,,2", "-p 1,,2: '' is not a process id" },
		{ "-p 1,2,", "'' is not a process id" },
		{ "-p ''", "'' is not a process id" },
		{ "-p self", "'self' is not a process id" },
		{ "-p 1,-2", "'-2' is not a process id" },
		{ "--children", "--children needs a process: name it with -p" },
		{ "--no-children", "--no-children needs a process: name it with -p" },
		{ "-t 0", "-t: '0' is not the number of a thread (from 1 to 4194304)" },
		{ "-t 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "at most 16 threads" },
		{ "-u no-such-user", "-u no-such-user: there is no such user" },
		{ "--cpu 3-1", "--cpu 3-1: must be numbers of CPUs, like 0-3,8" },
		{ "--cpu 1,", "must be numbers of CPUs" },
		{ "--cpu x", "must be numbers of CPUs" },
		{ "--cpu 0 -e uprobe:/bin/sh:main", "probes are in the code that all CPUs run" },
		{ "--name (", "--name (: not a regular expression: " },
		{ "--name a --name b", "--name b: can be given once only (first: a)" },
		{ "--delay x", "--delay x: not a number of seconds" },
		{ "--format xyz", "--format xyz: there is no such format; known are pprof folded" },
		{ "-f --format svg", "-f and --format both choose the format of stdout" },
		{ "-C ''", "-C: the value is empty" },
		{ "-C a -C b", "-C b: can be given once only (first: a)" },
		{ "--pod ''", "--pod: the value is empty" },
		{ "--container a --container b",
		  "--container b: can be given once only (first: a)" },
		{ "-C a --pod b", "-C and --pod exclude each other: both choose a control group" },
		{ "--container b -C a",
		  "-C and --container exclude each other: both choose a control group" },
		{ "--comm ''", "--comm: the value is empty" },
		{ "--comm a --comm b", "--comm b: can be given once only (first: a)" },
		{ "--comm 1234567890123456",
		  "cuts names after 15 characters; try '123456789012345*'" },
		{ "--comm *234567890123456789012345678901234567890123456789012345678901234",
		  "longer than 63 characters" },
		{ "-o x.xyz", "-o x.xyz: the suffix names no format; known are .pb.gz" },
		{ "-o folded", "-o folded: the suffix names no format" },
		{ "-o ''", "the suffix names no format" },
		{ "-o a.txt -o a.txt", "-o a.txt: given twice" },
		{ "-o - -o -", "-o -: given twice" },
		{ "-f -o -", "-f and -o - both want stdout" },
		{ "-o - --folded", "-f and -o - both want stdout" },
		{ "-x", "unknown option -x; see 'pyperf-bpf record --help'" },
		{ "-vx", "unknown option -x" },
		{ "--frobnicate", "unknown or ambiguous option --frobnicate; see" },
		{ "--no", "unknown or ambiguous option --no;" },
		{ "--duratoin", "unknown option --duratoin; did you mean --duration?" },
		{ "--thread-names=3", "unknown or ambiguous option --thread-names=3;" },
		{ "--no-natvie=1", "unknown option --no-natvie; did you mean --no-native?" },
		{ "--all=yes", "--all takes no value" },
		{ "--", "-- must be followed by a command" },
		{ "-- ''", "-- must be followed by a command" },
		{ "python3 app.py",
		  "unexpected 'python3'; to run and sample a command: pyperf-bpf [OPTION]... -- "
		  "python3" },
		{ "-d 5 top", "pyperf-bpf [OPTION]... -- top" },
		{ "python3 -h", "unexpected 'python3'" },
		{ "python3 -- app.py", "unexpected 'python3'" },
		{ "record", "'record' goes before the options" },
		{ "-d 5 record", "'record' goes before the options" },
		{ "4711 4712", "unexpected '4712'; several processes: -p PID,PID" },
		{ "4711 -p 4712", "unexpected '4711'; several processes: -p PID,PID" },
		{ "-p 4712 4711", "unexpected '4711'; several processes: -p PID,PID" },
		{ "4711 python3", "unexpected 'python3'" },
		{ "4711,4712", "unexpected '4711,4712'" },
		{ "''", "unexpected ''" },
		{ "-", "unexpected '-'" },
		{ "\033[31mred", "unexpected '\xef\xbf\xbd[31mred'" },
	};
	struct run r;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		parse(&r, bad[i].line);
		if (r.result != CMDLINE_USAGE || !strstr(r.err, bad[i].want))
			print_error("'%s' is told: %s", bad[i].line, r.err);
		assert_int_equal(r.result, CMDLINE_USAGE);
		assert_non_null(strstr(r.err, bad[i].want));
		assert_int_equal(strncmp(r.err, "pyperf-bpf: ", 12), 0);
		assert_ptr_equal(strchr(r.err, '\n'), r.err + strlen(r.err) - 1);
		assert_string_equal(r.out, "");
		done(&r);
	}
}

/* One screen: it must be readable without a pager. */
static void test_help(void **state)
{
	static const char *const lines[] = { "--help", "-h", "-vh", "-d 5 --help --bad" };
	struct run r;
	size_t line_cnt;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		parse(&r, lines[i]);
		assert_int_equal(r.result, CMDLINE_DONE);
		assert_string_equal(r.err, "");
		assert_non_null(strstr(r.out, ".pb.gz"));
		assert_non_null(strstr(r.out, " .json\n"));
		line_cnt = 0;
		for (char *rest = r.out, *line; (line = strsep(&rest, "\n")) && rest; line_cnt++)
			assert_true(strlen(line) <= COLUMNS_MAX);
		assert_in_range(line_cnt, 10, LINES_MAX);
		done(&r);
	}
}

static void test_version(void **state)
{
	int major, minor, patch;
	struct run r;

	(void)state;
	parse(&r, "--version");
	assert_int_equal(r.result, CMDLINE_DONE);
	assert_int_equal(sscanf(r.out, "pyperf-bpf %d.%d.%d\n", &major, &minor, &patch), 3);
	assert_string_equal(r.err, "");
	done(&r);
}

/* A help that nobody can read is a failure. */
static void test_help_stdout_full(void **state)
{
	int saved = dup(STDOUT_FILENO), saved_err;
	struct options o;
	enum cmdline_result result;
	char *argv[] = { (char *)"pyperf-bpf", (char *)"--help", NULL };
	char text[256];
	FILE *err;

	(void)state;
	fflush(stdout);
	assert_non_null(freopen("/dev/full", "w", stdout));
	saved_err = divert(STDERR_FILENO, &err);
	result = options__parse(&o, 2, argv);
	restore(STDERR_FILENO, saved_err, err, text, sizeof(text));
	clearerr(stdout);
	assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
	close(saved);
	assert_int_equal(result, CMDLINE_FAILED);
	assert_non_null(strstr(text, "standard output: No space left on device"));
	options__free(&o);
}

/* No argv[0] at all: execve() allows it. */
static void test_no_words(void **state)
{
	char *argv[] = { NULL };
	struct options o;

	(void)state;
	assert_int_equal(options__parse(&o, 0, argv), CMDLINE_RUN);
	assert_null(o.command);
	options__free(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),     cmocka_unit_test(test_duration),
		cmocka_unit_test(test_numbers),	     cmocka_unit_test(test_pids),
		cmocka_unit_test(test_children),     cmocka_unit_test(test_chosen),
		cmocka_unit_test(test_format),	     cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_filters),	     cmocka_unit_test(test_flags),
		cmocka_unit_test(test_verbosity),    cmocka_unit_test(test_command),
		cmocka_unit_test(test_usage_errors), cmocka_unit_test(test_help),
		cmocka_unit_test(test_version),	     cmocka_unit_test(test_help_stdout_full),
		cmocka_unit_test(test_no_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
