/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * pyperf-bpf check: shows what this kernel and these rights allow, and why a process is (not)
 * walked.
 */
#include "cmd/command.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "cmd/check.h"
#include "cmd/cmdline.h"

static const struct option long_options[] = {
	{ "pid", required_argument, NULL, 'p' },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf check [OPTION]... [PID]\n"
	       "Find out whether sampling works here, and what to do if it does not.\n"
	       "\n"
	       "Looks at the kernel and at the rights of this user, loads the programs, and\n"
	       "samples for a moment. Says ok, note (it works without, less well) or FAIL, each\n"
	       "with its remedy. The exit status is 1 if anything failed.\n"
	       "\n"
	       "  -p, --pid PID          explain this process: which interpreter was found, and\n"
	       "                         why its Python frames are shown, or why not\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf check              does it work on this machine?\n"
	       "  sudo pyperf-bpf check -p 4711      why has 4711 no Python frames?\n");
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct check_opts *o = ctx;

	if (opt != 'p')
		return 0;
	if (cmdline__pid(arg, &o->pid)) {
		log_err("--pid: '%s' is not the number of a process", arg);
		return -EINVAL;
	}
	return 0;
}

static int run(int argc, char **argv)
{
	struct check_opts o = { .pid = 0 };
	struct cmdline c = {
		.command = "check",
		.usage = usage,
		.shorts = "p:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = &o,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);

	if (result != CMDLINE_RUN)
		return cmdline__status(result);
	if (cmdline__pid_word("check", c.words, o.pid, "one process at a time", &o.pid))
		return 2;
	log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
	return check(&o);
}

const struct command cmd_check = {
	.name = "check",
	.summary = "what works on this machine, and why a process is (not) walked",
	.usage = usage,
	.run = run,
};
