/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls that took long: those beyond a time, or the slowest of the last ones, and how they differ
 * from the others.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/timing_parts.h"

#define ROOM_BYTES   (8U << 20) /* of a comparison of a window */
#define CALLEES	     5		/* functions called by slow calls that are shown */
#define CALLERS	     3		/* ways to slow calls that are shown */
#define CALLERS_ALL  100	/* ... in JSON */
#define CALLERS_PART 0.01	/* of the calls: a difference that is shown */

static bool is_slow(const struct timing *t, const struct timed *f, enum pairs_how how,
		    const struct pairs_times *times)
{
	struct window *w = t->all[f->first].window;
	uint64_t limit = t->slow.ns;

	if (t->windows)
		limit = w ? window__limit(w, t->slow.percentile) : UINT64_MAX;
	return how != PAIRS_LOST && times->total_ns >= limit;
}

/* ---- times and reasons ----------------------------------------------------------------------- */

/* Total, own, on a CPU, waiting: 4 columns of 12. */
static void add_times(struct strbuf *b, const struct pairs_times *times)
{
	timing__add_time(b, times->total_ns, 12);
	timing__add_time(b, times->own_ns, 12);
	if (times->cpu_ns == PAIRS_CPU_UNKNOWN) {
		strbuf__addf(b, "%12s%12s", "?", "?");
		return;
	}
	timing__add_time(b, times->cpu_ns, 12);
	timing__add_time(b, timing__waiting_ns(times), 12);
}

static const char *const spent_on[SPENT_ON_CNT] = {
#define X(name, number, text) [number] = (text),
	TRACE_REASONS(X)
#undef X
		[SPENT_CPU] = "on a CPU",
	[SPENT_WAITING] = "waiting",
};

const char *timing_slow__reason(uint32_t on)
{
	return on == SPENT_CPU ? NULL : on == SPENT_WAITING ? "unknown" : spent_on[on];
}

/* The longest that is not in `done`; HASH_NONE: none is left of 1% of all or more. */
static uint32_t next_longest(const double ns[SPENT_ON_CNT], double all, uint32_t done)
{
	uint32_t best = HASH_NONE;

	for (uint32_t i = 0; i < SPENT_ON_CNT; i++)
		if (spent_on[i] && !(done >> i & 1) && fabs(ns[i]) >= fmax(fabs(all) / 100, 1) &&
		    (best == HASH_NONE || fabs(ns[i]) > fabs(ns[best])))
			best = i;
	return best;
}

/* "  [lock 32.00 ms, sleep 8.10 ms]": the longest first. */
static void add_waits(struct strbuf *b, const struct pairs_times *times)
{
	double ns[SPENT_ON_CNT] = { 0 };
	uint32_t done = 0, i;

	for (i = 0; i < TRACE_REASON_CNT; i++)
		ns[i] = 1e3 * times->waits.us[i];
	while ((i = next_longest(ns, (double)times->total_ns, done)) != HASH_NONE) {
		strbuf__addf(b, "%s%s ", done ? ", " : "  [", spent_on[i]);
		timing__add_time(b, 1000ULL * times->waits.us[i], 0);
		done |= 1U << i;
	}
	if (done)
		strbuf__addc(b, ']');
}

/* "41.20 ms more", or less. */
static void add_more(struct strbuf *b, double ns, int width)
{
	timing__add_time(b, (uint64_t)fabs(ns), width);
	strbuf__addz(b, ns < 0 ? " less" : " more");
}

/* "lock 40.00 ms more, sleep 8.10 ms less": the greatest difference first. False: there is none. */
static bool add_more_on(struct strbuf *b, const double ns[SPENT_ON_CNT], double all,
			const char *before)
{
	uint32_t done = 0, i;

	while ((i = next_longest(ns, all, done)) != HASH_NONE) {
		strbuf__addf(b, "%s%s ", done ? ", " : before, spent_on[i]);
		add_more(b, ns[i], 0);
		done |= 1U << i;
	}
	return done;
}

static void times_json(struct json *j, const struct pairs_times *times)
{
	json__uint(j, "total_ns", times->total_ns);
	json__uint(j, "own_ns", times->own_ns);
	json__object(j, "waits");
	for (uint32_t i = 0; i < TRACE_REASON_CNT; i++)
		if (spent_on[i] && times->waits.us[i])
			json__uint(j, spent_on[i], 1000ULL * times->waits.us[i]);
	json__end(j, '}');
	if (times->cpu_ns == PAIRS_CPU_UNKNOWN) {
		json__null(j, "cpu_ns");
		json__null(j, "waiting_ns");
		return;
	}
	json__uint(j, "cpu_ns", times->cpu_ns);
	json__uint(j, "waiting_ns", timing__waiting_ns(times));
}

