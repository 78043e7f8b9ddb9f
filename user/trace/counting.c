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
#include "base/signals.h"
#include "base/str.h"
#include "base/stream.h"
#include "base/terminal.h"
#include "follow/object.h"
#include "trace/advice.h"
#include "trace/call_picture.h"
#include "trace/generated.h"
#include "trace/imports.h"
#include "trace/meant.h"
#include "trace/price.h"
#include "trace/stacked.h"
#include "trace/target.h"
#include "trace/tracer.h"

#define DRAIN_MS      50 /* between two looks at the ring buffer */
#define WIDTH_DEFAULT 100
#define CLEAR	      "\033[H\033[J"
#define UNSEEN_LEAST  5 /* percent of the time: trampolines of `perf` take less */

struct counting {
	const struct counting_opts *o;
	struct target target;
	struct tracer *tracer;
	struct timing *timing;			 /* NULL: calls are only counted */
	struct stacked *stacked;		 /* NULL: neither exceptions nor collections */
	struct imports *imports;		 /* NULL: they are not wanted */
	struct call_picture *pictures[PICTURES]; /* NULL: not wanted */
	struct generated *generated;		 /* NULL: this Python has no JIT */
	bool said_generated;
	int signal_fd, pid_fd;
	bool over,
		/* the user, or the time, ends it; the process has ended or is another program */
		gone;
	bool explained; /* why nothing is shown */
	uint64_t start_ns;
	uint64_t end_ns;	/* 0: it goes on */
	struct price_look last; /* the table before */
	struct price_look judged;
	struct price_look said;		/* with lines of calls: what they cost */
	bool refused;			/* it costs too much; it was said */
	struct traced_list now, before; /* counts at this table and at the one before */
	uint64_t hits;			/* counted by the kernel, whatever is shown */
	uint64_t refused_cnt;		/* of functions that no filter means, not counted */
	/* calls that are not counted: with filters, of functions whose names were not read */
	uint64_t nameless;
	/*
	 * Sums over the times between two tables, where both are known: cost of breakpoints, and
	 * CPU time.
	 */
	double cost_ns, used_ns;
	unsigned width; /* of the terminal; 0: none */
	struct strbuf line;
	int err;
};

/* ---- what is shown --------------------------------------------------------------------------- */

/* Reads all counts, and keeps those of wanted functions. */
static int read_counts(struct counting *c)
{
	struct traced_list *l = &c->now;
	size_t kept = 0;
	int err = tracer__read(c->tracer, l);

	if (err)
		return err;
	c->hits = l->calls + l->resumed;
	l->calls = l->resumed = c->nameless = 0;
	for (size_t i = 0; i < l->cnt; i++) {
		if (!tracer__wants(c->tracer, &l->all[i].function)) {
			if (l->all[i].function.number == TRACER_UNKNOWN)
				c->nameless += l->all[i].calls + l->all[i].resumed;
			continue;
		}
		l->calls += l->all[i].calls;
		l->resumed += l->all[i].resumed;
		l->all[kept++] = l->all[i];
	}
	l->cnt = kept;
	if (c->o->from) { /* the kernel counts them only as events */
		l->calls = timing__call_cnt(c->timing);
		l->resumed = timing__resumed_cnt(c->timing);
	}
	return 0;
}

static bool has_wanted(const struct counting *c, const struct traced_list *l)
{
	for (size_t i = 0; i < l->cnt; i++)
		if (l->all[i].calls + l->all[i].resumed &&
		    tracer__wants(c->tracer, &l->all[i].function))
			return true;
	return false;
}

/*
 * No call was of a function that is wanted. While it runs only a function that may be meant is
 * worth a message: the others may still be called.
 */
