/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_TARGET_H
#define PYPERF_HEAP_TARGET_H
/*
 * A running process: its memory, its interpreter, and where the arrays of its arenas are. Nothing
 * is stopped, and no symbol is needed but those that an interpreter exports.
 *
 * The array of arenas is a static variable, or part of one. It is found by what it points to: each
 * word of the interpreter's data is tried, and the arenas' own pools have to name their place in
 * the array.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "heap/mem.h"
#include "heap/scan.h"
#include "heap/types.h"
#include "python/pyproc.h"

#define HEAP_WHY_LEN 512 /* UNSUPPORTED_LEN */

struct heap_target {
	pid_t pid;
	int proc_fd;
	char comm[32];
	struct heap_mem mem; /* ctx is this */
	struct py_binary py;
	uint64_t bias;
	struct heap_shape shape;
	struct heap_range *data; /* of the interpreter's file: where its variables are; owned */
	size_t data_cnt;
	struct heap_range module; /* all of it */
	struct strbuf text;	  /* of a file below /proc/PID */
};

/* 0, or negative errno and a sentence in `why`. heap_target__close() in any case. */
int heap_target__open(struct heap_target *t, pid_t pid, char why[HEAP_WHY_LEN]);
void heap_target__close(struct heap_target *t);
/* Adds all arenas of the process: how many arrays there are, or -ENOMEM. */
int heap_target__find_arenas(const struct heap_target *t, struct heap_scan *s);

#endif /* PYPERF_HEAP_TARGET_H */
