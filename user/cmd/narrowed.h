/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NARROWED_H
#define PYPERF_NARROWED_H
/* The options with which report and diff, like record, show only a part of a saved profile. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cmd/cmdline.h"
#include "profile/narrow.h"

/* Numbered apart from the options of the commands. */
enum narrowed_long_only {
	NARROWED_NO_NATIVE = CMDLINE_LONG_ONLY + 256,
	NARROWED_NO_KERNEL,
	NARROWED_COMM,
};

/* clang-format off */
#define NARROWED_LONG_OPTIONS                                                                      \
	{ "no-native", no_argument, NULL, NARROWED_NO_NATIVE },                                    \
	{ "no-kernel", no_argument, NULL, NARROWED_NO_KERNEL },                                    \
	{ "comm", required_argument, NULL, NARROWED_COMM }
#define NARROWED_HELP                                                                              \
	"      --no-native        without native (C, C++, ...) frames\n"                           \
	"      --no-kernel        without kernel frames\n"                                         \
	"      --comm PATTERN     only processes whose name matches, like 'celery*'\n"
/* clang-format on */

struct narrowed {
	struct narrowing what;
	pid_t *pids; /* owned; `what` points to them */
};

bool narrowed__takes(int opt);
/*
 * Takes an option; that of 'p' is a list of process numbers with commas between them. 0, or -EINVAL
 * or -ENOMEM after a message.
 */
int narrowed__set(struct narrowed *n, int opt, const char *arg);
/* Removes everything else from the profile. 0, or -ENOENT after a message: nothing is left. */
int narrowed__apply(const struct narrowed *n, struct profile *p, const char *name);
void narrowed__free(struct narrowed *n);

#endif /* PYPERF_NARROWED_H */