static void explain_nothing(struct counting *c, bool final)
{
	const struct meant meant = { .filters = c->o->from ? c->o->from : c->o->filters,
				     .cnt = c->o->from ? 1 : c->o->filter_cnt,
				     .one = c->o->from != NULL,
				     .did_what = c->stacked ? stacked__verb(c->stacked)
							    : "was called" };
	struct traced_list all = { 0 };

	/* What is wanted may have been called since the last table. */
	if (!tracer__read(c->tracer, &all) && (c->stacked || c->o->from || !has_wanted(c, &all)))
		c->explained |= meant__explain(&meant, &all, final);
	traced_list__free(&all);
}

/* ---- the price ------------------------------------------------------------------------------- */

/* All that were counted, or not, for some reason. `counted`: by the kernel, if no events came. */
static uint64_t hits(struct counting *c, uint64_t counted)
{
	uint64_t n[TRACE_CTR_CNT] = { 0 };

	if (tracer__counters(c->tracer, n))
		return c->last.hits;
	c->refused_cnt = n[TRACE_CTR_refused];
	if (c->stacked)
		return stacked__hit_cnt(c->stacked) + n[TRACE_CTR_passed] +
		       n[TRACE_CTR_unknown_raise] + n[TRACE_CTR_unknown_end] +
		       2 * n[TRACE_CTR_idle] + c->refused_cnt;
	return (c->timing ? timing__event_cnt(c->timing) : counted) + c->refused_cnt +
	       n[TRACE_CTR_other] + n[TRACE_CTR_unknown] + n[TRACE_CTR_lost_full] +
	       n[TRACE_CTR_nameless] + n[TRACE_CTR_outside] + n[TRACE_CTR_unknown_end];
}

/* Leaves the tables as they are. */
static uint64_t hits_now(struct counting *c)
{
	struct traced_list l = { 0 };
	uint64_t counted = c->hits;

	if (!c->timing && !c->stacked && !tracer__read(c->tracer, &l))
		counted = l.calls + l.resumed;
	traced_list__free(&l);
	return hits(c, counted);
}

/*
 * Computes which part of the process's CPU time the hits since the last call took; without them it
 * would have used so much less.
 */
static void take_rate(struct counting *c)
{
	price__look(&c->last, c->end_ns ? c->end_ns : now_ns(), tracer__cpu_ns(c->tracer),
		    hits(c, c->hits), tracer__hit_ns(c->tracer));
	if (c->last.used_ns > 0) {
		c->cost_ns += c->last.cost_ns;
		c->used_ns += c->last.used_ns;
	}
}

static const char *what_costs(const struct counting *c)
{
	if (c->o->what == COUNTING_COLLECTIONS)
		return "beginnings and ends of collections";
	if (c->o->what == COUNTING_AUDITS)
		return "audit events";
	if (c->timing)
		return "calls and ends";
	return c->stacked ? "frames with exceptions" : "calls";
}

/* Once while it runs, as soon as that is much, and once at the end. */
static void say_generated(struct counting *c, bool final)
{
	double share = generated__share(c->generated, UNSEEN_LEAST);

	if (share < 0 || (c->said_generated && !final))
		return;
	c->said_generated = true;
	log_warn("process %d spends %.0f%% of its time outside of the kernel in generated code: "
		 "calls of functions that a JIT compiled are not counted there",
		 c->o->pid, share);
}

/* The breakpoints go; what was counted stays. */
static void refuse(struct counting *c, bool first)
{
	const struct advice a = { .price = &c->judged,
				  .hit_ns = tracer__hit_ns(c->tracer),
				  .max_slowdown = c->o->max_slowdown,
				  .what = what_costs(c),
				  .filtered = c->o->filter_cnt || c->o->threads };
	struct strbuf advice = { 0 };

	c->refused = true;
	tracer__detach(c->tracer);
	advice__add(&advice, c->tracer, 0, &a);
	log_err("process %d%s: %s", c->o->pid, first ? "" : " is not traced any more",
		advice.s ? advice.s : "");
	strbuf__free(&advice);
}