/* The function itself is left out. */
static void add_stack(struct timing *t, struct strbuf *b, const struct pairs_stack *s,
		      const char *between)
{
	struct py_function f;

	for (uint32_t i = 1; i < s->cnt; i++) {
		uint32_t line = tracer__line(t->tracer, s->codes[i], s->offsets[i]);

		strbuf__addz(b, between);
		if (!tracer__find(t->tracer, s->codes[i], &f)) {
			strbuf__addz(b, "<unknown>");
			continue;
		}
		str_sanitise(b, f.name, f.name_len, 0);
		strbuf__addz(b, " (");
		str_sanitise(b, f.file, f.file_len, 0);
		if (line)
			strbuf__addf(b, ":%u", line);
		strbuf__addc(b, ')');
	}
	if (s->cut)
		strbuf__addf(b, "%s...", between);
}

static void stack_json(struct timing *t, struct json *j, const struct pairs_stack *s)
{
	struct py_function f;

	json__array(j, "callers");
	for (uint32_t i = 1; i < s->cnt; i++) {
		uint32_t line = tracer__line(t->tracer, s->codes[i], s->offsets[i]);
		bool known = tracer__find(t->tracer, s->codes[i], &f);

		json__object(j, NULL);
		json__string(j, "function", known ? f.name : "<unknown>", known ? f.name_len : 9);
		json__string(j, "file", known ? f.file : "", known ? f.file_len : 0);
		if (line)
			json__uint(j, "line", line);
		else
			json__null(j, "line");
		json__end(j, '}');
	}
	json__end(j, ']');
	json__bool(j, "cut", s->cut);
}

static void write_slow_json(struct timing *t, const struct activation *a,
			    const struct py_function *f, enum pairs_how how,
			    const struct pairs_times *times, const struct pairs_stack *stack)
{
	struct json j = { .f = stdout };

	json__object(&j, NULL);
	json__stringz(&j, "event", timing_hows[how]);
	json__double(&j, "seconds", timing__seconds(t, a->start_ns));
	timing__add_process(t, &j, a->tgid, a->start_ns);
	json__uint(&j, "thread", a->tid);
	json__string(&j, "function", f->name, f->name_len);
	json__string(&j, "file", f->file, f->file_len);
	json__uint(&j, "line", f->first_line);
	times_json(&j, times);
	stack_json(t, &j, stack);
	json__end(&j, '}');
	fputc('\n', stdout);
}

/* Writes one line: when it began, its times, and its callers. */
static void write_slow(struct timing *t, const struct activation *a, const struct timed *f,
		       enum pairs_how how, const struct pairs_times *times)
{
	static const struct pairs_stack none = { .cnt = 0 };
	const struct pairs_stack *stack = a->stack ? a->stack : &none;
	struct strbuf *b = &t->line;

	if (t->json) {
		write_slow_json(t, a, &f->function, how, times, stack);
		return;
	}
	if (timing__heads(t))
		strbuf__addf(b, "%11s %8s%12s%12s%12s%12s  FUNCTION\n", "SECONDS", "THREAD",
			     "TOTAL", "OWN", "ON CPU", "WAITING");
	strbuf__addf(b, "%11.6f %8u", timing__seconds(t, a->start_ns), a->tid);
	add_times(b, times);
	strbuf__addz(b, "  ");
	str_sanitise(b, f->function.name, f->function.name_len, 0);
	strbuf__addz(b, timing_remarks[how]);
	add_waits(b, times);
	add_stack(t, b, stack, " < ");
	strbuf__addc(b, '\n');
	timing__put_line(t, a->tgid);
}

void timing_slow__write_call(struct timing *t, const struct activation *a, const struct timed *f,
			     enum pairs_how how, const struct pairs_times *times)
{
	if (times && is_slow(t, f, how, times))
		write_slow(t, a, f, how, times);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

void timing_slow__note_callee(struct timing *t, const struct activation *a, const struct timed *f,
			      enum pairs_how how, const struct pairs_times *times)
{
	struct called *called;

