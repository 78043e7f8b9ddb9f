/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/pyperf.h"
#include "log.h"
#include "str.h"

/* Options without a letter. */
enum long_only {
	OPT_CHILDREN = CMDLINE_LONG_ONLY,
	OPT_COMM,
	OPT_NO_NATIVE,
	OPT_NO_KERNEL,
	OPT_NO_LINES,
	OPT_INLINES,
	OPT_THREADS,
	OPT_MAX_FRAMES,
	OPT_TABLE_MEMORY,
};

static const struct option long_options[] = {
	{ "duration", required_argument, NULL, 'd' },
	{ "frequency", required_argument, NULL, 'F' },
	{ "pid", required_argument, NULL, 'p' },
	{ "children", no_argument, NULL, OPT_CHILDREN },
	{ "cgroup", required_argument, NULL, 'C' },
	{ "comm", required_argument, NULL, OPT_COMM },
	{ "all", no_argument, NULL, 'a' },
	{ "output", required_argument, NULL, 'o' },
	{ "folded", no_argument, NULL, 'f' },
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
	       "What to sample (default: every process with Python in it, on every CPU)\n"
	       "  -d, --duration SEC     stop after SEC seconds, fractions allowed; without it\n"
	       "                         until Ctrl-C or until COMMAND ends\n"
	       "  -F, --frequency HZ     samples per second and CPU, 1 to %d (default %d)\n"
	       "  -p, --pid PID[,...]    only these processes; can be given again\n"
	       "      --children         with -p: their descendants, too\n"
	       "  -C, --cgroup PATH      only this control group and those below it\n"
	       "      --comm GLOB        only processes whose name matches, like 'celery*'\n"
	       "  -a, --all              processes without Python, too\n"
	       "What to show\n",
	       FREQUENCY_MAX, FREQUENCY_DEFAULT);
	outputs__help(false);
	printf("      --no-native        stacks without native (C, C++, ...) frames\n"
	       "      --no-kernel        stacks without kernel frames\n"
	       "      --no-lines         functions only, no line numbers\n"
	       "      --inlines          native frames: source lines, inlined functions (slow)\n"
	       "      --threads          keep threads apart\n"
	       "      --max-frames N     keep the N innermost Python frames of a stack, and N\n"
	       "                         native ones, %d to %d (default %d)\n"
	       "Other\n"
	       "      --table-memory MIB  kernel memory for unwind tables, 1 to %d MiB\n"
	       "                         (default %d)\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  pyperf-bpf -d 30                            the whole machine, 30 seconds\n"
	       "  pyperf-bpf -p 4711 -d 10 -o cpu.html        one process, as a flame graph page\n"
	       "  pyperf-bpf -p 4711 -d 10 -o cpu.lines.html  its source with times by line\n"
	       "  pyperf-bpf -o cpu.pb.gz -- python3 app.py   one command, for pprof\n",
	       STACK_DEPTH_MIN, STACK_DEPTH_MAX, STACK_DEPTH_DEFAULT, TABLE_MIB_MAX,
	       TABLE_MIB_DEFAULT);
}

/* ---- values: each returns 0, or -EINVAL or -ENOMEM after a message ---------------------------- */

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

static int set_frequency(struct options *o, const char *arg)
{
	long long hz;

	if (parse_int(arg, 1, FREQUENCY_MAX, &hz)) {
		log_err("-F %s: must be a whole number from 1 to %d (samples per second and CPU)",
			arg, FREQUENCY_MAX);
		return -EINVAL;
	}
	o->frequency_hz = (uint32_t)hz;
	return 0;
}

static int set_max_frames(struct options *o, const char *arg)
{
	long long frames;

	if (parse_int(arg, STACK_DEPTH_MIN, STACK_DEPTH_MAX, &frames)) {
		log_err("--max-frames %s: must be a whole number from %d to %d", arg,
			STACK_DEPTH_MIN, STACK_DEPTH_MAX);
		return -EINVAL;
	}
	o->max_frames = (uint32_t)frames;
	return 0;
}

static int set_table_memory(struct options *o, const char *arg)
{
	long long mib;

	if (parse_int(arg, 1, TABLE_MIB_MAX, &mib)) {
		log_err("--table-memory %s: must be a whole number of MiB from 1 to %d", arg,
			TABLE_MIB_MAX);
		return -EINVAL;
	}
	o->table_mib = (uint32_t)mib;
	return 0;
}

