/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf trace: which Python functions a process calls. */
#include "cmd/command.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/reader.h"
#include "base/signals.h"
#include "base/str.h"
#include "cmd/chosen.h"
#include "cmd/cmdline.h"
#include "cmd/launch.h"
#include "cmd/python_exec.h"
#include "cmd/targets.h"
#include "export/outputs.h"
#include "trace/counting.h"
#include "trace/counting_all.h"
#include "trace/native_calls.h"
#include "trace/probing.h"
#include "trace/stacked.h"
#include "trace/target.h"

#define INTERVAL_MIN_S 0.1
#define SECONDS_MAX    1e9
#define PERCENT_MAX    1e6
#define PERCENTILE_MIN 50
#define PERCENTILE_MAX 99.9
#define FILTERS_MAX    64
#define WORDS_MAX      64 /* read of one argument */
#define REAP_US	       20000
#define SAY_US	       1000000
#define SEPARATORS     " \t\n;&|()'\"" /* of a shell */

struct trace_cmd {
	struct counting_opts o;
	struct trace_filter filters[FILTERS_MAX];
	struct thread_filters threads;
	struct condition only;
	struct trace_filter from;
	const char *python; /* as --python says; NULL: it is looked for */
	bool as_root;
	struct sample_spec chosen; /* by -p; the first is o.pid */
	bool children;
	bool interval_said, limit_said;
	struct probing_opts probes; /* -e; without any, functions of Python are traced */
	struct native_opts native;
	struct outputs pictures; /* of calls, in Python or from --native-from on */
	struct launch *launch;	 /* NULL: a process that runs is traced */
	/* Of a command that is a wrapper: holds what has executed Python. NULL: not needed. */
	struct python_exec *exec;
};

enum {
	OPT_COUNT = CMDLINE_LONG_ONLY,
	OPT_CALLS,
	OPT_HIST,
	OPT_EXCEPTIONS,
	OPT_GC,
	OPT_IMPORTS,
	OPT_AUDIT,
	OPT_SLOW,
	OPT_ARGS,
	OPT_RET,
	OPT_IF,
	OPT_NATIVE_FROM,
	OPT_LIB,
	OPT_FORMAT,
	OPT_FROM,
	OPT_JSON,
	OPT_TOP,
	OPT_MAX_SLOWDOWN,
	OPT_FORCE,
	OPT_PYTHON,
	OPT_AS_ROOT,
	OPT_CHILDREN,
};

