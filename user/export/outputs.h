/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OUTPUTS_H
#define PYPERF_OUTPUTS_H
/*
 * The outputs of a command: the files of its -o options, each in the format of its suffix, and
 * stdout, which carries the report unless -f or "-o -" say otherwise.
 *
 *	struct outputs out = { 0 };
 *
 *	outputs__add(&out, "cpu.pb.gz");	while parsing the options
 *	outputs__open(&out);			before the work: a bad path is known at once
 *	outputs__write(&out, profile, &opts);
 *	outputs__free(&out);
 */
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "export/export.h"

struct output {
	const char *path;		    /* borrowed from argv; "-" is stdout */
	const struct export_format *format; /* set by outputs__check() */
	struct export_file *file;	    /* owned; NULL until outputs__open() */
};

struct outputs {
	struct output *list; /* owned; no path twice */
	size_t cnt, cap;
	const struct export_format *format; /* --format: of all, and of stdout; or NULL */
	bool folded;			    /* -f: folded stacks on stdout instead of the report */
	const char *value;		    /* --value: borrowed, or NULL: see export_opts */
	bool glue;			    /* --glue: see export_opts */
	regex_t *idle, *busy;		    /* --idle, --busy: owned, or NULL */
	bool quiet;			    /* -q: no report on stdout beside files */
	bool diff; /* set before outputs__add(): the outputs show the difference of two profiles */
};

/* The line of --help for outputs__set_idle(). */
#define OUTPUTS_IDLE_HELP                                                                          \
	"      --idle REGEX       fold waits there, too   --busy REGEX  do not fold these\n"
/* Prints the lines of --help for -o and -f. */
void outputs__help(bool diff);
/* 0, -EINVAL or -ENOMEM after a message. */
int outputs__add(struct outputs *o, const char *path);
/* --format, by its name. 0, or -EINVAL after a message. */
int outputs__set_format(struct outputs *o, const char *name);
/* --idle or, with `busy`, --busy. 0, -EINVAL or -ENOMEM after a message. */
int outputs__set_idle(struct outputs *o, bool busy, const char *regex);
/*
 * Gives each output its format; call it after all options. -EINVAL after a message if a suffix
 * names no format, or if -f and another option both want stdout.
 */
int outputs__check(struct outputs *o);
/*
 * Opens the files. 0 or negative errno after a message. Nothing is left behind when the process
 * ends without writing.
 */
int outputs__open(struct outputs *o);
/*
 * Writes the files, then stdout in the width and the colours of the terminal. Writes all even if
 * one fails. 0 or the first error, after a message.
 */
int outputs__write(struct outputs *o, const struct profile *p, const struct export_opts *eo);
/* The same for the difference of two profiles. */
int outputs__write_diff(struct outputs *o, const struct profile *before,
			const struct profile *after, const struct export_opts *eo);
/* Does stdout carry the report? */
bool outputs__reports(const struct outputs *o);
/* Closes the files. Of files that were not written nothing is left behind. */
void outputs__close(struct outputs *o);
void outputs__free(struct outputs *o);

#endif /* PYPERF_OUTPUTS_H */
