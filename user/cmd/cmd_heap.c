/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* pyperf-bpf heap: shows the contents of a process's Python heap. */
#include "cmd/command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/stream.h"
#include "base/terminal.h"
#include "cmd/chosen.h"
#include "cmd/cmdline.h"
#include "cmd/heap_command.h"
#include "cmd/heap_page.h"
#include "cmd/heap_several.h"
#include "cmd/targets.h"
#include "export/export.h"
#include "heap/heap.h"
#include "heap/saved.h"
#include "heap/show.h"

#define PERIOD_MAX_S  (7 * 24 * 3600)
#define EVERY_DEFAULT 10
#define FOR_DEFAULT   300

enum {
	OPT_JSON = CMDLINE_LONG_ONLY,
	OPT_ALL,
	OPT_EVERY,
	OPT_FOR,
	OPT_REFERRERS,
	OPT_DIFF,
	OPT_CHILDREN,
	OPT_AS_ROOT,
};

static const struct option long_options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "children", no_argument, NULL, OPT_CHILDREN },
	{ "duration", required_argument, NULL, 'd' },
	{ "as-root", no_argument, NULL, OPT_AS_ROOT },
	{ "output", required_argument, NULL, 'o' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "all", no_argument, NULL, OPT_ALL },
	{ "every", required_argument, NULL, OPT_EVERY },
	{ "for", required_argument, NULL, OPT_FOR },
	{ "referrers", required_argument, NULL, OPT_REFERRERS },
	{ "diff", required_argument, NULL, OPT_DIFF },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf heap [-p] PID[,...] [OPTION]...\n"
	       "  or:  pyperf-bpf heap [OPTION]... -- COMMAND [ARG]...\n"
	       "Show what a process's Python heap holds, by type, without stopping it.\n"
	       "\n"
	       "First where its resident memory is: live objects, empty space in Python's pools,\n"
	       "free space in malloc's arenas, files, stacks. Then its objects by type.\n"
	       "\n"
	       "  -p, --pid PID[,...]    this process; of several, what they have together,\n"
	       "                         and who has most of each type\n"
	       "      --children         and their descendants that have Python\n"
	       "  -d, --duration SEC     read the heap of COMMAND after SEC seconds; default:\n"
	       "                         at its end, before Python frees its objects\n"
	       "      --as-root          COMMAND runs as root, not as the user who called sudo\n"
	       "      --every SEC        read the heap every SEC seconds, and show what grows;\n"
	       "                         default with --for: 10\n"
	       "      --for SEC          ... for so long; default with --every: 300\n"
	       "      --referrers TYPE   who holds the objects of this type, up to a root\n"
	       "      --diff BEFORE      which types grew since BEFORE was written by --json -o;\n"
	       "                         with a second file instead of -p, until that was\n"
	       "      --all              all types, not only those that take most\n"
	       "      --json             one JSON object instead of text: see pyperf-bpf-heap(8)\n"
	       "  -o, --output FILE      write to FILE, whole or not at all; with --every\n"
	       "                         FILE.html is a page with a curve for each type\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf heap -p 4711                      what fills its memory?\n"
	       "  sudo pyperf-bpf heap -p 4711 --every 10 --for 60  what grows?\n"
	       "  sudo pyperf-bpf heap -p 4711 --children           which worker is the largest?\n"
	       "  sudo pyperf-bpf heap -p 4711 --referrers Order    who keeps them alive?\n"
	       "  sudo pyperf-bpf heap -p 4711 --json -o heap.json  for programs, and --diff\n"
	       "  sudo pyperf-bpf heap -p 4711 --diff heap.json     what grew since?\n"
	       "  sudo pyperf-bpf heap -- python3 app.py            what is left at its end?\n");
}

