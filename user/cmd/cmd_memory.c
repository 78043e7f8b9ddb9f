/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * pyperf-bpf memory: which code makes a process's memory grow. It is record with `-e growth`, or
 * `-e alloc` for the level of blocks, and a sentence about the resident memory as the kernel counts
 * it. Where breakpoints on the allocator would slow the process down by too much, the level is that
 * of growth after all, and the first line says so. --refcount is `-e refcount`, with a table of
 * what each function took and dropped.
 */
#include "cmd/command.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/opener.h"
#include "cmd/balance.h"
#include "cmd/curvetext.h"
#include "cmd/options.h"
#include "cmd/record.h"
#include "process/descendants.h"
#include "profile/export_text.h"
#include "profile/profile.h"

#define PROCESSES_MAX	 (1U << 16)
#define ROLLUP_MAX	 4096 /* of /proc/PID/smaps_rollup: it has a few lines */
#define SLOWDOWN_DEFAULT "10"

static void usage(void)
{
	printf("Usage: pyperf-bpf memory PID [OPTION]...\n"
	       "  or:  pyperf-bpf memory -p PID,... | --name NAME [OPTION]...\n"
	       "  or:  pyperf-bpf memory [OPTION]... -- COMMAND [ARG]...\n"
	       "Show which code makes a process's memory grow, without stopping it.\n"
	       "\n"
	       "What counts is memory that was touched for the first time meanwhile, or that\n"
	       "malloc() gave, and that is still there at the end: with the stack that did it.\n"
	       "All options of record are understood, but for -e.\n"
	       "\n"
	       "  -p, --pid PID[,...]    these processes and their descendants\n"
	       "  -d, --duration SEC     stop after SEC seconds; default: at Ctrl-C\n"
	       "  -F, --frequency HZ     samples a second of a process, 1 to %d (default %d)\n"
	       "  -c, --count BYTES      a sample every so many bytes, instead of -F\n"
	       "      --level LEVEL      growth: memory touched for the first time (default);\n"
	       "                         blocks: what malloc() gave and free() did not get back,\n"
	       "                         and all it gave, by a sample every 512 KiB (or -c)\n"
	       "      --max-slowdown PERCENT\n"
	       "                         of blocks; above it the level is growth (default %s)\n"
	       "      --refcount ADDRESS\n"
	       "                         instead of memory, the references to the object there,\n"
	       "                         which heap --referrers TYPE tells: who takes them, who\n"
	       "                         drops them\n",
	       FREQUENCY_MAX, FREQUENCY_DEFAULT, SLOWDOWN_DEFAULT);
	outputs__help(false);
	printf("Other\n" CMDLINE_HELP "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf memory -p 4711 -d 60              who makes it grow?\n"
	       "  sudo pyperf-bpf memory -p 4711 -d 60 -o mem.html  ... as a flame graph\n"
	       "  sudo pyperf-bpf memory -p 4711 -d 60 --level blocks       which malloc()?\n"
	       "  sudo pyperf-bpf heap -p 4711                      what is in it?\n");
}

/* ---- resident memory, by the kernel's account ------------------------------------------------ */

struct resident {
	pid_t pid;
	uint64_t before;
};

struct memory_watch {
	struct record_watch watch; /* the first member */
	const struct sample_spec *targets;
	struct readers *readers; /* NULL, no memory for them: we read */
	struct resident *there;	 /* at the beginning, by pid; owned */
	size_t cnt, cap;
	uint64_t begin_ns, end_ns;
	int64_t grown;
	uint64_t after;
	size_t living; /* processes that were there at both times */
	size_t began;  /* ... at the end only: most of their memory is their parent's, too */
	bool blocks;   /* the level */
	bool too_dear; /* ... was to be that of blocks */
	bool refcount; /* no level: references to an object */
};

/*
 * As smaps_rollup counts it, page by page; VmRSS may be some pages off. The kernel waits for a lock
 * that the process has, so a reader asks it.
 */
static bool read_rss(struct memory_watch *w, uint32_t pid, uint64_t *bytes)
{
	static const char field[] = "\nRss:";
	struct strbuf text = { 0 };
	const char *at = NULL;

	if (!opener__text_of(w->readers, pid, "smaps_rollup", ROLLUP_MAX, &text) && text.len)
		at = strstr(text.s, field);
	if (at)
		*bytes = strtoull(at + sizeof(field) - 1, NULL, 10) << 10;
	strbuf__free(&text);
	return at;
}