static const struct option long_options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "children", no_argument, NULL, OPT_CHILDREN },
	{ "native-from", required_argument, NULL, OPT_NATIVE_FROM },
	{ "lib", required_argument, NULL, OPT_LIB },
	{ "output", required_argument, NULL, 'o' },
	{ "event", required_argument, NULL, 'e' },
	{ "filter", required_argument, NULL, 'f' },
	{ "thread", required_argument, NULL, 't' },
	{ "count", no_argument, NULL, OPT_COUNT },
	{ "calls", no_argument, NULL, OPT_CALLS },
	{ "hist", no_argument, NULL, OPT_HIST },
	{ "exceptions", no_argument, NULL, OPT_EXCEPTIONS },
	{ "gc", no_argument, NULL, OPT_GC },
	{ "imports", no_argument, NULL, OPT_IMPORTS },
	{ "audit", required_argument, NULL, OPT_AUDIT },
	{ "slow", required_argument, NULL, OPT_SLOW },
	{ "args", optional_argument, NULL, OPT_ARGS },
	{ "ret", no_argument, NULL, OPT_RET },
	{ "if", required_argument, NULL, OPT_IF },
	{ "duration", required_argument, NULL, 'd' },
	{ "interval", required_argument, NULL, 'i' },
	{ "top", required_argument, NULL, OPT_TOP },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "max-slowdown", required_argument, NULL, OPT_MAX_SLOWDOWN },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "python", required_argument, NULL, OPT_PYTHON },
	{ "as-root", no_argument, NULL, OPT_AS_ROOT },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf trace [OPTION]... [-p PID [FUNCTION]...]\n"
	       "       pyperf-bpf trace [OPTION]... [--] COMMAND [ARGUMENT]...\n"
	       "Count and time the calls of Python functions, exactly, in any CPython.\n"
	       "\n"
	       "  -p, --pid PID          the process, and all it starts; without: all processes\n"
	       "      --children         what it had started before, too; always of PID,PID\n"
	       "      --python FILE      the command's interpreter  --as-root  run it as root\n"
	       "      --count            the functions called most, each second (the default)\n"
	       "      --calls            each call and return, indented, with times\n"
	       "      --hist             histograms of the times of the functions, each second\n"
	       "      --slow TIME        calls that took so long, like 50ms, or the slowest of\n"
	       "                         each function, like p99: with --calls each one; then,\n"
	       "                         as with --hist, how they differ, and their callers\n"
	       "      --from FUNCTION    with --calls and --hist, only inside of its calls\n"
	       "      --args[=K]         the first K arguments (%d)  --ret  what is returned\n"
	       "      --if CONDITION     only calls with such an argument, like 'n > 5'\n"
	       "      --exceptions       exceptions raised, by type and stack\n"
	       "      --gc               garbage collections: pauses, by generation and stack\n"
	       "      --audit EVENT,...  audit events of these names, like open,socket.*, by\n"
	       "                         stack; of all three: with --calls each one\n"
	       "      --imports          imports of modules, as trees with their times\n"
	       "  -f, --filter FUNCTION  only these functions: NAME, MODULE.NAME, FILE:NAME,\n"
	       "                         with wildcards; !NAME: not these; words behind -p, too\n"
	       "  -t, --thread THREAD    only these threads: a number, or a name, like 'pool*'\n"
	       "  -e, --event PROBE      hits of uprobe:PATH:PLACE or usdt:PATH:PROBE instead:\n"
	       "                         'uprobe:PATH:malloc hist arg1 if arg1 > 99' (man page)\n"
	       "      --native-from FUNCTION  what a C function calls until it returns ...\n"
	       "      --lib FILE         ... of this file; --calls: and Python's, --ret: ends\n"
	       "  -o, --output FILE      draw these calls, or --calls, --slow: x.html, x.svg\n"
	       "  -d, --duration SEC     default: at Ctrl-C  -i, --interval SEC  of tables (1)\n"
	       "      --top N            functions shown, 0: all (%d)  --force  at any cost\n"
	       "      --json             JSON  --format FORMAT  chrome, pythonflow or systemtap\n"
	       "      --max-slowdown PERCENT  end if it costs more (%d; a command: no limit)\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf trace -p 4711 --hist shop.views:checkout   one function's time\n"
	       "  sudo pyperf-bpf trace --imports -- python3 app.py          slow imports\n",
	       VALUES_ARGS_DEFAULT, TOP_DEFAULT, SLOWDOWN_DEFAULT);
}

static int set_number(const char *option, const char *arg, double min, double max, double *out)
{
	if (!parse_double(arg, min, max, out))
		return 0;
	log_err("%s %s: must be a number from %g to %g", option, arg, min, max);
	return -EINVAL;
}

static int set_top(struct counting_opts *o, const char *arg)
{
	long long n;

	if (parse_int(arg, 0, UINT32_MAX, &n)) {
		log_err("--top %s: must be a whole number; 0: all", arg);
		return -EINVAL;
	}
	o->top = (uint32_t)n;
	return 0;
}

/* `option`: for messages: "-f ", or nothing for a word. */
static int add_filter(struct trace_cmd *t, const char *option, const char *arg)
{
	int err = -E2BIG;

	if (t->o.filter_cnt < FILTERS_MAX)
		err = trace_filter__parse(&t->filters[t->o.filter_cnt], arg);
	if (!err)
		t->o.filter_cnt++;
	else if (err == -ENOMEM)
		return log_no_memory();
	else if (err == -E2BIG)
		log_err("%s%s: at most %d filters", option, arg, FILTERS_MAX);
	else
		log_err("%s%s: must be FUNCTION, MODULE:FUNCTION or FILE:FUNCTION", option, arg);
	return err ? -EINVAL : 0;
}

static int add_thread(struct trace_cmd *t, const char *arg)
{
	int err = thread_filters__add(&t->threads, arg);

	if (err == -E2BIG)
		log_err("-t %s: at most %d threads", arg, TRACE_THREADS);
	else if (err)
		log_err("-t %s: must be the number of a thread, or its name", arg);
	t->o.threads = &t->threads;
	return err;
}

