/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * pyperf-bpf diff: shows what became slower and faster between two profiles, or two times in the
 * agent's store.
 */
#include "cmd/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "cmd/cmdline.h"
#include "cmd/reduce_options.h"
#include "cmd/output_options.h"
#include "cmd/stored.h"
#include "import/import.h"
#include "profile/diff.h"
#include "profile/moved.h"

#define STATUS_GREW 3 /* --fail-over */
#define TRIM_MAX    16

enum long_only {
	OPT_ABSOLUTE = CMDLINE_LONG_ONLY,
	OPT_BEFORE,
	OPT_AFTER,
	OPT_BEFORE_LABEL,
	OPT_AFTER_LABEL,
	OPT_TRIM_PATH,
	OPT_FAIL_OVER,
};

/* One of the two profiles. */
struct side {
	const char *name;  /* for messages: its file, or the option that says when */
	const char *range; /* FROM..TO, borrowed from argv, or NULL */
	bool labels;	   /* it has some that the other has not */
	struct stored stored;
	struct stored_range when;
};

struct diff_options {
	struct outputs outputs;
	struct import_opts import;
	struct reduce_options reduce;
	const char *trim[TRIM_MAX]; /* borrowed from argv */
	size_t trim_cnt;
	bool absolute;
	double fail_over; /* a share, 0 to 1; 0: not given */
	bool failed;	  /* something takes more than that more */
	struct side before, after;
};

static const struct option long_options[] = {
	OUTPUT_LONG_OPTIONS,
	OUTPUT_SAVED_OPTIONS,
	{ "type", required_argument, NULL, 't' },
	{ "trim-path", required_argument, NULL, OPT_TRIM_PATH },
	{ "absolute", no_argument, NULL, OPT_ABSOLUTE },
	{ "fail-over", required_argument, NULL, OPT_FAIL_OVER },
	{ "before", required_argument, NULL, OPT_BEFORE },
	{ "after", required_argument, NULL, OPT_AFTER },
	{ "before-label", required_argument, NULL, OPT_BEFORE_LABEL },
	{ "after-label", required_argument, NULL, OPT_AFTER_LABEL },
	REDUCE_LONG_OPTIONS,
	STORED_LONG_OPTIONS,
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	printf("Usage: pyperf-bpf diff [OPTION]... BEFORE AFTER\n"
	       "  or:  pyperf-bpf diff --before FROM..TO [--after FROM..TO] [--service NAME]\n"
	       "Show which functions take more than before, and which take less.\n"
	       "Needs no privileges. BEFORE and AFTER are files as 'report' reads them.\n"
	       "\n"
	       "Shares of the whole are compared, so runs need not be equally long. Changes\n"
	       "that chance explains are not shown. Folded stacks end in both counts.\n"
	       "\n");
	outputs__help(true);
	printf("      --fail-over PERCENT  status 3 if a function takes so many points more\n"
	       "      --absolute         compare seconds instead of shares\n"
	       "      --markdown         a short table as Markdown, as --format markdown\n"
	       "      --trim-path DIR    paths are shown and compared without DIR in front\n"
	       "  -t, --type NAME        count by this sample type of pprof files; default:\n"
	       "                         the number of samples\n" REDUCE_HELP
	       "From the store of 'pyperf-bpf agent', which may be running\n"
	       "      --before FROM..TO  windows between these times, like -2h..-1h; see\n"
	       "                         'pyperf-bpf report --help'; default: as --after\n"
	       "      --after FROM..TO   ... with these; default: -1h..now\n"
	       "      --before-label NAME=VALUE  before: only windows with this label\n"
	       "      --after-label NAME=VALUE   after: only windows with this label\n" STORED_HELP
	       "Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  pyperf-bpf diff old.pb.gz new.pb.gz\n"
	       "  pyperf-bpf diff --service web --before -25h..-24h\n"
	       "  pyperf-bpf diff --service web --before-label version=1 --after-label "
	       "version=2\n");
}

/* Sets an option for both sides. */
static int set_stored(struct diff_options *o, int opt, const char *arg)
{
	int err = stored__set(&o->before.stored, opt, arg);

	return err ? err : stored__set(&o->after.stored, opt, arg);
}

static int set_label(struct side *side, const char *arg)
{
	side->labels = true;
	return stored__set(&side->stored, STORED_LABEL, arg);
}

