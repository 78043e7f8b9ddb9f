/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_REDUCE_OPTIONS_H
#define PYPERF_REDUCE_OPTIONS_H
/* The options with which report and diff, like record, show only a part of a saved profile. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cmd/cmdline.h"
#include "profile/reduce.h"

/* Numbered apart from the options of the commands. */
enum reduce_long_only {
	REDUCE_NO_NATIVE = CMDLINE_LONG_ONLY + 256,
	REDUCE_NO_KERNEL,
	REDUCE_COMM,
};

/* clang-format off */
#define REDUCE_LONG_OPTIONS                                                                      \
	{ "no-native", no_argument, NULL, REDUCE_NO_NATIVE },                                    \
	{ "no-kernel", no_argument, NULL, REDUCE_NO_KERNEL },                                    \
	{ "comm", required_argument, NULL, REDUCE_COMM }
#define REDUCE_HELP                                                                              \
	"      --no-native        without native (C, C++, ...) frames\n"                           \
	"      --no-kernel        without kernel frames\n"                                         \
	"      --comm PATTERN     only processes whose name matches, like 'celery*'\n"
/* clang-format on */

struct reduce_options {
	struct reduction what;
	pid_t *pids; /* owned; `what` points to them */
};

bool reduce_options__takes(int opt);
/*
 * Takes an option; that of 'p' is a list of process numbers with commas between them. 0, or -EINVAL
 * or -ENOMEM after a message.
 */
int reduce_options__set(struct reduce_options *n, int opt, const char *arg);
/* Removes everything else from the profile. 0, or -ENOENT after a message: nothing is left. */
int reduce_options__apply(const struct reduce_options *n, struct profile *p, const char *name);
void reduce_options__free(struct reduce_options *n);

#endif /* PYPERF_REDUCE_OPTIONS_H */
