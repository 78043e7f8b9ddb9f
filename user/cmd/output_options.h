/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OUTPUT_OPTIONS_H
#define PYPERF_OUTPUT_OPTIONS_H
/*
 * The options that say what a command writes: those of record, report and diff alike. Their --help
 * is that of outputs.h.
 */
#include <stdbool.h>

#include "cmd/cmdline.h"
#include "export/outputs.h"

/* Numbered apart from the options of the commands. */
enum output_long_only {
	OUTPUT_FORMAT = CMDLINE_LONG_ONLY + 384,
	OUTPUT_GLUE,
	OUTPUT_MARKDOWN,
	OUTPUT_VALUE,
	OUTPUT_IDLE,
	OUTPUT_BUSY,
};

#define OUTPUT_SHORT_OPTIONS "o:f"
/* clang-format off */
#define OUTPUT_LONG_OPTIONS                                                                        \
	{ "output", required_argument, NULL, 'o' },                                                \
	{ "format", required_argument, NULL, OUTPUT_FORMAT },                                      \
	{ "folded", no_argument, NULL, 'f' },                                                      \
	{ "glue", no_argument, NULL, OUTPUT_GLUE }
/* Not when sampling. */
#define OUTPUT_SAVED_OPTIONS                                                                       \
	{ "markdown", no_argument, NULL, OUTPUT_MARKDOWN }
/* Of one profile, not of the difference of two. */
#define OUTPUT_PROFILE_OPTIONS                                                                     \
	{ "value", required_argument, NULL, OUTPUT_VALUE },                                        \
	{ "idle", required_argument, NULL, OUTPUT_IDLE },                                          \
	{ "busy", required_argument, NULL, OUTPUT_BUSY }
/* clang-format on */

bool output_options__takes(int opt);
/* Borrows `arg`. 0, or -EINVAL or -ENOMEM after a message. */
int output_options__set(struct outputs *o, int opt, const char *arg);

#endif /* PYPERF_OUTPUT_OPTIONS_H */
