/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "cmd/chosen.h"
#include "cmd/output_options.h"
#include "symbolize/sym_debuginfod.h"

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
	OPT_DELAY,
	OPT_DEBUGINFOD,
	OPT_AS_ROOT,
};

static const struct option long_options[] = {
	{ "duration", required_argument, NULL, 'd' },
	{ "delay", required_argument, NULL, OPT_DELAY },
	{ "as-root", no_argument, NULL, OPT_AS_ROOT },
	TARGETS_LONG_OPTIONS,
	OUTPUT_LONG_OPTIONS,
	OUTPUT_PROFILE_OPTIONS,
	{ "native", no_argument, NULL, OPT_NATIVE },
	{ "no-native", no_argument, NULL, OPT_NO_NATIVE },
	{ "no-kernel", no_argument, NULL, OPT_NO_KERNEL },
	{ "no-lines", no_argument, NULL, OPT_NO_LINES },
	{ "inlines", no_argument, NULL, OPT_INLINES },
	{ "threads", no_argument, NULL, OPT_THREADS },
	{ "debuginfod", optional_argument, NULL, OPT_DEBUGINFOD },
	{ "max-frames", required_argument, NULL, OPT_MAX_FRAMES },
	{ "table-memory", required_argument, NULL, OPT_TABLE_MEMORY },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

void options__usage(void)
{
	printf("Usage: pyperf-bpf [record] [PID] [OPTION]... [-- COMMAND [ARG]...]\n"
	       "Sample where Python processes spend their time, and report it.\n"
	       "\n"
	       "What to sample (default: Python processes; COMMAND and its descendants)\n"
	       "  -d, --duration SEC     stop after SEC seconds  --delay SEC  begin SEC later\n");
	targets__help();
	printf("      --as-root          COMMAND runs as root, not as the user who called sudo\n");
	printf("What to show\n");
	outputs__help(false);
	printf(OUTPUTS_IDLE_HELP
	       "      --native           report: the innermost functions first, native ones too\n"
	       "      --no-native        no native frames    --no-kernel  no kernel frames\n"
	       "      --no-lines         no line numbers     --threads    keep threads apart\n"
	       "      --inlines          native frames: source lines, inlined functions (slow)\n"
	       "      --debuginfod[=URLS]  ask servers for names (/etc/debuginfod/*.urls)\n"
	       "      --max-frames N     innermost frames of a stack, %d to %d (%d)\n"
	       "Other\n"
	       "      --table-memory N   MiB of the kernel for unwind tables, 1 to %d "
	       "(%d)\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  pyperf-bpf -p 4711 -d 10 -o cpu.html        a service, as a flame graph page\n"
	       "  pyperf-bpf -o cpu.pb.gz -- python3 app.py   one command, for pprof\n",
	       STACK_DEPTH_MIN, STACK_DEPTH_MAX, STACK_DEPTH_DEFAULT, TABLE_MIB_MAX,
	       TABLE_MIB_DEFAULT);
}

/* ---- values: each returns 0, or -EINVAL or -ENOMEM after a message --------------------------- */

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

/*
 * libdebuginfod reads the environment, from which sudo drops the variable. Without an argument:
 * what is there, else what the distribution says.
 */
static int set_debuginfod(const char *arg)
{
	struct strbuf b = { 0 };
	int err = 0;

	if (!arg && getenv("DEBUGINFOD_URLS"))
		return 0;
	if (arg)
		strbuf__addz(&b, arg);
	else
		sym_debuginfod_system_urls(&b, "/etc/debuginfod");
	if (b.err || !b.len)
		log_err("--debuginfod: name a server, --debuginfod=https://debuginfod.example.org; "
			"/etc/debuginfod has none");
	if (b.err || !b.len || setenv("DEBUGINFOD_URLS", b.s, 1))
		err = -EINVAL;
	strbuf__free(&b);
	return err;
}

static void set_flag(struct options *o, int opt)
{
	switch (opt) {
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
	case OPT_AS_ROOT:
		o->as_root = true;
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
	if (output_options__takes(opt))
		return output_options__set(&o->outputs, opt, arg);
	switch (opt) {
	case 'd':
		return cmdline__seconds("-d", arg, DURATION_MIN_S, DURATION_MAX_S, &o->duration_s);
	case OPT_DELAY:
		return cmdline__seconds("--delay", arg, 0, DURATION_MAX_S, &o->delay_s);
	case OPT_MAX_FRAMES:
		return set_max_frames(o, arg);
	case OPT_TABLE_MEMORY:
		return set_table_memory(o, arg);
	case OPT_DEBUGINFOD:
		return set_debuginfod(arg);
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
		log_err("unexpected '%s'; several processes: -p PID,PID", word);
	else
		log_err("unexpected '%s'; to run and sample a command: pyperf-bpf [OPTION]... -- "
			"%s",
			word, word);
	return -EINVAL;
}

/* The process is named in one way, as for the other commands. */
static int add_pid(struct options *o, pid_t pid)
{
	if (!o->targets.pid_cnt)
		return chosen__add(&o->targets, pid);
	log_err("unexpected '%d'; several processes: -p PID,PID", pid);
	return -EINVAL;
}

/* Takes the words after the options: none, or "--" and a command. */
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
		.shorts = "d:" OUTPUT_SHORT_OPTIONS TARGETS_SHORT_OPTIONS CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = o,
	};
	enum cmdline_result result;
	pid_t pid = 0;
	int err;

	*o = (struct options){ .targets = TARGETS_DEFAULT,
			       .max_frames = STACK_DEPTH_DEFAULT,
			       .table_mib = TABLE_MIB_DEFAULT };
	result = cmdline__parse(&c, argc, argv);
	if (result == CMDLINE_RUN)
		result = cmdline__take_pid(&c, &argc, &argv, &pid);
	if (result != CMDLINE_RUN)
		return result;
	o->verbosity = c.verbosity;
	o->outputs.quiet = c.verbosity < 0;
	err = pid ? add_pid(o, pid) : 0;
	if (!err)
		err = set_command(o, c.words, c.dashes);
	return cmdline__result(err ? err : check_conflicts(o));
}

void options__free(struct options *o)
{
	targets__free(&o->targets);
	outputs__free(&o->outputs);
	*o = (struct options){ 0 };
}