static int set_slow(struct counting_opts *o, const char *arg)
{
	o->slow = (struct timing_slow){ 0 };
	if (*arg == 'p' &&
	    !parse_double(arg + 1, PERCENTILE_MIN, PERCENTILE_MAX, &o->slow.percentile))
		return 0;
	if (!cmdline__time(arg, &o->slow.ns) && o->slow.ns)
		return 0;
	log_err("--slow %s: must be a time with its unit, like 50us, 1ms or 0.5s, or p50 to p99.9",
		arg);
	return -EINVAL;
}

static int set_args(struct counting_opts *o, const char *arg)
{
	long long n = VALUES_ARGS_DEFAULT;

	if (arg && parse_int(arg, 1, TRACE_ARGS_MAX, &n)) {
		log_err("--args=%s: must be a number of arguments from 1 to %d", arg,
			TRACE_ARGS_MAX);
		return -EINVAL;
	}
	o->args = (uint32_t)n;
	return 0;
}

static int set_condition(struct trace_cmd *t, const char *arg)
{
	const char *why;

	if (t->o.only) {
		log_err("--if %s: only one condition", arg);
		return -EINVAL;
	}
	if (condition__parse(&t->only, arg, &why)) {
		log_err("--if %s: %s", arg, why);
		return -EINVAL;
	}
	if (values__looks_secret(t->only.name, strlen(t->only.name))) {
		log_err("--if %s: the name looks like that of a secret", arg);
		return -EINVAL;
	}
	t->o.only = &t->only;
	return 0;
}

static int set_from(struct trace_cmd *t, const char *arg)
{
	int err = t->o.from ? -EEXIST : trace_filter__parse(&t->from, arg);

	if (!err && (t->from.excludes || strpbrk(t->from.function, "*?["))) {
		log_err("--from %s: must be one function, without wildcards in its name", arg);
		return -EINVAL;
	}
	if (err == -ENOMEM)
		return log_no_memory();
	if (err == -EEXIST)
		log_err("--from %s: only one function", arg);
	else if (err)
		log_err("--from %s: must be FUNCTION, MODULE:FUNCTION or FILE:FUNCTION", arg);
	else
		t->o.from = &t->from;
	return err;
}

static int set_format(struct counting_opts *o, const char *arg)
{
	if (!strcmp(arg, "json")) {
		o->json = true;
	} else if (!strcmp(arg, "pythonflow")) {
		o->format = TIMING_PYTHONFLOW;
	} else if (!strcmp(arg, "systemtap")) {
		o->format = TIMING_SYSTEMTAP;
	} else if (!strcmp(arg, "chrome")) {
		o->format = TIMING_CHROME;
	} else {
		log_err("--format %s: must be chrome, pythonflow, systemtap or json", arg);
		return -EINVAL;
	}
	return 0;
}

static int set_what(struct counting_opts *o, enum counting_what what)
{
	if (o->what != COUNTING_CALLS && o->what != what) {
		log_err("--exceptions, --gc, --imports and --audit: one at a time");
		return -EINVAL;
	}
	o->what = what;
	return 0;
}

static int set_audits(struct counting_opts *o, const char *arg)
{
	if (o->audits)
		log_err("--audit %s: name all events at once, like open,socket.*", arg);
	else if (stacked__check_audits(arg))
		log_err("--audit %s: must be up to %d names of audit events, like open,socket.*; "
			"the last letters of each may be *",
			arg, TRACE_AUDITS);
	else
		o->audits = arg;
	return o->audits == arg ? set_what(o, COUNTING_AUDITS) : -EINVAL;
}

