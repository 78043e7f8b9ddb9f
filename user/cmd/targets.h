/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TARGETS_H
#define PYPERF_TARGETS_H
/*
 * Parses the options that say what to sample, which record and top have in common. Touches nothing
 * else and reads no process.
 *
 * Every error is one line on stderr that names the option, the mistake and the allowed values.
 *
 *	static const struct option longs[] = { TARGETS_LONG_OPTIONS, CMDLINE_LONG_OPTIONS, { 0 } };
 *
 *	struct sample_spec t = TARGETS_DEFAULT;
 *	.shorts = TARGETS_SHORT_OPTIONS CMDLINE_SHORT_OPTIONS,
 *	in set():  if (targets__takes(opt)) return targets__set(&t, opt, arg);
 *	targets__free(&t);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmd/cmdline.h"
#include "sample/spec.h"

/* clang-format off */
#define TARGETS_DEFAULT { .frequency_hz = 0 } /* targets__check() fills it in */
/* clang-format on */

/* Numbered apart from the options of the commands, which begin at CMDLINE_LONG_ONLY. */
enum targets_long_only {
	TARGETS_CHILDREN = CMDLINE_LONG_ONLY + 64,
	TARGETS_COMM,
	TARGETS_NMI,
	TARGETS_MAP_ENTRIES,
	TARGETS_NO_CHILDREN,
	TARGETS_NAME,
	TARGETS_WAIT_MIN,
	TARGETS_CPU,
	TARGETS_POD,
	TARGETS_CONTAINER,
};

#define TARGETS_SHORT_OPTIONS "e:c:F:r:p:t:u:C:a"
/* clang-format off */
#define TARGETS_LONG_OPTIONS                                                                       \
	{ "event", required_argument, NULL, 'e' },                                                 \
	{ "count", required_argument, NULL, 'c' },                                                 \
	{ "wait-min", required_argument, NULL, TARGETS_WAIT_MIN },                                 \
	{ "frequency", required_argument, NULL, 'F' },                                             \
	{ "pid", required_argument, NULL, 'p' },                                                   \
	{ "children", no_argument, NULL, TARGETS_CHILDREN },                                       \
	{ "no-children", no_argument, NULL, TARGETS_NO_CHILDREN },                                 \
	{ "name", required_argument, NULL, TARGETS_NAME },                                         \
	{ "user", required_argument, NULL, 'u' },                                                  \
	{ "tid", required_argument, NULL, 't' },                                                   \
	{ "cpu", required_argument, NULL, TARGETS_CPU },                                           \
	{ "cgroup", required_argument, NULL, 'C' },                                                \
	{ "pod", required_argument, NULL, TARGETS_POD },                                           \
	{ "container", required_argument, NULL, TARGETS_CONTAINER },                               \
	{ "comm", required_argument, NULL, TARGETS_COMM },                                         \
	{ "all", no_argument, NULL, 'a' },                                                         \
	{ "nmi", no_argument, NULL, TARGETS_NMI },                                                 \
	{ "map-entries", required_argument, NULL, TARGETS_MAP_ENTRIES }
/* clang-format on */

/* Prints the lines of --help, without the options for tests. */
void targets__help(void);
/* Is it one of the options above? */
bool targets__takes(int opt);
/* Takes an option. Returns the same as cmdline.set. */
int targets__set(struct sample_spec *t, int opt, const char *arg);
/*
 * Checks the options against each other and sets defaults. Call after all options. `command`: a
 * command is started and sampled, too. 0, or -EINVAL after a message.
 */
int targets__check(struct sample_spec *t, bool command);
void targets__free(struct sample_spec *t);

#endif /* PYPERF_TARGETS_H */
