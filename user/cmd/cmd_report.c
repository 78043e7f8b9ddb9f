/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf report: profile files, or the agent's store -> the report, or other formats. */
#include "cmd/command.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "cmd/cmdline.h"
#include "cmd/reduce_options.h"
#include "cmd/output_options.h"
#include "cmd/stored.h"
#include "import/import.h"

enum long_only {
	OPT_NO_LINES = CMDLINE_LONG_ONLY,
	OPT_THREADS,
	OPT_NO_THREADS,
	OPT_FROM,
	OPT_TO,
	OPT_LIST,
	OPT_NATIVE,
};

struct report_options {
	struct outputs outputs;
	struct import_opts import;
	struct reduce_options reduce;
	bool native, no_lines;
	bool verbose;
	char **files; /* borrowed from argv; NULL-terminated; at least one, or `stored` is used */
	struct stored stored;
	const char *from, *to; /* borrowed from argv, or NULL */
	bool list;
	struct stored_range range;
};

static const struct option long_options[] = {
	OUTPUT_LONG_OPTIONS,
	OUTPUT_SAVED_OPTIONS,
	OUTPUT_PROFILE_OPTIONS,
	{ "type", required_argument, NULL, 't' },
	{ "native", no_argument, NULL, OPT_NATIVE },
	{ "no-lines", no_argument, NULL, OPT_NO_LINES },
	{ "threads", no_argument, NULL, OPT_THREADS },
	{ "no-threads", no_argument, NULL, OPT_NO_THREADS },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "to", required_argument, NULL, OPT_TO },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "pid", required_argument, NULL, 'p' },
	REDUCE_LONG_OPTIONS,
	STORED_LONG_OPTIONS,
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf report [OPTION]... FILE...\n"
	       "  or:  pyperf-bpf report --from TIME [--to TIME] [--service NAME] [OPTION]...\n"
	       "Show saved profiles, or convert them to other formats. Needs no privileges.\n"
	       "Several FILEs are added up; '-' is standard input.\n"
	       "A FILE is, whoever wrote it, a pprof profile, folded stacks (of py-spy, austin\n"
	       "and profiling.sampling, too), speedscope's JSON or what 'perf script' prints.\n"
	       "\n");
	outputs__help(false);
	printf(OUTPUTS_IDLE_HELP
	       "  -t, --type NAME        read only this type of pprof files; default: all\n"
	       "      --native           report: the innermost functions first, native ones too\n"
	       "      --markdown         a short report as Markdown, as --format markdown\n"
	       "      --no-lines         functions only, no line numbers\n"
	       "      --threads          keep threads apart (default)  --no-threads  add them up\n"
	       "  -p, --pid PID[,...]    only these processes\n" REDUCE_HELP
	       "From the store of 'pyperf-bpf agent', which may be running\n"
	       "      --from TIME        windows from TIME on: -2h, \"2026-11-21 10:00\",\n"
	       "                         2026-11-21T10:00:00Z, seconds since 1970; default: -1h\n"
	       "      --to TIME          ... and before TIME; default: now\n"
	       "      --list             list the services; with --service: its "
	       "labels\n" STORED_HELP "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  pyperf-bpf report cpu.pb.gz                 the report, as after sampling\n"
	       "  pyperf-bpf report -f mon.pb.gz tue.pb.gz    both days, for a flame graph\n"
	       "  pyperf-bpf report --from -1h --service web -o web.html\n");
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct report_options *o = ctx;

	if (stored__takes(opt))
		return stored__set(&o->stored, opt, arg);
	if (reduce_options__takes(opt))
		return reduce_options__set(&o->reduce, opt, arg);
	if (output_options__takes(opt))
		return output_options__set(&o->outputs, opt, arg);
	o->stored.used |= opt == OPT_FROM || opt == OPT_TO || opt == OPT_LIST;
	switch (opt) {
	case 't':
		o->import.sample_type = arg;
		break;
	case OPT_NATIVE:
		o->native = true;
		break;
	case OPT_NO_LINES:
		o->no_lines = true;
		break;
	case OPT_THREADS:
		o->import.merge_threads = false;
		break;
	case OPT_NO_THREADS:
		o->import.merge_threads = true;
		break;
	case OPT_FROM:
		o->from = arg;
		break;
	case OPT_TO:
		o->to = arg;
		break;
	case OPT_LIST:
		o->list = true;
		break;
	}
	return 0;
}

static int check_stored(struct report_options *o)
{
	/* A list is of all that there is. */
	const char *from = o->from ? o->from : o->list ? "0" : "-1h";

	if (*o->files) {
		log_err("%s: show either files or windows of the store, not both", *o->files);
		return -EINVAL;
	}
	if (o->list && (o->outputs.cnt || o->outputs.folded)) {
		log_err("--list writes to standard output only, without -o and -f");
		return -EINVAL;
	}
	return stored__range(&o->range, "--from", from, "--to", o->to ? o->to : "now");
}

static enum cmdline_result parse(struct report_options *o, int argc, char **argv)
{
	struct cmdline c = {
		.command = "report",
		.usage = usage,
		.shorts = OUTPUT_SHORT_OPTIONS "t:p:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = o,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);

	if (result != CMDLINE_RUN)
		return result;
	log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
	o->verbose = c.verbosity > 0;
	o->outputs.quiet = c.verbosity < 0;
	o->files = c.words;
	if (!*o->files && !o->stored.used) {
		log_err("no profile: name a FILE, or a time with --from; see 'pyperf-bpf report "
			"--help'");
		return CMDLINE_USAGE;
	}
	if (o->stored.used && check_stored(o))
		return CMDLINE_USAGE;
	return cmdline__result(outputs__check(&o->outputs));
}

/* Loads the complete profile to show. */
static int load(struct report_options *o, struct import *im)
{
	int err = 0;

	if (o->stored.used)
		return stored__load(&o->stored, &o->range, im);
	for (char **file = o->files; *file && !err; file++)
		err = import__add(im, *file);
	return err ? err : import__finish(im);
}

static int report(struct report_options *o)
{
	struct import *im = import__new(&o->import);
	struct export_opts eo;
	int err = im ? outputs__open(&o->outputs) : log_no_memory();

	err = err ? err : load(o, im);
	if (!err)
		err = reduce_options__apply(&o->reduce, import__profile(im),
					    *o->files ? *o->files : "the store");
	if (!err) {
		eo = (struct export_opts){
			.source = true,
			.ends = true,
			.lines = !o->no_lines && import__has_lines(im),
			.threads = import__has_threads(im),
			.native = o->native,
			.verbose = o->verbose,
		};
		err = outputs__write(&o->outputs, import__profile(im), &eo);
	}
	import__free(im);
	return err;
}

static int run(int argc, char **argv)
{
	struct report_options o = { .list = false };
	enum cmdline_result result = parse(&o, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN && o.list)
		status = stored__list(&o.stored, &o.range) ? 1 : 0;
	else if (result == CMDLINE_RUN)
		status = report(&o) ? 1 : 0;
	stored__free(&o.stored);
	reduce_options__free(&o.reduce);
	outputs__free(&o.outputs);
	return status;
}

const struct command cmd_report = {
	.name = "report",
	.summary = "show profile files or the agent's store, or write other formats",
	.usage = usage,
	.run = run,
};
