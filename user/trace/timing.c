/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/timing.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "trace/pairs.h"
#include "trace/window.h"

#define INDENT_MAX 60 /* of lines, in levels */
#define BAR_WIDTH  24
#define CALLEES	   5 /* functions called by slow calls that are shown */

struct slow_call {
	uint64_t start_ns;
	uint32_t tid;
	struct pairs_times times;
	struct pairs_stack stack; /* of none if it is not known */
};

/* Calls that took long, the slowest first, and the others. */
struct slow {
	struct spent slow, others;
	struct slow_call calls[SLOWEST];
	uint32_t call_cnt;
};

/* One function, or at first one code object. */
struct timed {
	uint64_t code;
	struct py_function function;
	bool named, wanted;
	uint64_t calls, resumed, ended, exceptions, unknown_ends;
	uint64_t total_ns; /* without recursion: of the outermost ones */
	uint64_t own_ns, longest_ns;
	uint64_t total[TIMING_BUCKETS], own[TIMING_BUCKETS]; /* ended activations, by log2 */
	struct slow *slow; /* owned by the code object; NULL: they are not wanted, or none ended */
	uint32_t first;	   /* of the code objects that are this function, in `all` */
	struct window *window; /* of the first one; NULL: none is wanted, or none ended */
};

struct timing {
	enum timing_mode mode;
	bool json;
	struct timing_slow slow;
	struct windows *windows; /* NULL: no percentile is wanted */
	uint32_t *firsts;	 /* by number of a function; HASH_NONE: there is none */
	size_t first_cnt, first_cap;
	struct tracer *tracer;
	struct tracer_events events;
	struct pairs *pairs;
	struct timed *all;
	size_t cnt, cap;
	struct hash_index by_code;
	struct hash_key key;
	struct strbuf line;
	uint64_t start_ns, event_cnt, lost_cnt, unknown_ends;
	/* Of the event at hand: its frame, and values; NULL: it has none. */
	uint64_t frame;
	const struct trace_value *values;
	uint32_t value_cnt;
	uint32_t arg_cnt;	      /* that are shown */
	const struct condition *only; /* NULL: all calls are taken */
	bool refused;		      /* the call at hand is not */
	bool headed;		      /* the line above the first call is written */
	int err;
};

/* ---- functions ------------------------------------------------------------------------------- */

static struct timed *add_timed(struct timing *t, uint64_t code, uint64_t hash)
{
	struct timed *f;

	if (ARRAY_GROW(t->all, t->cap, t->cnt, HASH_NONE - 1) ||
	    hash_index__add(&t->by_code, hash, (uint32_t)t->cnt)) {
		t->err = -ENOMEM;
		return NULL;
	}
	f = &t->all[t->cnt++];
	*f = (struct timed){ .code = code, .wanted = true, .first = (uint32_t)t->cnt - 1 };
	f->function = (struct py_function){ .name = "<unknown>", .file = "", .number = UINT32_MAX };
	f->function.name_len = strlen(f->function.name);
	return f;
}

/* Without memory each code object is a function. */
static void find_first(struct timing *t, struct timed *f)
{
	uint32_t number = f->function.number;

	if (number >= HASH_NONE - 1)
		return;
	while (t->first_cnt <= number) {
		if (ARRAY_GROW(t->firsts, t->first_cap, t->first_cnt, HASH_NONE)) {
			t->err = -ENOMEM;
			return;
		}
		t->firsts[t->first_cnt++] = HASH_NONE;
	}
	if (t->firsts[number] == HASH_NONE)
		t->firsts[number] = f->first;
	f->first = t->firsts[number];
}

/* NULL: no memory. Valid until the next call. */
static struct timed *timed_of(struct timing *t, uint64_t code)
{
	uint64_t hash = hash_bytes(&t->key, &code, sizeof(code));
	struct timed *f = NULL;
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&t->by_code, hash, &at)) != HASH_NONE && !f;)
		if (t->all[i].code == code)
			f = &t->all[i];
	if (!f)
		f = add_timed(t, code, hash);
	if (f && !f->named && code && tracer__find(t->tracer, code, &f->function)) {
		f->named = true;
		f->wanted = tracer__wants(t->tracer, &f->function);
		find_first(t, f);
	}
	return f;
}