static int add_processes(struct trace_cmd *t, const char *arg)
{
	int err = targets__set(&t->chosen, 'p', arg);

	if (!err)
		t->o.pid = t->chosen.pids[0];
	return err;
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct trace_cmd *t = ctx;
	struct counting_opts *o = &t->o;

	switch (opt) {
	case 'p':
		return add_processes(t, arg);
	case OPT_CHILDREN:
		t->children = true;
		return 0;
	case 'e':
		return probing__add(&t->probes, arg);
	case 'f':
		return add_filter(t, "-f ", arg);
	case 't':
		return add_thread(t, arg);
	case 'd':
		return set_number("-d", arg, INTERVAL_MIN_S, SECONDS_MAX, &o->duration_s);
	case 'i':
		t->interval_said = true;
		return set_number("-i", arg, INTERVAL_MIN_S, SECONDS_MAX, &o->interval_s);
	case OPT_TOP:
		return set_top(o, arg);
	case OPT_MAX_SLOWDOWN:
		t->limit_said = true;
		return set_number("--max-slowdown", arg, 0, PERCENT_MAX, &o->max_slowdown);
	case OPT_COUNT:
		o->mode = TIMING_NONE;
		return 0;
	case OPT_CALLS:
		o->mode = TIMING_CALLS;
		return 0;
	case OPT_HIST:
		o->mode = TIMING_HIST;
		return 0;
	case OPT_EXCEPTIONS:
		return set_what(o, COUNTING_EXCEPTIONS);
	case OPT_GC:
		return set_what(o, COUNTING_COLLECTIONS);
	case OPT_IMPORTS:
		return set_what(o, COUNTING_IMPORTS);
	case OPT_AUDIT:
		return set_audits(o, arg);
	case OPT_SLOW:
		return set_slow(o, arg);
	case OPT_ARGS:
		return set_args(o, arg);
	case OPT_RET:
		o->returns = true;
		return 0;
	case OPT_IF:
		return set_condition(t, arg);
	case OPT_NATIVE_FROM:
		t->native.function = arg;
		return 0;
	case OPT_LIB:
		t->native.lib = arg;
		return 0;
	case OPT_FROM:
		return set_from(t, arg);
	case OPT_FORMAT:
		return set_format(o, arg);
	case 'o':
		return outputs__add(&t->pictures, arg);
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_FORCE:
		o->force = true;
		return 0;
	case OPT_PYTHON:
		t->python = arg;
		return 0;
	case OPT_AS_ROOT:
		t->as_root = true;
		return 0;
	}
	return 0;
}

static const char *const whats[] = {
	[COUNTING_EXCEPTIONS] = "exceptions",
	[COUNTING_COLLECTIONS] = "gc",
	[COUNTING_IMPORTS] = "imports",
	[COUNTING_AUDITS] = "audit",
};

static bool is_slow(const struct counting_opts *o)
{
	return o->slow.ns || o->slow.percentile > 0;
}

/* -e: everything else is about functions of Python. */
static int check_probes(const struct trace_cmd *t)
{
	if (t->o.what == COUNTING_CALLS && t->o.mode == TIMING_NONE && !t->o.filter_cnt &&
	    !is_slow(&t->o) && !t->o.args && !t->o.returns && !t->o.only)
		return 0;
	log_err("trace: -e counts hits of probes; the options about calls, exceptions, audit "
		"events, collections and imports are about Python");
	return -EINVAL;
}

/* --format, but for json, is about lines of calls. */
static int check_format(const struct trace_cmd *t)
{
	static const char *const names[] = {
		[TIMING_PYTHONFLOW] = "pythonflow",
		[TIMING_SYSTEMTAP] = "systemtap",
		[TIMING_CHROME] = "chrome",
	};

	if (t->o.format == TIMING_LINES ||
	    (t->o.what == COUNTING_CALLS && t->o.mode == TIMING_CALLS && !is_slow(&t->o) &&
	     !t->o.json && !t->probes.cnt && !t->native.function))
		return 0;
	log_err("trace: --format %s goes with --calls, without --slow and --json",
		names[t->o.format]);
	return -EINVAL;
}

static int check_from(const struct trace_cmd *t)
{
	if (!t->o.from || (t->o.what == COUNTING_CALLS && t->o.mode != TIMING_NONE &&
			   !is_slow(&t->o) && !t->probes.cnt && !t->native.function))
		return 0;
	log_err("trace: --from goes with --calls or --hist, without --slow");
	return -EINVAL;
}