/* A descendants_fn. */
static int note_before(void *ctx, uint32_t tgid)
{
	struct memory_watch *w = ctx;
	uint64_t bytes;
	int err;

	if (read_rss(w, tgid, &bytes)) {
		err = ARRAY_GROW(w->there, w->cap, w->cnt, PROCESSES_MAX);
		if (err)
			return err;
		w->there[w->cnt++] = (struct resident){ (pid_t)tgid, bytes };
	}
	return w->targets->children;
}

static int cmp_resident(const void *a, const void *b)
{
	const struct resident *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* A descendants_fn. */
static int note_after(void *ctx, uint32_t tgid)
{
	struct memory_watch *w = ctx;
	struct resident key = { .pid = (pid_t)tgid }, *r;
	uint64_t now;

	r = w->cnt ? bsearch(&key, w->there, w->cnt, sizeof(*r), cmp_resident) : NULL;
	if (!read_rss(w, tgid, &now))
		return w->targets->children;
	if (r) {
		w->living++;
		w->after += now;
		w->grown += (int64_t)(now - r->before);
	} else {
		w->began++;
	}
	return w->targets->children;
}

static void begin(struct record_watch *watch, const struct sample_spec *targets)
{
	struct memory_watch *w = (struct memory_watch *)watch;

	w->targets = targets;
	descendants__visit(targets->pids, targets->pid_cnt, note_before, w);
	if (w->cnt)
		qsort(w->there, w->cnt, sizeof(*w->there), cmp_resident);
	w->begin_ns = now_ns();
}

/* From all that were there: a child whose parent has ended belongs to another one. */
static void end(struct record_watch *watch)
{
	struct memory_watch *w = (struct memory_watch *)watch;
	pid_t *pids = calloc(w->cnt ? w->cnt : 1, sizeof(*pids));

	w->end_ns = now_ns();
	for (size_t i = 0; pids && i < w->cnt; i++)
		pids[i] = w->there[i].pid;
	if (pids)
		descendants__visit(pids, w->cnt, note_after, w);
	free(pids);
}

/* "Resident memory +1.2 GiB in 60.0 s, to 3.4 GiB." */
static void add_rss(struct strbuf *b, const struct memory_watch *w)
{
	strbuf__addz(b, w->grown < 0 ? "Resident memory " : "Resident memory +");
	text_add_bytes(b, (double)w->grown);
	strbuf__addf(b, " in %.1f s, to ", (double)(w->end_ns - w->begin_ns) / 1e9);
	text_add_bytes(b, (double)w->after);
	if (w->cnt > 1)
		strbuf__addf(b, " in %zu process%s", w->living, w->living == 1 ? "" : "es");
	if (w->began)
		strbuf__addf(b, "; %zu more began meanwhile", w->began);
	strbuf__addc(b, '.');
}

/*
 * Explains the difference between the pages that were touched and the growth: pages that were
 * freed.
 */
static void add_touched(struct strbuf *b, const struct memory_watch *w, const struct profile *p)
{
	uint64_t total = profile__total(p);
	int64_t gone = (int64_t)total - w->grown;

	strbuf__addz(b, " Of what was touched for the first time, ");
	text_add_bytes(b, (double)total);
	strbuf__addz(b, total ? " stay" : " stays");
	if (!w->began && w->living == w->cnt && gone > 0 && (uint64_t)gone > total / 10 &&
	    (uint64_t)gone > 1 << 20) {
		strbuf__addz(b, "; ");
		text_add_bytes(b, (double)gone);
		strbuf__addz(b, " that were there before went");
	}
	strbuf__addc(b, '.');
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/*
 * A block of s bytes is a sample with the probability 1 - exp(-s / step), and counts for `worth` of
 * them: s by that. How probable was it? Found by halving: the worth grows with s.
 */
static double chance(double worth, double step)
{
	double low = 0, high = worth / step;

	for (int i = 0; i < 40; i++) {
		double x = (low + high) / 2;

		if (x > 0 && x / -expm1(-x) > worth / step)
			high = x;
		else
			low = x;
	}
	return -expm1(-low);
}

/* The standard error, from sampling, of the sum of the blocks in use. */
static double error_of(const struct profile *p, double step)
{
	double variance = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];
		double worth;

		if (s->type || !s->samples)
			continue;
		worth = (double)s->count / (double)s->samples;
		variance += (double)s->samples * worth * worth * (1 - chance(worth, step));
	}
	return sqrt(variance);
}