static unsigned bucket_of(uint64_t ns)
{
	unsigned i = 0;

	while (ns > 1 && i < TIMING_BUCKETS - 1) {
		ns >>= 1;
		i++;
	}
	return i;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_time(struct strbuf *b, uint64_t ns, int width)
{
	if (ns < 1000000)
		strbuf__addf(b, "%*.1f us", width - 3, (double)ns / 1e3);
	else if (ns < 1000000000)
		strbuf__addf(b, "%*.2f ms", width - 3, (double)ns / 1e6);
	else
		strbuf__addf(b, "%*.3f s", width - 2, (double)ns / 1e9);
}

static void add_place(struct strbuf *b, const struct py_function *f)
{
	if (!f->file_len)
		return;
	strbuf__addz(b, " (");
	str_sanitise(b, f->file, f->file_len, 0);
	strbuf__addf(b, ":%u)", f->first_line);
}

static void flush_line(struct timing *t)
{
	if (t->line.err)
		t->err = t->line.err;
	else if (t->line.len && fwrite(t->line.s, 1, t->line.len, stdout) != t->line.len)
		t->err = -EIO;
	strbuf__clear(&t->line);
}

static const char *const hows[] = {
	[PAIRS_CALL] = "call",		 [PAIRS_RESUME] = "resume", [PAIRS_THROW] = "throw",
	[PAIRS_RETURN] = "return",	 [PAIRS_YIELD] = "yield",   [PAIRS_LEFT] = "leave",
	[PAIRS_EXCEPTION] = "exception", [PAIRS_LOST] = "unknown",
};

/* The remark after the name, if it is not a plain call and return. */
static const char *const remarks[] = {
	[PAIRS_CALL] = "",
	[PAIRS_RESUME] = " [resumed]",
	[PAIRS_THROW] = " [exception thrown in]",
	[PAIRS_RETURN] = "",
	[PAIRS_YIELD] = " [yield]",
	[PAIRS_LEFT] = "",
	[PAIRS_EXCEPTION] = " [exception]",
	[PAIRS_LOST] = " [end not seen]",
};

static double seconds(const struct timing *t, uint64_t ns)
{
	return ns > t->start_ns ? (double)(ns - t->start_ns) / 1e9 : 0;
}

/* What an activation was called with, or has returned. NULL: it is not known. */
static const struct trace_value *values_of(const struct timing *t, const struct activation *a,
					   enum pairs_how how)
{
	bool has = how == PAIRS_CALL || how == PAIRS_RETURN || how == PAIRS_LEFT;

	return has && a->frame == t->frame ? t->values : NULL;
}

static void values_json(struct timing *t, struct json *j, const struct activation *a,
			const struct py_function *f, enum pairs_how how)
{
	const struct trace_value *at = values_of(t, a, how);

	if (!at)
		return;
	if (how == PAIRS_CALL) {
		values__args_json(tracer__values(t->tracer, a->code), j, a->code, at, t->value_cnt);
		return;
	}
	strbuf__clear(&t->line);
	if (values__add_return(tracer__values(t->tracer, a->code), &t->line, f->name, f->name_len,
			       at))
		json__string(j, "returned", t->line.s, t->line.len);
	strbuf__clear(&t->line);
}

static void add_values(struct timing *t, struct strbuf *b, const struct activation *a,
		       const struct py_function *f, enum pairs_how how)
{
	const struct trace_value *at = values_of(t, a, how);
	size_t len = b->len;

	if (!at)
		return;
	if (how == PAIRS_CALL) {
		values__add_args(tracer__values(t->tracer, a->code), b, a->code, at, t->value_cnt);
		return;
	}
	strbuf__addz(b, " -> ");
	if (!values__add_return(tracer__values(t->tracer, a->code), b, f->name, f->name_len, at))
		strbuf__cut(b, len);
}

static void write_event_json(struct timing *t, const struct activation *a,
			     const struct py_function *f, enum pairs_how how,
			     const struct pairs_times *times)
{
	struct json j = { .f = stdout };

	json__object(&j, NULL);
	json__stringz(&j, "event", hows[how]);
	json__double(&j, "seconds", seconds(t, times ? times->at_ns : a->start_ns));
	json__uint(&j, "thread", a->tid);
	json__uint(&j, "depth", a->depth);
	json__string(&j, "function", f->name, f->name_len);
	json__string(&j, "file", f->file, f->file_len);
	json__uint(&j, "line", f->first_line);
	if (times && how != PAIRS_LOST) {
		json__uint(&j, "total_ns", times->total_ns);
		json__uint(&j, "own_ns", times->own_ns);
	}
	values_json(t, &j, a, f, how);
	json__end(&j, '}');
	fputc('\n', stdout);
}

static void write_event_text(struct timing *t, const struct activation *a,
			     const struct py_function *f, enum pairs_how how,
			     const struct pairs_times *times)
{
	struct strbuf *b = &t->line;
	int indent = a->depth < INDENT_MAX ? 2 * (int)a->depth : 2 * INDENT_MAX;

	if (!t->headed)
		strbuf__addf(b, "%11s %8s %10s %10s  FUNCTION\n", "SECONDS", "THREAD", "TOTAL",
			     "OWN");
	t->headed = true;
	if (how == PAIRS_LOST)
		strbuf__addf(b, "%11s", "?");
	else
		strbuf__addf(b, "%11.6f", seconds(t, times ? times->at_ns : a->start_ns));
	strbuf__addf(b, " %8u ", a->tid);
	if (times && how != PAIRS_LOST) {
		add_time(b, times->total_ns, 10);
		strbuf__addc(b, ' ');
		add_time(b, times->own_ns, 10);
	} else {
		strbuf__addf(b, "%21s", "");
	}
	strbuf__addf(b, "  %*s%s ", indent, "", times ? "<=" : "=>");
	str_sanitise(b, f->name, f->name_len, 0);
	add_values(t, b, a, f, how);
	if (!times)
		add_place(b, f);
	strbuf__addz(b, remarks[how]);
	strbuf__addc(b, '\n');
	flush_line(t);
}

/* ---- slow calls ------------------------------------------------------------------------------ */

static bool wants_slow(const struct timing *t)
{
	return t->slow.ns || t->windows;
}

static bool is_slow(const struct timing *t, const struct timed *f, enum pairs_how how,
		    const struct pairs_times *times)
{
	struct window *w = t->all[f->first].window;
	uint64_t limit = t->slow.ns;

	if (t->windows)
		limit = w ? window__limit(w, t->slow.percentile) : UINT64_MAX;
	return how != PAIRS_LOST && times->total_ns >= limit;
}

static uint64_t waiting_ns(const struct pairs_times *times)
{
	return times->cpu_ns == PAIRS_CPU_UNKNOWN ? 0 : times->total_ns - times->cpu_ns;
}

/* Total, own, on a CPU, waiting: 4 columns of 12. */
static void add_times(struct strbuf *b, const struct pairs_times *times)
{
	add_time(b, times->total_ns, 12);
	add_time(b, times->own_ns, 12);
	if (times->cpu_ns == PAIRS_CPU_UNKNOWN) {
		strbuf__addf(b, "%12s%12s", "?", "?");
		return;
	}
	add_time(b, times->cpu_ns, 12);
	add_time(b, waiting_ns(times), 12);
}

static void times_json(struct json *j, const struct pairs_times *times)
{
	json__uint(j, "total_ns", times->total_ns);
	json__uint(j, "own_ns", times->own_ns);
	if (times->cpu_ns == PAIRS_CPU_UNKNOWN) {
		json__null(j, "cpu_ns");
		json__null(j, "waiting_ns");
		return;
	}
	json__uint(j, "cpu_ns", times->cpu_ns);
	json__uint(j, "waiting_ns", waiting_ns(times));
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
	json__stringz(&j, "event", hows[how]);
	json__double(&j, "seconds", seconds(t, a->start_ns));
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
	if (!t->headed)
		strbuf__addf(b, "%11s %8s%12s%12s%12s%12s  FUNCTION\n", "SECONDS", "THREAD",
			     "TOTAL", "OWN", "ON CPU", "WAITING");
	t->headed = true;
	strbuf__addf(b, "%11.6f %8u", seconds(t, a->start_ns), a->tid);
	add_times(b, times);
	strbuf__addz(b, "  ");
	str_sanitise(b, f->function.name, f->function.name_len, 0);
	strbuf__addz(b, remarks[how]);
	add_stack(t, b, stack, " < ");
	strbuf__addc(b, '\n');
	flush_line(t);
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
	struct slow_call call = { .start_ns = a->start_ns, .tid = a->tid, .times = *times };

	if (!t->slow.ns)
		return;
	if (!f->slow)
		f->slow = calloc(1, sizeof(*f->slow));
	if (!f->slow) {
		t->err = -ENOMEM;
		return;
	}
	spent__add(is_slow(t, f, how, times) ? &f->slow->slow : &f->slow->others, times);
	if (!is_slow(t, f, how, times))
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
		for (uint32_t k = 0; k < part->slow->call_cnt; k++)
			keep(&sum, &part->slow->calls[k]);
	}
	return sum;
}

