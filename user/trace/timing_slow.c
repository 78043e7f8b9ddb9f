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

#define CALLEES 5 /* functions called by slow calls that are shown */

static bool is_slow(const struct timing *t, const struct timed *f, enum pairs_how how,
		    const struct pairs_times *times)
{
	struct window *w = t->all[f->first].window;
	uint64_t limit = t->slow.ns;

	if (t->windows)
		limit = w ? window__limit(w, t->slow.percentile) : UINT64_MAX;
	return how != PAIRS_LOST && times->total_ns >= limit;
}

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

static const char *const reasons[TRACE_REASON_CNT] = {
#define X(name, number, text) [number] = (text),
	TRACE_REASONS(X)
#undef X
};

/* The longest that is not in `done`; HASH_NONE: none is left of 1% of all or more. */
static uint32_t next_reason(const double ns[TRACE_REASON_CNT], double all, uint32_t done)
{
	uint32_t best = HASH_NONE;

	for (uint32_t i = 0; i < TRACE_REASON_CNT; i++)
		if (reasons[i] && !(done >> i & 1) && fabs(ns[i]) >= fmax(fabs(all) / 100, 1) &&
		    (best == HASH_NONE || fabs(ns[i]) > fabs(ns[best])))
			best = i;
	return best;
}

/* "  [lock 32.00 ms, sleep 8.10 ms]": the longest first. */
static void add_waits(struct strbuf *b, const struct pairs_times *times)
{
	double ns[TRACE_REASON_CNT];
	uint32_t done = 0, i;

	for (i = 0; i < TRACE_REASON_CNT; i++)
		ns[i] = 1e3 * times->waits.us[i];
	while ((i = next_reason(ns, (double)times->total_ns, done)) != HASH_NONE) {
		strbuf__addf(b, "%s%s ", done ? ", " : "  [", reasons[i]);
		timing__add_time(b, 1000ULL * times->waits.us[i], 0);
		done |= 1U << i;
	}
	if (done)
		strbuf__addc(b, ']');
}