static void judge(struct counting *c, bool first)
{
	price__look(&c->judged, now_ns(), tracer__used_ns(c->tracer), hits_now(c),
		    tracer__hit_ns(c->tracer));
	tracer__end_measuring(c->tracer);
	log_debug("%.0f calls/s, %.0f ns each, %.1f%% slower", c->judged.rate,
		  tracer__hit_ns(c->tracer), c->judged.slowdown);
	if (!c->o->force && price__is_high(c->judged.slowdown, c->judged.load, c->o->max_slowdown))
		refuse(c, first);
}

/* Of all, where no table has said it. */
static void say_sum(const struct counting *c)
{
	double load = 100 * c->cost_ns / fmax((double)(c->end_ns - c->start_ns), 1);

	if (c->used_ns > 0 && load >= PRICE_NO_LOAD)
		log_info("tracing process %d slowed it down by %.1f%% of its CPU time", c->o->pid,
			 price__slowdown(c->cost_ns, c->used_ns));
	else
		log_info("tracing process %d cost it %.1f%% of a CPU", c->o->pid, load);
}

/* Lines of calls have no table that says it. */
static void say_cost(struct counting *c)
{
	price__look(&c->said, now_ns(), tracer__used_ns(c->tracer), hits_now(c),
		    tracer__hit_ns(c->tracer));
	if (c->said.slowdown >= 0 && c->said.load >= PRICE_NO_LOAD)
		log_info("process %d: %.0f %s/s, which slows it down by %.1f%% of its CPU time",
			 c->o->pid, c->said.rate, what_costs(c), c->said.slowdown);
}

/* Each second, whatever the interval of tables is. */
static void look_at_price(struct counting *c)
{
	uint64_t now = now_ns();

	if (c->o->force)
		tracer__end_measuring(c->tracer);
	else if (now - c->judged.ns >= PRICE_AGAIN_MS * NS_PER_MS)
		judge(c, false);
	if (!c->refused && c->o->mode == TIMING_CALLS && now - c->said.ns >= COUNTING_SAY_NS)
		say_cost(c);
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

/* The count of the same function in the table before. */
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
	else if (c->line.len)
		c->err = stream__put(stdout, c->line.s, c->line.len);
	strbuf__clear(&c->line);
}

static void add_number(struct strbuf *b, uint64_t n, const char *one, const char *several)
{
	if (n)
		add_grouped(b, n, 0);
	else
		strbuf__addz(b, "no");
	strbuf__addf(b, " %s", n == 1 ? one : several);
}

/*
 * Calls and resumptions of functions that are wanted in these seconds: since the last table, or, at
 * the end, of all.
 */
static double shown_rate(const struct counting *c, double seconds, bool final)
{
	uint64_t now = c->now.calls + c->now.resumed;
	uint64_t before = final ? 0 : c->before.calls + c->before.resumed;

	return now > before ? (double)(now - before) / seconds : 0;
}

static void add_calls(struct counting *c, double seconds, bool final)
{
	struct strbuf *b = &c->line;

	if (!final) {
		add_grouped(b, (uint64_t)(shown_rate(c, seconds, false) + 0.5), 0);
		strbuf__addz(b, " calls/s");
		return;
	}
	add_number(b, c->now.calls, "call", "calls");
	if (c->now.resumed) {
		strbuf__addz(b, " and ");
		add_number(b, c->now.resumed, "resumption", "resumptions");
	}
	if (c->o->from) {
		strbuf__addf(b, " inside of %s", c->o->from->function);
	} else if (c->now.cnt) {
		strbuf__addz(b, " of ");
		add_number(b, c->now.cnt, "function", "functions");
	}
	if (c->o->only && c->timing) {
		strbuf__addz(b, ", ");
		add_number(b, timing__call_cnt(c->timing), "call as wanted", "calls as wanted");
	}
}