static void add_average(struct strbuf *b, const struct spent *s, const char *what)
{
	struct pairs_times t = spent__average(s);

	if (!s->cnt)
		return;
	strbuf__addf(b, "%20s", "");
	add_times(b, &t);
	strbuf__addf(b, "  %s, on average\n", what);
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
	add_time(b, t->slow.ns, 0);
	strbuf__addf(b, " or longer\n%11s %8s%12s%12s%12s%12s\n", "SECONDS", "THREAD", "TOTAL",
		     "OWN", "ON CPU", "WAITING");
	add_average(b, &s.slow, "these");
	add_average(b, &s.others, "the others");
	for (uint32_t i = 0; i < s.call_cnt; i++) {
		strbuf__addf(b, "%11.6f %8u", seconds(t, s.calls[i].start_ns), s.calls[i].tid);
		add_times(b, &s.calls[i].times);
		if (s.calls[i].stack.cnt > 1)
			strbuf__addz(b, "  called by");
		add_stack(t, b, &s.calls[i].stack, "\n                    ");
		strbuf__addc(b, '\n');
	}
	strbuf__addc(b, '\n');
	flush_line(t);
}

static void average_json(struct json *j, const char *key, const struct spent *s)
{
	struct pairs_times t = spent__average(s);

	json__object(j, key);
	json__uint(j, "count", s->cnt);
	times_json(j, &t);
	json__end(j, '}');
}

