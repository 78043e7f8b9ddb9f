/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf trace: which Python functions a process calls. */
#include "cmd/command.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/str.h"
#include "cmd/cmdline.h"
#include "trace/counting.h"

#define INTERVAL_MIN_S 0.1
#define SECONDS_MAX    1e9
#define PERCENT_MAX    1e6
#define FILTERS_MAX    64

struct trace_cmd {
	struct counting_opts o;
	struct trace_filter filters[FILTERS_MAX];
};

enum {
	OPT_COUNT = CMDLINE_LONG_ONLY,
	OPT_JSON,
	OPT_TOP,
	OPT_MAX_SLOWDOWN,
	OPT_FORCE,
};

static const struct option long_options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "filter", required_argument, NULL, 'f' },
	{ "count", no_argument, NULL, OPT_COUNT },
	{ "duration", required_argument, NULL, 'd' },
	{ "interval", required_argument, NULL, 'i' },
	{ "top", required_argument, NULL, OPT_TOP },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "max-slowdown", required_argument, NULL, OPT_MAX_SLOWDOWN },
	{ "force", no_argument, NULL, OPT_FORCE },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf trace -p PID [OPTION]...\n"
	       "Count the calls of Python functions in a process, exactly, in any CPython.\n"
	       "\n"
	       "  -p, --pid PID          the process\n"
	       "      --count            the functions called most, each second (the default)\n"
	       "  -f, --filter FUNCTION  only these functions: NAME, MODULE:NAME or FILE:NAME,\n"
	       "                         with wildcards: 'shop.cart:*'; may be repeated\n"
	       "  -d, --duration SEC     stop after SEC seconds; default: at Ctrl-C\n"
	       "  -i, --interval SEC     seconds between two tables (default 1)\n"
	       "      --top N            functions that are shown, 0: all (default %d)\n"
	       "      --json             one JSON object a line instead of tables\n"
	       "Price\n"
	       "      --max-slowdown PERCENT\n"
	       "                         end if it would slow the process down by more, as the\n"
	       "                         first 100 ms tell (default %d)\n"
	       "      --force            whatever it costs\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf trace -p 4711                which functions are called most\n"
	       "  sudo pyperf-bpf trace -p 4711 -d 10 --top 0 --json\n"
	       "                                               all of them in 10 s, for programs\n",
	       TOP_DEFAULT, SLOWDOWN_DEFAULT);
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

static int add_filter(struct trace_cmd *t, const char *arg)
{
	int err = -E2BIG;

	if (t->o.filter_cnt < FILTERS_MAX)
		err = trace_filter__parse(&t->filters[t->o.filter_cnt], arg);
	if (!err)
		t->o.filter_cnt++;
	else if (err == -ENOMEM)
		return log_no_memory();
	else if (err == -E2BIG)
		log_err("-f %s: at most %d filters", arg, FILTERS_MAX);
	else
		log_err("-f %s: must be FUNCTION, MODULE:FUNCTION or FILE:FUNCTION", arg);
	return err ? -EINVAL : 0;
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct trace_cmd *t = ctx;
	struct counting_opts *o = &t->o;

	switch (opt) {
	case 'p':
		if (!cmdline__pid(arg, &o->pid))
			return 0;
		log_err("-p %s: not the number of a process", arg);
		return -EINVAL;
	case 'f':
		return add_filter(t, arg);
	case 'd':
		return set_number("-d", arg, INTERVAL_MIN_S, SECONDS_MAX, &o->duration_s);
	case 'i':
		return set_number("-i", arg, INTERVAL_MIN_S, SECONDS_MAX, &o->interval_s);
	case OPT_TOP:
		return set_top(o, arg);
	case OPT_MAX_SLOWDOWN:
		return set_number("--max-slowdown", arg, 0, PERCENT_MAX, &o->max_slowdown);
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_FORCE:
		o->force = true;
		return 0;
	}
	return 0;
}

/* The line as a whole. */
static int check(const struct trace_cmd *t, char **words)
{
	if (words[0]) {
		log_err("trace: what is '%s'? A process is given by -p", words[0]);
		return -EINVAL;
	}
	if (!t->o.pid) {
		log_err("trace: -p PID is missing");
		return -EINVAL;
	}
	return 0;
}

static int run(int argc, char **argv)
{
	struct trace_cmd t = {
		.o = { .interval_s = 1, .max_slowdown = SLOWDOWN_DEFAULT, .top = TOP_DEFAULT }
	};
	struct cmdline c = {
		.command = "trace",
		.usage = usage,
		.shorts = "p:f:d:i:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = &t,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN) {
		log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
		t.o.filters = t.filters;
		status = check(&t, c.words) ? 2 : counting__run(&t.o);
	}
	for (size_t i = 0; i < t.o.filter_cnt; i++)
		trace_filter__free(&t.filters[i]);
	return status;
}

const struct command cmd_trace = {
	.name = "trace",
	.summary = "count the calls of Python functions, live",
	.usage = usage,
	.run = run,
};
