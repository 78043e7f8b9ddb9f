/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/counting.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/signals.h"
#include "base/str.h"
#include "base/terminal.h"
#include "trace/target.h"
#include "trace/tracer.h"

#define MEASURE_MS    100 /* before the rate is judged */
#define DRAIN_MS      50  /* between two looks at the ring buffer */
#define WIDTH_DEFAULT 100
#define CLEAR	      "\033[H\033[J"

struct counting {
	const struct counting_opts *o;
	struct target target;
	struct tracer *tracer;
	int signal_fd, pid_fd;
	bool over,
		/* the user, or the time, ends it; the process has ended or is another program */
		gone;
	uint64_t start_ns, last_ns;
	uint64_t last_cpu_ns, last_hits;
	struct traced_list now, before; /* counts at this table and at the one before */
	uint64_t hits;			/* counted by the kernel, whatever is shown */
	double rate;			/* calls per second since the last table */
	double slowdown;		/* percent; below 0: not known */
	unsigned width;			/* of the terminal; 0: none */
	struct strbuf line;
	int err;
};

/* ---- what is shown --------------------------------------------------------------------------- */

static bool is_wanted(const struct counting *c, const struct py_function *f)
{
	for (size_t i = 0; i < c->o->filter_cnt; i++)
		if (trace_filter__matches(&c->o->filters[i], f->name, f->file))
			return true;
	return !c->o->filter_cnt;
}

/* Reads all counts, and leaves those of functions that are wanted. */
static int read_counts(struct counting *c)
{
	struct traced_list *l = &c->now;
	size_t kept = 0;
	int err = tracer__read(c->tracer, l);

	if (err)
		return err;
	c->hits = l->calls + l->resumed;
	l->calls = l->resumed = 0;
	for (size_t i = 0; i < l->cnt; i++) {
		if (!is_wanted(c, &l->all[i].function))
			continue;
		l->calls += l->all[i].calls;
		l->resumed += l->all[i].resumed;
		l->all[kept++] = l->all[i];
	}
	l->cnt = kept;
	return 0;
}

/* The function called whose name is nearest to the filter's. NULL: none is near. */
static const struct py_function *find_meant(const struct traced_list *l,
					    const struct trace_filter *f)
{
	const char **names = calloc(l->cnt + 1, sizeof(*names));
	size_t at = l->cnt;

	for (size_t i = 0; names && i < l->cnt; i++)
		names[i] = trace_filter__part(f, l->all[i].function.name);
	if (names)
		at = nearest_name(f->function, names, l->cnt);
	free(names);
	return at < l->cnt ? &l->all[at].function : NULL;
}

/* No call was of a function that is wanted. */
static void explain_nothing(struct counting *c)
{
	struct traced_list all = { 0 };

	for (size_t i = 0; i < c->o->filter_cnt && !tracer__read(c->tracer, &all); i++) {
		const struct trace_filter *f = &c->o->filters[i];
		const struct py_function *meant = find_meant(&all, f);

		if (meant)
			log_warn("no function was called that -f %s%s%s means; did you mean %s "
				 "(%s:%u)?",
				 f->place ? f->place : "", f->place ? ":" : "", f->function,
				 meant->name, meant->file, meant->first_line);
		else
			log_warn("no function was called that -f %s%s%s means",
				 f->place ? f->place : "", f->place ? ":" : "", f->function);
	}
	traced_list__free(&all);
}

/* ---- the price ------------------------------------------------------------------------------- */

/* CPU time of the process; 0: it has ended. */
static uint64_t cpu_ns(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return timespec_ns(t);
}

/* All that were counted, or not, for some reason. */
static uint64_t hits(const struct counting *c)
{
	uint64_t n[TRACE_CTR_CNT] = { 0 };

	if (tracer__counters(c->tracer, n))
		return c->last_hits;
	return c->hits + n[TRACE_CTR_other] + n[TRACE_CTR_unknown] + n[TRACE_CTR_lost_full];
}

/*
 * What the hits since the last call took of the CPU time of the process, without which it had so
 * much less to do.
 */
static void take_rate(struct counting *c)
{
	uint64_t ns = now_ns(), cpu = cpu_ns(c->o->pid), hit = hits(c);
	double cost = (double)(hit - c->last_hits) * tracer__hit_ns(c->tracer);
	double used = cpu > c->last_cpu_ns ? (double)(cpu - c->last_cpu_ns) : 0;

	c->rate = ns > c->last_ns ? (double)(hit - c->last_hits) * 1e9 / (double)(ns - c->last_ns)
				  : 0;
	/*
	 * Without the CPU time, or when the price is more than all of it, at the least what is
	 * sure.
	 */
	c->slowdown = used > 0 ? 100 * cost / fmax(used - cost, used / 20) : cost > 0 ? -1 : 0;
	c->last_ns = ns;
	c->last_cpu_ns = cpu;
	c->last_hits = hit;
}