static void slowest_json(struct timing *t, struct json *j, const struct timed *f)
{
	struct slow s = slow_of(t, f);

	average_json(j, "slow", &s.slow);
	average_json(j, "others", &s.others);
	json__array(j, "slowest");
	for (uint32_t i = 0; i < s.call_cnt; i++) {
		json__object(j, NULL);
		json__double(j, "seconds", seconds(t, s.calls[i].start_ns));
		json__uint(j, "thread", s.calls[i].tid);
		times_json(j, &s.calls[i].times);
		stack_json(t, j, &s.calls[i].stack);
		json__end(j, '}');
	}
	json__end(j, ']');
}

/* ---- the slowest of the last calls ----------------------------------------------------------- */

/* What has called it spent so much time in it. */
static void note_callee(struct timing *t, const struct activation *a, const struct timed *f,
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
	struct window_call call = {
		.start_ns = a->start_ns, .tid = a->tid, .times = *times, .stack = a->stack
	};
	struct timed *first = &t->all[f->first];

	if (!t->windows)
		return;
	if (!first->window)
		first->window = window__new(t->windows);
	if (!first->window || window__add(first->window, &call, a->note))
		t->err = -ENOMEM;
}

static void add_percent(struct strbuf *b, const struct timing *t)
{
	strbuf__addf(b, "the slowest %.3g%%", 100 - t->slow.percentile);
}

/* "41.20 ms more", or less. */
static void add_more(struct strbuf *b, double ns, int width)
{
	add_time(b, (uint64_t)fabs(ns), width);
	strbuf__addz(b, ns < 0 ? " less" : " more");
}

