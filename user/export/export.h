/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_H
#define PYPERF_EXPORT_H
/*
 * Writes a symbolized profile to a stream, in a format of a table that is chosen by suffix. Each
 * export_*.c describes and writes one format; export_stacks.h and export_text.h are what they
 * share.
 *
 * All formats keep two promises: the same content gives the same bytes, in whatever order it was
 * collected; and foreign names come out as valid UTF-8 without control characters.
 *
 * Output files appear whole or not at all. export__open() creates a file without a name in the
 * directory of the target before sampling starts, so that a bad path is known at once;
 * export__commit() writes it and gives it the name. See draft.h for file systems that have no such
 * files, and for what SIGKILL leaves behind.
 *
 *	struct export_file *x = export__open("out.pb.gz", export__find("out.pb.gz"));
 *	...
 *	err = export__commit(x, profile, &opts);
 *	export__close(x);
 *
 * "-", /dev/stdout and /dev/fd/N are the descriptors, which may be regular files that others append
 * to. Devices and FIFOs are written directly, if they belong to the caller or to root, lie in a
 * directory where nobody else can exchange them, and are named themselves, not by a link. A new
 * file has the permissions that the umask leaves, a replaced one keeps its own; a symbolic link is
 * replaced, not followed.
 */
#include <stdbool.h>
#include <stdio.h>

#include "base/str.h"
#include "profile/glue.h"
#include "profile/idle.h"
#include "profile/profile.h"

struct export_opts {
	bool color;    /* report only */
	bool lines;    /* false: --no-lines, functions only */
	bool threads;  /* stacks are kept apart by thread */
	bool absolute; /* differences are of CPU time, not of shares */
	bool glue;     /* keep the interpreter's own frames (profile/glue.h) */
	/* pprof: label samples in unnamed code by its caller (inside.h), waits by their reason */
	bool ends;
	bool native;  /* report: the innermost functions of all kinds come first */
	bool verbose; /* report: what became of each sample, also when all is well */
	bool source;  /* page: it has the text of the hottest lines */
	/* the processes run on this machine, now; else the profile is from a file (source.h) */
	bool live;
	struct readers *readers; /* helpers that read their source, with `live`; or NULL */
	unsigned width;		 /* columns of the terminal, 0: no limit */
	const char *moved;	 /* differences: "/srv/r1 -> /srv/r2", or NULL: moved.h */
	const char *sides[2];	 /* differences: of what; NULL: "Before" and "After" */
	/* Show this value type only, by name. NULL: all, or the first where a format shows one. */
	const char *value;
	struct idle_rules idle; /* report, Markdown: which waits are folded as idle */
};

struct export_format {
	const char *suffix; /* ".pb.gz" */
	const char *word;   /* for --format: "pprof" */
	const char *name;   /* for messages and --help: "flame graph page" */
	bool all_values;    /* has room for all value types of a profile */
	/* 0 or negative errno. Does not close `f`. */
	int (*write)(const struct profile *p, const struct export_opts *o, FILE *f);
	/* The same for the difference of two profiles; NULL: the format cannot show it. */
	int (*write_diff)(const struct profile *before, const struct profile *after,
			  const struct export_opts *o, FILE *f);
	enum glue_mode glue; /* how it shows the interpreter's own frames, without o->glue */
};

/* The format for a path by its suffix, or NULL. */
const struct export_format *export__find(const char *path);
/* All formats; the last has no suffix. */
const struct export_format *export__formats(void);

int export__report(const struct profile *p, const struct export_opts *o, FILE *f);
int export__markdown(const struct profile *p, const struct export_opts *o, FILE *f);
int export__folded(const struct profile *p, const struct export_opts *o, FILE *f);
int export__html(const struct profile *p, const struct export_opts *o, FILE *f);
/* A page that switches between values: views of one profile, each with one value type. */
int export__html_values(const struct profile *const *views, uint32_t cnt,
			const struct export_opts *o, FILE *f);
int export__svg(const struct profile *p, const struct export_opts *o, FILE *f);
int export__lines(const struct profile *p, const struct export_opts *o, FILE *f);
int export__pprof(const struct profile *p, const struct export_opts *o, FILE *f);
int export__json(const struct profile *p, const struct export_opts *o, FILE *f);
int export__callgrind(const struct profile *p, const struct export_opts *o, FILE *f);
int export__csv(const struct profile *p, const struct export_opts *o, FILE *f);
int export__speedscope(const struct profile *p, const struct export_opts *o, FILE *f);
int export__firefox(const struct profile *p, const struct export_opts *o, FILE *f);

/* export_diff.c */
/* What a side of a difference (enum diff_side) is called at the beginning of a line. */
const char *export__side(const struct export_opts *o, int side);
int export__diff_report(const struct profile *before, const struct profile *after,
			const struct export_opts *o, FILE *f);
int export__diff_markdown(const struct profile *before, const struct profile *after,
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
 * Functions that only one side names are new to a table of differences, not to the program: appends
 * a sentence that says so, if that is the case. The text report has it.
 */
void export__diff_formats(struct strbuf *b, const struct profile *before,
			  const struct profile *after);

/*
 * Writes the profile to `f` as `o` asks; with `base`, the difference from it, if the format can
 * show that. The writers above see one value type only, unless they have room for all. 0 or
 * negative errno; -ENOENT: no value type is called o->value.
 */
int export__write(const struct export_format *format, const struct profile *base,
		  const struct profile *p, const struct export_opts *o, FILE *f);

/* An output file that is not complete yet. */
struct export_file;
/* NULL and errno (and a message) when the target cannot be written; nothing is left behind. */
struct export_file *export__open(const char *path, const struct export_format *format);
/*
 * Writes, syncs and renames over the target. 0 or negative errno (and a message); a regular target
 * is untouched on failure. At most once.
 */
int export__commit(struct export_file *x, const struct profile *p, const struct export_opts *o);
/* The same for the difference of two profiles. */
int export__commit_diff(struct export_file *x, const struct profile *before,
			const struct profile *after, const struct export_opts *o);
/* The same for other content: `write` returns 0 or negative errno and does not close the stream. */
int export__commit_other(struct export_file *x, int (*write)(void *ctx, FILE *f), void *ctx);
/* Closes the file. If it was not committed, nothing is left behind. */
void export__close(struct export_file *x);
/*
 * Removes the temporary files of all open export files, for a signal handler that ends the program
 * (async-signal-safe). Nothing but _exit() may follow.
 */
void export__abandon(void);

#endif /* PYPERF_EXPORT_H */
