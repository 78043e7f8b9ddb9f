/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf dump: shows what every thread of a process does now. */
#include "cmd/command.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "cmd/chosen.h"
#include "cmd/cmdline.h"
#include "cmd/targets.h"
#include "threads/threaddump.h"

enum {
	OPT_JSON = CMDLINE_LONG_ONLY,
	OPT_NATIVE,
	OPT_TASKS,
	OPT_ALL,
	OPT_CHILDREN,
	OPT_NAME,
	OPT_POD,
	OPT_CONTAINER
};

struct dump_options {
	struct threaddump_opts dump;
	struct sample_spec chosen; /* its processes; owned */
};

static const struct option long_options[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "native", no_argument, NULL, OPT_NATIVE },
	{ "tasks", no_argument, NULL, OPT_TASKS },
	{ "all", no_argument, NULL, OPT_ALL },
	{ "pid", required_argument, NULL, 'p' },
	{ "children", no_argument, NULL, OPT_CHILDREN },
	{ "name", required_argument, NULL, OPT_NAME },
	{ "pod", required_argument, NULL, OPT_POD },
	{ "container", required_argument, NULL, OPT_CONTAINER },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf dump PID [OPTION]...\n"
	       "  or:  pyperf-bpf dump -p PID,... [--children] [OPTION]...\n"
	       "Show what every thread of a process does now, without stopping it.\n"
	       "\n"
	       "For each thread: its name and number, what it does (runs, sleeps in which system\n"
	       "call, holds the GIL or waits for it), and its Python stack, most recent call\n"
	       "first. The exit status is 1 if the process is gone or is not Python.\n"
	       "\n"
	       "Of several processes, equal stacks are shown once, the commonest first.\n"
	       "\n"
	       "  -p, --pid PID[,...]    these processes\n"
	       "      --children         and their descendants\n"
	       "      --name REGEX       all that are called so: command, program or application\n"
	       "      --container NAME   all in this container, by name or id\n"
	       "      --pod NS/NAME      all in this pod of Kubernetes\n"
	       "      --native           all frames: Python, native and kernel; also of\n"
	       "                         processes without Python\n"
	       "      --tasks            asyncio's tasks, not threads: who awaits whom, and\n"
	       "                         where each of them waits\n"
	       "      --all              with --tasks: each task by itself, also of those that\n"
	       "                         wait at the same place\n"
	       "      --json             one JSON object instead of text: see pyperf-bpf-dump(8)\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf dump 4711                    why does 4711 hang?\n"
	       "  sudo pyperf-bpf dump 4711 --native           ... and in which C function?\n"
	       "  sudo pyperf-bpf dump 4711 --tasks            what do its coroutines wait for?\n"
	       "  sudo pyperf-bpf dump --name 'celery worker'  what do all workers wait for?\n"
	       "  sudo pyperf-bpf dump 4711 --json             for programs\n");
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct dump_options *o = ctx;

	switch (opt) {
	case 'p':
		return targets__set(&o->chosen, 'p', arg);
	case OPT_NAME:
		return targets__set(&o->chosen, TARGETS_NAME, arg);
	case OPT_POD:
		return targets__set(&o->chosen, TARGETS_POD, arg);
	case OPT_CONTAINER:
		return targets__set(&o->chosen, TARGETS_CONTAINER, arg);
	case OPT_CHILDREN:
		o->dump.children = true;
		break;
	case OPT_JSON:
		o->dump.json = true;
		break;
	case OPT_NATIVE:
		o->dump.native = true;
		break;
	case OPT_TASKS:
		o->dump.tasks = true;
		break;
	case OPT_ALL:
		o->dump.all = true;
		break;
	}
	return 0;
}

/* Were processes chosen by what they are called, so that how many there are is not known? */
static bool by_name(const struct sample_spec *t)
{
	return t->name || t->pod || t->container;
}

static int check_options(const struct dump_options *opts)
{
	const struct threaddump_opts *o = &opts->dump;

	if (o->tasks && o->native)
		log_err("dump: --native is for threads: coroutines have no native frames");
	else if (o->tasks && (o->children || opts->chosen.pid_cnt > 1 || by_name(&opts->chosen)))
		log_err("dump: --tasks shows one process at a time");
	else if (o->all && !o->tasks)
		log_err("dump: --all is for --tasks");
	else if (o->all && o->json)
		log_err("dump: --all is for text: JSON always lists each task");
	else
		return 0;
	return -EINVAL;
}

/* Takes the number of the process, the only word of the line, unless options choose processes. */
static int set_pid(struct dump_options *o, char **words)
{
	bool chosen = o->chosen.pid_cnt || by_name(&o->chosen);
	pid_t pid = 0;

	if (!words[0] && !chosen) {
		log_err("dump: the number of the process is missing");
		return -EINVAL;
	}
	if (cmdline__pid_word("dump", words, chosen, "several processes: -p PID,PID", &pid))
		return -EINVAL;
	return pid ? chosen__add(&o->chosen, pid) : 0;
}

/* The only process may be a wrapper of the one that is meant, or of several. */
static int stand_in(struct dump_options *o)
{
	bool several = false;
	int err;

	if (o->chosen.pid_cnt != 1 || o->dump.children || o->dump.native || by_name(&o->chosen))
		return 0;
	err = chosen__stand_in(o->chosen.pids, o->dump.tasks ? NULL : &several);
	o->dump.children = several;
	return err;
}

static int dump(struct dump_options *o)
{
	if (chosen__find(&o->chosen) || chosen__in_group(&o->chosen) || stand_in(o))
		return 1;
	o->dump.python_only = o->dump.children || by_name(&o->chosen);
	o->dump.pids = o->chosen.pids;
	o->dump.pid_cnt = o->chosen.pid_cnt;
	return threaddump(&o->dump);
}

static int run(int argc, char **argv)
{
	struct dump_options o = { .chosen = TARGETS_DEFAULT };
	struct cmdline c = {
		.command = "dump",
		.usage = usage,
		.shorts = "p:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = &o,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN) {
		log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
		status = check_options(&o) || set_pid(&o, c.words) ? 2 : dump(&o);
	}
	targets__free(&o.chosen);
	return status;
}

const struct command cmd_dump = {
	.name = "dump",
	.summary = "what every thread of a process does now, and who holds the GIL",
	.usage = usage,
	.run = run,
};