/* A number is that of a thread that is there. */
static int check_threads(const struct trace_cmd *t, const char *word)
{
	char path[32];

	if (t->threads.cnt &&
	    (t->o.what != COUNTING_CALLS || t->probes.cnt || t->native.function)) {
		log_err("trace: -t is about calls: it does not go with -e, --native-from, "
			"--exceptions, --gc, --imports and --audit");
		return -EINVAL;
	}
	for (size_t i = 0; i < t->threads.cnt; i++) {
		uint32_t tid = t->threads.at[i].tid;

		snprintf(path, sizeof(path), "/proc/%u", tid);
		if (!tid || (!word && !access(path, F_OK)))
			continue;
		log_err("-t %u: %s", tid,
			word ? "a command's threads have no numbers yet: name them"
			     : "there is no such thread");
		return -EINVAL;
	}
	return 0;
}

static int check_pictures(const struct trace_cmd *t)
{
	if (!t->pictures.cnt ||
	    (t->o.what == COUNTING_CALLS && t->o.mode != TIMING_NONE && !t->probes.cnt))
		return 0;
	log_err("trace: -o goes with --calls, --hist, --slow and --native-from");
	return -EINVAL;
}

static int check_native(const struct trace_cmd *t, const char *word)
{
	if (!t->native.function || !t->native.lib)
		log_err("trace: --native-from FUNCTION and --lib FILE go together");
	else if (!t->o.pid && !word)
		log_err("trace: --native-from needs -p PID or a command");
	else if (t->o.what != COUNTING_CALLS || t->o.mode == TIMING_HIST || is_slow(&t->o) ||
		 t->o.args || t->o.only || t->probes.cnt)
		log_err("trace: --native-from goes with --calls, --ret, -f and -o");
	else
		return 0;
	return -EINVAL;
}

/* Neither a process nor a command: all. */
static int check_all(const struct trace_cmd *t)
{
	const char *of_command = t->python ? "python" : t->as_root ? "as-root" : NULL;

	if (t->o.what != COUNTING_CALLS)
		log_err("trace: --%s needs -p PID or a command: of all processes only calls are "
			"traced",
			whats[t->o.what]);
	else if (of_command)
		log_err("trace: --%s needs a command: it says how that runs", of_command);
	else
		return 0;
	return -EINVAL;
}

static bool are_several(const struct trace_cmd *t)
{
	return t->children || t->chosen.pid_cnt > 1;
}

/* Several processes that run already have their breakpoints as all of the machine do. */
static int check_several(const struct trace_cmd *t, const char *word)
{
	const char *what = t->children ? "--children" : "-p of several processes";

	if (!are_several(t))
		return 0;
	if (!t->o.pid || word)
		log_err("trace: --children needs -p PID");
	else if (t->o.what != COUNTING_CALLS)
		log_err("trace: %s does not go with --%s", what, whats[t->o.what]);
	else if (t->probes.cnt || t->native.function || t->native.lib)
		log_err("trace: %s does not go with %s", what,
			t->probes.cnt ? "-e" : "--native-from and --lib");
	else
		return 0;
	return -EINVAL;
}

/* The line as a whole. */
static int check(const struct trace_cmd *t, char **words)
{
	if (words[0] && t->o.pid) {
		log_err("trace: -p and a command: '%s'", words[0]);
		return -EINVAL;
	}
	if (check_several(t, words[0]) || check_format(t) || check_from(t) ||
	    check_threads(t, words[0]))
		return -EINVAL;
	if (t->native.function || t->native.lib)
		return check_native(t, words[0]);
	if (check_pictures(t))
		return -EINVAL;
	if (t->probes.cnt)
		return check_probes(t);
	if (!words[0] && !t->o.pid && check_all(t))
		return -EINVAL;
	if (t->o.what != COUNTING_CALLS && t->o.mode == TIMING_HIST) {
		log_err("trace: --hist does not go with --%s: it is about calls", whats[t->o.what]);
		return -EINVAL;
	}
	if (is_slow(&t->o) && t->o.what != COUNTING_CALLS) {
		log_err("trace: --slow does not go with --%s: it is about calls", whats[t->o.what]);
		return -EINVAL;
	}
	if ((t->o.args || t->o.returns) &&
	    (t->o.what != COUNTING_CALLS || t->o.mode != TIMING_CALLS || is_slow(&t->o))) {
		log_err("trace: %s goes with --calls, without --slow",
			t->o.args ? "--args" : "--ret");
		return -EINVAL;
	}
	if (t->o.only &&
	    (t->o.what != COUNTING_CALLS || t->o.mode == TIMING_NONE || is_slow(&t->o))) {
		log_err("trace: --if goes with --calls or --hist, without --slow");
		return -EINVAL;
	}
	if (t->o.what == COUNTING_IMPORTS && t->o.filter_cnt) {
		log_err("trace: -f does not go with --imports: it is about functions");
		return -EINVAL;
	}
	return 0;
}

