/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf dump: what every thread of a process does now. */
#include "cmd/command.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "cmd/cmdline.h"
#include "threads/threaddump.h"

enum { OPT_JSON = CMDLINE_LONG_ONLY, OPT_NATIVE };

static const struct option long_options[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "native", no_argument, NULL, OPT_NATIVE },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf dump PID [OPTION]...\n"
	       "Show what every thread of a process does now, without stopping it.\n"
	       "\n"
	       "For each thread: its name and number, what it does (runs, sleeps in which system\n"
	       "call, holds the GIL or waits for it), and its Python stack, most recent call\n"
	       "first. The exit status is 1 if the process is gone or is not Python.\n"
	       "\n"
	       "      --native           all frames: Python, native and kernel; also of\n"
	       "                         processes without Python\n"
	       "      --json             one JSON object instead of text: see pyperf-bpf-dump(8)\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf dump 4711                    why does 4711 hang?\n"
	       "  sudo pyperf-bpf dump 4711 --native           ... and in which C function?\n"
	       "  sudo pyperf-bpf dump 4711 --json             for programs\n");
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct threaddump_opts *o = ctx;

	(void)arg;
	if (opt == OPT_JSON)
		o->json = true;
	else if (opt == OPT_NATIVE)
		o->native = true;
	return 0;
}

/* The one word of the line. */
static int set_pid(struct threaddump_opts *o, char **words)
{
	if (!words[0]) {
		log_err("dump: the number of a process is missing");
		return -EINVAL;
	}
	if (words[1]) {
		log_err("dump: what is '%s'? One process at a time", words[1]);
		return -EINVAL;
	}
	if (cmdline__pid(words[0], &o->pid)) {
		log_err("dump: '%s' is not the number of a process", words[0]);
		return -EINVAL;
	}
	return 0;
}

static int run(int argc, char **argv)
{
	struct threaddump_opts o = { .pid = 0 };
	struct cmdline c = {
		.command = "dump",
		.usage = usage,
		.shorts = CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = &o,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);

	if (result != CMDLINE_RUN)
		return cmdline__status(result);
	if (set_pid(&o, c.words))
		return 2;
	log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
	return threaddump(&o);
}

const struct command cmd_dump = {
	.name = "dump",
	.summary = "what every thread of a process does now, and who holds the GIL",
	.usage = usage,
	.run = run,
};
