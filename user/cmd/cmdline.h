/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CMDLINE_H
#define PYPERF_CMDLINE_H
/*
 * Parses the command line of a command: loops over the options, handles those that every command
 * has (-v, -q, -h, --version), and prints the message about a bad option. Touches only stdout and
 * stderr. Every error is one line.
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
#include <stdint.h>
#include <sys/types.h>

#define TGID_MAX       4194304 /* PID_MAX_LIMIT, include/linux/threads.h */
#define DURATION_MIN_S 0.001
#define DURATION_MAX_S 1e9 /* 32 years; in nanoseconds it fits in 64 bits */

enum cmdline_result {
	CMDLINE_RUN = 0,
	CMDLINE_DONE = 1,  /* --help, --version or the like were printed: exit 0 */
	CMDLINE_USAGE = 2, /* the error was printed: exit 2 */
	/* no memory, or stdout cannot be written; the error was printed: exit 1 */
	CMDLINE_FAILED = 3,
};

/*
 * Numbers of options without a letter begin here. They are above every char, so they cannot collide
 * with a letter.
 */
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

/* The lines of --help about them. */
#define CMDLINE_HELP                                                                               \
	"  -v, --verbose          more messages       -q, --quiet  errors only\n"                  \
	"  -h, --help             show this help      --version    show the version\n"

struct cmdline {
	const char *command; /* its name */
	void (*usage)(void); /* prints the help */
	bool stop_at_word;   /* options end at the first word, and a command line follows */
	const char *shorts;  /* in the form of getopt(), without '+' and ':' */
	const struct option *longs;
	/*
	 * Takes one option of the command. 0; -EINVAL or -ENOMEM after a message; -ECANCELED: the
	 * option asked only for something to be printed, which was done.
	 */
	int (*set)(void *ctx, int opt, const char *arg);
	void *ctx;

	/* Results, valid after CMDLINE_RUN. */
	int verbosity; /* -1: -q, 0, 1: -v, 2: -vv */
	char **words;  /* the words that are not options, NULL-terminated; in argv */
	bool dashes;   /* with stop_at_word: "--" stands before the words */
};

/* argv[0] is skipped. With stop_at_word argv is not reordered. */
enum cmdline_result cmdline__parse(struct cmdline *c, int argc, char **argv);
/* The result for a return value of `set`, which has printed its errors. */
enum cmdline_result cmdline__result(int err);
/* The exit status for anything but CMDLINE_RUN. */
int cmdline__status(enum cmdline_result result);
/*
 * Parses a whole number from `min` to `max`. 0, or -EINVAL after a message that names the option
 * and the unit; `*out` then keeps its value.
 */
int cmdline__whole(const char *option, const char *arg, long long min, long long max,
		   const char *unit, long long *out);
/* Parses the number of a process, from 1 to TGID_MAX. 0, or -EINVAL without a message. */
int cmdline__pid(const char *word, pid_t *pid);
/*
 * Parses the number of a process that may be the only word of a command line. Sets `*pid`, unless
 * there is no word. `chosen`: an option has named the process already, so a word is an error.
 * `remedy` ends the message about an unexpected word. 0, or -EINVAL after a message.
 */
int cmdline__pid_word(const char *command, char **words, bool chosen, const char *remedy,
		      pid_t *pid);
/*
 * "record 4711 -d 9" is "record -d 9 -p 4711": if the first word is the number of a process, sets
 * `*pid` and parses the rest of the line. Otherwise changes nothing. argc and argv are those of the
 * last cmdline__parse(), and become those of the next one.
 */
enum cmdline_result cmdline__take_pid(struct cmdline *c, int *argc, char ***argv, pid_t *pid);
/*
 * Parses seconds, of at least `min` and at most `max`. 0, or -EINVAL after a message; `*out` then
 * keeps its value.
 */
int cmdline__seconds(const char *option, const char *arg, double min, double max, double *out);
/* Parses a time such as "1ms", "50us" or "0.5s". 0, or -EINVAL without a message. */
int cmdline__time(const char *text, uint64_t *ns);

enum cmdline_result cmdline__print_help(void (*usage)(void));
enum cmdline_result cmdline__print_version(void);

#endif /* PYPERF_CMDLINE_H */