/* "trace 4711" is "trace -p 4711", as in the other commands. */
static enum cmdline_result take_process(struct trace_cmd *t, struct cmdline *c, int *argc,
					char ***argv)
{
	return t->o.pid ? CMDLINE_RUN : cmdline__take_pid(c, argc, argv, &t->o.pid);
}

/*
 * With -p words are functions. Options may stand between and behind them, but for "--", behind
 * which a command stands. What can be no function is left to check().
 */
static enum cmdline_result take_functions(struct trace_cmd *t, struct cmdline *c, int argc,
					  char **argv)
{
	enum cmdline_result result = take_process(t, c, &argc, &argv);

	while (result == CMDLINE_RUN && t->o.pid && !c->dashes && c->words[0] &&
	       trace_filter__may_be(c->words[0])) {
		result = cmdline__result(add_filter(t, "", c->words[0]));
		if (result != CMDLINE_RUN)
			break;
		/* The word stands where the name of the program stood. */
		argc -= (int)(c->words - argv);
		argv = c->words;
		result = cmdline__parse(c, argc, argv);
	}
	return result;
}

/* ---- a command ------------------------------------------------------------------------------- */

/* Python behind this word of the command line, or a word in it: sh -c 'exec python3 app.py'. */
static bool find_in(const struct trace_cmd *t, const char *text, char path[TARGET_PATH_MAX])
{
	char *copy = strdup(text), *rest = copy, *word = copy, program[PATH_MAX];
	bool found = false;

	for (int i = 0; word && !found && i < WORDS_MAX; i++) {
		word = strtok_r(rest, SEPARATORS, &rest);
		found = word && launch__resolve(t->launch, word, program) &&
			!target__find_interpreter(program, path);
	}
	free(copy);
	return found;
}

/* The interpreter that a command will run: its own, that of a word behind it, or the usual one. */
static bool find_interpreter(const struct trace_cmd *t, char *const *words,
			     char path[TARGET_PATH_MAX])
{
	static const char *const usual[] = { "python3", "python" };
	bool found = false;

	if (t->python)
		return find_in(t, t->python, path);
	for (size_t i = 0; words[i] && !found; i++)
		found = find_in(t, words[i], path);
	for (size_t i = 0; i < 2 && !found; i++)
		found = find_in(t, usual[i], path);
	return found;
}

/*
 * Runs a command that is no Python itself until it, or a process that it has started, has executed
 * Python. 0; -ENOTSUP: it cannot be followed, and has not begun; else negative errno after a
 * message.
 */
static int run_until_python(struct trace_cmd *t, char **words, struct counting_command *command,
			    char path[TARGET_PATH_MAX])
{
	int err;

	t->exec = python_exec__begin(launch__pid(t->launch));
	if (!t->exec) {
		log_debug("%s: it cannot be followed until it is Python: %s", words[0],
			  strerror(errno));
		return -ENOTSUP;
	}
	err = launch__go(t->launch);
	if (err)
		return err;
	command->python = python_exec__wait(t->exec, t->o.duration_s, path);
	if (command->python > 0)
		return 0;
	if (command->python < 0 && command->python != -ETIME)
		log_err("%s: %s", words[0], reader__why(command->python));
	else
		log_err("%s: neither it nor what it started executed Python%s (--python names a "
			"file with an interpreter that it loads)",
			words[0], command->python ? " in time" : " before it ended");
	return -ENOENT;
}

static int go(void *ctx)
{
	struct trace_cmd *t = ctx;

	if (!launch__started(t->launch))
		return launch__go(t->launch);
	python_exec__end(t->exec);
	t->exec = NULL;
	return 0;
}