static double more_waiting(const struct comparison *c, const struct callee_difference *d)
{
	struct pairs_times slow = spent__average(&d->slow), others = spent__average(&d->others);

	return (double)waiting_ns(&slow) * (double)d->slow.cnt / (double)c->slow.cnt -
	       (c->others.cnt ? (double)waiting_ns(&others) * (double)d->others.cnt /
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
	add_place(b, &t->all[who].function);
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

static void add_difference(struct timing *t, struct strbuf *b, const struct comparison *c)
{
	struct pairs_times slow = spent__average(&c->slow), others = spent__average(&c->others);
	double all = (double)slow.total_ns - (double)others.total_ns;

	strbuf__addz(b, "  a slow call takes ");
	add_more(b, all, 0);
	if (slow.cpu_ns != PAIRS_CPU_UNKNOWN && others.cpu_ns != PAIRS_CPU_UNKNOWN) {
		strbuf__addz(b, ": ");
		add_more(b, (double)slow.cpu_ns - (double)others.cpu_ns, 0);
		strbuf__addz(b, " on a CPU, ");
		add_more(b, (double)waiting_ns(&slow) - (double)waiting_ns(&others), 0);
		strbuf__addz(b, " waiting");
	}
	strbuf__addc(b, '\n');
	add_more(b, (double)slow.own_ns - (double)others.own_ns, 18);
	strbuf__addz(b, " in itself\n");
	add_callees(t, b, c, all);
}

static void add_slowest(struct timing *t, struct strbuf *b, const struct window_call *call)
{
	strbuf__addf(b, "%11.6f %8u", seconds(t, call->start_ns), call->tid);
	add_times(b, &call->times);
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
		flush_line(t);
		return;
	}
	if (err) {
		t->err = err;
		return;
	}
	strbuf__addf(b, "  %" PRIu64 " of the last %zu are ", c.slow.cnt, c.cnt);
	add_percent(b, t);
	strbuf__addz(b, ", with ");
	add_time(b, c.limit_ns, 0);
	strbuf__addf(b, " or more%s\n", window__is_cut(w) ? " (older ones had no room)" : "");
	strbuf__addf(b, "%11s %8s%12s%12s%12s%12s\n", "SECONDS", "THREAD", "TOTAL", "OWN", "ON CPU",
		     "WAITING");
	add_average(b, &c.slow, "these");
	add_average(b, &c.others, "the others");
	add_difference(t, b, &c);
	for (size_t i = 0; i < c.slowest_cnt; i++)
		add_slowest(t, b, &c.slowest[i]);
	strbuf__addc(b, '\n');
	flush_line(t);
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
	average_json(j, "slow", &c.slow);
	average_json(j, "others", &c.others);
	callees_json(t, j, &c);
	json__array(j, "slowest");
	for (size_t i = 0; i < c.slowest_cnt; i++) {
		static const struct pairs_stack none = { .cnt = 0 };
		const struct window_call *call = &c.slowest[i];

		json__object(j, NULL);
		json__double(j, "seconds", seconds(t, call->start_ns));
		json__uint(j, "thread", call->tid);
		times_json(j, &call->times);
		stack_json(t, j, call->stack ? call->stack : &none);
		json__end(j, '}');
	}
	json__end(j, ']');
	comparison__free(&c);
}

/* ---- each one -------------------------------------------------------------------------------- */

static void write_event(struct timing *t, const struct activation *a, const struct timed *f,
			enum pairs_how how, const struct pairs_times *times)
{
	if (t->mode != TIMING_CALLS)
		return;
	if (wants_slow(t)) {
		if (times && is_slow(t, f, how, times))
			write_slow(t, a, f, how, times);
		return;
	}
	if (t->json)
		write_event_json(t, a, &f->function, how, times);
	else
		write_event_text(t, a, &f->function, how, times);
}

/* ---- activations ----------------------------------------------------------------------------- */

static void on_begun(void *ctx, const struct activation *a)
{
	struct timing *t = ctx;
	struct timed *f = timed_of(t, a->code);

	if (!f || !f->wanted)
		return;
	f->calls += a->how == PAIRS_CALL;
	f->resumed += a->how == PAIRS_RESUME;
	write_event(t, a, f, a->how, NULL);
}

static void on_ended(void *ctx, const struct activation *a, enum pairs_how how,
		     const struct pairs_times *times)
{
	struct timing *t = ctx;
	struct timed *f = timed_of(t, a->code);

	if (!f)
		return;
	note_callee(t, a, f, how, times);
	if (!f->wanted)
		return;
	if (how == PAIRS_LOST) {
		f->unknown_ends++;
		t->unknown_ends++;
	} else {
		f->ended++;
		f->exceptions += how == PAIRS_EXCEPTION;
		if (!a->nested)
			f->total_ns += times->total_ns;
		f->own_ns += times->own_ns;
		if (times->total_ns > f->longest_ns)
			f->longest_ns = times->total_ns;
		f->total[bucket_of(times->total_ns)]++;
		f->own[bucket_of(times->own_ns)]++;
		take_slow(t, f, a, how, times);
		take_window(t, f, a, times);
	}
	write_event(t, a, f, how, times);
}

static void on_lost(void *ctx, uint32_t cnt)
{
	struct timing *t = ctx;

	t->lost_cnt += cnt;
	if (t->mode != TIMING_CALLS)
		return;
	if (t->json)
		printf("{\"event\":\"lost\",\"events\":%u}\n", cnt);
	else
		printf("%11s %u events were lost here\n", "?", cnt);
}

/* What this frame calls is of interest, though it is not wanted itself. */
static bool is_callee(struct timing *t, uint64_t caller)
{
	uint64_t code = t->windows ? pairs__code(t->pairs, caller) : 0;
	const struct timed *f = code ? timed_of(t, code) : NULL;

	return f && f->wanted;
}

static void take_event(void *ctx, const struct trace_event *e, const struct trace_raise *stack)
{
	struct timing *t = ctx;
	/* Processes have frames at the same addresses, which have 47 bits. */
	uint64_t process = (uint64_t)tracer__process(t->tracer, (pid_t)e->tgid) << 48;
	struct trace_event known = *e;
	struct timed *f = NULL;

	t->event_cnt++;
	known.frame ^= process;
	t->frame = known.frame;
	if (known.caller)
		known.caller ^= process;
	if (e->code) {
		f = timed_of(t, e->code);
		if (f && ((!f->wanted && !is_callee(t, known.caller)) || t->refused))
			known.code = 0;
	}
	if (pairs__take(t->pairs, &known, stack))
		t->err = -ENOMEM;
}

static void take_valued(void *ctx, const struct trace_valued *e, uint32_t cnt)
{
	struct timing *t = ctx;

	t->values = e->e.kind != EVENT_CALL || t->arg_cnt ? e->at : NULL;
	t->value_cnt = cnt < t->arg_cnt ? cnt : t->arg_cnt;
	t->refused =
		t->only && e->e.kind == EVENT_CALL &&
		!values__hold(tracer__values(t->tracer, e->e.code), e->e.code, e->at, cnt, t->only);
	take_event(ctx, &e->e, NULL);
	t->values = NULL;
	t->refused = false;
}

void timing__want_values(struct timing *t, uint32_t args, bool returns,
			 const struct condition *only)
{
	t->arg_cnt = args;
	t->only = only;
	if (only)
		pairs__only_called(t->pairs);
	t->events.args = only ? TRACE_ARGS_MAX : args;
	t->events.returns = returns;
	t->events.take_valued = take_valued;
}

struct timing *timing__new(enum timing_mode mode, bool json, struct timing_slow slow)
{
	struct timing *t = calloc(1, sizeof(*t));
	struct pairs_handler h = {
		.begun = on_begun, .ended = on_ended, .lost = on_lost, .ctx = t
	};

	if (!t)
		return NULL;
	t->mode = mode;
	t->json = json;
	t->slow = slow;
	t->key = hash_key();
	t->events = (struct tracer_events){ .take = take_event,
					    .slow = slow.ns || slow.percentile > 0,
					    .callees = slow.percentile > 0,
					    .ctx = t };
	t->pairs = pairs__new(&h);
	if (slow.percentile > 0)
		t->windows = windows__new();
	if (t->pairs && (t->windows || slow.percentile <= 0))
		return t;
	timing__free(t);
	return NULL;
}

void timing__free(struct timing *t)
{
	if (!t)
		return;
	pairs__free(t->pairs);
	windows__free(t->windows);
	free(t->firsts);
	for (size_t i = 0; i < t->cnt; i++)
		free(t->all[i].slow);
	hash_index__free(&t->by_code);
	strbuf__free(&t->line);
	free(t->all);
	free(t);
}

const struct tracer_events *timing__events(const struct timing *t)
{
	return &t->events;
}

void timing__start(struct timing *t, struct tracer *tr, uint64_t now_ns)
{
	t->tracer = tr;
	t->start_ns = now_ns;
}

uint64_t timing__call_cnt(const struct timing *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->cnt; i++)
		sum += t->all[i].calls;
	return sum;
}

