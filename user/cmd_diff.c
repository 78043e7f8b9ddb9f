/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf diff: what got slower and what faster between two profiles. */
#include "command.h"

#include <errno.h>
#include <stdio.h>

#include "cmdline.h"
#include "import.h"
#include "log.h"
#include "outputs.h"

enum long_only {
	OPT_ABSOLUTE = CMDLINE_LONG_ONLY,
};

struct diff_options {
	struct outputs outputs;
	struct import_opts import;
	bool absolute;
	char **files; /* borrowed from argv; two */
};

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "folded", no_argument, NULL, 'f' },
	{ "type", required_argument, NULL, 't' },
	{ "absolute", no_argument, NULL, OPT_ABSOLUTE },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf diff [OPTION]... BEFORE AFTER\n"
	       "Show which functions take more and which take less than before.\n"
	       "Needs no privileges. BEFORE and AFTER are files as 'report' reads them.\n"
	       "\n"
	       "Shares of all samples are compared, so runs need not be equally long. Changes\n"
	       "that chance explains are not shown. Folded stacks end in both counts.\n"
	       "\n");
	outputs__help(true);
	printf("      --absolute         compare seconds of CPU time instead of shares\n"
	       "  -t, --type NAME        count by this sample type of pprof files; default:\n"
	       "                         the number of samples\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  pyperf-bpf diff old.pb.gz new.pb.gz\n"
	       "  pyperf-bpf diff -f old.pb.gz new.pb.gz | flamegraph.pl > diff.svg\n");
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct diff_options *o = ctx;

	switch (opt) {
	case 'o':
		return outputs__add(&o->outputs, arg);
	case 't':
		o->import.sample_type = arg;
		break;
	case 'f':
		o->outputs.folded = true;
		break;
	case OPT_ABSOLUTE:
		o->absolute = true;
		break;
	}
	return 0;
}

static enum cmdline_result parse(struct diff_options *o, int argc, char **argv)
{
	struct cmdline c = {
		.command = "diff",
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
	if (!o->files[0] || !o->files[1] || o->files[2]) {
		log_err("two files are compared: pyperf-bpf diff BEFORE AFTER");
		return CMDLINE_USAGE;
	}
	return cmdline__result(outputs__check(&o->outputs));
}

static struct import *load(const struct diff_options *o, const char *file)
{
	struct import *im = import__new(&o->import);

	if (!im) {
		cmdline__no_memory();
		return NULL;
	}
	if (import__add(im, file) || import__finish(im)) {
		import__free(im);
		return NULL;
	}
	/* Shares of nothing cannot be compared. */
	if (!profile__total(import__profile(im))) {
		log_err("%s: has no samples", file);
		import__free(im);
		return NULL;
	}
	if (o->absolute && !import__profile(im)->stats.frequency_hz) {
		log_err("--absolute: %s does not say how long a sample is", file);
		import__free(im);
		return NULL;
	}
	return im;
}

static int diff(struct diff_options *o)
{
	const struct export_opts eo = { .lines = false, .absolute = o->absolute };
	struct import *before = NULL, *after = NULL;
	int err = outputs__open(&o->outputs);

	if (err)
		return err;
	before = load(o, o->files[0]);
	if (before)
		after = load(o, o->files[1]);
	err = after ? outputs__write_diff(&o->outputs, import__profile(before),
					  import__profile(after), &eo)
		    : -EINVAL;
	import__free(before);
	import__free(after);
	return err;
}

static int run(int argc, char **argv)
{
	struct diff_options o = { .outputs = { .diff = true },
				  .import = { .merge_processes = true } };
	enum cmdline_result result = parse(&o, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN)
		status = diff(&o) ? 1 : 0;
	outputs__free(&o.outputs);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.summary = "what takes more and what takes less time than before",
	.usage = usage,
	.run = run,
};
