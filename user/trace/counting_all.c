/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/counting_all.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/str.h"
#include "base/stream.h"
#include "base/terminal.h"
#include "follow/object.h"
#include "profile/export_text.h"
#include "trace/crowd.h"
#include "trace/meant.h"
#include "trace/price.h"

#define SCAN_MS 50
#define CLEAR	"\033[H\033[J"

/* A function that is wanted, in one interpreter. */
struct row {
	const struct traced *f;
	uint64_t before; /* entered before the last table */
};

struct counting_all {
	const struct counting_opts *o;
	struct crowd *crowd;
	int signal_fd;
	bool over, interrupted; /* by the user */
	bool more;		/* events wait in the rings */
	uint64_t scanned_ns;
	uint64_t start_ns, last_ns;
	uint64_t said_ns; /* what it costs; 0: not yet */
	struct row *rows; /* most calls first */
	size_t row_cnt, row_cap;
	uint64_t calls, resumed;	/* of these, and of what had to make room */
	uint64_t nameless;		/* calls that no filter can mean: they have no name */
	uint64_t last_entered;		/* ... at the last table */
	struct crowd_process **busiest; /* those that were followed, most calls first */
	size_t busy_cnt, busy_cap;
	bool redraw;
	bool full;	/* a table in the kernel; it has been said */
	bool explained; /* why nothing is shown */
	struct strbuf line;
	struct blocks *blocks;			 /* of --calls; NULL: they are not wanted */
	struct call_picture *pictures[PICTURES]; /* NULL: not wanted */
};

static bool is_timed(const struct counting_all *c)
{
	return c->o->mode != TIMING_NONE;
}

/* ---- what is shown --------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	uint32_t x = ((const struct traced *)a)->function.number;
	uint32_t y = ((const struct traced *)b)->function.number;

	return (x > y) - (x < y);
}

/* `before` is sorted by number. */
static uint64_t entered_before(const struct crowd_file *f, const struct traced *t)
{
	const struct traced *b =
		f->before.cnt ? bsearch(t, f->before.all, f->before.cnt, sizeof(*t), by_number)
			      : NULL;

	return b ? b->calls + b->resumed : 0;
}

static int add_rows(struct counting_all *c, struct crowd_file *f, bool final)
{
	struct traced_list swap = f->before;
	int err;

	if (f->timing) {
		c->calls += timing__call_cnt(f->timing);
		c->resumed += timing__resumed_cnt(f->timing);
		c->nameless += timing__nameless_cnt(f->timing);
		return 0;
	}
	f->before = f->now;
	f->now = swap;
	if (f->before.cnt)
		qsort(f->before.all, f->before.cnt, sizeof(*f->before.all), by_number);
	err = tracer__read(f->tracer, &f->now);
	for (size_t i = 0; i < f->now.cnt && !err; i++) {
		const struct traced *t = &f->now.all[i];

		if (!tracer__wants(f->tracer, &t->function)) {
			if (t->function.number == TRACER_UNKNOWN)
				c->nameless += t->calls + t->resumed;
			continue;
		}
		if (ARRAY_GROW(c->rows, c->row_cap, c->row_cnt, SIZE_MAX / 64))
			return -ENOMEM;
		c->rows[c->row_cnt++] =
			(struct row){ .f = t, .before = final ? 0 : entered_before(f, t) };
		c->calls += t->calls;
		c->resumed += t->resumed;
	}
	return err;
}

static int by_calls(const void *a, const void *b)
{
	const struct traced *x = ((const struct row *)a)->f, *y = ((const struct row *)b)->f;
	uint64_t nx = x->calls + x->resumed, ny = y->calls + y->resumed;

	return (nx < ny) - (nx > ny);
}