uint64_t timing__event_cnt(const struct timing *t)
{
	return t->event_cnt + t->lost_cnt;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->function.number != y->function.number)
		return x->function.number < y->function.number ? -1 : 1;
	return (x->code > y->code) - (x->code < y->code);
}

static int by_own(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->own_ns != y->own_ns)
		return x->own_ns < y->own_ns ? 1 : -1;
	return by_number(a, b);
}

static void add_up(struct timed *sum, const struct timed *f)
{
	sum->calls += f->calls;
	sum->resumed += f->resumed;
	sum->ended += f->ended;
	sum->exceptions += f->exceptions;
	sum->unknown_ends += f->unknown_ends;
	sum->total_ns += f->total_ns;
	sum->own_ns += f->own_ns;
	if (f->longest_ns > sum->longest_ns)
		sum->longest_ns = f->longest_ns;
	for (int i = 0; i < TIMING_BUCKETS; i++) {
		sum->total[i] += f->total[i];
		sum->own[i] += f->own[i];
	}
}

/* Functions, most own time first, of code objects. NULL: no memory. To be freed. */
static struct timed *functions(const struct timing *t, size_t *cnt)
{
	struct timed *all = malloc((t->cnt + 1) * sizeof(*all));
	size_t kept = 0;

	if (!all)
		return NULL;
	for (size_t i = 0; i < t->cnt; i++)
		if (t->all[i].wanted && t->all[i].calls + t->all[i].resumed + t->all[i].ended)
			all[kept++] = t->all[i];
	qsort(all, kept, sizeof(*all), by_number);
	*cnt = 0;
	for (size_t i = 0; i < kept; i++) {
		struct timed *last = *cnt ? &all[*cnt - 1] : NULL;

		if (last && last->named && all[i].named &&
		    last->function.number == all[i].function.number)
			add_up(last, &all[i]);
		else
			all[(*cnt)++] = all[i];
	}
	qsort(all, *cnt, sizeof(*all), by_own);
	return all;
}