static void write_head(struct counting *c, double seconds, bool final)
{
	struct strbuf *b = &c->line;

	strbuf__addf(b, "Process %d", c->o->pid);
	if (tracer__process_cnt(c->tracer) > 1)
		strbuf__addf(b, " and %zu that it started", tracer__process_cnt(c->tracer) - 1);
	strbuf__addf(b, ", CPython %s: ", c->target.py.version);
	if (c->stacked) {
		stacked__add_sum(c->stacked, b);
	} else if (c->imports) {
		imports__add_sum(c->imports, b);
	} else {
		add_calls(c, seconds, final);
	}
	if (final)
		strbuf__addf(b, " in %.1f s", (double)(c->last.ns - c->start_ns) / 1e9);
	if (c->last.load < PRICE_NO_LOAD && c->last.slowdown > c->o->max_slowdown)
		strbuf__addf(b, ", tracing costs it %.1f%% of a CPU", c->last.load);
	else if (c->last.slowdown >= 0)
		strbuf__addf(b, ", tracing slows it down by %.1f%% of its CPU time",
			     c->last.slowdown);
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

static bool is_empty(const struct counting *c)
{
	if (c->imports)
		return !imports__cnt(c->imports);
	if (c->o->from)
		return !c->now.calls && !c->now.resumed;
	return c->stacked ? !stacked__cnt(c->stacked) : !c->now.cnt;
}

/* Were functions selected of which none was called? */
static bool is_missing(const struct counting *c)
{
	if (c->o->from)
		return !tracer__has_from(c->tracer);
	return c->o->filter_cnt && is_empty(c);
}

static void write_table(struct counting *c, double seconds, bool final)
{
	if ((c->o->mode == TIMING_CALLS && !final) || c->o->format != TIMING_LINES)
		return; /* lines are written as they come */
	if (c->explained && is_missing(c) && !final)
		return; /* the message stays to be read */
	if (c->width && !final)
		strbuf__addz(&c->line, CLEAR);
	if (c->o->mode == TIMING_CALLS)
		strbuf__addc(&c->line, '\n');
	write_head(c, seconds, final);
	if (is_empty(c))
		return;
	if (c->timing) {
		c->err = timing__write(c->timing, c->o->top);
		return;
	}
	if (c->imports) {
		c->err = imports__write(c->imports, c->o->top);
		return;
	}
	if (c->stacked) {
		c->err = stacked__write(c->stacked, c->o->top, seconds, final);
		return;
	}
	strbuf__addf(&c->line, "%11s%15s%13s  %s\n", "CALLS/S", "CALLS", "RESUMED", "FUNCTION");
	write_line(c);
	for (size_t i = 0; i < shown(c) && !c->err; i++)
		write_row(c, &c->now.all[i], seconds);
	strbuf__addc(&c->line, '\n');
	write_line(c);
}

static void write_functions_json(struct counting *c, struct json *j)
{
	json__array(j, "functions");
	for (size_t i = 0; i < shown(c); i++) {
		const struct traced *f = &c->now.all[i];

		json__object(j, NULL);
		timing__function_json(j, &f->function, f->calls, f->resumed);
		json__end(j, '}');
	}
	json__end(j, ']');
}

static void write_calls_json(struct counting *c, struct json *j)
{
	json__uint(j, "calls", c->now.calls);
	json__uint(j, "resumed", c->now.resumed);
	json__uint(j, "refused", c->refused_cnt);
	if (c->o->only && c->timing)
		json__uint(j, "calls_as_wanted", timing__call_cnt(c->timing));
	if (c->timing)
		c->err = timing__write_json(c->timing, j, c->o->top);
	else
		write_functions_json(c, j);
}

static void write_json(struct counting *c, double seconds, bool final)
{
	struct json j = { .f = stdout };

	if (c->o->mode == TIMING_CALLS && !final)
		return;
	json__object(&j, NULL);
	json__bool(&j, "final", final);
	json__uint(&j, "pid", (uint64_t)c->o->pid);
	json__uint(&j, "processes", tracer__process_cnt(c->tracer));
	json__stringz(&j, "python", c->target.py.version);
	json__double(&j, "seconds", seconds);
	if (!c->stacked && !c->imports)
		json__double(&j, "calls_per_second", shown_rate(c, seconds, final));
	if (c->last.slowdown >= 0)
		json__double(&j, "slowdown_percent", c->last.slowdown);
	else
		json__null(&j, "slowdown_percent");
	if (c->imports)
		c->err = imports__write_json(c->imports, &j, c->o->top);
	else if (c->stacked)
		c->err = stacked__write_json(c->stacked, &j, c->o->top);
	else
		write_calls_json(c, &j);
	json__end(&j, '}');
	fputc('\n', stdout);
}

static int say_error(const struct counting *c)
{
	if (c->err == -ENOMEM)
		log_no_memory();
	else if (c->err)
		log_err("standard output: %s", strerror(-c->err));
	return c->err;
}

/* Prints the counts since the last table, or, at the end, since the beginning. */
static int show(struct counting *c, bool final)
{
	uint64_t since = final ? c->start_ns : c->last.ns;
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
	/* The CPU time of an ended process cannot be read, so the last part may have none. */
	if (final && c->used_ns > 0)
		c->last.slowdown = price__slowdown(c->cost_ns, c->used_ns);
	seconds = fmax((double)(c->last.ns - since) / 1e9, 1e-3);
	if (c->o->json)
		write_json(c, seconds, final);
	else
		write_table(c, seconds, final);
	if (!c->err)
		c->err = stream__flush(stdout);
	return say_error(c);
}

/* ---- the run --------------------------------------------------------------------------------- */

static bool is_done(const struct counting *c)
{
	return c->over || c->gone || c->refused;
}

/* Until `until_ns`, or a reason to stop. */
static void wait_until(struct counting *c, uint64_t until_ns)
{
	struct pollfd fds[] = { { .fd = c->signal_fd, .events = POLLIN },
				{ .fd = c->pid_fd, .events = POLLIN },
				{ .fd = tracer__news_fd(c->tracer), .events = POLLIN } };
	bool more = false;

	for (uint64_t now = now_ns(); now < until_ns && !is_done(c) && !c->err; now = now_ns()) {
		uint64_t left = (until_ns - now) / NS_PER_MS + 1;
		int most = tracer__look_ms(c->tracer);

		most = most < DRAIN_MS ? most : DRAIN_MS;
		poll(fds, 3, more ? 0 : left < (uint64_t)most ? (int)left : most);
		more = tracer__drain(c->tracer);
		generated__look(c->generated);
		if (c->o->mode == TIMING_CALLS)
			c->err = stream__flush(stdout);
		c->over |= (fds[0].revents & POLLIN) != 0;
		c->gone |= fds[1].revents != 0;
		if (!is_done(c))
			look_at_price(c);
	}
}

static int open_target(struct counting *c)
{
	int err;

	if (!c->o->command)
		return target__open_process(&c->target, c->o->pid);
	err = target__open_file(&c->target, c->o->command->interpreter);
	c->target.pid = c->o->pid;
	c->target.python = c->o->command->python;
	return err;
}

static enum stacked_kind kind_of(enum counting_what what)
{
	if (what == COUNTING_AUDITS)
		return STACKED_AUDITS;
	return what == COUNTING_EXCEPTIONS ? STACKED_EXCEPTIONS : STACKED_COLLECTIONS;
}

static int prepare(struct counting *c)
{
	const struct tracer_events *events = NULL;
	int err = open_target(c);
	bool color;

	if (err)
		return err;
	c->width = c->o->json ? 0 : terminal__width(&color);
	c->signal_fd = signals__open(NULL, false);
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->o->pid, 0);
	if (c->signal_fd < 0 || c->pid_fd < 0) {
		log_err("process %d: %s", c->o->pid,
			strerror(c->pid_fd < 0 ? errno : -c->signal_fd));
		return -EIO;
	}
	if (c->o->what == COUNTING_IMPORTS) {
		c->imports = imports__new(c->o->json);
		events = c->imports ? imports__events(c->imports) : NULL;
	} else if (c->o->what != COUNTING_CALLS) {
		c->stacked =
			stacked__new(kind_of(c->o->what), c->o->mode == TIMING_CALLS, c->o->json);
		if (c->stacked && c->o->audits && stacked__audit(c->stacked, c->o->audits))
			return log_no_memory();
		events = c->stacked ? stacked__events(c->stacked) : NULL;
	} else if (c->o->mode != TIMING_NONE) {
		c->timing = timing__new(c->o->mode, c->o->json, c->o->slow);
		if (c->timing)
			timing__set_format(c->timing, c->o->format);
		if (c->timing)
			timing__want_from(c->timing, c->o->from);
		if (c->timing)
			timing__want_values(c->timing, c->o->args, c->o->returns, c->o->only);
		if (c->timing && c->o->pictures[PICTURE_CALLS] &&
		    timing__want_picture(c->timing, NULL))
			return log_no_memory();
		events = c->timing ? timing__events(c->timing) : NULL;
	}
	if ((c->o->what != COUNTING_CALLS || c->o->mode != TIMING_NONE) && !events)
		return log_no_memory();
	if (c->imports)
		c->tracer = tracer__open(&c->target, imports__filters(c->imports), IMPORTS_FILTERS,
					 NULL, events);
	else
		c->tracer = tracer__open(&c->target, c->o->filters, c->o->filter_cnt, c->o->threads,
					 events);
	if (!c->tracer)
		return -EIO;
	if (!c->stacked && c->target.py.version_hex >= PY_VERSION_MINOR_HEX(3, 13))
		c->generated = generated__new(c->o->pid, c->target.readers);
	return 0;
}

