/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OUTPUTS_H
#define PYPERF_OUTPUTS_H
/*
 * Where the results of a command go: the files of its -o options, each in the format of its suffix,
 * and stdout, which carries the report unless -f or "-o -" say otherwise.
 *
 *	struct outputs out = { 0 };
 *
 *	outputs__add(&out, "cpu.pb.gz");	while parsing the options
 *	outputs__open(&out);			before the work: a bad path is known at once
 *	outputs__write(&out, profile, &opts);
 *	outputs__free(&out);
 */
#include <stdbool.h>
#include <stddef.h>

#include "export/export.h"

struct output {
	const char *path; /* borrowed from argv; "-" is stdout */
	const struct export_format *format;
	struct export_file *file; /* owned; NULL until outputs__open() */
};

struct outputs {
	struct output *list; /* owned; no path twice */
	size_t cnt;
	bool folded;	   /* -f: folded stacks on stdout instead of the report */
	const char *value; /* --value: borrowed, or NULL: see export_opts */
	bool quiet;	   /* -q: no report on stdout beside files */
	bool diff; /* set before outputs__add(): what differs between two profiles is written */
};

/* Prints the lines of a help for -o and -f. */
void outputs__help(bool diff);
/* 0, -EINVAL or -ENOMEM after a message. */
int outputs__add(struct outputs *o, const char *path);
/* -f and "-o -" both want stdout: -EINVAL after a message. */
int outputs__check(const struct outputs *o);
/*
 * 0 or negative errno after a message. Nothing stays behind when the process ends without writing.
 */
int outputs__open(struct outputs *o);
/*
 * The files, then stdout in the width and with the colours that it takes. All are written even if
 * one fails; 0 or the first error, after a message.
 */
int outputs__write(struct outputs *o, const struct profile *p, const struct export_opts *eo);
/* The same for what differs between two profiles. */
int outputs__write_diff(struct outputs *o, const struct profile *before,
			const struct profile *after, const struct export_opts *eo);
/* Closes the files; what was not written leaves nothing behind. */
void outputs__close(struct outputs *o);
void outputs__free(struct outputs *o);

#endif /* PYPERF_OUTPUTS_H */
