/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CMDLINE_H
#define PYPERF_CMDLINE_H
/*
 * What the command lines of all commands have in common: the loop over the options, the options
 * that every command has (-v, -q, -h, --version), and what a bad option is told. Touches nothing
 * but stdout and stderr; every error is one line.
 *
 *	static const struct option longs[] = {
 *		{ "output", required_argument, NULL, 'o' },
 *		CMDLINE_LONG_OPTIONS,
 *		{ NULL, 0, NULL, 0 },
 *	};
 *	struct cmdline c = {
 *		.command = "report", .usage = usage, .set = set_option, .ctx = &opts,
 *		.shorts = "o:" CMDLINE_SHORT_OPTIONS, .longs = longs,
 *	};
 *	result = cmdline__parse(&c, argc, argv);
 */
#include <getopt.h>
#include <stdbool.h>
#include <sys/types.h>

#define TGID_MAX 4194304 /* PID_MAX_LIMIT, include/linux/threads.h */

enum cmdline_result {
	CMDLINE_RUN = 0,
	CMDLINE_DONE = 1,   /* --help, --version or the like were printed: exit 0 */
	CMDLINE_USAGE = 2,  /* the error was printed: exit 2 */
	CMDLINE_FAILED = 3, /* no memory, or stdout does not take the help; printed: exit 1 */
};

/* Options without a letter are numbered from here on: above every char, so they cannot meet one. */
#define CMDLINE_LONG_ONLY     256
#define CMDLINE_VERSION	      (CMDLINE_LONG_ONLY - 1)

#define CMDLINE_SHORT_OPTIONS "vqh"
/* clang-format off */
#define CMDLINE_LONG_OPTIONS                                                                       \
	{ "verbose", no_argument, NULL, 'v' },                                                     \
	{ "quiet", no_argument, NULL, 'q' },                                                       \
	{ "help", no_argument, NULL, 'h' },                                                        \
	{ "version", no_argument, NULL, CMDLINE_VERSION }
/* clang-format on */

/* What the help says of them. */
#define CMDLINE_HELP                                                                               \
	"  -v, --verbose          more messages; -vv: even more\n"                                 \
	"  -q, --quiet            errors only\n"                                                   \
	"  -h, --help             show this help\n"                                                \
	"      --version          show the version\n"

struct cmdline {
	const char *command; /* its name */
	void (*usage)(void); /* prints the help */
	bool stop_at_word;   /* options end at the first word: what follows is a command line */
	const char *shorts;  /* as getopt() wants them, without '+' and ':' */
	const struct option *longs;
	/*
	 * One option of the command. 0; -EINVAL or -ENOMEM after a message; -ECANCELED: it asked
	 * for something to be printed, which was done, and for nothing else.
	 */
	int (*set)(void *ctx, int opt, const char *arg);
	void *ctx;

	/* Results, valid after CMDLINE_RUN. */
	int verbosity; /* -1: -q, 0, 1: -v, 2: -vv */
	char **words;  /* in argv: what is not an option; NULL-terminated */
	bool dashes;   /* with stop_at_word: "--" stands before the words */
};

/* argv[0] is skipped. With stop_at_word argv is not reordered. */
enum cmdline_result cmdline__parse(struct cmdline *c, int argc, char **argv);
/* What `set` has returned: of errors the user has been told. */
enum cmdline_result cmdline__result(int err);
/* The exit status for anything but CMDLINE_RUN. */
int cmdline__status(enum cmdline_result result);
/*
 * A whole number from `min` to `max`: 0, or -EINVAL after a message that names the option and the
 * unit. `*out` keeps its value then.
 */
int cmdline__whole(const char *option, const char *arg, long long min, long long max,
		   const char *unit, long long *out);
/* The number of a process, from 1 to TGID_MAX: 0, or -EINVAL without a message. */
int cmdline__pid(const char *word, pid_t *pid);

enum cmdline_result cmdline__print_help(void (*usage)(void));
enum cmdline_result cmdline__print_version(void);

#endif /* PYPERF_CMDLINE_H */
