/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TARGETS_H
#define PYPERF_TARGETS_H
/*
 * What is to be sampled, as the command line says it: the options that record and top have in
 * common, and those for events other than time, which record has. Touches nothing: no process is
 * looked at.
 *
 * Every error is one line on stderr that names the option, what was wrong and what is allowed.
 *
 *	static const struct option longs[] = { TARGETS_LONG_OPTIONS, CMDLINE_LONG_OPTIONS, { 0 } };
 *	struct sample_spec t = TARGETS_DEFAULT;
 *
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
};

#define TARGETS_SHORT_OPTIONS	    "F:r:p:C:a"
#define TARGETS_EVENT_SHORT_OPTIONS "e:c:"
/* clang-format off */
#define TARGETS_LONG_OPTIONS                                                                       \
	{ "frequency", required_argument, NULL, 'F' },                                             \
	{ "pid", required_argument, NULL, 'p' },                                                   \
	{ "children", no_argument, NULL, TARGETS_CHILDREN },                                       \
	{ "cgroup", required_argument, NULL, 'C' },                                                \
	{ "comm", required_argument, NULL, TARGETS_COMM },                                         \
	{ "all", no_argument, NULL, 'a' },                                                         \
	{ "nmi", no_argument, NULL, TARGETS_NMI },                                                 \
	{ "map-entries", required_argument, NULL, TARGETS_MAP_ENTRIES }
#define TARGETS_EVENT_LONG_OPTIONS                                                                 \
	{ "event", required_argument, NULL, 'e' }, { "count", required_argument, NULL, 'c' }
/* clang-format on */

/*
 * Prints the lines of a help, without the options that are for tests. `events`: with those of
 * events.
 */
void targets__help(bool events);
/* Is it one of the options above? */
bool targets__takes(int opt);
/* 0, or negative as cmdline.set. */
int targets__set(struct sample_spec *t, int opt, const char *arg);
/*
 * After all options: sets defaults, too. `command`: a command is started and sampled, too. 0, or
 * -EINVAL after a message.
 */
int targets__check(struct sample_spec *t, bool command);
void targets__free(struct sample_spec *t);

#endif /* PYPERF_TARGETS_H */