static void times_json(struct json *j, const struct pairs_times *times)
{
	json__uint(j, "total_ns", times->total_ns);
	json__uint(j, "own_ns", times->own_ns);
	json__object(j, "waits");
	for (uint32_t i = 0; i < TRACE_REASON_CNT; i++)
		if (reasons[i] && times->waits.us[i])
			json__uint(j, reasons[i], 1000ULL * times->waits.us[i]);
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

/* Keeps it if it is one of the slowest. */
static void keep(struct slow *s, const struct slow_call *call)
{
	uint32_t at = s->call_cnt;

	while (at && s->calls[at - 1].times.total_ns < call->times.total_ns)
		at--;
	if (at == SLOWEST)
		return;
	if (s->call_cnt < SLOWEST)
		s->call_cnt++;
	memmove(&s->calls[at + 1], &s->calls[at], (s->call_cnt - 1 - at) * sizeof(*s->calls));
	s->calls[at] = *call;
}

static void take_slow(struct timing *t, struct timed *f, const struct activation *a,
		      enum pairs_how how, const struct pairs_times *times)
{
	struct slow_call call = {
		.start_ns = a->start_ns, .tgid = a->tgid, .tid = a->tid, .times = *times
	};
	bool slow;

	if (!t->slow.ns)
		return;
	if (!f->slow)
		f->slow = calloc(1, sizeof(*f->slow));
	if (!f->slow) {
		t->err = -ENOMEM;
		return;
	}
	slow = is_slow(t, f, how, times);
	spent__add(slow ? &f->slow->slow : &f->slow->others, times);
	waits__add(slow ? &f->slow->slow_waits : &f->slow->other_waits, times);
	if (!slow)
		return;
	if (a->stack)
		call.stack = *a->stack;
	keep(f->slow, &call);
}

/* The sum over all code objects that are this function. */
static struct slow slow_of(const struct timing *t, const struct timed *f)
{
	struct slow sum = { .call_cnt = 0 };

	for (size_t i = 0; i < t->cnt; i++) {
		const struct timed *part = &t->all[i];

		if (!part->slow ||
		    (part->code != f->code &&
		     !(part->named && f->named && part->function.number == f->function.number)))
			continue;
		spent__sum(&sum.slow, &part->slow->slow);
		spent__sum(&sum.others, &part->slow->others);
		waits__sum(&sum.slow_waits, &part->slow->slow_waits);
		waits__sum(&sum.other_waits, &part->slow->other_waits);
		for (uint32_t k = 0; k < part->slow->call_cnt; k++)
			keep(&sum, &part->slow->calls[k]);
	}
	return sum;
}

static void add_average(struct strbuf *b, const struct spent *s, const struct waits *waits,
			const char *what)
{
	struct pairs_times t = calls__average(s, waits);

	if (!s->cnt)
		return;
	strbuf__addf(b, "%20s", "");
	add_times(b, &t);
	strbuf__addf(b, "  %s, on average", what);
	add_waits(b, &t);
	strbuf__addc(b, '\n');
}

/* How the slow calls of a function differ from the others, and the slowest. */
static void write_slowest(struct timing *t, const struct timed *f)
{
	struct slow s = slow_of(t, f);
	struct strbuf *b = &t->line;

	if (!s.slow.cnt)
		return;
	strbuf__addf(b, "  %" PRIu64 " of %" PRIu64 " took ", s.slow.cnt,
		     s.slow.cnt + s.others.cnt);
	timing__add_time(b, t->slow.ns, 0);
	strbuf__addf(b, " or longer\n%11s %8s%12s%12s%12s%12s\n", "SECONDS", "THREAD", "TOTAL",
		     "OWN", "ON CPU", "WAITING");
	add_average(b, &s.slow, &s.slow_waits, "these");
	add_average(b, &s.others, &s.other_waits, "the others");
	for (uint32_t i = 0; i < s.call_cnt; i++) {
		strbuf__addf(b, "%11.6f %8u", timing__seconds(t, s.calls[i].start_ns),
			     s.calls[i].tid);
		add_times(b, &s.calls[i].times);
		add_waits(b, &s.calls[i].times);
		timing__say_process(t, b, s.calls[i].tgid, s.calls[i].start_ns);
		if (s.calls[i].stack.cnt > 1)
			strbuf__addz(b, "  called by");
		add_stack(t, b, &s.calls[i].stack, "\n                    ");
		strbuf__addc(b, '\n');
	}
	strbuf__addc(b, '\n');
	timing__flush_line(t);
}

static void average_json(struct json *j, const char *key, const struct spent *s,
			 const struct waits *waits)
{
	struct pairs_times t = calls__average(s, waits);

	json__object(j, key);
	json__uint(j, "count", s->cnt);
	times_json(j, &t);
	json__end(j, '}');
}

static void slowest_json(struct timing *t, struct json *j, const struct timed *f)
{
	struct slow s = slow_of(t, f);

	average_json(j, "slow", &s.slow, &s.slow_waits);
	average_json(j, "others", &s.others, &s.other_waits);
	json__array(j, "slowest");
	for (uint32_t i = 0; i < s.call_cnt; i++) {
		json__object(j, NULL);
		json__double(j, "seconds", timing__seconds(t, s.calls[i].start_ns));
		timing__add_process(t, j, s.calls[i].tgid, s.calls[i].start_ns);
		json__uint(j, "thread", s.calls[i].tid);
		times_json(j, &s.calls[i].times);
		stack_json(t, j, &s.calls[i].stack);
		json__end(j, '}');
	}
	json__end(j, ']');
}

/* ---- the slowest of the last calls ----------------------------------------------------------- */

void timing_slow__note_callee(struct timing *t, const struct activation *a, const struct timed *f,
			      enum pairs_how how, const struct pairs_times *times)
{
	struct called *called;

	if (!t->windows || how == PAIRS_LOST || !a->below || a->below->frame != a->caller)
		return;
	called = a->below->note;
	if (called__add(&called, f->first, times))
		t->err = -ENOMEM;
	a->below->note = called;
}

static void take_window(struct timing *t, const struct timed *f, const struct activation *a,
			const struct pairs_times *times)
{
	struct window_call call = { .start_ns = a->start_ns,
				    .tgid = a->tgid,
				    .tid = a->tid,
				    .times = *times,
				    .stack = a->stack };
	struct timed *first = &t->all[f->first];

	if (!t->windows)
		return;
	if (!first->window)
		first->window = window__new(t->windows);
	if (!first->window || window__add(first->window, &call, a->note))
		t->err = -ENOMEM;
}

void timing_slow__take(struct timing *t, struct timed *f, const struct activation *a,
		       enum pairs_how how, const struct pairs_times *times)
{
	take_slow(t, f, a, how, times);
	take_window(t, f, a, times);
}

static void add_percent(struct strbuf *b, const struct timing *t)
{
	strbuf__addf(b, "the slowest %.3g%%", 100 - t->slow.percentile);
}

/* "41.20 ms more", or less. */
static void add_more(struct strbuf *b, double ns, int width)
{
	timing__add_time(b, (uint64_t)fabs(ns), width);
	strbuf__addz(b, ns < 0 ? " less" : " more");
}

static double more_waiting(const struct comparison *c, const struct callee_difference *d)
{
	struct pairs_times slow = spent__average(&d->slow), others = spent__average(&d->others);

	return (double)timing__waiting_ns(&slow) * (double)d->slow.cnt / (double)c->slow.cnt -
	       (c->others.cnt ? (double)timing__waiting_ns(&others) * (double)d->others.cnt /
					(double)c->others.cnt
			      : 0);
}

static double calls_each(const struct spent *calls, const struct spent *of)
{
	return of->cnt ? (double)calls->cnt / (double)of->cnt : 0;
}

static void add_callee_name(struct timing *t, struct strbuf *b, uint32_t who)
{
	if (who == CALLEE_OTHERS) {
		strbuf__addz(b, "other functions");
		return;
	}
	str_sanitise(b, t->all[who].function.name, t->all[who].function.name_len, 0);
	timing__add_place(b, &t->all[who].function);
}

/* What makes less than 1% of the difference is left out. */
static void add_callees(struct timing *t, struct strbuf *b, const struct comparison *c, double all)
{
	for (size_t i = 0; i < c->callee_cnt && i < CALLEES; i++) {
		const struct callee_difference *d = &c->callees[i];
		double slow = calls_each(&d->slow, &c->slow);
		double others = calls_each(&d->others, &c->others);

		if (fabs(d->more_ns) < fabs(all) / 100)
			return;
		add_more(b, d->more_ns, 18);
		strbuf__addz(b, " in ");
		add_callee_name(t, b, d->who);
		strbuf__addz(b, ", of that waiting ");
		add_more(b, more_waiting(c, d), 0);
		if (fabs(slow - others) >= 0.005)
			strbuf__addf(b, "; called %.2f times, else %.2f", slow, others);
		strbuf__addc(b, '\n');
	}
}

/* " (lock 40.00 ms more, sleep 8.10 ms less)": what a slow call waits for more than another one. */
static void add_reasons(struct strbuf *b, const struct pairs_times *slow,
			const struct pairs_times *others)
{
	double ns[TRACE_REASON_CNT], all = (double)slow->total_ns - (double)others->total_ns;
	uint32_t done = 0, i;

	for (i = 0; i < TRACE_REASON_CNT; i++)
		ns[i] = 1e3 * ((double)slow->waits.us[i] - (double)others->waits.us[i]);
	while ((i = next_reason(ns, all, done)) != HASH_NONE) {
		strbuf__addf(b, "%s%s ", done ? ", " : " (", reasons[i]);
		add_more(b, ns[i], 0);
		done |= 1U << i;
	}
	if (done)
		strbuf__addc(b, ')');
}

static void add_difference(struct timing *t, struct strbuf *b, const struct comparison *c)
{
	struct pairs_times slow = calls__average(&c->slow, &c->slow_waits);
	struct pairs_times others = calls__average(&c->others, &c->other_waits);
	double all = (double)slow.total_ns - (double)others.total_ns;

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
	add_reasons(b, &slow, &others);
	strbuf__addc(b, '\n');
	add_more(b, (double)slow.own_ns - (double)others.own_ns, 18);
	strbuf__addz(b, " in itself\n");
	add_callees(t, b, c, all);
}

static void add_slowest(struct timing *t, struct strbuf *b, const struct window_call *call)
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

/* What the slowest calls of a function do that the others do not. */
static void write_comparison(struct timing *t, const struct timed *f)
{
	const struct window *w = t->all[f->first].window;
	struct strbuf *b = &t->line;
	struct comparison c;
	int err = w ? window__compare(w, t->slow.percentile, &c) : -EAGAIN;

	if (err == -EAGAIN) {
		strbuf__addf(b, "  %zu calls have ended: from %d on it is told which are ",
			     w ? window__cnt(w) : 0, WINDOW_ENOUGH);
		add_percent(b, t);
		strbuf__addz(b, "\n\n");
		timing__flush_line(t);
		return;
	}
	if (err) {
		t->err = err;
		return;
	}
	strbuf__addf(b, "  %" PRIu64 " of the last %zu are ", c.slow.cnt, c.cnt);
	add_percent(b, t);
	strbuf__addz(b, ", with ");
	timing__add_time(b, c.limit_ns, 0);
	strbuf__addf(b, " or more%s\n", window__is_cut(w) ? " (older ones had no room)" : "");
	strbuf__addf(b, "%11s %8s%12s%12s%12s%12s\n", "SECONDS", "THREAD", "TOTAL", "OWN", "ON CPU",
		     "WAITING");
	add_average(b, &c.slow, &c.slow_waits, "these");
	add_average(b, &c.others, &c.other_waits, "the others");
	add_difference(t, b, &c);
	for (size_t i = 0; i < c.slowest_cnt; i++)
		add_slowest(t, b, &c.slowest[i]);
	strbuf__addc(b, '\n');
	timing__flush_line(t);
	comparison__free(&c);
}

static void callees_json(struct timing *t, struct json *j, const struct comparison *c)
{
	json__array(j, "callees");
	for (size_t i = 0; i < c->callee_cnt; i++) {
		const struct callee_difference *d = &c->callees[i];
		const struct py_function *f =
			d->who == CALLEE_OTHERS ? NULL : &t->all[d->who].function;

		json__object(j, NULL);
		json__string(j, "function", f ? f->name : "other functions", f ? f->name_len : 15);
		json__string(j, "file", f ? f->file : "", f ? f->file_len : 0);
		json__uint(j, "line", f ? f->first_line : 0);
		json__double(j, "more_ns", d->more_ns);
		json__double(j, "more_waiting_ns", more_waiting(c, d));
		json__double(j, "slow_calls", calls_each(&d->slow, &c->slow));
		json__double(j, "other_calls", calls_each(&d->others, &c->others));
		json__end(j, '}');
	}
	json__end(j, ']');
}

static void comparison_json(struct timing *t, struct json *j, const struct timed *f)
{
	const struct window *w = t->all[f->first].window;
	struct comparison c = { .cnt = 0 };
	int err = w ? window__compare(w, t->slow.percentile, &c) : -EAGAIN;

	if (err && err != -EAGAIN)
		t->err = err;
	json__uint(j, "compared", err ? 0 : c.cnt);
	if (err)
		json__null(j, "limit_ns");
	else
		json__uint(j, "limit_ns", c.limit_ns);
	average_json(j, "slow", &c.slow, &c.slow_waits);
	average_json(j, "others", &c.others, &c.other_waits);
	callees_json(t, j, &c);
	json__array(j, "slowest");
	for (size_t i = 0; i < c.slowest_cnt; i++) {
		static const struct pairs_stack none = { .cnt = 0 };
		const struct window_call *call = &c.slowest[i];

		json__object(j, NULL);
		json__double(j, "seconds", timing__seconds(t, call->start_ns));
		timing__add_process(t, j, call->tgid, call->start_ns);
		json__uint(j, "thread", call->tid);
		times_json(j, &call->times);
		stack_json(t, j, call->stack ? call->stack : &none);
		json__end(j, '}');
	}
	json__end(j, ']');
	comparison__free(&c);
}

/* ---- both ------------------------------------------------------------------------------------ */

void timing_slow__write(struct timing *t, const struct timed *f)
{
	if (t->slow.ns)
		write_slowest(t, f);
	if (t->windows)
		write_comparison(t, f);
}

void timing_slow__json(struct timing *t, struct json *j, const struct timed *f)
{
	if (t->slow.ns)
		slowest_json(t, j, f);
	if (t->windows)
		comparison_json(t, j, f);
}