/* "5%", "0.5%" or "5" */
static int set_fail_over(struct diff_options *o, const char *arg)
{
	char number[32];
	size_t len = strlen(arg);
	double percent;

	len -= len && arg[len - 1] == '%';
	snprintf(number, sizeof(number), "%.*s", (int)len, arg);
	if (len >= sizeof(number) || parse_double(number, 0, 100, &percent) || percent <= 0) {
		log_err("--fail-over %s: must be a percentage above 0, like 5%%", arg);
		return -EINVAL;
	}
	o->fail_over = percent / 100;
	return 0;
}

static int add_trim(struct diff_options *o, const char *dir)
{
	if (o->trim_cnt == TRIM_MAX) {
		log_err("--trim-path %s: at most %d directories", dir, TRIM_MAX);
		return -EINVAL;
	}
	o->trim[o->trim_cnt++] = dir;
	return 0;
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct diff_options *o = ctx;

	if (stored__takes(opt))
		return set_stored(o, opt, arg);
	if (reduce_options__takes(opt))
		return reduce_options__set(&o->reduce, opt, arg);
	if (output_options__takes(opt))
		return output_options__set(&o->outputs, opt, arg);
	switch (opt) {
	case 't':
		o->import.sample_type = arg;
		break;
	case OPT_TRIM_PATH:
		return add_trim(o, arg);
	case OPT_FAIL_OVER:
		return set_fail_over(o, arg);
	case OPT_ABSOLUTE:
		o->absolute = true;
		break;
	case OPT_BEFORE:
		o->before.range = arg;
		break;
	case OPT_AFTER:
		o->after.range = arg;
		break;
	case OPT_BEFORE_LABEL:
		return set_label(&o->before, arg);
	case OPT_AFTER_LABEL:
		return set_label(&o->after, arg);
	}
	return 0;
}

/* "FROM..TO" or "FROM..", which is until now. */
static int parse_range(struct side *side, const char *option, const char *range)
{
	const char *dots = strstr(range, "..");
	char *from;
	int err;

	if (!dots || dots == range) {
		log_err("%s %s: must be FROM..TO, like -2h..-1h", option, range);
		return -EINVAL;
	}
	from = strndup(range, (size_t)(dots - range));
	if (!from)
		return log_no_memory();
	side->name = option;
	err = stored__range(&side->when, option, from, "..", dots[2] ? dots + 2 : "now");
	free(from);
	return err;
}

static int check_stored(struct diff_options *o)
{
	const char *after = o->after.range ? o->after.range : "-1h..now";
	const char *before = o->before.range;
	int err;

	if (!before && (o->before.labels || o->after.labels))
		before = after;
	if (!before) {
		log_err("nothing to compare with: give --before FROM..TO or --before-label");
		return -EINVAL;
	}
	err = parse_range(&o->before, "--before", before);
	return err ? err : parse_range(&o->after, "--after", after);
}

static bool is_stored(const struct diff_options *o)
{
	return o->before.range || o->after.range || o->before.stored.used || o->after.stored.used;
}

static int check_files(struct diff_options *o, char **files)
{
	if (is_stored(o) && files[0]) {
		log_err("%s: compare either files or windows of the store, not both", files[0]);
		return -EINVAL;
	}
	if (is_stored(o))
		return check_stored(o);
	if (!files[0] || !files[1] || files[2]) {
		log_err("diff needs two files: pyperf-bpf diff BEFORE AFTER; or two times, see "
			"'pyperf-bpf diff --help'");
		return -EINVAL;
	}
	o->before.name = files[0];
	o->after.name = files[1];
	return 0;
}

static enum cmdline_result parse(struct diff_options *o, int argc, char **argv)
{
	struct cmdline c = {
		.command = "diff",
		.usage = usage,
		.shorts = OUTPUT_SHORT_OPTIONS "t:" CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = o,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);
	int err;

	if (result != CMDLINE_RUN)
		return result;
	log_set_level((enum log_level)(LOG_LEVEL_INFO + c.verbosity));
	o->outputs.quiet = c.verbosity < 0;
	err = check_files(o, c.words);
	return cmdline__result(err ? err : outputs__check(&o->outputs));
}

static int read_side(const struct diff_options *o, const struct side *side, struct import *im)
{
	int err;

	if (is_stored(o))
		return stored__load(&side->stored, &side->when, im);
	err = import__add(im, side->name);
	return err ? err : import__finish(im);
}

static struct import *load(const struct diff_options *o, const struct side *side)
{
	struct import *im = import__new(&o->import);
	const struct value_type *v;

