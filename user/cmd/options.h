/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OPTIONS_H
#define PYPERF_OPTIONS_H
/*
 * The options of record: argv -> struct options; touches nothing else: no file is opened, no
 * process looked at.
 *
 * Every error is one line on stderr that names the option, what was wrong and what is allowed.
 *
 *	struct options o;
 *
 *	if (options__parse(&o, argc, argv) == CMDLINE_RUN)
 *		status = record(&o);
 *	options__free(&o);
 */
#include <stdbool.h>
#include <stddef.h>

#include "cmd/cmdline.h"
#include "cmd/targets.h"
#include "export/outputs.h"

#define TABLE_MIB_DEFAULT 64
#define TABLE_MIB_MAX	  65536
#define DURATION_MIN_S	  0.001
#define DURATION_MAX_S	  1e9 /* 32 years; in nanoseconds it fits in 64 bits */

struct options {
	double duration_s;	    /* 0: until Ctrl-C or the end of the command */
	struct sample_spec targets; /* owned */
	struct outputs outputs;	    /* owned; not opened */
	bool native;		    /* report: the innermost functions of all kinds come first */
	bool no_native, no_kernel, no_lines, inlines, threads;
	uint32_t max_frames; /* Python, and native ones, of a stack */
	uint32_t table_mib;  /* for unwind tables, in the kernel */
	int verbosity;	     /* -1: -q, 0, 1: -v, 2: -vv */
	char **command;	     /* borrowed from argv, NULL-terminated; NULL: none */
};

/*
 * Fills in `o`, whatever the result; options__free() is due in every case. argv must outlive it and
 * is not reordered.
 */
enum cmdline_result options__parse(struct options *o, int argc, char **argv);
void options__usage(void); /* prints the help */
void options__free(struct options *o);

#endif /* PYPERF_OPTIONS_H */