static void write_row(struct timing *t, const struct timed *f)
{
	struct strbuf *b = &t->line;

	strbuf__addf(b, "%10" PRIu64 " %10" PRIu64 " ", f->calls, f->resumed);
	add_time(b, f->total_ns, 11);
	strbuf__addc(b, ' ');
	add_time(b, f->own_ns, 11);
	strbuf__addc(b, ' ');
	add_time(b, f->longest_ns, 11);
	strbuf__addz(b, "  ");
	str_sanitise(b, f->function.name, f->function.name_len, 0);
	add_place(b, &f->function);
	if (f->exceptions)
		strbuf__addf(b, ", %" PRIu64 " by exception", f->exceptions);
	if (f->unknown_ends)
		strbuf__addf(b, ", %" PRIu64 " ends not seen", f->unknown_ends);
	strbuf__addc(b, '\n');
	flush_line(t);
}

static void add_bar(struct strbuf *b, uint64_t n, uint64_t most)
{
	int width = most ? (int)((n * BAR_WIDTH + most - 1) / most) : 0;

	strbuf__addf(b, "%10" PRIu64 " |", n);
	for (int i = 0; i < BAR_WIDTH; i++)
		strbuf__addc(b, i < width ? '@' : ' ');
	strbuf__addc(b, '|');
}

