/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_SAVED_H
#define PYPERF_HEAP_SAVED_H
/*
 * Reads a heap that `heap --json` has written, and compares two of them type by type. Types are the
 * same if their names are, because their addresses differ from process to process. Types that share
 * a name are added up.
 *
 * The file is not trusted: its size and its numbers are bounded, and names are made safe for a
 * terminal.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "heap/show.h"

#define HEAP_SAVED_MAX (256U << 20) /* bytes of a file */

struct saved_type {
	char *name; /* owned */
	uint64_t cnt, bytes;
};

/* Valid when all zero: an empty heap. */
struct heap_saved {
	uint64_t pid, rss;
	bool complete;
	struct saved_type *types; /* by name, each once */
	size_t cnt, cap;
};

/* 0 or negative errno, printed. */
int heap_saved__read(struct heap_saved *s, const char *path);
/* -EINVAL: not such a text; -E2BIG; -ENOMEM. Free it in any case. */
int heap_saved__parse(struct heap_saved *s, const char *text, size_t len);
/* Takes the heap that was just read. 0 or -ENOMEM. */
int heap_saved__take(struct heap_saved *s, const struct heap_view *v);
void heap_saved__free(struct heap_saved *s);

struct heap_change {
	const char *name; /* borrowed from the heaps */
	int64_t cnt, bytes;
	uint64_t cnt_now, bytes_now;
};

struct heap_diff {
	const struct heap_saved *before, *after; /* borrowed */
	/* types that differ, the one that grew by most bytes first */
	struct heap_change *types;
	size_t cnt;
	int64_t objects, bytes; /* of all */
};

/* 0 or -ENOMEM. */
int heap_diff__make(struct heap_diff *d, const struct heap_saved *before,
		    const struct heap_saved *after);
void heap_diff__free(struct heap_diff *d);
/* 0 or negative errno. `width`: 0 for no limit; `all`: types. */
int heap_diff__text(FILE *f, const struct heap_diff *d, unsigned width, bool color, bool all);
int heap_diff__json(FILE *f, const struct heap_diff *d);

#endif /* PYPERF_HEAP_SAVED_H */