	if (!im) {
		log_no_memory();
		return NULL;
	}
	if (read_side(o, side, im)) {
		import__free(im);
		return NULL;
	}
	if (reduce_options__apply(&o->reduce, import__profile(im), side->name)) {
		import__free(im);
		return NULL;
	}
	v = &import__profile(im)->stats.values[0];
	/* Shares of nothing cannot be compared. */
	if (!profile__total(import__profile(im))) {
		log_err("%s: has no %s", side->name, value_type__shared(v));
		import__free(im);
		return NULL;
	}
	if (o->absolute && !value_type__per_second(v)) {
		if (value_type__is_clock(v))
			log_err("--absolute: %s does not say how long a sample is", side->name);
		else
			log_err("--absolute: %s has %s, which do not measure time", side->name,
				value_type__noun(v, 2));
		import__free(im);
		return NULL;
	}
	return im;
}

/* Folded stacks do not say what they count: maybe the same. */
static void compare_events(const struct diff_options *o, struct import *before,
			   struct import *after)
{
	const struct value_type *b = &import__profile(before)->stats.values[0];
	const struct value_type *a = &import__profile(after)->stats.values[0];

	if (strcmp(value_type__noun(b, 2), value_type__noun(a, 2)) != 0)
		log_warn("%s counts %s, %s counts %s: their shares are not comparable",
			 o->before.name, value_type__noun(b, 2), o->after.name,
			 value_type__noun(a, 2));
}

/* How much more it takes than before, of all that was before; 0 if chance explains it. */
static double growth(const struct diff_value *v, double all)
{
	return v->significant && all > 0 ? diff__change(v) / all : 0;
}

/* --fail-over: names the function that takes most more, if that is too much. 0 or -ENOMEM. */
static int judge(struct diff_options *o, const struct profile *before, const struct profile *after)
{
	double all = 1, most = 0;
	const struct diff_row *worst = NULL;
	const char *file;
	struct diff d;
	int err = o->fail_over > 0 ? diff__init(&d, before, after, o->absolute) : 0;

	if (err || o->fail_over <= 0)
		return err;
	if (o->absolute)
		all = (double)d.samples[DIFF_BEFORE] /
		      value_type__per_second(&before->stats.values[0]);
	for (size_t i = 0; i < d.cnt; i++) {
		double self = growth(&d.rows[i].self, all), total = growth(&d.rows[i].total, all);
		double more = self > total ? self : total;

		if (more > most) {
			most = more;
			worst = &d.rows[i];
		}
	}
	o->failed = most > o->fail_over;
	file = worst ? diff__text(&d, worst->file) : "";
	if (o->failed)
		log_err("--fail-over %g%%: %s%s%s takes %.1f%s more than before",
			100 * o->fail_over, diff__text(&d, worst->name), *file ? " in " : "", file,
			100 * most, o->absolute ? "% of all time" : " percentage points");
	diff__free(&d);
	return 0;
}

/* The same code has the same path in both, wherever it lies. */
static int match_paths(struct diff_options *o, struct profile *before, struct profile *after,
		       struct strbuf *said)
{
	int err = moved__trim(before, o->trim, o->trim_cnt);

	if (!err)
		err = moved__trim(after, o->trim, o->trim_cnt);
	if (!err)
		err = moved__match(before, after, said);
	return err ? log_no_memory() : 0;
}

static int diff(struct diff_options *o)
{
	struct export_opts eo = { .lines = false, .absolute = o->absolute };
	struct strbuf moved = { 0 };
	struct import *before = NULL, *after = NULL;
	int err = outputs__open(&o->outputs);

	if (err)
		return err;
	before = load(o, &o->before);
	if (before)
		after = load(o, &o->after);
	if (after)
		compare_events(o, before, after);
	err = after ? match_paths(o, import__profile(before), import__profile(after), &moved)
		    : -EINVAL;
	eo.moved = moved.len ? moved.s : NULL;
	if (!err)
		err = outputs__write_diff(&o->outputs, import__profile(before),
					  import__profile(after), &eo);
	if (!err)
		err = judge(o, import__profile(before), import__profile(after));
	import__free(before);
	import__free(after);
	strbuf__free(&moved);
	return err;
}

static int run(int argc, char **argv)
{
	struct diff_options o = { .outputs = { .diff = true },
				  .import = { .merge_processes = true } };
	enum cmdline_result result = parse(&o, argc, argv);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN)
		status = diff(&o) ? 1 : o.failed ? STATUS_GREW : 0;
	stored__free(&o.before.stored);
	stored__free(&o.after.stored);
	reduce_options__free(&o.reduce);
	outputs__free(&o.outputs);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.summary = "what takes more and what takes less than before",
	.usage = usage,
	.run = run,
};