/* Its status as a shell has it. The next signal ends us, not the command. */
static int wait_for_command(struct launch *l)
{
	int status;

	signals__keep_no_promise();
	signals__hand_over(0);
	for (unsigned i = 0; !launch__reap(l, &status); i++) {
		if (i == SAY_US / REAP_US)
			log_info("waiting for the command (process %d), which goes on untraced: "
				 "a signal to this process alone does not end it",
				 launch__pid(l));
		usleep(REAP_US);
	}
	return status;
}

/* Its own status, unless the trace of it has failed. */
static int end_command(struct trace_cmd *t, int status)
{
	int ended;

	if (launch__started(t->launch)) {
		ended = wait_for_command(t->launch);
		status = status ? status : ended;
	}
	launch__free(t->launch);
	return status;
}

/* 0 or negative errno after a message. */
static int find_python(struct trace_cmd *t, char **words, struct counting_command *command,
		       char path[TARGET_PATH_MAX])
{
	int err = -ENOTSUP;

	command->interpreter = path;
	/* If it is Python itself, it begins when all is ready. */
	if (!t->python && !find_in(t, words[0], path))
		err = run_until_python(t, words, command, path);
	else if (!t->python)
		return 0;
	if (err != -ENOTSUP || find_interpreter(t, words, path))
		return err == -ENOTSUP ? 0 : err;
	log_err("%s: found no Python that it could run (--python names it)", words[0]);
	return -ENOENT;
}

/* Starts the command under the trace that `run` makes. */
static int run_command(struct trace_cmd *t, char **words, bool needs_python,
		       int (*run)(struct trace_cmd *))
{
	char path[TARGET_PATH_MAX];
	struct counting_command command = { .go = go };
	int status = 1;

	t->launch = launch__new(words, t->as_root);
	if (!t->launch)
		return 1;
	command.ctx = t;
	t->o.command = t->probes.command = t->native.command = &command;
	t->o.pid = t->probes.pid = t->native.pid = launch__pid(t->launch);
	if (!needs_python || !find_python(t, words, &command, path))
		status = run(t);
	/* As a command that never began. */
	if (command.python > 0)
		python_exec__kill(t->exec);
	python_exec__end(t->exec);
	return end_command(t, status);
}

/* Before a command begins: what it has done cannot be undone. An exit status. */
static int open_pictures(struct trace_cmd *t)
{
	if (!t->pictures.cnt)
		return 0;
	/* stdout has the calls. */
	t->pictures.quiet = true;
	t->pictures.diff = is_slow(&t->o);
	if (outputs__check(&t->pictures))
		return 2;
	return outputs__open(&t->pictures) ? 1 : 0;
}

/* The slow calls as the difference from the others. 0 or negative errno after a message. */
static int write_pictures(struct trace_cmd *t, struct profile *const pictures[PICTURES])
{
	struct export_opts o = { .live = true,
				 .absolute = true,
				 .sides = { "Others", "Slow" },
				 .readers = readers__new() };
	int err = pictures[PICTURE_OTHERS]
			  ? outputs__write_diff(&t->pictures, pictures[PICTURE_OTHERS],
						pictures[PICTURE_CALLS], &o)
			  : outputs__write(&t->pictures, pictures[PICTURE_CALLS], &o);

	readers__free(o.readers);
	return err;
}

/* With profiles, which get the calls and are written, if files are wanted. */
static int draw(struct trace_cmd *t, int (*trace)(struct trace_cmd *))
{
	struct profile **pictures = t->o.pictures;
	int status = 0;

	if (!t->pictures.cnt)
		return trace(t) != 0;
	for (int i = 0; i < PICTURES && !status; i++) {
		if (i == PICTURE_OTHERS && !is_slow(&t->o))
			continue;
		pictures[i] = profile__new();
		status = pictures[i] ? 0 : log_no_memory();
	}
	if (!status)
		status = trace(t);
	if ((!status || status == COUNTING_REFUSED) && write_pictures(t, pictures))
		status = 1;
	for (int i = 0; i < PICTURES; i++)
		profile__free(pictures[i]);
	return status != 0;
}

static int count_calls(struct trace_cmd *t)
{
	return counting__run(&t->o);
}

