/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The lines above the table of `top`. See topview_parts.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "top/topview_parts.h"
#include "top/topwords.h"

static void add_title(struct strbuf *b, const struct context *x)
{
	uint64_t s = topmodel__elapsed_ns(x->m) / 1000000000;

	strbuf__addf(b, "pyperf-bpf top - %" PRIu64 ":%02" PRIu64 ", ", s / 60, s % 60);
	if (x->st->frequency_hz)
		strbuf__addf(b, "%" PRIu32 " Hz ", x->st->frequency_hz);
	strbuf__addf(b, "on %" PRIu32 " CPU%s, every %g s", x->st->now.cpus,
		     x->st->now.cpus == 1 ? "" : "s", (double)x->st->every_ns / 1e9);
	if (x->v->value_cnt > 1)
		strbuf__addf(b, ", %s (%" PRIu32 " of %" PRIu32 ": e)", value_type__name(x->value),
			     x->v->value + 1, x->v->value_cnt);
	if (x->v->paused)
		strbuf__addz(b, " - PAUSED, space goes on");
}

/* By all clocks; 0: there are others, of which nobody knows how many are to come. */
static double asked_hz(const struct top_status *st)
{
	double hz = 0;

	for (uint32_t i = 0; i < st->now.value_cnt || !i; i++) {
		if (!value_type__is_clock(&st->now.values[i]))
			return 0;
		hz += st->now.values[i].frequency_hz;
	}
	return hz;
}

/* The hottest function of the page in the last interval. NULL: none had any count. */
static const struct top_row *find_hottest(const struct context *x, struct topview *v)
{
	struct top_query q = page_of(v)->query;
	const struct top_row *hottest = NULL;

	q.table = TOP_FUNCTIONS;
	q.native = false;
	q.value = v->value;
	if (topmodel__rows(x->m, &q, &v->functions))
		return NULL;
	for (size_t i = 0; i < v->functions.cnt; i++)
		if (v->functions.rows[i].own > (hottest ? hottest->own : 0))
			hottest = &v->functions.rows[i];
	return hottest;
}

static void add_hottest(struct strbuf *b, const struct context *x, const struct top_row *row)
{
	struct top_function f = topmodel__function(x->m, row->function);
	const char *slash = strrchr(f.place, '/');

	strbuf__addf(b, "hottest: %s", f.name);
	if (*f.place)
		strbuf__addf(b, " (%s)", slash ? slash + 1 : f.place);
	strbuf__addf(b, ", %.0f%%; ", text_percent(row->own, x->scope_last));
}

/* If no more stacks are cut in all, the numbers are right. */
#define FINE_PERCENT 99.5

static bool is_fine(const struct context *x)
{
	const struct profile_stats *last = &x->st->last, *now = &x->st->now;

	return !profile__lost(last) && !topmodel__unlisted(x->m) &&
	       (double)now->counters[CTR_complete] * 100 >=
		       (double)now->counters[CTR_user_stacks] * FINE_PERCENT;
}

static void add_fine(struct strbuf *b, const struct context *x, const struct top_row *hottest)
{
	const struct profile_stats *last = &x->st->last, *now = &x->st->now;
	uint64_t counted = last->counters[CTR_counted];

	if (hottest)
		add_hottest(b, x, hottest);
	strbuf__addf(b, "%" PRIu64 " %s, none lost", counted,
		     value_types__sample(now->values, now->value_cnt, counted));
	if (now->counters[CTR_user_stacks])
		strbuf__addz(b, now->counters[CTR_complete] == now->counters[CTR_user_stacks]
					? ", all stacks complete"
					: ", nearly all stacks complete");
}

/*
 * If something is wrong: adds what became of the samples of the last interval, and of all stacks.
 */
static void add_samples(struct strbuf *b, const struct context *x)
{
	const struct profile_stats *last = &x->st->last, *now = &x->st->now;
	double asked = asked_hz(x->st) * (double)now->cpus * (double)last->duration_ns / 1e9;

	if (asked > 0)
		strbuf__addf(b, "%.0f samples asked, ", asked);
	strbuf__addf(b,
		     "%" PRIu64 " delivered = %" PRIu64 " counted + %" PRIu64 " filtered + %" PRIu64
		     " lost",
		     last->counters[CTR_delivered], last->counters[CTR_counted],
		     profile__filtered(last), profile__lost(last));
	if (now->counters[CTR_user_stacks]) /* rounded down: 100.0% means all */
		strbuf__addf(b, "; %.1f%% complete",
			     floor(text_percent(now->counters[CTR_complete],
						now->counters[CTR_user_stacks]) *
				   10) /
				     10);
	if (topmodel__unlisted(x->m))
		strbuf__addf(b, "; %" PRIu64 " without a function: the table is full",
			     topmodel__unlisted(x->m));
}

static const char *table_name(enum top_table table, size_t cnt)
{
	static const char *const names[][2] = { { "process", "processes" },
						{ "thread", "threads" },
						{ "function", "functions" },
						{ "line", "lines" } };

	return names[table][cnt != 1];
}

static void add_holder(struct strbuf *b, const struct context *x, uint32_t space)
{
	const struct top_thread *t = topmodel__gil_holder(x->m, space);

	if (t)
		strbuf__addf(b, ", GIL: %s (%" PRIu32 ")", t->name, t->tid);
}