static int draw(struct counting *c)
{
	int err = 0;

	if (c->pictures[PICTURE_CALLS])
		err = timing__draw(c->timing, c->pictures);
	if (!err)
		err = call_pictures__finish(c->pictures, c->end_ns - c->start_ns);
	return err ? log_no_memory() : 0;
}

static int begin(struct counting *c)
{
	int err;

	signals__hand_over(1);
	c->start_ns = now_ns();
	c->last = c->judged = (struct price_look){ .ns = c->start_ns, .slowdown = -1 };
	c->last.cpu_ns = tracer__cpu_ns(c->tracer);
	c->judged.cpu_ns = tracer__used_ns(c->tracer);
	c->said = c->judged;
	if (c->timing)
		timing__start(c->timing, c->tracer, c->start_ns);
	if (c->imports)
		imports__start(c->imports, c->tracer, c->start_ns);
	if (c->stacked)
		stacked__start(c->stacked, c->tracer, c->start_ns);
	err = tracer__attach(c->tracer);
	if (!err && c->o->command)
		err = c->o->command->go(c->o->command->ctx);
	if (err)
		return err;
	wait_until(c, c->start_ns + PRICE_MEASURE_MS * NS_PER_MS);
	if (c->err)
		return say_error(c);
	judge(c, true);
	if (c->refused)
		return -EBUSY;
	say_generated(c, false);
	/* A command is itself now, and not what is about to execute it. */
	if (call_pictures__open(c->pictures, c->o->pictures, c->o->pid, c->target.readers))
		return log_no_memory();
	log_info("counting the %s of process %d (%s, CPython %s); Ctrl-C ends it",
		 c->stacked   ? stacked__name(c->stacked)
		 : c->imports ? "imports"
			      : "calls",
		 c->o->pid, c->target.path, c->target.py.version);
	return 0;
}

