/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf probes: shows what can be traced in a process or a file, and the cost of a hit. */
#include "cmd/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/chosen.h"
#include "cmd/cmdline.h"
#include "trace/probes.h"

enum { OPT_JSON = CMDLINE_LONG_ONLY };

static const struct option long_options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "json", no_argument, NULL, OPT_JSON },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf probes [-p] PID|FILE [OPTION]...\n"
	       "Show what can be traced in a process or in a program's file, by which means,\n"
	       "and what a hit costs.\n"
	       "\n"
	       "Calls of Python functions need neither symbols nor an interpreter that was built\n"
	       "with probes. Static probes (USDT) are listed where the file has them.\n"
	       "A FILE is an executable or a libpython, and needs no root.\n"
	       "\n"
	       "  -p, --pid PID          this process\n"
	       "      --json             one JSON object instead of text\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf probes 4711                  what trace can see in 4711\n"
	       "  pyperf-bpf probes /usr/bin/python3.13        ... and in this interpreter\n");
}

struct probes_line {
	const char *pid; /* of -p */
	bool json;
};

static int set_option(void *ctx, int opt, const char *arg)
{
	struct probes_line *l = ctx;
	pid_t pid;

	if (opt == OPT_JSON) {
		l->json = true;
	} else if (l->pid || cmdline__pid(arg, &pid)) {
		log_err("-p, --pid: %s: '%s'", l->pid ? "one process at a time" : "no process",
			arg);
		return -EINVAL;
	} else {
		l->pid = arg;
	}
	return 0;
}

/* A program that has no interpreter in it may have one in its libpython. */
static int open_file(struct target *t, const char *path)
{
	char interpreter[TARGET_PATH_MAX];
	int err = target__open_file(t, path);

	if (err != -ENOENT || !t->ef || target__find_interpreter(path, interpreter))
		return err;
	log_info("%s has its interpreter in %s", path, interpreter);
	target__close(t);
	return target__open_file(t, interpreter);
}

static int print(const char *word, bool json)
{
	struct target t = { 0 };
	bool is_file;
	pid_t pid;
	int err;

	is_file = cmdline__pid(word, &pid);
	if (!is_file && chosen__stand_in(&pid, NULL))
		return 1;
	err = is_file ? open_file(&t, word) : target__open_process(&t, pid);
	if (!err || (err == -ENOENT && t.ef)) {
		err = probes__print(stdout, &t, !err, json);
		if (err)
			log_err("standard output: %s", strerror(-err));
	}
	target__close(&t);
	return err != 0;
}

static int run(int argc, char **argv)
{
	struct probes_line line = { 0 };
	const char *word;
	struct cmdline c = {
		.command = "probes",
		.usage = usage,
		.shorts = "p:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = &line,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);

	if (result != CMDLINE_RUN)
		return cmdline__status(result);
	word = line.pid ? line.pid : c.words[0];
	if (!word || c.words[line.pid ? 0 : 1]) {
		log_err("probes: %s", word ? "one process or file at a time"
					   : "the number of a process or a file is missing");
		return 2;
	}
	log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
	return print(word, line.json);
}

const struct command cmd_probes = {
	.name = "probes",
	.summary = "what can be traced in a process or a file, and at what price",
	.usage = usage,
	.run = run,
};