static void add_sum(struct strbuf *b, const struct context *x)
{
	topwords__add_sum(b, x->value, x->scope_last, topmodel__interval_ns(x->m));
}

static void add_process_scope(struct strbuf *b, const struct context *x, const struct top_query *q,
			      const struct top_process *p)
{
	const struct top_thread *t = q->tid ? topmodel__thread(x->m, q->space, q->tid) : NULL;

	strbuf__addf(b, "process %" PRIu32, p->tgid);
	if (q->tid)
		strbuf__addf(b, ", thread %" PRIu32, q->tid);
	strbuf__addz(b, p->ended ? " (ended): " : ": ");
	add_sum(b, x);
	if (p->broken[x->v->value])
		strbuf__addf(b, ", %.1f%% of stacks cut",
			     text_percent(p->broken[x->v->value], p->all[x->v->value]));
	if (t && *t->name)
		strbuf__addf(b, " - %s -", t->name);
	if (*p->why)
		strbuf__addf(b, " - not walked: %s -", p->why);
	else
		add_holder(b, x, q->space);
	strbuf__addf(b, " %s", p->name);
}

/* Adds the subject of the page: which process or thread, and which value type. */
static void add_scope(struct strbuf *b, const struct context *x)
{
	const struct page *page = &x->v->pages[x->v->depth];
	const struct top_query *q = &page->query;
	const struct top_process *p = topmodel__process(x->m, q->space);
	size_t cnt = 0;

	for (size_t i = 0; i < x->v->rows.cnt; i++) /* many that have ended are one row */
		cnt += q->table != TOP_PROCESSES || x->v->rows.rows[i].space != TOP_ENDED;
	strbuf__addf(b, "%zu %s", cnt, table_name(q->table, cnt));
	if (q->table == TOP_FUNCTIONS && x->v->native)
		strbuf__addz(b, " (native ones, too)");
	if (*page->filter)
		strbuf__addf(b, " with \"%s\"", page->filter);
	if (q->table == TOP_LINES)
		strbuf__addf(b, " of %s (%s)", topmodel__function(x->m, q->function).name,
			     topmodel__function(x->m, q->function).place);
	if (!q->space) {
		strbuf__addz(b, ", ");
		add_sum(b, x);
		return;
	}
	strbuf__addz(b, " of ");
	if (p)
		add_process_scope(b, x, q, p);
	else
		strbuf__addz(b, "a process that has ended");
}

/* ", longest 152 ms in price (app.py:31)" */
static void add_longest(struct strbuf *b, const struct top_longest *l)
{
	if (!l->ns)
		return;
	strbuf__addf(b, ", longest %.0f ms", (double)l->ns / NS_PER_MS);
	if (l->where && l->named_ns != l->ns)
		strbuf__addf(b, ", one of %.0f ms", (double)l->named_ns / NS_PER_MS);
	if (l->where)
		strbuf__addf(b, " in %s", l->where);
}

/* Appends nothing if the process of the page, or on that of all any process, runs none. */
static void add_loops(struct strbuf *b, const struct context *x)
{
	const struct page *page = &x->v->pages[x->v->depth];
	const struct top_process *p = page->query.space ? topmodel__process(x->m, page->query.space)
							: topmodel__slowest_loop(x->m);
	const struct top_loops *l = p ? &p->loops : NULL;

	if (!l || !l->any)
		return;
	strbuf__addz(b, "event loop");
	if (!page->query.space)
		strbuf__addf(b, " of %" PRIu32, p->tgid);
	strbuf__addf(b, ": %" PRIu64 " iteration%s of %u ms or more", l->last_cnt,
		     l->last_cnt == 1 ? "" : "s", (unsigned)(LOOP_SLOW_NS / NS_PER_MS));
	add_longest(b, &l->last);
	if (l->all_cnt == l->last_cnt)
		return;
	strbuf__addf(b, "; since the start %" PRIu64, l->all_cnt);
	if (l->all.ns > l->last.ns)
		add_longest(b, &l->all);
}

static void put_text(struct topview *v, struct canvas *c, unsigned row, enum canvas_style style)
{
	if (v->text.err)
		c->err = v->text.err;
	else if (v->text.len)
		canvas__put(c, row, 0, c->cols, style, v->text.s, v->text.len, CUT_END);
	strbuf__clear(&v->text);
}

unsigned tophead__draw(const struct context *x, struct topview *v, struct canvas *c)
{
	unsigned row = 0;
	bool lost = profile__lost(&x->st->last) != 0;

	if (c->rows >= 10) {
		add_title(&v->text, x);
		put_text(v, c, row++, v->paused ? CANVAS_WARN : CANVAS_PLAIN);
	}
	if (c->rows >= 8) {
		if (is_fine(x))
			add_fine(&v->text, x, find_hottest(x, v));
		else
			add_samples(&v->text, x);
		put_text(v, c, row++, lost ? CANVAS_BAD : CANVAS_PLAIN);
	}
	if (c->rows >= 4) {
		add_scope(&v->text, x);
		put_text(v, c, row++, CANVAS_BOLD);
	}
	if (c->rows >= 9) {
		add_loops(&v->text, x);
		if (v->text.len)
			put_text(v, c, row++, CANVAS_PLAIN);
	}
	return row;
}