static void write_histogram(struct timing *t, const struct timed *f)
{
	uint64_t most_total = 0, most_own = 0;
	struct strbuf *b = &t->line;
	int first = TIMING_BUCKETS, last = -1;

	write_row(t, f);
	for (int i = 0; i < TIMING_BUCKETS; i++) {
		if (f->total[i] > most_total)
			most_total = f->total[i];
		if (f->own[i] > most_own)
			most_own = f->own[i];
		if (!f->total[i] && !f->own[i])
			continue;
		last = i;
		if (first == TIMING_BUCKETS)
			first = i;
	}
	if (last >= 0)
		strbuf__addf(b, "%23s  %10s %25s %10s\n", "FROM - TO", "TOTAL", "", "OWN");
	for (int i = first; i <= last; i++) {
		add_time(b, i ? 1ULL << i : 0, 11);
		strbuf__addc(b, ' ');
		add_time(b, 2ULL << i, 11);
		strbuf__addz(b, "  ");
		add_bar(b, f->total[i], most_total);
		add_bar(b, f->own[i], most_own);
		strbuf__addc(b, '\n');
	}
	strbuf__addc(b, '\n');
	flush_line(t);
}

int timing__write(struct timing *t, uint32_t top)
{
	size_t cnt;
	struct timed *all = functions(t, &cnt);

	if (!all)
		return -ENOMEM;
	if (top && top < cnt)
		cnt = top;
	strbuf__addf(&t->line, "%10s %10s %11s %11s %11s  FUNCTION\n", "CALLS", "RESUMED", "TOTAL",
		     "OWN", "LONGEST");
	flush_line(t);
	for (size_t i = 0; i < cnt && !t->err; i++) {
		if (t->mode == TIMING_HIST)
			write_histogram(t, &all[i]);
		else
			write_row(t, &all[i]);
		if (t->slow.ns)
			write_slowest(t, &all[i]);
		if (t->windows)
			write_comparison(t, &all[i]);
	}
	free(all);
	return t->err;
}

static void histogram_json(struct json *j, const char *key, const uint64_t *n)
{
	int cnt = TIMING_BUCKETS;

	while (cnt && !n[cnt - 1])
		cnt--;
	json__array(j, key);
	for (int i = 0; i < cnt; i++)
		json__uint(j, NULL, n[i]);
	json__end(j, ']');
}

void timing__function_json(struct json *j, const struct py_function *f, uint64_t calls,
			   uint64_t resumed)
{
	json__string(j, "function", f->name, f->name_len);
	json__string(j, "file", f->file, f->file_len);
	json__uint(j, "line", f->first_line);
	json__uint(j, "calls", calls);
	json__uint(j, "resumed", resumed);
}

static void function_json(struct timing *t, struct json *j, const struct timed *f)
{
	json__object(j, NULL);
	timing__function_json(j, &f->function, f->calls, f->resumed);
	json__uint(j, "ended", f->ended);
	json__uint(j, "exceptions", f->exceptions);
	json__uint(j, "unknown_ends", f->unknown_ends);
	json__uint(j, "total_ns", f->total_ns);
	json__uint(j, "own_ns", f->own_ns);
	json__uint(j, "longest_ns", f->longest_ns);
	if (t->mode == TIMING_HIST) {
		histogram_json(j, "total_log2_ns", f->total);
		histogram_json(j, "own_log2_ns", f->own);
	}
	if (t->slow.ns)
		slowest_json(t, j, f);
	if (t->windows)
		comparison_json(t, j, f);
	json__end(j, '}');
}

int timing__write_json(struct timing *t, struct json *j, uint32_t top)
{
	size_t cnt;
	struct timed *all = functions(t, &cnt);

	if (!all)
		return -ENOMEM;
	if (top && top < cnt)
		cnt = top;
	json__uint(j, "lost_events", t->lost_cnt);
	json__array(j, "functions");
	for (size_t i = 0; i < cnt; i++)
		function_json(t, j, &all[i]);
	json__end(j, ']');
	free(all);
	return t->err;
}

void timing__report(const struct timing *t, bool filtered)
{
	uint64_t before = pairs__unknown_cnt(t->pairs);

	if (t->lost_cnt)
		log_warn("%" PRIu64 " events were lost, and the times of calls that were open: "
			 "select fewer functions with -f",
			 t->lost_cnt);
	if (t->unknown_ends)
		log_warn("%" PRIu64 " calls have no times: their end was not seen",
			 t->unknown_ends);
	if (before && !filtered)
		log_info("%" PRIu64 " calls ended that had begun before the trace", before);
	log_debug("%zu calls have not ended", pairs__open_cnt(t->pairs));
}
