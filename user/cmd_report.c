/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf report: profile files -> the report, or other formats. */
#include "command.h"

#include <stdio.h>

#include "cmdline.h"
#include "import.h"
#include "log.h"
#include "outputs.h"

enum long_only {
	OPT_NO_LINES = CMDLINE_LONG_ONLY,
	OPT_NO_THREADS,
};

struct report_options {
	struct outputs outputs;
	struct import_opts import;
	bool no_lines;
	char **files; /* borrowed from argv; at least one, NULL-terminated */
};

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "folded", no_argument, NULL, 'f' },
	{ "type", required_argument, NULL, 't' },
	{ "no-lines", no_argument, NULL, OPT_NO_LINES },
	{ "no-threads", no_argument, NULL, OPT_NO_THREADS },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf report [OPTION]... FILE...\n"
	       "Show profiles that were written before, or turn them into other formats.\n"
	       "Needs no privileges. Several FILEs are added up; '-' is standard input.\n"
	       "\n"
	       "A FILE is a pprof profile (.pb.gz) or has folded stacks (.folded), written by\n"
	       "this program or by another one: any CPU profile, as of Go's runtime/pprof.\n"
	       "\n");
	outputs__help(false);
	printf("  -t, --type NAME        count by this sample type of pprof files; default:\n"
	       "                         the number of samples\n"
	       "      --no-lines         functions only, no line numbers\n"
	       "      --no-threads       add up the threads, if they were kept apart\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  pyperf-bpf report cpu.pb.gz                 the report, as after sampling\n"
	       "  pyperf-bpf report -f mon.pb.gz tue.pb.gz    both days, for a flame graph\n");
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct report_options *o = ctx;

	switch (opt) {
	case 'o':
		return outputs__add(&o->outputs, arg);
	case 't':
		o->import.sample_type = arg;
		break;
	case 'f':
		o->outputs.folded = true;
		break;
	case OPT_NO_LINES:
		o->no_lines = true;
		break;
	case OPT_NO_THREADS:
		o->import.merge_threads = true;
		break;
	}
	return 0;
}

static enum cmdline_result parse(struct report_options *o, int argc, char **argv)
{
	struct cmdline c = {
		.command = "report",
		.usage = usage,
		.shorts = "o:ft:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = o,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);

	if (result != CMDLINE_RUN)
		return result;
	log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
	o->files = c.words;
	if (!*o->files) {
		log_err("which profile? Name its FILE; see 'pyperf-bpf report --help'");
		return CMDLINE_USAGE;
	}
	return cmdline__result(outputs__check(&o->outputs));
}

static int report(struct report_options *o)
{
	struct import *im = import__new(&o->import);
	struct export_opts eo;
	int err = im ? outputs__open(&o->outputs) : cmdline__no_memory();

	for (char **file = o->files; *file && !err; file++)
		err = import__add(im, *file);
	if (!err)
		err = import__finish(im);
	if (!err) {
		eo = (struct export_opts){
			.lines = !o->no_lines && import__has_lines(im),
			.threads = import__has_threads(im),
		};
		err = outputs__write(&o->outputs, import__profile(im), &eo);
	}
	import__free(im);
	return err;
}

static int run(int argc, char **argv)
{
	struct report_options o = { .no_lines = false };
	enum cmdline_result result = parse(&o, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN)
		status = report(&o) ? 1 : 0;
	outputs__free(&o.outputs);
	return status;
}

const struct command cmd_report = {
	.name = "report",
	.summary = "show profile files, or turn them into other formats",
	.usage = usage,
	.run = run,
};
