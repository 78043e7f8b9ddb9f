/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_H
#define PYPERF_EXPORT_H
/*
 * A symbolized profile -> a stream, through a table of formats chosen by suffix. One export_*.c
 * describes and writes one format; export_stacks.h and export_text.h are what they share.
 *
 * All formats keep two promises: the same content gives the same bytes, in whatever order it was
 * collected; and foreign names come out as valid UTF-8 without control characters.
 *
 * Output files appear whole or not at all: export__open() creates a temporary file beside the
 * target (".name.XXXXXX") before sampling starts, so that a bad path is known at once;
 * export__commit() writes and renames. What is left behind by SIGKILL is at most that file.
 *
 *	struct export_file *x = export__open("out.pb.gz", export__find("out.pb.gz"));
 *	...
 *	err = export__commit(x, profile, &opts);
 *	export__close(x);
 *
 * "-", /dev/stdout and /dev/fd/N are the descriptors, which may be regular files that others append
 * to. Devices and FIFOs are written directly, if they are the caller's or root's, in a directory
 * where nobody else can exchange them, and named themselves, not by a link. A new file has the
 * permissions that the umask leaves, a replaced one keeps its own; a symbolic link is replaced, not
 * followed.
 */
#include <stdbool.h>
#include <stdio.h>

#include "profile/profile.h"

struct export_opts {
	bool color;	/* report only */
	bool lines;	/* false: --no-lines, functions only */
	bool threads;	/* stacks are kept apart by thread */
	bool absolute;	/* differences are of CPU time, not of shares */
	bool native;	/* report: the innermost functions of all kinds come first */
	bool verbose;	/* report: what became of each sample, also when all is well */
	bool live;	/* its processes are this machine's, now: else from a file (source.h) */
	unsigned width; /* columns of the terminal, 0: no limit */
	/* Show this value type only, by name. NULL: all, or the first where a format shows one. */
	const char *value;
};

struct export_format {
	const char *suffix; /* ".pb.gz" */
	const char *name;   /* for messages and --help: "pprof" */
	bool all_values;    /* has room for all value types of a profile */
	/* 0 or negative errno. Does not close `f`. */
	int (*write)(const struct profile *p, const struct export_opts *o, FILE *f);
	/* The same for what differs between two profiles; NULL: the format cannot show that. */
	int (*write_diff)(const struct profile *before, const struct profile *after,
			  const struct export_opts *o, FILE *f);
};

/* The format for a path by its suffix, or NULL. */
const struct export_format *export__find(const char *path);
/* All formats; the last has no suffix. */
const struct export_format *export__formats(void);

int export__report(const struct profile *p, const struct export_opts *o, FILE *f);
int export__folded(const struct profile *p, const struct export_opts *o, FILE *f);
int export__html(const struct profile *p, const struct export_opts *o, FILE *f);
int export__svg(const struct profile *p, const struct export_opts *o, FILE *f);
int export__lines(const struct profile *p, const struct export_opts *o, FILE *f);
int export__pprof(const struct profile *p, const struct export_opts *o, FILE *f);
int export__json(const struct profile *p, const struct export_opts *o, FILE *f);
int export__speedscope(const struct profile *p, const struct export_opts *o, FILE *f);
int export__firefox(const struct profile *p, const struct export_opts *o, FILE *f);

/* export_diff.c */
int export__diff_report(const struct profile *before, const struct profile *after,
			const struct export_opts *o, FILE *f);
int export__diff_folded(const struct profile *before, const struct profile *after,
			const struct export_opts *o, FILE *f);
int export__diff_json(const struct profile *before, const struct profile *after,
		      const struct export_opts *o, FILE *f);
int export__html_diff(const struct profile *before, const struct profile *after,
		      const struct export_opts *o, FILE *f);
int export__svg_diff(const struct profile *before, const struct profile *after,
		     const struct export_opts *o, FILE *f);

/*
 * Writes what `o` asks for to `f`; with `base` what differs from that, where the format shows it.
 * The writers below see one value type only, unless they have room for all. 0 or negative errno;
 * -ENOENT: no value type is called o->value.
 */
int export__write(const struct export_format *format, const struct profile *base,
		  const struct profile *p, const struct export_opts *o, FILE *f);

/* A file that is being made. */
struct export_file;
/* NULL and errno (and a message) when the target cannot be written; nothing is left behind. */
struct export_file *export__open(const char *path, const struct export_format *format);
/*
 * Writes, syncs and renames over the target. 0 or negative errno (and a message); a regular target
 * is untouched on failure. At most once.
 */
int export__commit(struct export_file *x, const struct profile *p, const struct export_opts *o);
/* The same for what differs between two profiles. */
int export__commit_diff(struct export_file *x, const struct profile *before,
			const struct profile *after, const struct export_opts *o);
/*
 * The same for a content of the caller's: `write` returns 0 or negative errno and does not close
 * the stream.
 */
int export__commit_other(struct export_file *x, int (*write)(void *ctx, FILE *f), void *ctx);
/* Removes the temporary file if it was not committed. */
void export__close(struct export_file *x);
/*
 * Removes the temporary files of all open export files, for a signal handler that ends the program
 * (async-signal-safe). Nothing but _exit() may follow.
 */
void export__abandon(void);

#endif /* PYPERF_EXPORT_H */