struct heap_line {
	struct heap_opts o;
	struct sample_spec chosen; /* its processes; owned */
	char **command;		   /* NULL: they run already */
	double duration_s;
	bool as_root;
	bool children;
	bool json;
	bool page; /* HTML */
	const char *output;
	const char *before, *after; /* files; NULL: of --diff none, or with the process */
};

static int set_seconds(const char *option, const char *arg, unsigned *seconds)
{
	long long n = 0;
	int err = cmdline__whole(option, arg, 1, PERIOD_MAX_S, "seconds", &n);

	*seconds = (unsigned)n;
	return err;
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct heap_line *l = ctx;

	switch (opt) {
	case 'p':
		return targets__set(&l->chosen, 'p', arg);
	case OPT_CHILDREN:
		l->children = true;
		return 0;
	case 'd':
		return cmdline__seconds("-d", arg, DURATION_MIN_S, DURATION_MAX_S, &l->duration_s);
	case OPT_AS_ROOT:
		l->as_root = true;
		return 0;
	case 'o':
		l->output = arg;
		return 0;
	case OPT_JSON:
		l->json = true;
		return 0;
	case OPT_ALL:
		l->o.all = true;
		return 0;
	case OPT_REFERRERS:
		l->o.referrers = arg;
		return 0;
	case OPT_DIFF:
		l->before = arg;
		return 0;
	case OPT_EVERY:
		return set_seconds("--every", arg, &l->o.every_s);
	case OPT_FOR:
		return set_seconds("--for", arg, &l->o.for_s);
	}
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t len = s ? strlen(s) : 0;

	return len >= strlen(end) && !strcmp(s + len - strlen(end), end);
}

static int check_page(struct heap_line *l)
{
	l->page = ends_with(l->output, ".html") && !l->json;
	if (!l->page || l->o.every_s)
		return 0;
	log_err("heap: -o %s: a page shows curves: it needs --every", l->output);
	return -EINVAL;
}

/* Several processes are read one after the other, once. */
static int check_several(const struct heap_line *l)
{
	if (!l->children && l->chosen.pid_cnt < 2)
		return 0;
	if (!l->before && !l->o.every_s && !l->o.for_s && !l->o.referrers)
		return 0;
	log_err("heap: --every, --for, --referrers and --diff look at one process: name one, "
		"without --children");
	return -EINVAL;
}

static int set_command(struct heap_line *l, char **words)
{
	pid_t pid;

	if (!*words) {
		log_err("heap: -- must be followed by a command");
		return -EINVAL;
	}
	if (l->chosen.pid_cnt || !cmdline__pid(*words, &pid)) {
		log_err("heap: name a process or a command, not both");
		return -EINVAL;
	}
	if (l->o.every_s || l->o.for_s) {
		log_err("heap: --every and --for look at a process that runs: -p PID");
		return -EINVAL;
	}
	l->command = words;
	return 0;
}

/* The processes, by -p or by a word. */
static int set_processes(struct heap_line *l, char **words)
{
	bool chosen = l->chosen.pid_cnt;

	if (l->duration_s || l->as_root) {
		log_err("heap: %s is for a command: -- COMMAND",
			l->duration_s ? "-d" : "--as-root");
		return -EINVAL;
	}
	if (l->before && !chosen && *words)
		l->after = *words++;
	if (l->after && *words) {
		log_err("heap: unexpected '%s'", *words);
		return -EINVAL;
	}
	if (cmdline__pid_word("heap", words, chosen, "several processes: -p PID,PID", &l->o.pid))
		return -EINVAL;
	if (l->o.pid && chosen__add(&l->chosen, l->o.pid))
		return -EINVAL;
	if (l->chosen.pid_cnt || l->after)
		return 0;
	log_err("heap: name a process by its number, or a command behind --");
	return -EINVAL;
}