static uint64_t total_of(const struct profile *p, uint32_t event)
{
	uint64_t total = 0;

	for (size_t i = 0; i < p->stack_cnt; i++)
		if (p->stats.values[p->stacks[i].type].event == event)
			total += p->stacks[i].count;
	return total;
}

static void add_blocks(struct strbuf *b, const struct memory_watch *w, const struct profile *p)
{
	double step = (double)p->stats.values[0].period;

	strbuf__addz(b, "Allocated ");
	text_add_bytes(b, (double)total_of(p, EVENT_ALLOC_SPACE));
	strbuf__addf(b, " in %.1f s, of which ", (double)(w->end_ns - w->begin_ns) / 1e9);
	text_add_bytes(b, (double)total_of(p, EVENT_INUSE_SPACE));
	strbuf__addz(b, " +/- ");
	text_add_bytes(b, error_of(p, step));
	strbuf__addz(b, " are in use; one sample every ");
	text_add_bytes(b, step);
	strbuf__addz(b, ". ");
}

static void report_references(const struct profile *p, bool on_stdout)
{
	struct balance balance;

	if (balance__make(&balance, p))
		log_no_memory();
	else if (on_stdout)
		balance__print(&balance, p, stdout);
	balance__free(&balance);
}

static void report(struct record_watch *watch, const struct profile *p, bool on_stdout)
{
	const struct memory_watch *w = (const struct memory_watch *)watch;
	struct strbuf b = { 0 };

	if (w->refcount) {
		report_references(p, on_stdout);
		return;
	}
	if (w->blocks)
		add_blocks(&b, w, p);
	else if (w->too_dear)
		strbuf__addz(&b, "Growth, as blocks would slow the process down by too much. ");
	if (w->living)
		add_rss(&b, w);
	if (w->living && !w->blocks)
		add_touched(&b, w, p);
	if (p->curves && p->curves->peak.rss) {
		strbuf__addz(&b, b.len ? "\n" : "");
		curvetext__add_peak(&b, p);
	}
	if (!b.len) {
		strbuf__free(&b);
		return;
	}
	if (b.err)
		log_no_memory();
	else if (on_stdout)
		printf("%s\n", b.s);
	else
		log_info("%s", b.s);
	strbuf__free(&b);
	if (on_stdout)
		curvetext__print(p, stdout);
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool asks_for_help(char **argv)
{
	for (; *argv && strcmp(*argv, "--") != 0; argv++)
		if (!strcmp(*argv, "--help") || !strcmp(*argv, "-h"))
			return true;
	return false;
}

#define EVENT_SIZE 48

/* The options of this command itself. */
struct memory_opts {
	bool blocks;
	const char *slowdown; /* percent; borrowed */
	const char *refcount; /* an address, borrowed; NULL: none */
	char event[EVENT_SIZE];
};

/*
 * Is it "--NAME VALUE" or "--NAME=VALUE"? *words: how many there are of it. NULL: it is something
 * else, or "" follows where the value is missing.
 */
static const char *value_of(char **argv, const char *name, int *words)
{
	size_t len = strlen(name);

	if (strncmp(*argv, name, len) != 0 || ((*argv)[len] && (*argv)[len] != '='))
		return NULL;
	*words = (*argv)[len] || !argv[1] ? 1 : 2;
	if ((*argv)[len])
		return *argv + len + 1;
	return argv[1] ? argv[1] : "";
}

static int set_level(struct memory_opts *o, const char *level)
{
	o->blocks = !strcmp(level, "blocks");
	if (o->blocks || !strcmp(level, "growth"))
		return 0;
	log_err("memory: --level must be growth or blocks");
	return -EINVAL;
}

/* At most as long as a number is. */
static int set_slowdown(struct memory_opts *o, const char *percent)
{
	o->slowdown = percent;
	if (*percent && strlen(percent) < 16 && !percent[strspn(percent, "0123456789.")])
		return 0;
	log_err("memory: --max-slowdown must be a number of percent");
	return -EINVAL;
}

#define ADDRESS_SIZE 32

static int bad_address(void)
{
	log_err("memory: --refcount must be the address of an object");
	return -EINVAL;
}

/*
 * Takes an option of our own, of one word or two. Returns the number of words; 0: not ours; or
 * negative errno, printed.
 */
static int take_ours(struct memory_opts *o, char **argv)
{
	const char *value;
	int words, err;

	value = value_of(argv, "--level", &words);
	if (value) {
		err = set_level(o, value);
		return err ? err : words;
	}
	value = value_of(argv, "--refcount", &words);
	if (value) {
		o->refcount = value;
		return strlen(value) < ADDRESS_SIZE ? words : bad_address();
	}
	value = value_of(argv, "--max-slowdown", &words);
	if (!value)
		return 0;
	err = set_slowdown(o, value);
	return err ? err : words;
}

/* record's line, with the event in front. The options borrow from it. Its length, or -EINVAL. */
static int make_line(struct memory_opts *o, int argc, char **argv, char **line)
{
	static char event[] = "-e";
	int n = 3;

	line[0] = argv[0];
	line[1] = event;
	line[2] = o->event;
	for (int i = 1, words; i < argc; i += words) {
		if (!strcmp(argv[i], "--")) {
			while (i < argc)
				line[n++] = argv[i++];
			break;
		}
		words = take_ours(o, &argv[i]);
		if (words < 0)
			return words;
		if (!words)
			line[n++] = argv[i];
		words += !words;
	}
	return n;
}

static uint32_t last_event(const struct memory_opts *m)
{
	if (m->refcount)
		return EVENT_REFS_DROPPED;
	return m->blocks ? EVENT_ALLOC_OBJECTS : EVENT_GROWTH;
}

static int check(const struct options *o, const struct memory_opts *m)
{
	const struct source_spec *last = &o->targets.sources[o->targets.source_cnt - 1];

	if (m->refcount && (m->blocks || m->slowdown)) {
		log_err("memory: --refcount goes with neither --level blocks nor --max-slowdown");
		return -1;
	}
	if (last->source->type.event != last_event(m)) {
		log_err("memory: -e belongs to record: pyperf-bpf -e growth,...");
		return -1;
	}
	if ((m->blocks || m->refcount) && o->command) {
		log_err("memory: %s needs a running process: name one with -p",
			m->refcount ? "--refcount" : "--level blocks");
		return -1;
	}
	if (o->command || o->targets.pid_cnt || o->targets.name)
		return 0;
	log_err("memory: the number of the process is missing: memory -p PID");
	return -1;
}

/* The exit status. *too_dear: nothing was recorded, because it would cost too much. */
static int run_level(const struct memory_opts *m, int argc, char **line, bool *too_dear)
{
	struct memory_watch w = { .watch = { begin, end, report, 0 },
				  .blocks = m->blocks,
				  .too_dear = *too_dear,
				  .refcount = m->refcount };
	struct options opts;
	enum cmdline_result result = options__parse(&opts, argc, line);
	int status = cmdline__status(result);

	if (result == CMDLINE_RUN) {
		log_set_level((enum log_level)(LOG_LEVEL_INFO + opts.verbosity));
		opts.watch = &w.watch;
		opts.inlines |= w.refcount; /* lines in C are what it is about */
		w.readers = readers__new();
		status = check(&opts, m) ? 2 : record(&opts);
	}
	*too_dear = w.watch.start_err == -EDQUOT;
	options__free(&opts);
	readers__free(w.readers);
	free(w.there);
	return status;
}

static void set_event(struct memory_opts *m)
{
	if (m->refcount) {
		snprintf(m->event, sizeof(m->event), "refcount:%s", m->refcount);
		return;
	}
	snprintf(m->event, sizeof(m->event), m->blocks ? "alloc:%s" : "growth",
		 m->slowdown ? m->slowdown : SLOWDOWN_DEFAULT);
}

/* `line` has room for it, and for a copy of it, which the parser changes. */
static int run_line(int argc, char **argv, char **line)
{
	struct memory_opts m = { .blocks = false };
	char **copy = line + argc + 3;
	int n = make_line(&m, argc, argv, line), status;
	bool too_dear = false;

	if (n < 0)
		return 2;
	memcpy(copy, line, (size_t)n * sizeof(*line));
	set_event(&m);
	status = run_level(&m, n, line, &too_dear);
	if (!too_dear)
		return status;
	m.blocks = false;
	set_event(&m);
	return run_level(&m, n, copy, &too_dear);
}

static int run(int argc, char **argv)
{
	char **lines;
	int status;

	if (asks_for_help(argv + 1))
		return cmdline__status(cmdline__print_help(usage));
	lines = calloc(2 * ((size_t)argc + 3), sizeof(*lines));
	if (!lines) {
		log_no_memory();
		return 1;
	}
	status = run_line(argc, argv, lines);
	free(lines);
	return status;
}

const struct command cmd_memory = {
	.name = "memory",
	.summary = "which code makes a process's memory grow",
	.usage = usage,
	.run = run,
};