static int count_all(struct trace_cmd *t)
{
	return counting_all__run(&t->o);
}

static int run_counting(struct trace_cmd *t)
{
	return draw(t, count_calls);
}

static int run_probing(struct trace_cmd *t)
{
	return probing__run(&t->probes);
}

static int trace_probes(struct trace_cmd *t, char **words)
{
	t->probes.duration_s = t->o.duration_s;
	t->probes.interval_s = t->interval_said ? t->o.interval_s : 0;
	t->probes.json = t->o.json;
	t->probes.max_slowdown = t->o.max_slowdown;
	t->probes.force = t->o.force;
	if (words[0])
		return run_command(t, words, false, run_probing);
	t->probes.pid = t->o.pid ? t->o.pid : -1;
	return run_probing(t);
}

static int trace_calls(struct trace_cmd *t)
{
	t->native.picture = t->o.pictures[PICTURE_CALLS];
	return native_calls__run(&t->native);
}

static int run_native(struct trace_cmd *t)
{
	return draw(t, trace_calls);
}

static int trace_native(struct trace_cmd *t, char **words)
{
	t->native.pid = t->o.pid;
	t->native.ends = t->o.returns;
	t->native.python = t->o.mode == TIMING_CALLS;
	t->native.filters = t->o.filters;
	t->native.filter_cnt = t->o.filter_cnt;
	t->native.duration_s = t->o.duration_s;
	t->native.top = t->o.top;
	t->native.json = t->o.json;
	t->native.max_slowdown = t->o.max_slowdown;
	t->native.force = t->o.force;
	return words[0] ? run_command(t, words, t->native.python, run_native) : run_native(t);
}

/* A pre-fork server's first process does nothing: its workers do. */
static void say_children(pid_t pid, size_t cnt)
{
	if (cnt)
		log_info("process %d has started %zu other Python process%s before: --children "
			 "traces %s, too",
			 pid, cnt, cnt == 1 ? "" : "es", cnt == 1 ? "it" : "them");
}

static int trace_functions(struct trace_cmd *t, char **words)
{
	size_t children;

	/* Who starts a command to trace it wants to see it. */
	if (words[0]) {
		t->o.force |= !t->limit_said;
		return run_command(t, words, true, run_counting);
	}
	if (are_several(t)) {
		t->o.roots = t->chosen.pids;
		t->o.root_cnt = t->chosen.pid_cnt;
	}
	if (!t->o.pid || t->o.root_cnt)
		return draw(t, count_all);
	if (chosen__stand_in_of(&t->o.pid, &children))
		return 1;
	say_children(t->o.pid, children);
	return run_counting(t);
}

static int run(int argc, char **argv)
{
	struct trace_cmd t = {
		.o = { .interval_s = 1, .max_slowdown = SLOWDOWN_DEFAULT, .top = TOP_DEFAULT }
	};
	struct cmdline c = {
		.command = "trace",
		.usage = usage,
		.stop_at_word = true,
		.shorts = "p:e:f:t:d:i:o:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = &t,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);
	int status;

	if (result == CMDLINE_RUN)
		result = take_functions(&t, &c, argc, argv);
	status = cmdline__status(result);
	if (result == CMDLINE_RUN) {
		log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
		t.o.filters = t.filters;
		if (t.o.what == COUNTING_IMPORTS && t.o.mode == TIMING_NONE)
			t.o.mode = TIMING_CALLS; /* shown as they come */
		if (is_slow(&t.o) && t.o.mode == TIMING_NONE)
			t.o.mode = TIMING_HIST;
		status = check(&t, c.words) ? 2 : open_pictures(&t);
		if (status)
			; /* it has been said */
		else if (t.native.function)
			status = trace_native(&t, c.words);
		else if (t.probes.cnt)
			status = trace_probes(&t, c.words);
		else
			status = trace_functions(&t, c.words);
	}
	for (size_t i = 0; i < t.o.filter_cnt; i++)
		trace_filter__free(&t.filters[i]);
	outputs__free(&t.pictures);
	trace_filter__free(&t.from);
	targets__free(&t.chosen);
	return status;
}

const struct command cmd_trace = {
	.name = "trace",
	.summary = "count and time the calls of Python functions, live",
	.usage = usage,
	.run = run,
};