static int check_line(struct heap_line *l, char **words, bool dashes)
{
	int err = dashes ? set_command(l, words) : set_processes(l, words);

	if (!err)
		err = check_several(l);
	if (err)
		return err;
	if (l->before && (l->o.every_s || l->o.for_s || l->o.referrers)) {
		log_err("heap: --diff goes with neither --every, --for nor --referrers");
		return -EINVAL;
	}
	if (l->o.for_s && !l->o.every_s)
		l->o.every_s = l->o.for_s < EVERY_DEFAULT ? l->o.for_s : EVERY_DEFAULT;
	else if (l->o.every_s && !l->o.for_s)
		l->o.for_s = l->o.every_s > FOR_DEFAULT ? l->o.every_s : FOR_DEFAULT;
	if (l->o.every_s > l->o.for_s) {
		log_err("--every: %u seconds are longer than --for, %u", l->o.every_s, l->o.for_s);
		return -EINVAL;
	}
	return check_page(l);
}

/* ---- output ---------------------------------------------------------------------------------- */

struct heap_output {
	struct heap_line *line;
	struct export_file *file; /* NULL: stdout */
	const struct heap_view *view;
	const struct heap_diff *diff; /* instead of the view, or NULL */
	struct heap_several several;
	bool are_several; /* show them, not the view */
};

static int show(const struct heap_output *out, FILE *f, unsigned width, bool color)
{
	if (out->are_several && out->line->json)
		return heap_several__json(f, &out->several);
	if (out->are_several)
		return heap_several__text(f, &out->several, width, color, out->line->o.all);
	if (out->diff && out->line->json)
		return heap_diff__json(f, out->diff);
	if (out->diff)
		return heap_diff__text(f, out->diff, width, color, out->line->o.all);
	if (out->line->page)
		return heap_page__write(f, out->view);
	if (out->line->json)
		return heap_show__json(f, out->view);
	return heap_show__text(f, out->view, width, color);
}

static int write_file(void *ctx, FILE *f)
{
	return show(ctx, f, 0, false);
}

static int write_stdout(const struct heap_output *out)
{
	bool color;
	unsigned width = terminal__width(&color);
	int err = show(out, stdout, width, color);

	if (!err)
		err = stream__flush(stdout);
	if (err)
		log_err("standard output: %s", strerror(-err));
	return err;
}

static int write_output(struct heap_output *out)
{
	return out->file ? export__commit_other(out->file, write_file, out) : write_stdout(out);
}

/* From BEFORE to `after`. 0 or negative errno, printed. */
static int write_diff(struct heap_output *out, const struct heap_saved *after)
{
	struct heap_saved before;
	struct heap_diff diff = { 0 };
	int err = heap_saved__read(&before, out->line->before);

	if (!err) {
		err = heap_diff__make(&diff, &before, after);
		out->diff = &diff;
		err = err ? log_no_memory() : write_output(out);
	}
	heap_diff__free(&diff);
	heap_saved__free(&before);
	return err;
}

static int write_view(void *ctx, const struct heap_view *view)
{
	struct heap_output *out = ctx;
	struct heap_saved after;
	int err;

	out->view = view;
	if (!out->line->before)
		return write_output(out);
	err = heap_saved__take(&after, view);
	err = err ? log_no_memory() : write_diff(out, &after);
	heap_saved__free(&after);
	return err;
}

static int keep_view(void *ctx, const struct heap_view *view)
{
	struct heap_output *out = ctx;
	int err = heap_several__add(&out->several, view, out->line->json);

	if (err == -E2BIG)
		log_err("process %" PRIu32 ": the others have too many types already: name fewer "
			"processes",
			view->tgid);
	else if (err)
		log_no_memory();
	return err;
}

/* Wrappers (sh -c, timeout) give their places to the Python processes that they started. */
static int replace_wrappers(struct sample_spec *chosen)
{
	struct sample_spec pythons = { 0 };
	int err = 0;

	for (size_t i = 0; i < chosen->pid_cnt && !err; i++) {
		pid_t pid = chosen->pids[i];

		err = chosen__stand_in(&pid, NULL);
		if (!err)
			err = chosen__add(&pythons, pid);
	}
	free(chosen->pids);
	chosen->pids = pythons.pids;
	chosen->pid_cnt = pythons.pid_cnt;
	return err;
}

