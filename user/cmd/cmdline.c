/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/cmdline.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/str.h"
#include "base/stream.h"
#include "base/version.h"

#define TIME_MAX_S 1e6

#define SHORTS_MAX 64
#define LONGS_MAX  64 /* that are compared with one that is not known */

static enum cmdline_result flush_stdout(void)
{
	int err = stream__flush(stdout);

	if (!err)
		return CMDLINE_DONE;
	log_err("standard output: %s", strerror(-err));
	return CMDLINE_FAILED;
}

enum cmdline_result cmdline__print_help(void (*usage)(void))
{
	usage();
	return flush_stdout();
}

enum cmdline_result cmdline__print_version(void)
{
	printf("pyperf-bpf %s\n", PYPERF_VERSION);
	return flush_stdout();
}

enum cmdline_result cmdline__result(int err)
{
	if (!err)
		return CMDLINE_RUN;
	if (err == -ECANCELED)
		return flush_stdout();
	return err == -ENOMEM ? CMDLINE_FAILED : CMDLINE_USAGE;
}

int cmdline__status(enum cmdline_result result)
{
	switch (result) {
	case CMDLINE_USAGE:
		return 2;
	case CMDLINE_FAILED:
		return 1;
	default:
		return 0;
	}
}

static bool is_known(const struct cmdline *c, int opt)
{
	for (const struct option *l = c->longs; l->name; l++)
		if (l->val == opt)
			return true;
	return false;
}

/*
 * "--duratoin": the option that was probably meant, or NULL. Of one that several begin with, none
 * was.
 */
static const char *meant_option(const struct cmdline *c, const char *word)
{
	const char *names[LONGS_MAX];
	size_t cnt = 0, len = strcspn(word, "="), at;
	char name[32];

	if (len < 3 || len - 2 >= sizeof(name) || strncmp(word, "--", 2) != 0)
		return NULL;
	snprintf(name, sizeof(name), "%.*s", (int)len - 2, word + 2);
	for (const struct option *l = c->longs; l->name && cnt < LONGS_MAX; l++) {
		if (!strncmp(l->name, name, len - 2))
			return NULL;
		names[cnt++] = l->name;
	}
	at = nearest_name(name, names, cnt);
	return at < cnt ? names[at] : NULL;
}

/*
 * getopt_long() refused an option; `opt` is '?' or ':', and optopt says which option, if it has
 * one. It has stepped over `word`, but for an unknown letter that is not the last one of its word.
 */
static int bad_option(const struct cmdline *c, int opt, const char *word)
{
	const char *meant = meant_option(c, word);

	if (opt == ':')
		log_err("%s needs a value; see 'pyperf-bpf %s --help'", word, c->command);
	else if (optopt && is_known(c, optopt)) /* --all=yes */
		log_err("%.*s takes no value", (int)strcspn(word, "="), word);
	else if (optopt)
		log_err("unknown option -%c; see 'pyperf-bpf %s --help'", optopt, c->command);
	else if (meant)
		log_err("unknown option %.*s; did you mean --%s?", (int)strcspn(word, "="), word,
			meant);
	else
		log_err("unknown or ambiguous option %s; see 'pyperf-bpf %s --help'", word,
			c->command);
	return -EINVAL;
}

/* CMDLINE_RUN: go on. */
static enum cmdline_result take_option(struct cmdline *c, int opt, char **argv)
{
	switch (opt) {
	case 'h':
		return cmdline__print_help(c->usage);
	case CMDLINE_VERSION:
		return cmdline__print_version();
	case 'v':
		c->verbosity = c->verbosity < 1 ? 1 : 2;
		return CMDLINE_RUN;
	case 'q':
		c->verbosity = -1;
		return CMDLINE_RUN;
	case '?':
	case ':':
		return cmdline__result(bad_option(c, opt, argv[optind - 1]));
	default:
		return cmdline__result(c->set(c->ctx, opt, optarg));
	}
}

enum cmdline_result cmdline__parse(struct cmdline *c, int argc, char **argv)
{
	char shorts[SHORTS_MAX];
	enum cmdline_result result;
	int opt, at;

	/* '+': stop at the first word that is not an option. ':': we print the messages. */
	snprintf(shorts, sizeof(shorts), "%s:%s", c->stop_at_word ? "+" : "", c->shorts);
	opterr = 0;
	optind = 0; /* glibc and musl: begin anew, also in the middle of a cluster like -vx */
	for (;;) {
		at = optind ? optind : 1;
		opt = getopt_long(argc, argv, shorts, c->longs, NULL);
		if (opt == -1)
			break;
		result = take_option(c, opt, argv);
		if (result != CMDLINE_RUN)
			return result;
	}
	c->words = argv + optind;
	/* Only the "--" that ended the options counts, not one that was an option's value. */
	c->dashes = optind > at;
	return CMDLINE_RUN;
}

int cmdline__whole(const char *option, const char *arg, long long min, long long max,
		   const char *unit, long long *out)
{
	if (!parse_int(arg, min, max, out))
		return 0;
	log_err("%s %s: must be a whole number from %lld to %lld (%s)", option, arg, min, max,
		unit);
	return -EINVAL;
}

int cmdline__pid(const char *word, pid_t *pid)
{
	long long n;

	if (parse_int(word, 1, TGID_MAX, &n))
		return -EINVAL;
	*pid = (pid_t)n;
	return 0;
}

int cmdline__pid_word(const char *command, char **words, bool chosen, const char *remedy,
		      pid_t *pid)
{
	if (!words[0])
		return 0;
	if (chosen || words[1])
		log_err("%s: unexpected '%s'; %s", command, words[words[1] ? 1 : 0], remedy);
	else if (cmdline__pid(words[0], pid))
		log_err("%s: '%s' is not the number of a process", command, words[0]);
	else
		return 0;
	return -EINVAL;
}

enum cmdline_result cmdline__take_pid(struct cmdline *c, int *argc, char ***argv, pid_t *pid)
{
	if (c->dashes || !c->words[0] || cmdline__pid(c->words[0], pid))
		return CMDLINE_RUN;
	/* The word stands where the name of the program stood. */
	*argc -= (int)(c->words - *argv);
	*argv = c->words;
	return cmdline__parse(c, *argc, *argv);
}

int cmdline__seconds(const char *option, const char *arg, double min, double max, double *out)
{
	int err = parse_double(arg, min, max, out);

	if (err == -ERANGE)
		log_err("%s %s: must be from %g to %.0f seconds", option, arg, min, max);
	else if (err)
		log_err("%s %s: not a number of seconds, like 30 or 2.5", option, arg);
	return err ? -EINVAL : 0;
}

int cmdline__time(const char *text, uint64_t *ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	size_t len = strspn(text, "0123456789.");
	char number[32];
	double value;

	if (!len || len >= sizeof(number))
		return -EINVAL;
	snprintf(number, sizeof(number), "%.*s", (int)len, text);
	if (parse_double(number, 0, TIME_MAX_S, &value))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(text + len, units[i].unit) != 0)
			continue;
		*ns = (uint64_t)(value * units[i].ns);
		return 0;
	}
	return -EINVAL;
}