static int add_pid(struct options *o, pid_t pid)
{
	pid_t *pids;

	for (size_t i = 0; i < o->pid_cnt; i++)
		if (o->pids[i] == pid)
			return 0;
	pids = reallocarray(o->pids, o->pid_cnt + 1, sizeof(*pids));
	if (!pids)
		return cmdline__no_memory();
	o->pids = pids;
	o->pids[o->pid_cnt++] = pid;
	return 0;
}

/* "12,34,56". An empty element is an error: `-p $(pgrep -d, x),1` must not lose a process. */
static int add_pids(struct options *o, const char *arg)
{
	char *list = strdup(arg), *rest = list, *word;
	pid_t pid;
	int err = 0;

	if (!list)
		return cmdline__no_memory();
	while (!err && (word = strsep(&rest, ","))) {
		err = cmdline__pid(word, &pid);
		if (err)
			log_err("-p %s: '%s' is not a process id (from 1 to %d)", arg, word,
				TGID_MAX);
		else
			err = add_pid(o, pid);
	}
	free(list);
	return err;
}

/* The later of two filters would silently undo the first. */
static int set_once(const char **where, const char *option, const char *arg)
{
	if (*where) {
		log_err("%s %s: can be given once only (first: %s)", option, arg, *where);
		return -EINVAL;
	}
	if (!*arg) {
		log_err("%s: the value is empty", option);
		return -EINVAL;
	}
	*where = arg;
	return 0;
}

static int set_comm(struct options *o, const char *arg)
{
	if (set_once(&o->comm, "--comm", arg))
		return -EINVAL;
	if (strlen(arg) >= GLOB_LEN) {
		log_err("--comm %s: longer than %d characters", arg, GLOB_LEN - 1);
		return -EINVAL;
	}
	/* Such a name matches nothing, ever, and the profile would be empty. */
	if (!strpbrk(arg, "*?[") && strlen(arg) >= TASK_COMM_LEN) {
		log_err("--comm %s: the kernel cuts names after %d characters; try '%.*s*'", arg,
			TASK_COMM_LEN - 1, TASK_COMM_LEN - 1, arg);
		return -EINVAL;
	}
	return 0;
}

static void set_flag(struct options *o, int opt)
{
	switch (opt) {
	case OPT_CHILDREN:
		o->children = true;
		break;
	case 'a':
		o->all = true;
		break;
	case 'f':
		o->outputs.folded = true;
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

	switch (opt) {
	case 'd':
		return set_duration(o, arg);
	case 'F':
		return set_frequency(o, arg);
	case OPT_MAX_FRAMES:
		return set_max_frames(o, arg);
	case OPT_TABLE_MEMORY:
		return set_table_memory(o, arg);
	case 'p':
		return add_pids(o, arg);
	case 'C':
		return set_once(&o->cgroup, "-C", arg);
	case OPT_COMM:
		return set_comm(o, arg);
	case 'o':
		return outputs__add(&o->outputs, arg);
	default:
		set_flag(o, opt);
		return 0;
	}
}

/* ---- the line as a whole ----------------------------------------------------------------------- */

static int bad_word(const char *word)
{
	pid_t pid;

	if (!strcmp(word, "record"))
		log_err("'record' goes before the options");
	else if (!cmdline__pid(word, &pid))
		log_err("unexpected '%s'; to sample that process: -p %s", word, word);
	else
		log_err("unexpected '%s'; to run and sample a command: pyperf-bpf [OPTION]... -- %s",
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

static int check_conflicts(const struct options *o)
{
	if (o->children && !o->pid_cnt && !o->command) {
		log_err("--children: of which process? Name it with -p");
		return -EINVAL;
	}
	return outputs__check(&o->outputs);
}

enum cmdline_result options__parse(struct options *o, int argc, char **argv)
{
	struct cmdline c = {
		.command = "record",
		.usage = options__usage,
		.stop_at_word = true,
		.shorts = "d:F:p:C:ao:f" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = o,
	};
	enum cmdline_result result;
	int err;

	*o = (struct options){ .frequency_hz = FREQUENCY_DEFAULT,
			       .max_frames = STACK_DEPTH_DEFAULT,
			       .table_mib = TABLE_MIB_DEFAULT };
	result = cmdline__parse(&c, argc, argv);
	if (result != CMDLINE_RUN)
		return result;
	o->verbosity = c.verbosity;
	err = set_command(o, c.words, c.dashes);
	return cmdline__result(err ? err : check_conflicts(o));
}

void options__free(struct options *o)
{
	free(o->pids);
	outputs__free(&o->outputs);
	*o = (struct options){ 0 };
}