/* Shows all before the breakpoints go: that may take longer than whoever stops us waits. */
static int finish(struct counting *c)
{
	int err;

	c->end_ns = now_ns();
	tracer__stop(c->tracer, c->over ? c->end_ns + TRACER_END_MS * NS_PER_MS : 0);
	wait_for_programs();
	while (tracer__drain(c->tracer))
		;
	if (c->timing)
		timing__lose(c->timing, tracer__lost(c->tracer));
	if (c->stacked)
		stacked__lose(c->stacked, tracer__lost(c->tracer));
	if (c->imports) {
		imports__lose(c->imports, tracer__lost(c->tracer));
		imports__finish(c->imports, c->end_ns);
	}
	if (c->timing)
		timing__end_lines(c->o->format, timing__wrote_lines(c->timing));
	err = show(c, true);
	if (!err)
		err = draw(c);
	if (!err && c->o->format != TIMING_LINES)
		say_sum(c);
	tracer__detach(c->tracer);
	return err;
}

static int count(struct counting *c)
{
	uint64_t step = (uint64_t)(c->o->interval_s * 1e9), next = c->start_ns;
	uint64_t end = c->o->duration_s > 0 ? c->start_ns + (uint64_t)(c->o->duration_s * 1e9)
					    : UINT64_MAX;

	while (!is_done(c)) {
		next = next_round(next, step, now_ns());
		wait_until(c, next < end ? next : end);
		if (c->err)
			return say_error(c);
		if (now_ns() >= end || c->refused)
			break;
		say_generated(c, false);
		if (is_missing(c) && !c->explained)
			explain_nothing(c, false);
		if (!c->gone && !c->o->command && !target__is_there(&c->target)) {
			log_warn("process %d has ended, or runs another program", c->o->pid);
			c->gone = true;
		}
		if (!is_done(c) && show(c, false))
			return c->err;
	}
	return finish(c);
}