static int judge(struct counting *c)
{
	int err = read_counts(c);

	if (err)
		return err;
	take_rate(c);
	tracer__stop_measuring(c->tracer);
	log_debug("%.0f calls/s, %.0f ns each, %.1f%% slower", c->rate, tracer__hit_ns(c->tracer),
		  c->slowdown);
	if (c->o->force || c->slowdown <= c->o->max_slowdown)
		return 0;
	tracer__detach(c->tracer);
	log_err("process %d: %.0f calls/s at %.2f us each would slow it down by %.0f%%, more than "
		"%g%% (--max-slowdown %.0f or --force allows that)",
		c->o->pid, c->rate, tracer__hit_ns(c->tracer) / 1000, c->slowdown,
		c->o->max_slowdown, ceil(c->slowdown * 1.2));
	return -EBUSY;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void add_grouped(struct strbuf *b, uint64_t n, int width)
{
	char digits[32], text[48];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
	strbuf__addf(b, "%*s", width, text);
}

/* "name (file:line)", safe for a terminal. */
static void add_function(struct strbuf *b, const struct py_function *f)
{
	str_sanitise(b, f->name, f->name_len, 0);
	if (f->file_len) {
		strbuf__addz(b, " (");
		str_sanitise(b, f->file, f->file_len, 0);
		strbuf__addf(b, ":%u)", f->first_line);
	}
}

/* What the table before has of the same function. */
static uint64_t entered_before(const struct counting *c, const struct traced *f)
{
	for (size_t i = 0; i < c->before.cnt; i++)
		if (c->before.all[i].function.number == f->function.number)
			return c->before.all[i].calls + c->before.all[i].resumed;
	return 0;
}

static void write_line(struct counting *c)
{
	if (c->line.err)
		c->err = c->line.err;
	else if (c->line.len && fwrite(c->line.s, 1, c->line.len, stdout) != c->line.len)
		c->err = -EIO;
	strbuf__clear(&c->line);
}

static void write_head(struct counting *c, bool final)
{
	struct strbuf *b = &c->line;

	strbuf__addf(b, "Process %d, CPython %s: ", c->o->pid, c->target.py.version);
	add_grouped(b, final ? c->now.calls : (uint64_t)(c->rate + 0.5), 0);
	if (final) {
		strbuf__addz(b, " calls");
		if (c->now.resumed) {
			strbuf__addz(b, " and ");
			add_grouped(b, c->now.resumed, 0);
			strbuf__addz(b, " resumptions");
		}
		strbuf__addf(b, " of %zu functions in %.1f s", c->now.cnt,
			     (double)(c->last_ns - c->start_ns) / 1e9);
	} else {
		strbuf__addz(b, " calls/s");
	}
	if (c->slowdown >= 0)
		strbuf__addf(b, ", tracing slows it down by %.1f%%", c->slowdown);
	strbuf__addz(b, "\n\n");
	write_line(c);
}

static void write_row(struct counting *c, const struct traced *f, double seconds)
{
	uint64_t entered = f->calls + f->resumed, before = entered_before(c, f);

	add_grouped(&c->line, (uint64_t)((double)(entered - before) / seconds + 0.5), 11);
	add_grouped(&c->line, f->calls, 15);
	add_grouped(&c->line, f->resumed, 13);
	strbuf__addz(&c->line, "  ");
	add_function(&c->line, &f->function);
	strbuf__addc(&c->line, '\n');
	write_line(c);
}

static size_t shown(const struct counting *c)
{
	return c->o->top && c->o->top < c->now.cnt ? c->o->top : c->now.cnt;
}

static void write_table(struct counting *c, double seconds, bool final)
{
	if (c->width && !final)
		strbuf__addz(&c->line, CLEAR);
	write_head(c, final);
	strbuf__addf(&c->line, "%11s%15s%13s  %s\n", "CALLS/S", "CALLS", "RESUMED", "FUNCTION");
	write_line(c);
	for (size_t i = 0; i < shown(c) && !c->err; i++)
		write_row(c, &c->now.all[i], seconds);
	strbuf__addc(&c->line, '\n');
	write_line(c);
}

static void write_json(struct counting *c, double seconds, bool final)
{
	struct json j = { .f = stdout };

	json__object(&j, NULL);
	json__bool(&j, "final", final);
	json__uint(&j, "pid", (uint64_t)c->o->pid);
	json__stringz(&j, "python", c->target.py.version);
	json__double(&j, "seconds", seconds);
	json__double(&j, "calls_per_second", c->rate);
	if (c->slowdown >= 0)
		json__double(&j, "slowdown_percent", c->slowdown);
	else
		json__null(&j, "slowdown_percent");
	json__uint(&j, "calls", c->now.calls);
	json__uint(&j, "resumed", c->now.resumed);
	json__array(&j, "functions");
	for (size_t i = 0; i < shown(c); i++) {
		const struct traced *f = &c->now.all[i];

		json__object(&j, NULL);
		json__string(&j, "function", f->function.name, f->function.name_len);
		json__string(&j, "file", f->function.file, f->function.file_len);
		json__uint(&j, "line", f->function.first_line);
		json__uint(&j, "calls", f->calls);
		json__uint(&j, "resumed", f->resumed);
		json__end(&j, '}');
	}
	json__end(&j, ']');
	json__end(&j, '}');
	fputc('\n', stdout);
}

/* What was counted since the last table, or, at last, since the beginning. */
static int show(struct counting *c, bool final)
{
	uint64_t since = final ? c->start_ns : c->last_ns;
	struct traced_list swap = c->before;
	double seconds;

	c->before = c->now;
	c->now = swap;
	c->err = read_counts(c);
	if (c->err)
		return c->err;
	if (final)
		c->before.cnt = 0;
	take_rate(c);
	seconds = fmax((double)(c->last_ns - since) / 1e9, 1e-3);
	if (c->o->json)
		write_json(c, seconds, final);
	else
		write_table(c, seconds, final);
	if (!c->err && (fflush(stdout) || ferror(stdout)))
		c->err = -EIO;
	if (c->err)
		log_err("stdout: %s", strerror(-c->err));
	return c->err;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Until `until_ns`, or a reason to stop. */
static void wait_until(struct counting *c, uint64_t until_ns)
{
	struct pollfd fds[] = { { .fd = c->signal_fd, .events = POLLIN },
				{ .fd = c->pid_fd, .events = POLLIN } };

	for (uint64_t now = now_ns(); now < until_ns && !c->over && !c->gone; now = now_ns()) {
		uint64_t left = (until_ns - now) / NS_PER_MS + 1;

		poll(fds, 2, left < DRAIN_MS ? (int)left : DRAIN_MS);
		tracer__drain(c->tracer);
		c->over |= (fds[0].revents & POLLIN) != 0;
		c->gone |= fds[1].revents != 0;
	}
}

static int prepare(struct counting *c)
{
	int err = target__open_process(&c->target, c->o->pid);
	bool color;

	if (err)
		return err;
	c->width = c->o->json ? 0 : terminal__width(&color);
	c->signal_fd = signals__open(NULL);
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->o->pid, 0);
	if (c->signal_fd < 0 || c->pid_fd < 0) {
		log_err("process %d: %s", c->o->pid,
			strerror(c->pid_fd < 0 ? errno : -c->signal_fd));
		return -EIO;
	}
	c->tracer = tracer__open(&c->target);
	if (!c->tracer)
		return -EIO;
	if (c->target.generates && c->target.py.version_hex >= PY_VERSION_MINOR_HEX(3, 13))
		log_warn("process %d has generated code: calls that a JIT compiled are not counted",
			 c->o->pid);
	return 0;
}

static int begin(struct counting *c)
{
	int err;

	signals__hold();
	c->last_cpu_ns = cpu_ns(c->o->pid);
	c->start_ns = c->last_ns = now_ns();
	err = tracer__attach(c->tracer);
	if (err)
		return err;
	wait_until(c, c->start_ns + MEASURE_MS * NS_PER_MS);
	err = judge(c);
	c->last_ns = c->start_ns;
	if (!err)
		log_info("counting the calls of process %d (%s, CPython %s); Ctrl-C ends it",
			 c->o->pid, c->target.path, c->target.py.version);
	return err;
}

static int count(struct counting *c)
{
	uint64_t step = (uint64_t)(c->o->interval_s * 1e9), next = c->start_ns;
	uint64_t end = c->o->duration_s > 0 ? c->start_ns + (uint64_t)(c->o->duration_s * 1e9)
					    : UINT64_MAX;

	while (!c->over && !c->gone) {
		next += step;
		wait_until(c, next < end ? next : end);
		if (now_ns() >= end)
			break;
		if (!c->gone && !target__is_there(&c->target)) {
			log_warn("process %d has ended, or runs another program", c->o->pid);
			c->gone = true;
		}
		if (!c->over && !c->gone && show(c, false))
			return c->err;
	}
	tracer__detach(c->tracer);
	return show(c, true);
}

static void report_losses(struct counting *c)
{
	uint64_t n[TRACE_CTR_CNT];

	if (tracer__counters(c->tracer, n))
		return;
	if (!c->now.cnt && c->o->filter_cnt)
		explain_nothing(c);
	if (n[TRACE_CTR_unknown])
		log_warn("%" PRIu64 " of %" PRIu64
			 " hits are not counted: their frame was not found",
			 n[TRACE_CTR_unknown], hits(c));
	if (n[TRACE_CTR_lost_full])
		log_warn("%" PRIu64 " calls are not counted: there are too many functions",
			 n[TRACE_CTR_lost_full]);
	log_debug("%" PRIu64 " hits, %" PRIu64 " searched, %" PRIu64 " of other opcodes", hits(c),
		  n[TRACE_CTR_note_searched], n[TRACE_CTR_other]);
}

int counting__run(const struct counting_opts *o)
{
	struct counting c = { .o = o, .signal_fd = -1, .pid_fd = -1 };
	int err = prepare(&c);

	if (!err)
		err = begin(&c);
	if (!err)
		err = count(&c);
	if (!err)
		report_losses(&c);
	tracer__close(c.tracer);
	target__close(&c.target);
	traced_list__free(&c.now);
	traced_list__free(&c.before);
	strbuf__free(&c.line);
	if (c.signal_fd >= 0)
		close(c.signal_fd);
	if (c.pid_fd >= 0)
		close(c.pid_fd);
	return err != 0;
}
