/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NARROWED_H
#define PYPERF_NARROWED_H
/*
 * The options that `report` and `diff` share with `record`: which part of a saved profile is shown.
 */
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
	pid_t *pids; /* owned; those of `what` */
};

bool narrowed__takes(int opt);
/* 0, -EINVAL or -ENOMEM after a message. 'p' takes numbers of processes with commas between. */
int narrowed__set(struct narrowed *n, int opt, const char *arg);
/* 0, or -ENOENT after a message: nothing of the profile is left. */
int narrowed__apply(const struct narrowed *n, struct profile *p, const char *name);
void narrowed__free(struct narrowed *n);

#endif /* PYPERF_NARROWED_H */
