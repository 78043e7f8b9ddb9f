/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OPTIONS_H
#define PYPERF_OPTIONS_H
/*
 * Parses the options of record into struct options. Touches nothing else: opens no file and looks
 * at no process.
 *
 * Every error is one line on stderr that names the option, the mistake and the allowed values.
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

/* Functions by which another command that records adds to the report. */
struct record_watch {
	void (*begin)(struct record_watch *w, const struct sample_spec *targets);
	void (*end)(struct record_watch *w); /* the processes may have ended */
	void (*report)(struct record_watch *w, const struct profile *p, bool on_stdout);
	int start_err; /* set by record(): the result of session__start() */
};

struct options {
	double duration_s;	    /* 0: until Ctrl-C or the end of the command */
	double delay_s;		    /* before sampling begins */
	struct sample_spec targets; /* owned */
	struct outputs outputs;	    /* owned; not opened */
	/* the report lists the innermost functions of all kinds first */
	bool native;
	bool no_native, no_kernel, no_lines, inlines, threads;
	uint32_t max_frames;	    /* limit of Python frames, and of native frames, per stack */
	uint32_t table_mib;	    /* for unwind tables, in the kernel */
	int verbosity;		    /* -1: -q, 0, 1: -v, 2: -vv */
	bool as_root;		    /* the command keeps our user: see launch.h */
	struct record_watch *watch; /* borrowed, or NULL */
	char **command;		    /* borrowed from argv, NULL-terminated; NULL: none */
};

/*
 * Fills in `o`. Call options__free() whatever the result. argv must outlive `o` and is not
 * reordered.
 */
enum cmdline_result options__parse(struct options *o, int argc, char **argv);
void options__usage(void); /* prints the help */
void options__free(struct options *o);

#endif /* PYPERF_OPTIONS_H */
