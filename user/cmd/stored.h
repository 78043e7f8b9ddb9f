/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STORED_H
#define PYPERF_STORED_H
/*
 * Reads profiles from the agent's store for report and diff: their common options, the profile of a
 * range of time, and the messages when there is none.
 *
 * Every error is one line on stderr.
 *
 *	static const struct option longs[] = { STORED_LONG_OPTIONS, CMDLINE_LONG_OPTIONS, { 0 } };
 *
 *	struct stored s = { 0 };
 *	in set():  if (stored__takes(opt)) return stored__set(&s, opt, arg);
 *	err = stored__range(&range, "--from", from, "--to", to);
 *	err = stored__load(&s, &range, import);
 *	stored__free(&s);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/cmdline.h"
#include "import/import.h"
#include "store/store.h"

struct stored {
	bool used;	  /* one of the options was given */
	const char *path; /* borrowed from argv; NULL: STORE_PATH */
	const char *service;
	struct label *labels; /* owned, with their names; include the service */
	size_t label_cnt, label_cap;
};

/* Numbered apart from those of the commands and of targets.h. */
enum stored_long_only {
	STORED_PATH = CMDLINE_LONG_ONLY + 128,
	STORED_SERVICE,
	STORED_LABEL,
};

/* clang-format off */
#define STORED_LONG_OPTIONS                                                                        \
	{ "service", required_argument, NULL, STORED_SERVICE },                                    \
	{ "label", required_argument, NULL, STORED_LABEL },                                        \
	{ "store", required_argument, NULL, STORED_PATH }
/* clang-format on */

/* The lines of --help about them. */
#define STORED_HELP                                                                                \
	"      --service NAME     only this service\n"                                             \
	"      --label NAME=VAL   only windows with this label; may be repeated\n"                 \
	"      --store FILE       the store; default: " STORE_PATH "\n"

bool stored__takes(int opt);
/* 0, or -EINVAL or -ENOMEM after a message. */
int stored__set(struct stored *s, int opt, const char *arg);
void stored__free(struct stored *s);

struct stored_range {
	uint64_t from_ns, to_ns; /* [from, to) */
};

/*
 * Parses the two ends of a range, in the forms of when.h. The names are for messages. 0, or -EINVAL
 * after a message.
 */
int stored__range(struct stored_range *r, const char *from_name, const char *from,
		  const char *to_name, const char *to);

/*
 * Adds the windows of the range to an import and finishes it. 0, or negative errno after a message.
 */
int stored__load(const struct stored *s, const struct stored_range *r, struct import *im);
/* Prints the services of the range, or the labels of one service. Returns the same. */
int stored__list(const struct stored *s, const struct stored_range *r);

#endif /* PYPERF_STORED_H */
