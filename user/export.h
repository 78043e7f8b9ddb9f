/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_H
#define PYPERF_EXPORT_H
/*
 * A symbolized profile -> a stream, through a table of formats chosen by suffix.
 *
 * Output files appear whole or not at all: export__open() creates a temporary file beside the
 * target before sampling starts (so that a bad path is known at once), export__commit() writes and
 * renames.
 */
#include <stdbool.h>
#include <stdio.h>

#include "profile.h"

struct export_opts {
	bool color;	/* report only */
	bool lines;	/* false: --no-lines, functions only */
	bool threads;	/* stacks are kept apart by thread */
	unsigned width; /* columns of the terminal, 0: no limit */
};

struct export_format {
	const char *suffix; /* ".pb.gz" */
	const char *name;   /* for messages and --help: "pprof" */
	/* 0 or negative errno. Does not close `f`. */
	int (*write)(const struct profile *p, const struct export_opts *o, FILE *f);
};

/* The format for a path by its suffix, or NULL. */
const struct export_format *export__find(const char *path);
/* ".pb.gz .folded .txt", for messages; static storage. */
const char *export__suffixes(void);

int export__report(const struct profile *p, const struct export_opts *o, FILE *f);
int export__folded(const struct profile *p, const struct export_opts *o, FILE *f);
int export__pprof(const struct profile *p, const struct export_opts *o, FILE *f);

/* A file that is being made. */
struct export_file;
/* NULL and errno when the target cannot be written; nothing is left behind. */
struct export_file *export__open(const char *path, const struct export_format *format);
/* Writes, syncs and renames over the target. 0 or negative errno; the target is untouched on
 * failure. */
int export__commit(struct export_file *x, const struct profile *p, const struct export_opts *o);
/* Removes the temporary file if it was not committed. */
void export__close(struct export_file *x);

#endif /* PYPERF_EXPORT_H */
