/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_TARGET_H
#define PYPERF_HEAP_TARGET_H
/*
 * A running process: its memory, its interpreter, and the arrays of its arenas. Stops nothing, and
 * needs no symbol but those that an interpreter exports.
 *
 * The array of arenas is a static variable, or part of one. It is found by its contents: each word
 * of the interpreter's data is tried, and the pools of the arenas that it would point to have to
 * name their place in the array.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reader.h"
#include "base/str.h"
#include "heap/mem.h"
#include "heap/pace.h"
#include "heap/scan.h"
#include "heap/types.h"
#include "python/pyproc.h"

#define HEAP_WHY_LEN 512 /* UNSUPPORTED_LEN */

struct heap_page;

struct heap_target {
	pid_t pid;
	int proc_fd;
	struct readers *readers; /* helpers that read its memory and its files */
	struct pace pace;	 /* of the reading */
	bool silent;		 /* its memory did not answer */
	char comm[32];
	char title[260];     /* for people: "gunicorn shop:app", else `comm`; safe for a terminal */
	struct heap_mem mem; /* ctx is this */
	struct heap_page *pages; /* read lately; owned */
	uint32_t generation;	 /* pages of another generation are too old */
	struct py_binary py;
	uint64_t bias;
	struct heap_shape shape;
	struct heap_range *data; /* of the interpreter's file: where its variables are; owned */
	size_t data_cnt, data_cap;
	struct heap_range module; /* all of it */
	struct strbuf text;	  /* of a file below /proc/PID */
};

/* 0, or negative errno and a sentence in `why`. heap_target__close() in any case. */
int heap_target__open(struct heap_target *t, pid_t pid, char why[HEAP_WHY_LEN]);
void heap_target__close(struct heap_target *t);
/*
 * Adds all arenas of the process. Returns the number of arrays, or -ENOMEM. `ranges`, ascending:
 * memory that may hold arrays.
 */
int heap_target__find_arenas(const struct heap_target *t, const struct heap_range *ranges,
			     size_t range_cnt, struct heap_scan *s);

#endif /* PYPERF_HEAP_TARGET_H */
