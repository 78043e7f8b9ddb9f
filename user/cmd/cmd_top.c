/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf top: where time goes, live. */
#include "cmd/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"
#include "cmd/chosen.h"
#include "cmd/cmdline.h"
#include "cmd/targets.h"
#include "top/top.h"

enum long_only {
	OPT_NATIVE = CMDLINE_LONG_ONLY,
};

static const struct option long_options[] = {
	{ "duration", required_argument, NULL, 'd' },
	{ "interval", required_argument, NULL, 'i' },
	{ "native", no_argument, NULL, OPT_NATIVE },
	TARGETS_LONG_OPTIONS,
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf top [PID] [OPTION]...\n"
	       "Show where Python processes spend their time, live.\n"
	       "\n"
	       "Processes, their threads and functions: the last interval, and all since the\n"
	       "start. Enter opens the marked row, Escape goes back, h shows all keys, q quits.\n"
	       "\n"
	       "What to sample (default: every process with Python in it, on every CPU)\n");
	targets__help();
	printf("What to show\n"
	       "  -i, --interval SEC     time between updates, %g to %d (default %d)\n"
	       "  -d, --duration SEC     stop after SEC seconds, and leave what is shown then\n"
	       "      --native           show native and kernel functions; key n\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf top                         the whole machine\n"
	       "  sudo pyperf-bpf top 4711                    one service, with its workers\n"
	       "  sudo pyperf-bpf top --comm 'celery*' -i 5   by name, every 5 seconds\n"
	       "  sudo pyperf-bpf top -e page-faults          who touches new memory\n",
	       INTERVAL_MIN_S, INTERVAL_MAX_S, INTERVAL_DEFAULT_S);
}

static int set_interval(struct top_opts *o, const char *arg)
{
	if (!parse_double(arg, INTERVAL_MIN_S, INTERVAL_MAX_S, &o->interval_s))
		return 0;
	log_err("-i %s: must be a number of seconds from %g to %d", arg, INTERVAL_MIN_S,
		INTERVAL_MAX_S);
	return -EINVAL;
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct top_opts *o = ctx;

	if (targets__takes(opt))
		return targets__set(&o->targets, opt, arg);
	if (opt == 'd')
		return cmdline__seconds("-d", arg, DURATION_MIN_S, DURATION_MAX_S, &o->duration_s);
	if (opt == 'i')
		return set_interval(o, arg);
	if (opt == OPT_NATIVE)
		o->native = true;
	return 0;
}

static enum cmdline_result parse(struct top_opts *o, int argc, char **argv)
{
	struct cmdline c = {
		.command = "top",
		.usage = usage,
		.shorts = "d:i:" TARGETS_SHORT_OPTIONS CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = o,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);
	pid_t pid = 0;

	if (result != CMDLINE_RUN)
		return result;
	log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
	if (cmdline__pid_word("top", c.words, o->targets.pid_cnt, "several processes: -p PID,PID",
			      &pid))
		return CMDLINE_USAGE;
	if (pid && chosen__add(&o->targets, pid))
		return CMDLINE_FAILED;
	return cmdline__result(targets__check(&o->targets, false));
}

static int run(int argc, char **argv)
{
	struct top_opts o = { .targets = TARGETS_DEFAULT, .interval_s = INTERVAL_DEFAULT_S };
	enum cmdline_result result = parse(&o, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN) {
		/*
		 * A server of debug files may take half a minute, and the picture would stand
		 * still.
		 */
		unsetenv("DEBUGINFOD_URLS");
		status = chosen__find(&o.targets) || top(&o) ? 1 : 0;
	}
	targets__free(&o.targets);
	return status;
}

const struct command cmd_top = {
	.name = "top",
	.summary = "live view of where time goes",
	.usage = usage,
	.run = run,
};