	if (!timing_slow__wanted(t) || how == PAIRS_LOST || !a->below ||
	    a->below->frame != a->caller)
		return;
	called = a->below->note;
	if (called__add(&called, f->first, times))
		t->err = -ENOMEM;
	a->below->note = called;
}

static void take_compared(struct timing *t, struct timed *first, enum comparison_side side,
			  const struct ended_call *call, const struct called *called)
{
	if (!first->compared) {
		first->compared = malloc(sizeof(*first->compared));
		if (!first->compared) {
			t->err = -ENOMEM;
			return;
		}
		comparison__init(first->compared, &t->slow_room);
	}
	if (comparison__add(first->compared, side, call, called))
		t->err = -ENOMEM;
}

void timing_slow__take(struct timing *t, struct timed *f, const struct activation *a,
		       enum pairs_how how, const struct pairs_times *times)
{
	struct ended_call call = { .start_ns = a->start_ns,
				   .tgid = a->tgid,
				   .tid = a->tid,
				   .times = *times,
				   .stack = a->stack,
				   .stack_hash = a->stack ? pairs_stack__hash(a->stack) : 0 };
	struct timed *first = &t->all[f->first];

	if (t->slow.ns)
		take_compared(t, first, is_slow(t, f, how, times) ? SIDE_SLOW : SIDE_OTHERS, &call,
			      a->note);
	if (!t->windows)
		return;
	if (!first->window)
		first->window = window__new(t->windows);
	if (!first->window || window__add(first->window, &call, a->note))
		t->err = -ENOMEM;
}

int timing_slow__compare(struct timing *t, const struct timed *f, struct slow_view *v)
{
	const struct timed *first = &t->all[f->first];
	int err;

	*v = (struct slow_view){ .limit_ns = t->slow.ns, .room = ROOM_BYTES };
	v->c = &v->own;
	comparison__init(&v->own, &v->room);
	if (!t->windows) {
		if (!first->compared)
			return -EAGAIN;
		v->c = first->compared;
		return 0;
	}
	err = first->window
		      ? window__split(first->window, t->slow.percentile, &v->own, &v->limit_ns)
		      : -EAGAIN;
	if (err == -ENOMEM)
		t->err = err;
	return err;
}

void timing_slow__end(struct slow_view *v)
{
	comparison__free(&v->own);
}

/* ---- for people ------------------------------------------------------------------------------ */

static void add_average(struct strbuf *b, const struct comparison *c, enum comparison_side side)
{
	struct pairs_times t = comparison__average(c, side);

	if (!c->spent[side].cnt)
		return;
	strbuf__addf(b, "%20s", "");
	add_times(b, &t);
	strbuf__addf(b, "  %s, on average", side == SIDE_SLOW ? "these" : "the others");
	add_waits(b, &t);
	strbuf__addc(b, '\n');
}

static double calls_each(const struct comparison *c, const struct callee_difference *d,
			 enum comparison_side side)
{
	return c->spent[side].cnt ? (double)d->cnt[side] / (double)c->spent[side].cnt : 0;
}

static void add_callee_name(struct timing *t, struct strbuf *b, uint32_t who)
{
	if (who >= CALLEE_ITSELF) {
		strbuf__addz(b, who == CALLEE_ITSELF ? "itself" : "other functions");
		return;
	}
	str_sanitise(b, t->all[who].function.name, t->all[who].function.name_len, 0);
	timing__add_place(b, &t->all[who].function);
}

/* What makes less than 1% of the difference is left out, but for the function itself. */
static void add_callees(struct timing *t, struct strbuf *b, const struct comparison *c, double all)
{
	size_t cnt;
	struct callee_difference *callees = comparison__callees(c, &cnt);

	if (!callees)
		t->err = -ENOMEM;
	for (size_t i = 0; callees && i < cnt && i <= CALLEES; i++) {
		const struct callee_difference *d = &callees[i];
		double slow = calls_each(c, d, SIDE_SLOW), others = calls_each(c, d, SIDE_OTHERS);

		if (i && fabs(d->more_ns) < fabs(all) / 100)
			break;
		add_more(b, d->more_ns, 18);
		strbuf__addz(b, " in ");
		add_callee_name(t, b, d->who);
		add_more_on(b, d->more_on, d->more_ns, ": ");
		if (fabs(slow - others) >= 0.005)
			strbuf__addf(b, "; called %.2f times, else %.2f", slow, others);
		strbuf__addc(b, '\n');
	}
	free(callees);
}

/* From where slow calls come oftener than others. */
static void add_callers(struct timing *t, struct strbuf *b, const struct comparison *c,
			const struct timed *f)
{
	size_t cnt;
	const struct compared_stack **stacks = comparison__stacks(c, &cnt);

	if (!stacks)
		t->err = -ENOMEM;
	for (size_t i = 0; stacks && i < cnt && i < CALLERS; i++) {
		double slow = comparison__share(c, stacks[i], SIDE_SLOW);
		double others = comparison__share(c, stacks[i], SIDE_OTHERS);

		if (slow - others < CALLERS_PART)
			break;
		strbuf__addf(b, "  %.1f%% of these and %.1f%% of the others: ", 100 * slow,
			     100 * others);
		str_sanitise(b, f->function.name, f->function.name_len, 0);
		add_stack(t, b, &stacks[i]->stack, " < ");
		strbuf__addc(b, '\n');
	}
	free(stacks);
}

static void add_difference(struct timing *t, struct strbuf *b, const struct comparison *c)
{
	struct pairs_times slow = comparison__average(c, SIDE_SLOW);
	struct pairs_times others = comparison__average(c, SIDE_OTHERS);
	double all = (double)slow.total_ns - (double)others.total_ns, ns[SPENT_ON_CNT] = { 0 };

	strbuf__addz(b, "  a slow call takes ");
	add_more(b, all, 0);
	if (slow.cpu_ns != PAIRS_CPU_UNKNOWN && others.cpu_ns != PAIRS_CPU_UNKNOWN) {
		strbuf__addz(b, ": ");
		add_more(b, (double)slow.cpu_ns - (double)others.cpu_ns, 0);
		strbuf__addz(b, " on a CPU, ");
		add_more(b, (double)timing__waiting_ns(&slow) - (double)timing__waiting_ns(&others),
			 0);
		strbuf__addz(b, " waiting");
	}
	for (uint32_t i = 0; i < TRACE_REASON_CNT; i++)
		ns[i] = 1e3 * ((double)slow.waits.us[i] - (double)others.waits.us[i]);
	if (add_more_on(b, ns, all, " ("))
		strbuf__addc(b, ')');
	strbuf__addc(b, '\n');
	add_callees(t, b, c, all);
}

static void add_slowest(struct timing *t, struct strbuf *b, const struct ended_call *call)
{
	strbuf__addf(b, "%11.6f %8u", timing__seconds(t, call->start_ns), call->tid);
	add_times(b, &call->times);
	add_waits(b, &call->times);
	timing__say_process(t, b, call->tgid, call->start_ns);
	if (call->stack && call->stack->cnt > 1)
		strbuf__addz(b, "  called by");
	if (call->stack)
		add_stack(t, b, call->stack, "\n                    ");
	strbuf__addc(b, '\n');
}

static void add_percent(struct strbuf *b, const struct timing *t)
{
	strbuf__addf(b, "the slowest %.3g%%", 100 - t->slow.percentile);
}

/* How many calls are slow, and from which time on. */
static void add_cnt(const struct timing *t, struct strbuf *b, const struct timed *f,
		    const struct slow_view *v)
{
	uint64_t slow = v->c->spent[SIDE_SLOW].cnt, all = slow + v->c->spent[SIDE_OTHERS].cnt;

	if (!t->windows) {
		strbuf__addf(b, "  %" PRIu64 " of %" PRIu64 " took ", slow, all);
		timing__add_time(b, v->limit_ns, 0);
		strbuf__addz(b, " or longer\n");
		return;
	}
	strbuf__addf(b, "  %" PRIu64 " of the last %" PRIu64 " are ", slow, all);
	add_percent(b, t);
	strbuf__addz(b, ", with ");
	timing__add_time(b, v->limit_ns, 0);
	strbuf__addf(b, " or more%s\n",
		     window__is_cut(t->all[f->first].window) ? " (older ones had no room)" : "");
}

static void add_comparison(struct timing *t, struct strbuf *b, const struct timed *f,
			   const struct slow_view *v)
{
	const struct comparison *c = v->c;

	add_cnt(t, b, f, v);
	strbuf__addf(b, "%11s %8s%12s%12s%12s%12s\n", "SECONDS", "THREAD", "TOTAL", "OWN", "ON CPU",
		     "WAITING");
	add_average(b, c, SIDE_SLOW);
	add_average(b, c, SIDE_OTHERS);
	if (c->spent[SIDE_OTHERS].cnt) {
		add_difference(t, b, c);
		add_callers(t, b, c, f);
	}
	for (size_t i = 0; i < c->slowest_cnt; i++)
		add_slowest(t, b, &c->slowest[i].call);
	strbuf__addc(b, '\n');
}

void timing_slow__write(struct timing *t, const struct timed *f)
{
	const struct window *w = t->all[f->first].window;
	struct strbuf *b = &t->line;
	struct slow_view v;
	int err;

	if (!timing_slow__wanted(t))
		return;
	err = timing_slow__compare(t, f, &v);
	if (!err && v.c->spent[SIDE_SLOW].cnt) {
		add_comparison(t, b, f, &v);
	} else if (err == -EAGAIN && t->windows) {
		strbuf__addf(b, "  %zu calls have ended: from %d on it is told which are ",
			     w ? window__cnt(w) : 0, WINDOW_ENOUGH);
		add_percent(b, t);
		strbuf__addz(b, "\n\n");
	}
	timing_slow__end(&v);
	timing__flush_line(t);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void average_json(struct json *j, const char *key, const struct comparison *c,
			 enum comparison_side side)
{
	struct pairs_times t = comparison__average(c, side);

	json__object(j, key);
	json__uint(j, "count", c->spent[side].cnt);
	times_json(j, &t);
	json__end(j, '}');
}

static double more_waiting(const struct callee_difference *d)
{
	return d->more_ns - d->more_on[SPENT_CPU] - d->more_on[SPENT_SOMEHOW];
}

/* The members of the open object that say how slow calls differ there. */
static void more_json(struct json *j, const struct callee_difference *d)
{
	json__double(j, "more_ns", d->more_ns);
	json__double(j, "more_waiting_ns", more_waiting(d));
	json__object(j, "more");
	for (uint32_t i = 0; i < SPENT_ON_CNT; i++)
		if (spent_on[i] && d->more_on[i] != 0)
			json__double(j, spent_on[i], d->more_on[i]);
	json__end(j, '}');
}

static void callee_json(struct timing *t, struct json *j, const struct comparison *c,
			const struct callee_difference *d)
{
	const struct py_function *f = d->who == CALLEE_OTHERS ? NULL : &t->all[d->who].function;

	json__object(j, NULL);
	json__string(j, "function", f ? f->name : "other functions", f ? f->name_len : 15);
	json__string(j, "file", f ? f->file : "", f ? f->file_len : 0);
	json__uint(j, "line", f ? f->first_line : 0);
	more_json(j, d);
	json__double(j, "slow_calls", calls_each(c, d, SIDE_SLOW));
	json__double(j, "other_calls", calls_each(c, d, SIDE_OTHERS));
	json__end(j, '}');
}

static void callees_json(struct timing *t, struct json *j, const struct comparison *c)
{
	const struct callee_difference none = { .who = CALLEE_ITSELF };
	size_t cnt, i;
	struct callee_difference *callees = comparison__callees(c, &cnt);

	if (!callees)
		t->err = -ENOMEM;
	i = callees && cnt && callees[0].who == CALLEE_ITSELF;
	json__object(j, "itself");
	more_json(j, i ? callees : &none);
	json__end(j, '}');
	json__array(j, "callees");
	for (; callees && i < cnt; i++)
		callee_json(t, j, c, &callees[i]);
	json__end(j, ']');
	free(callees);
}

static void callers_json(struct timing *t, struct json *j, const struct comparison *c)
{
	size_t cnt;
	const struct compared_stack **stacks = comparison__stacks(c, &cnt);

	if (!stacks)
		t->err = -ENOMEM;
	json__array(j, "called_by");
	for (size_t i = 0; stacks && i < cnt && i < CALLERS_ALL; i++) {
		json__object(j, NULL);
		json__uint(j, "slow_calls", stacks[i]->cnt[SIDE_SLOW]);
		json__uint(j, "other_calls", stacks[i]->cnt[SIDE_OTHERS]);
		stack_json(t, j, &stacks[i]->stack);
		json__end(j, '}');
	}
	json__end(j, ']');
	free(stacks);
}

static void slowest_json(struct timing *t, struct json *j, const struct comparison *c)
{
	json__array(j, "slowest");
	for (size_t i = 0; i < c->slowest_cnt; i++) {
		const struct ended_call *call = &c->slowest[i].call;

		json__object(j, NULL);
		json__double(j, "seconds", timing__seconds(t, call->start_ns));
		timing__add_process(t, j, call->tgid, call->start_ns);
		json__uint(j, "thread", call->tid);
		times_json(j, &call->times);
		stack_json(t, j, &c->slowest[i].stack);
		json__end(j, '}');
	}
	json__end(j, ']');
}

void timing_slow__json(struct timing *t, struct json *j, const struct timed *f)
{
	struct slow_view v;
	int err;

	if (!timing_slow__wanted(t))
		return;
	err = timing_slow__compare(t, f, &v);
	json__uint(j, "compared", v.c->spent[SIDE_SLOW].cnt + v.c->spent[SIDE_OTHERS].cnt);
	if (err && t->windows)
		json__null(j, "limit_ns");
	else
		json__uint(j, "limit_ns", v.limit_ns);
	average_json(j, "slow", v.c, SIDE_SLOW);
	average_json(j, "others", v.c, SIDE_OTHERS);
	callees_json(t, j, v.c);
	callers_json(t, j, v.c);
	slowest_json(t, j, v.c);
	timing_slow__end(&v);
}
