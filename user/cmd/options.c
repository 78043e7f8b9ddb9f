/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

/* Options without a letter. */
enum long_only {
	OPT_NATIVE = CMDLINE_LONG_ONLY,
	OPT_NO_NATIVE,
	OPT_NO_KERNEL,
	OPT_NO_LINES,
	OPT_INLINES,
	OPT_THREADS,
	OPT_MAX_FRAMES,
	OPT_TABLE_MEMORY,
	OPT_VALUE,
};

static const struct option long_options[] = {
	{ "duration", required_argument, NULL, 'd' },
	TARGETS_LONG_OPTIONS,
	TARGETS_EVENT_LONG_OPTIONS,
	{ "output", required_argument, NULL, 'o' },
	{ "folded", no_argument, NULL, 'f' },
	{ "value", required_argument, NULL, OPT_VALUE },
	{ "native", no_argument, NULL, OPT_NATIVE },
	{ "no-native", no_argument, NULL, OPT_NO_NATIVE },
	{ "no-kernel", no_argument, NULL, OPT_NO_KERNEL },
	{ "no-lines", no_argument, NULL, OPT_NO_LINES },
	{ "inlines", no_argument, NULL, OPT_INLINES },
	{ "threads", no_argument, NULL, OPT_THREADS },
	{ "max-frames", required_argument, NULL, OPT_MAX_FRAMES },
	{ "table-memory", required_argument, NULL, OPT_TABLE_MEMORY },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

void options__usage(void)
{
	printf("Usage: pyperf-bpf [record] [OPTION]... [-- COMMAND [ARG]...]\n"
	       "Sample where Python processes spend their time, and report it.\n"
	       "\n"
	       "What to sample (default: Python processes; COMMAND and its descendants)\n"
	       "  -d, --duration SEC     stop after SEC seconds, fractions allowed; default:\n"
	       "                         at Ctrl-C or when COMMAND ends\n");
	targets__help(true);
	printf("What to show\n");
	outputs__help(false);
	printf("      --native           report: the innermost functions first, native ones too\n"
	       "      --no-native        stacks without native (C, C++, ...) frames\n"
	       "      --no-kernel        stacks without kernel frames\n"
	       "      --no-lines         functions only, no line numbers\n"
	       "      --inlines          native frames: source lines, inlined functions (slow)\n"
	       "      --threads          keep threads apart\n"
	       "      --max-frames N     innermost frames of a stack, %d to %d (%d)\n"
	       "Other\n"
	       "      --table-memory N   MiB of the kernel for unwind tables, 1 to %d "
	       "(%d)\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  pyperf-bpf -d 30                            the whole machine, 30 seconds\n"
	       "  pyperf-bpf -p 4711 -d 10 -o cpu.html        one process, as a flame graph page\n"
	       "  pyperf-bpf -p 4711 -d 10 -o cpu.lines.html  its source with times by line\n"
	       "  pyperf-bpf -o cpu.pb.gz -- python3 app.py   one command, for pprof\n",
	       STACK_DEPTH_MIN, STACK_DEPTH_MAX, STACK_DEPTH_DEFAULT, TABLE_MIB_MAX,
	       TABLE_MIB_DEFAULT);
}

/* ---- values: each returns 0, or -EINVAL or -ENOMEM after a message --------------------------- */

static int set_duration(struct options *o, const char *arg)
{
	int err = parse_double(arg, DURATION_MIN_S, DURATION_MAX_S, &o->duration_s);

	if (err == -ERANGE)
		log_err("-d %s: must be from %g to %.0f seconds", arg, DURATION_MIN_S,
			DURATION_MAX_S);
	else if (err)
		log_err("-d %s: not a number of seconds, like 30 or 2.5", arg);
	return err ? -EINVAL : 0;
}

static int set_max_frames(struct options *o, const char *arg)
{
	long long frames = 0;
	int err = cmdline__whole("--max-frames", arg, STACK_DEPTH_MIN, STACK_DEPTH_MAX, "frames",
				 &frames);

	o->max_frames = (uint32_t)frames;
	return err;
}

static int set_table_memory(struct options *o, const char *arg)
{
	long long mib = 0;
	int err = cmdline__whole("--table-memory", arg, 1, TABLE_MIB_MAX, "MiB", &mib);

	o->table_mib = (uint32_t)mib;
	return err;
}

static void set_flag(struct options *o, int opt)
{
	switch (opt) {
	case 'f':
		o->outputs.folded = true;
		break;
	case OPT_NATIVE:
		o->native = true;
		break;
	case OPT_NO_NATIVE:
		o->no_native = true;
		break;
	case OPT_NO_KERNEL:
		o->no_kernel = true;
		break;
	case OPT_INLINES:
		o->inlines = true;
		break;
	case OPT_NO_LINES:
		o->no_lines = true;
		break;
	case OPT_THREADS:
		o->threads = true;
		break;
	}
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct options *o = ctx;

	if (targets__takes(opt))
		return targets__set(&o->targets, opt, arg);
	switch (opt) {
	case 'd':
		return set_duration(o, arg);
	case OPT_MAX_FRAMES:
		return set_max_frames(o, arg);
	case OPT_TABLE_MEMORY:
		return set_table_memory(o, arg);
	case 'o':
		return outputs__add(&o->outputs, arg);
	case OPT_VALUE:
		o->outputs.value = arg;
		return 0;
	default:
		set_flag(o, opt);
		return 0;
	}
}

/* ---- the line as a whole --------------------------------------------------------------------- */

static int bad_word(const char *word)
{
	pid_t pid;

	if (!strcmp(word, "record"))
		log_err("'record' goes before the options");
	else if (!cmdline__pid(word, &pid))
		log_err("unexpected '%s'; to sample that process: -p %s", word, word);
	else
		log_err("unexpected '%s'; to run and sample a command: pyperf-bpf [OPTION]... -- "
			"%s",
			word, word);
	return -EINVAL;
}

/* What follows the options: nothing, or "--" and a command. */
static int set_command(struct options *o, char **rest, bool dashes)
{
	if (!dashes)
		return *rest ? bad_word(*rest) : 0;
	if (!*rest || !**rest) {
		log_err("-- must be followed by a command");
		return -EINVAL;
	}
	o->command = rest;
	return 0;
}

static int check_conflicts(struct options *o)
{
	int err = targets__check(&o->targets, o->command != NULL);

	return err ? err : outputs__check(&o->outputs);
}

enum cmdline_result options__parse(struct options *o, int argc, char **argv)
{
	struct cmdline c = {
		.command = "record",
		.usage = options__usage,
		.stop_at_word = true,
		.shorts = "d:o:f" TARGETS_SHORT_OPTIONS TARGETS_EVENT_SHORT_OPTIONS
			CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = o,
	};
	enum cmdline_result result;
	int err;

	*o = (struct options){ .targets = TARGETS_DEFAULT,
			       .max_frames = STACK_DEPTH_DEFAULT,
			       .table_mib = TABLE_MIB_DEFAULT };
	result = cmdline__parse(&c, argc, argv);
	if (result != CMDLINE_RUN)
		return result;
	o->verbosity = c.verbosity;
	o->outputs.quiet = c.verbosity < 0;
	err = set_command(o, c.words, c.dashes);
	return cmdline__result(err ? err : check_conflicts(o));
}

void options__free(struct options *o)
{
	targets__free(&o->targets);
	outputs__free(&o->outputs);
	*o = (struct options){ 0 };
}
