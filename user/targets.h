/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TARGETS_H
#define PYPERF_TARGETS_H
/*
 * What is to be sampled, as the command line says it: the options that record and top have in common.
 * Touches nothing: no process is looked at.
 *
 * Every error is one line on stderr that names the option, what was wrong and what is allowed.
 *
 *	static const struct option longs[] = { TARGETS_LONG_OPTIONS, CMDLINE_LONG_OPTIONS, { 0 } };
 *	struct targets t = TARGETS_DEFAULT;
 *
 *	.shorts = TARGETS_SHORT_OPTIONS CMDLINE_SHORT_OPTIONS,
 *	in set():  if (targets__takes(opt)) return targets__set(&t, opt, arg);
 *	targets__free(&t);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmdline.h"

#define FREQUENCY_MAX	  50000
#define FREQUENCY_DEFAULT 99

struct targets {
	uint32_t frequency_hz;
	pid_t *pids; /* owned; each once, in the order given */
	size_t pid_cnt;
	bool children;	    /* descendants of `pids`; those of a command always count */
	const char *cgroup; /* path as given, or NULL; borrowed from argv */
	const char *comm;   /* glob, or NULL; borrowed from argv */
	bool all;
};

/* clang-format off */
#define TARGETS_DEFAULT { .frequency_hz = FREQUENCY_DEFAULT }
/* clang-format on */

/* Numbered apart from the options of the commands, which begin at CMDLINE_LONG_ONLY. */
enum targets_long_only {
	TARGETS_CHILDREN = CMDLINE_LONG_ONLY + 64,
	TARGETS_COMM,
};

#define TARGETS_SHORT_OPTIONS "F:p:C:a"
/* clang-format off */
#define TARGETS_LONG_OPTIONS                                                                       \
	{ "frequency", required_argument, NULL, 'F' },                                             \
	{ "pid", required_argument, NULL, 'p' },                                                   \
	{ "children", no_argument, NULL, TARGETS_CHILDREN },                                       \
	{ "cgroup", required_argument, NULL, 'C' },                                                \
	{ "comm", required_argument, NULL, TARGETS_COMM },                                         \
	{ "all", no_argument, NULL, 'a' }
/* clang-format on */

/* Prints the lines of a help. */
void targets__help(void);
/* Is it one of the options above? */
bool targets__takes(int opt);
/* 0, or -EINVAL or -ENOMEM after a message. */
int targets__set(struct targets *t, int opt, const char *arg);
/* `command`: a command is started and sampled, too. 0, or -EINVAL after a message. */
int targets__check(const struct targets *t, bool command);
void targets__free(struct targets *t);

#endif /* PYPERF_TARGETS_H */