/* The exit status: 1 if one of them could not be read, which was printed; the others are shown. */
static int read_several(struct heap_output *out)
{
	struct heap_line *l = out->line;
	struct heap_sink sink = { keep_view, out };
	int status = 0;

	for (size_t i = 0; i < l->chosen.pid_cnt && !ending__asked(); i++) {
		l->o.pid = l->chosen.pids[i];
		status |= heap(&l->o, &sink);
	}
	out->are_several = true;
	if (out->several.cnt && write_output(out))
		status = 1;
	heap_several__free(&out->several);
	return status;
}

/* The processes that are to be read, of those that were named. */
static int find_processes(struct heap_line *l)
{
	return l->children ? chosen__add_children(&l->chosen) : replace_wrappers(&l->chosen);
}

/* The exit status. */
static int read_processes(struct heap_output *out)
{
	struct heap_line *l = out->line;
	struct heap_sink sink = { write_view, out };

	if (l->children || l->chosen.pid_cnt > 1)
		return read_several(out);
	l->o.pid = l->chosen.pids[0];
	return heap(&l->o, &sink);
}

/* Of the command, when it is time. */
static int read_command(void *ctx)
{
	struct heap_output *out = ctx;

	return find_processes(out->line) ? 1 : read_processes(out);
}

/* The exit status. */
static int compare_files(struct heap_output *out)
{
	struct heap_saved after;
	int err = heap_saved__read(&after, out->line->after);

	if (!err)
		err = write_diff(out, &after);
	heap_saved__free(&after);
	return err ? 1 : 0;
}

/* Opens what is to be written, and reads. The exit status. */
static int run_opened(struct heap_output *out, struct launch *launch)
{
	static const struct export_format text = { .suffix = "", .name = "the heap" };
	struct heap_line *l = out->line;
	struct heap_command c = {
		.launch = launch,
		.duration_s = l->duration_s,
		.signal_fd = l->o.stop_fd,
		.read = read_command,
		.ctx = out,
	};

	if (l->output && strcmp(l->output, "-")) {
		out->file = export__open(l->output, &text);
		if (!out->file)
			return 1;
	}
	if (launch) {
		c.name = *l->command;
		return heap_command__run(&c);
	}
	if (l->after)
		return compare_files(out);
	signals__hand_over(1); /* a reading that it ends is shown as far as it went */
	return read_processes(out);
}

static int run_line(struct heap_line *l)
{
	struct heap_output out = { .line = l };
	struct launch *launch = l->command ? launch__new(l->command, l->as_root) : NULL;
	int status = 1;

	if (l->command && (!launch || chosen__add(&l->chosen, launch__pid(launch))))
		goto out;
	if (!l->command && !l->after && find_processes(l))
		goto out;
	l->o.stop_fd = signals__open(export__abandon, launch != NULL);
	if (l->o.stop_fd < 0) {
		log_err("signals: %s", strerror(-l->o.stop_fd));
		goto out;
	}
	status = run_opened(&out, launch);
	export__close(out.file);
	close(l->o.stop_fd);
out:
	launch__free(launch);
	return status;
}

static int run(int argc, char **argv)
{
	struct heap_line l = { .chosen = TARGETS_DEFAULT };
	struct cmdline c = {
		.command = "heap",
		.usage = usage,
		.shorts = "p:d:o:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = &l,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN) {
		log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
		status = check_line(&l, c.words, c.dashes) ? 2 : run_line(&l);
	}
	targets__free(&l.chosen);
	return status;
}

const struct command cmd_heap = {
	.name = "heap",
	.summary = "what a process's Python heap holds, by type, and what grows",
	.usage = usage,
	.run = run,
};