static int by_hits(const void *a, const void *b)
{
	const struct crowd_process *x = *(struct crowd_process *const *)a;
	const struct crowd_process *y = *(struct crowd_process *const *)b;

	if (x->hits != y->hits)
		return x->hits < y->hits ? 1 : -1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int read_all(struct counting_all *c, bool final)
{
	int err = 0;

	c->row_cnt = c->busy_cnt = 0;
	c->calls = c->crowd->former_calls;
	c->resumed = c->crowd->former_resumed;
	c->nameless = 0;
	for (size_t i = 0; i < c->crowd->file_cnt && !err; i++)
		if (c->crowd->files[i]->tracer)
			err = add_rows(c, c->crowd->files[i], final);
	for (size_t i = 0; i < c->crowd->cnt && !err; i++) {
		if (!c->crowd->all[i]->look.ns)
			continue;
		if (ARRAY_GROW(c->busiest, c->busy_cap, c->busy_cnt, SIZE_MAX / 64))
			return -ENOMEM;
		c->busiest[c->busy_cnt++] = c->crowd->all[i];
	}
	if (c->row_cnt)
		qsort(c->rows, c->row_cnt, sizeof(*c->rows), by_calls);
	if (c->busy_cnt)
		qsort(c->busiest, c->busy_cnt, sizeof(*c->busiest), by_hits);
	return err;
}

static size_t shown(const struct counting_all *c, size_t cnt)
{
	return c->o->top && c->o->top < cnt ? c->o->top : cnt;
}

static void add_right(struct strbuf *b, uint64_t n, int width)
{
	struct strbuf text = { 0 };

	text_add_count(&text, n);
	strbuf__addf(b, "%*s", width, text.s ? text.s : "");
	strbuf__free(&text);
}

static uint64_t rate(uint64_t n, double seconds)
{
	return (uint64_t)((double)n / seconds + 0.5);
}

static void add_processes(struct counting_all *c, double seconds, bool final)
{
	struct strbuf *b = &c->line;

	strbuf__addf(b, "%11s%15s%13s  PROCESS\n", is_timed(c) ? "EVENTS/S" : "CALLS/S",
		     is_timed(c) ? "EVENTS" : "CALLS", "SLOWER");
	for (size_t i = 0; i < shown(c, c->busy_cnt); i++) {
		const struct crowd_process *p = c->busiest[i];

		add_right(b, rate(p->hits - (final ? 0 : p->shown_hits), seconds), 11);
		add_right(b, p->hits, 15);
		if (p->look.slowdown >= 0)
			strbuf__addf(b, "%12.1f%%", p->look.slowdown);
		else
			strbuf__addf(b, "%13s", "-");
		strbuf__addf(b, "  %d %s (CPython %s)%s\n", p->pid, p->name,
			     p->file->target.py.version,
			     p->refused ? ", not traced any more"
			     : p->gone	? ", has ended"
					: "");
	}
	strbuf__addc(b, '\n');
}

static void add_functions(struct counting_all *c, double seconds)
{
	struct strbuf *b = &c->line;

	if (!c->row_cnt)
		return;
	strbuf__addf(b, "%11s%15s%13s  FUNCTION\n", "CALLS/S", "CALLS", "RESUMED");
	for (size_t i = 0; i < shown(c, c->row_cnt); i++) {
		const struct traced *t = c->rows[i].f;

		add_right(b, rate(t->calls + t->resumed - c->rows[i].before, seconds), 11);
		add_right(b, t->calls, 15);
		add_right(b, t->resumed, 13);
		strbuf__addz(b, "  ");
		str_sanitise(b, t->function.name, t->function.name_len, 0);
		timing__add_place(b, &t->function);
		strbuf__addc(b, '\n');
	}
	strbuf__addc(b, '\n');
}

static void add_head(struct counting_all *c, double seconds, bool final)
{
	struct strbuf *b = &c->line;
	uint64_t entered = c->calls + c->resumed;
	size_t cnt = final ? c->busy_cnt : crowd__followed_cnt(c->crowd);

	strbuf__addf(b, "%zu Python process%s: ", cnt, cnt == 1 ? "" : "es");
	if (!final) {
		text_add_count(b, rate(entered - c->last_entered, seconds));
		strbuf__addz(b, " calls/s\n\n");
		return;
	}
	text_add_count(b, entered);
	strbuf__addz(b, " calls and resumptions");
	if (c->o->from)
		strbuf__addf(b, " inside of %s", c->o->from->function);
	if (c->o->only)
		strbuf__addz(b, " as wanted");
	if (!is_timed(c)) {
		strbuf__addz(b, " of ");
		text_add_count(b, c->row_cnt);
		strbuf__addz(b, " functions");
	}
	strbuf__addf(b, " in %.1f s\n\n", seconds);
}

/* Were functions selected of which none was called? */
static bool is_missing(const struct counting_all *c)
{
	if (!c->o->from)
		return c->o->filter_cnt && !(c->calls + c->resumed);
	for (size_t i = 0; i < c->crowd->file_cnt; i++)
		if (c->crowd->files[i]->tracer && tracer__has_from(c->crowd->files[i]->tracer))
			return false;
	return true;
}

/* All functions of an interpreter. True: a wanted one was called. */
static bool add_called(struct tracer *tr, struct traced_list *all)
{
	struct traced_list l = { 0 };
	bool wanted = false;
	int err = tracer__read(tr, &l);

	for (size_t i = 0; i < l.cnt && !err; i++) {
		wanted |=
			l.all[i].calls + l.all[i].resumed && tracer__wants(tr, &l.all[i].function);
		err = traced_list__add(all, &l.all[i]);
	}
	traced_list__free(&l);
	return wanted;
}

/* As explain_nothing() of counting.c, of all interpreters. */
static void explain_nothing(struct counting_all *c, bool final)
{
	const struct meant meant = { .filters = c->o->from ? c->o->from : c->o->filters,
				     .cnt = c->o->from ? 1 : c->o->filter_cnt,
				     .one = c->o->from != NULL,
				     .did_what = "was called" };
	struct traced_list all = { 0 };
	bool wanted = false;

	for (size_t i = 0; i < c->crowd->file_cnt; i++)
		if (c->crowd->files[i]->tracer)
			wanted |= add_called(c->crowd->files[i]->tracer, &all);
	if (c->o->from || !wanted)
		c->explained |= meant__explain(&meant, &all, final);
	traced_list__free(&all);
}

/* A table for each interpreter. */
static int write_timings(const struct counting_all *c)
{
	int err = 0;

	for (size_t i = 0; i < c->crowd->file_cnt && !err; i++) {
		const struct crowd_file *f = c->crowd->files[i];

		if (!f->timing || !(timing__call_cnt(f->timing) + timing__resumed_cnt(f->timing)))
			continue;
		printf("CPython %s\n", f->target.py.version);
		err = timing__write(f->timing, c->o->top);
		putchar('\n');
	}
	return err;
}

static int write_tables(struct counting_all *c, double seconds, bool final)
{
	struct strbuf *b = &c->line;
	int err;

	if (c->o->format != TIMING_LINES)
		return 0; /* lines are all there is */
	if (c->redraw && c->explained && is_missing(c) && !final)
		return 0; /* the message stays to be read */
	strbuf__clear(b);
	if (c->redraw && !final)
		strbuf__addz(b, CLEAR);
	if (c->o->mode == TIMING_CALLS)
		strbuf__addc(b, '\n');
	add_head(c, seconds, final);
	if (c->busy_cnt)
		add_processes(c, seconds, final);
	add_functions(c, seconds);
	err = b->err ? b->err : stream__put(stdout, b->s, b->len);
	return err ? err : write_timings(c);
}

static void write_process_json(struct json *j, const struct crowd_process *p)
{
	json__object(j, NULL);
	json__uint(j, "pid", (uint64_t)p->pid);
	json__stringz(j, "name", p->name);
	json__stringz(j, "python", p->file->target.py.version);
	json__uint(j, "hits", p->hits);
	if (p->look.slowdown >= 0)
		json__double(j, "slowdown_percent", p->look.slowdown);
	else
		json__null(j, "slowdown_percent");
	json__bool(j, "refused", p->refused);
	json__bool(j, "ended", p->gone);
	json__end(j, '}');
}

static void write_functions_json(const struct counting_all *c, struct json *j)
{
	json__array(j, "functions");
	for (size_t i = 0; i < shown(c, c->row_cnt); i++) {
		const struct traced *t = c->rows[i].f;

		json__object(j, NULL);
		timing__function_json(j, &t->function, t->calls, t->resumed);
		json__end(j, '}');
	}
	json__end(j, ']');
}

static int write_timings_json(const struct counting_all *c, struct json *j)
{
	int err = 0;

	json__array(j, "interpreters");
	for (size_t i = 0; i < c->crowd->file_cnt && !err; i++) {
		const struct crowd_file *f = c->crowd->files[i];

		if (!f->timing)
			continue;
		json__object(j, NULL);
		json__stringz(j, "python", f->target.py.version);
		err = timing__write_json(f->timing, j, c->o->top);
		json__end(j, '}');
	}
	json__end(j, ']');
	return err;
}

/* Of all interpreters, also of those that are not shown any more. */
static uint64_t lost_cnt(const struct counting_all *c)
{
	uint64_t sum = c->crowd->former_lost;

	for (size_t i = 0; i < c->crowd->file_cnt; i++)
		if (c->crowd->files[i]->timing)
			sum += timing__lost_cnt(c->crowd->files[i]->timing);
	return sum;
}

static int write_json(struct counting_all *c, double seconds, bool final)
{
	struct json j = { .f = stdout };
	int err = 0;

	json__object(&j, NULL);
	json__bool(&j, "final", final);
	json__double(&j, "seconds", seconds);
	json__uint(&j, "calls", c->calls);
	json__uint(&j, "resumed", c->resumed);
	if (is_timed(c))
		json__uint(&j, "lost_events", lost_cnt(c));
	json__array(&j, "processes");
	for (size_t i = 0; i < shown(c, c->busy_cnt); i++)
		write_process_json(&j, c->busiest[i]);
	json__end(&j, ']');
	if (is_timed(c))
		err = write_timings_json(c, &j);
	else
		write_functions_json(c, &j);
	json__end(&j, '}');
	fputc('\n', stdout);
	return err;
}

/* The table goes on without them, so not only at the end. */
static void say_full(struct counting_all *c)
{
	uint64_t n[TRACE_CTR_CNT];

	crowd__counters(c->crowd, n);
	if (n[TRACE_CTR_lost_full] && !c->full)
		log_warn("there are too many functions: those that are called first from now on "
			 "are not counted");
	c->full |= n[TRACE_CTR_lost_full] != 0;
}

static void report_losses(struct counting_all *c)
{
	uint64_t n[TRACE_CTR_CNT], nameless;

	crowd__counters(c->crowd, n);
	nameless = n[TRACE_CTR_nameless] + (c->o->filter_cnt || c->o->from ? c->nameless : 0);
	if (n[TRACE_CTR_unknown])
		log_warn("%" PRIu64 " hits are not counted: their frame was not found",
			 n[TRACE_CTR_unknown]);
	if (n[TRACE_CTR_lost_full])
		log_warn("%" PRIu64 " calls are not counted: there are too many functions",
			 n[TRACE_CTR_lost_full]);
	if (is_missing(c) && !c->explained)
		explain_nothing(c, true);
	else if (c->o->threads && !(c->calls + c->resumed))
		log_warn("no call was in a thread that -t means");
	if (nameless)
		log_warn("%" PRIu64 " calls are not shown: the names of their functions were not "
			 "read in time to tell whether they are wanted",
			 nameless);
	for (size_t i = 0; i < c->crowd->file_cnt; i++)
		if (c->crowd->files[i]->timing)
			timing__report(c->crowd->files[i]->timing, crowd__is_filtered(c->crowd));
}

static int show(struct counting_all *c, bool final)
{
	uint64_t now = now_ns(), since = final ? c->start_ns : c->last_ns;
	double seconds = fmax((double)(now - since) / 1e9, 1e-3);
	int err;

	crowd__count(c->crowd);
	err = read_all(c, final);
	if (!err && (final || c->o->mode != TIMING_CALLS)) /* these are written as they come */
		err = (c->o->json ? write_json : write_tables)(c, seconds, final);
	if (!err)
		err = stream__flush(stdout);
	say_full(c);
	c->last_ns = now;
	c->last_entered = c->calls + c->resumed;
	for (size_t i = 0; i < c->crowd->cnt; i++)
		c->crowd->all[i]->shown_hits = c->crowd->all[i]->hits;
	for (size_t i = 0; i < c->crowd->file_cnt; i++)
		if (c->crowd->files[i]->tracer)
			tracer__end_measuring(c->crowd->files[i]->tracer);
	if (err == -ENOMEM)
		log_no_memory();
	else if (err)
		log_err("standard output: %s", strerror(-err));
	return err;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Events that came; `c->more`: others wait. 0 or negative errno after a message. */
static int write_calls(struct counting_all *c)
{
	int err;

	c->more = crowd__drain(c->crowd);
	if (c->o->mode != TIMING_CALLS)
		return 0;
	err = blocks__flush(c->blocks);
	if (!err)
		err = stream__flush(stdout);
	if (err == -ENOMEM)
		log_no_memory();
	else if (err)
		log_err("standard output: %s", strerror(-err));
	return err;
}

/* Of those that are left. Later on only if somebody notices. */
static void say_costs(struct counting_all *c, bool first)
{
	const char *end = first ? "; Ctrl-C ends it" : "";
	const struct crowd_process *worst = NULL;
	size_t cnt = crowd__followed_cnt(c->crowd);
	double load = 0;

	for (size_t i = 0; i < c->crowd->cnt; i++) {
		const struct crowd_process *p = c->crowd->all[i];

		if (p->link < 0 || p->left)
			continue;
		load += p->look.load;
		if (p->look.load >= PRICE_NO_LOAD &&
		    (!worst || p->look.slowdown > worst->look.slowdown))
			worst = p;
	}
	c->said_ns = now_ns();
	if (worst)
		log_info("counting the calls of %zu process%s, which costs %.1f%% of a CPU; "
			 "process %d (%s) is slowed down most, by %.1f%%%s",
			 cnt, cnt == 1 ? "" : "es", load, worst->pid, worst->name,
			 worst->look.slowdown, end);
	else if (first || load >= PRICE_NO_LOAD)
		log_info("counting the calls of %zu process%s, which costs %.1f%% of a CPU%s", cnt,
			 cnt == 1 ? "" : "es", load, end);
}

/* Finds processes meanwhile. 0 or negative errno after a message. */
static int wait_until(struct counting_all *c, uint64_t until_ns)
{
	struct pollfd fd = { .fd = c->signal_fd, .events = POLLIN };
	uint64_t step = (uint64_t)(c->o->interval_s * 1e9);
	int err = 0;

	for (uint64_t now = now_ns(); now < until_ns && !c->over && !err; now = now_ns()) {
		uint64_t left = (until_ns - now) / NS_PER_MS + 1;

		c->interrupted = poll(&fd, 1,
				      c->more	       ? 0
				      : left < SCAN_MS ? (int)left
						       : SCAN_MS) > 0;
		c->over = c->interrupted;
		err = write_calls(c);
		if (err || (c->more && now_ns() < c->scanned_ns + SCAN_MS * NS_PER_MS))
			continue;
		err = crowd__scan(c->crowd);
		c->scanned_ns = now_ns();
		if (!err)
			crowd__judge(c->crowd, step < NS_PER_S ? NS_PER_S : step);
		c->over |= crowd__is_over(c->crowd);
		/* Lines of calls have no table that says it. */
		if (c->o->mode == TIMING_CALLS && c->said_ns &&
		    now_ns() - c->said_ns >= COUNTING_SAY_NS)
			say_costs(c, false);
	}
	return err;
}

/* Before anything is attached: how many pay, and how much for each call. */
static void say_price(const struct counting_all *c)
{
	size_t files = 0;
	double most = 0;

	for (size_t i = 0; i < c->crowd->file_cnt; i++) {
		const struct crowd_file *f = c->crowd->files[i];

		files += f->tracer != NULL;
		if (f->tracer)
			most = fmax(most, crowd__hit_ns(c->crowd, f));
	}
	if (!c->crowd->cnt)
		log_info("no Python process runs that can be traced; those that start will be");
	else
		log_info("tracing %zu Python process%s of %zu interpreter%s: each call%s costs its "
			 "process some %.1f us; %s",
			 c->crowd->cnt, c->crowd->cnt == 1 ? "" : "es", files,
			 files == 1 ? "" : "s", is_timed(c) ? ", and each end of one," : "",
			 most / 1000,
			 is_timed(c) ? "that is judged from the first 100 ms on"
				     : "in the first 100 ms calls are only counted");
}

static const char *name_of(void *ctx, pid_t pid, uint64_t ns)
{
	return crowd__name(((const struct counting_all *)ctx)->crowd, pid, ns);
}

static int begin(struct counting_all *c)
{
	const struct crowd_opts o = { .roots = c->o->roots,
				      .root_cnt = c->o->root_cnt,
				      .filters = c->o->filters,
				      .filter_cnt = c->o->filter_cnt,
				      .threads = c->o->threads,
				      .max_slowdown = c->o->max_slowdown,
				      .force = c->o->force,
				      .mode = c->o->mode,
				      .format = c->o->format,
				      .blocks = c->blocks,
				      .json = c->o->json,
				      .pictures = c->pictures,
				      .slow = c->o->slow,
				      .from = c->o->from,
				      .args = c->o->args,
				      .returns = c->o->returns,
				      .only = c->o->only };
	bool color;
	int err;

	c->signal_fd = signals__open(NULL, false);
	if (c->signal_fd < 0) {
		log_err("signals: %s", strerror(-c->signal_fd));
		return c->signal_fd;
	}
	c->redraw = !c->o->json && terminal__width(&color);
	c->crowd = crowd__new(&o);
	if (!c->crowd)
		return -ENOMEM;
	err = crowd__scan(c->crowd);
	if (err)
		return err;
	say_price(c);
	signals__hand_over(1);
	err = crowd__attach(c->crowd);
	c->start_ns = c->last_ns = now_ns();
	if (!err)
		err = wait_until(c, c->start_ns + 2 * PRICE_MEASURE_MS * NS_PER_MS);
	if (!err)
		say_costs(c, true);
	return err;
}

static int finish_calls(struct counting_all *c)
{
	int err = 0;

	do
		err = write_calls(c);
	while (c->more && !err);
	for (size_t i = 0; i < c->crowd->file_cnt; i++) {
		const struct crowd_file *f = c->crowd->files[i];

		if (f->timing)
			timing__lose(f->timing, tracer__lost(f->tracer));
	}
	if (c->blocks)
		timing__end_lines(c->o->format, *blocks__headed(c->blocks));
	return err ? err : write_calls(c);
}

/* 0, or negative errno after a message. */
static int draw(struct counting_all *c)
{
	int err = 0;

	for (size_t i = 0; i < c->crowd->file_cnt && c->pictures[PICTURE_CALLS] && !err; i++)
		if (c->crowd->files[i]->timing)
			err = timing__draw(c->crowd->files[i]->timing, c->pictures);
	if (!err)
		err = call_pictures__finish(c->pictures, c->last_ns - c->start_ns);
	return err ? log_no_memory() : 0;
}

static int count(struct counting_all *c)
{
	uint64_t step = (uint64_t)(c->o->interval_s * 1e9), next = c->start_ns;
	uint64_t end = c->o->duration_s > 0 ? c->start_ns + (uint64_t)(c->o->duration_s * 1e9)
					    : UINT64_MAX;
	int err = 0;

	while (!c->over && !err && now_ns() < end) {
		next = next_round(next, step, now_ns());
		err = wait_until(c, next < end ? next : end);
		if (!err && !c->over && now_ns() < end)
			err = show(c, false);
		if (!err && is_missing(c) && !c->explained)
			explain_nothing(c, false);
	}
	crowd__stop(c->crowd, c->interrupted ? now_ns() + TRACER_END_MS * NS_PER_MS : 0);
	wait_for_programs();
	if (!err)
		err = finish_calls(c);
	if (!err)
		err = show(c, true);
	return err ? err : draw(c);
}

/* What begin() needs. */
static int prepare(struct counting_all *c)
{
	if (is_timed(c)) {
		c->blocks = blocks__new(name_of, c);
		if (!c->blocks)
			return log_no_memory();
	}
	if (call_pictures__open(c->pictures, c->o->pictures, 0, NULL))
		return log_no_memory();
	return 0;
}

int counting_all__run(const struct counting_opts *o)
{
	struct counting_all c = { .o = o, .signal_fd = -1 };
	int err = prepare(&c);

	if (!err)
		err = begin(&c);
	if (!err)
		err = count(&c);
	if (!err)
		report_losses(&c);
	crowd__free(c.crowd);
	call_pictures__free(c.pictures);
	blocks__free(c.blocks);
	free(c.rows);
	free(c.busiest);
	strbuf__free(&c.line);
	if (c.signal_fd >= 0)
		close(c.signal_fd);
	return err != 0;
}