/* `unsent`: calls whose function had no room for its name. */
static void report_nameless(const struct counting *c, uint64_t unsent)
{
	uint64_t cnt = unsent + (c->timing ? timing__nameless_cnt(c->timing) : c->nameless);

	if (cnt)
		log_warn("%" PRIu64 " calls are not shown: the names of their functions were not "
			 "read in time to tell whether they are wanted",
			 cnt);
}

static void report_losses(struct counting *c)
{
	uint64_t n[TRACE_CTR_CNT];

	if (tracer__counters(c->tracer, n))
		return;
	if (is_missing(c) && !c->explained)
		explain_nothing(c, true);
	else if (c->o->threads && is_empty(c))
		log_warn("no call was in a thread that -t means");
	else if (!c->stacked && is_empty(c) && c->o->command)
		log_warn("no call came from %s: the command runs another interpreter, or none; "
			 "--python names it",
			 c->target.path);
	if (n[TRACE_CTR_unknown])
		log_warn("%" PRIu64 " of %" PRIu64
			 " hits are not counted: their frame was not found",
			 n[TRACE_CTR_unknown], hits(c, c->hits));
	if (n[TRACE_CTR_lost_full])
		log_warn("%" PRIu64 " calls are not counted: there are too many functions",
			 n[TRACE_CTR_lost_full]);
	if (!c->stacked)
		report_nameless(c, n[TRACE_CTR_nameless]);
	if (n[TRACE_CTR_unknown_raise])
		log_warn("%" PRIu64 " of %" PRIu64 " frames that an exception reached are not "
			 "counted: their thread was not found",
			 n[TRACE_CTR_unknown_raise], hits(c, c->hits));
	say_generated(c, true);
	if (c->imports)
		imports__report(c->imports);
	if (c->stacked)
		stacked__report(c->stacked);
	if (c->timing)
		timing__report(c->timing, c->o->filter_cnt || c->o->only || c->o->from);
	log_debug("%" PRIu64 " hits, %" PRIu64 " refused, %" PRIu64 " searched, %" PRIu64
		  " of other opcodes",
		  hits(c, c->hits), n[TRACE_CTR_refused], n[TRACE_CTR_note_searched],
		  n[TRACE_CTR_other]);
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
	generated__free(c.generated);
	tracer__close(c.tracer);
	target__close(&c.target);
	call_pictures__free(c.pictures);
	timing__free(c.timing);
	stacked__free(c.stacked);
	imports__free(c.imports);
	traced_list__free(&c.now);
	traced_list__free(&c.before);
	strbuf__free(&c.line);
	if (c.signal_fd >= 0)
		close(c.signal_fd);
	if (c.pid_fd >= 0)
		close(c.pid_fd);
	if (err)
		return 1;
	return c.refused ? COUNTING_REFUSED : 0;
}
