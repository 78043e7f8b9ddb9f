/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/timing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/stream.h"
#include "trace/lost.h"
#include "trace/timing_parts.h"

#define INDENT_MAX 60	      /* of lines, in levels */
#define CODES_MAX  262144     /* code objects that are remembered: of processes that come and go */
#define SLOW_BYTES (8U << 20) /* of all comparisons with calls beyond a time */

/* ---- functions ------------------------------------------------------------------------------- */

/* What another code object of the same function has; NULL: this is the first one. */
static struct timed *find_timed(struct timing *t, uint64_t code)
{
	struct py_function f;

	if (!tracer__find(t->tracer, code, &f) || f.number >= t->first_cnt ||
	    t->firsts[f.number] == HASH_NONE)
		return NULL;
	return &t->all[t->firsts[f.number]];
}

static struct timed *add_timed(struct timing *t, uint64_t code, uint64_t hash)
{
	struct timed *f = find_timed(t, code);

	if (t->by_code.cnt >= CODES_MAX)
		idmap__free(&t->by_code);
	if (!f && !ARRAY_GROW(t->all, t->cap, t->cnt, HASH_NONE - 1)) {
		f = &t->all[t->cnt++];
		*f = (struct timed){ .code = code, .first = (uint32_t)t->cnt - 1 };
	}
	if (!f || idmap__set(&t->by_code, hash, (void *)(f - t->all + 1))) {
		t->err = -ENOMEM;
		return NULL;
	}
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
	size_t i = (size_t)(uintptr_t)idmap__get(&t->by_code, hash);
	struct timed *f = i ? &t->all[i - 1] : add_timed(t, code, hash);

	if (!f || f->named)
		return f;
	f->named = tracer__find(t->tracer, code, &f->function);
	f->wanted = tracer__wants(t->tracer, &f->function);
	if (f->named)
		find_first(t, f);
	return f;
}

/* ---- text ------------------------------------------------------------------------------------ */

void timing__add_time(struct strbuf *b, uint64_t ns, int width)
{
	if (ns < 1000000)
		strbuf__addf(b, "%*.1f us", width - 3, (double)ns / 1e3);
	else if (ns < 1000000000)
		strbuf__addf(b, "%*.2f ms", width - 3, (double)ns / 1e6);
	else
		strbuf__addf(b, "%*.3f s", width - 2, (double)ns / 1e9);
}

void timing__add_place(struct strbuf *b, const struct py_function *f)
{
	if (!f->file_len)
		return;
	strbuf__addz(b, " (");
	str_sanitise(b, f->file, f->file_len, 0);
	strbuf__addf(b, ":%u)", f->first_line);
}

void timing__flush_line(struct timing *t)
{
	if (t->line.err)
		t->err = t->line.err;
	else if (t->line.len)
		t->err = stream__put(stdout, t->line.s, t->line.len);
	strbuf__clear(&t->line);
}

void timing__put_line(struct timing *t, uint32_t tgid)
{
	if (!t->blocks) {
		timing__flush_line(t);
		return;
	}
	if (t->line.len)
		blocks__add(t->blocks, (pid_t)tgid, t->line.s, t->line.len);
	strbuf__clear(&t->line);
}

void timing__add_process(const struct timing *t, struct json *j, uint32_t tgid, uint64_t ns)
{
	if (!t->blocks)
		return;
	json__uint(j, "pid", tgid);
	json__stringz(j, "name", blocks__name(t->blocks, (pid_t)tgid, ns));
}

void timing__say_process(const struct timing *t, struct strbuf *b, uint32_t tgid, uint64_t ns)
{
	if (t->blocks)
		strbuf__addf(b, "  in process %u (%s)", tgid,
			     blocks__name(t->blocks, (pid_t)tgid, ns));
}

const char *const timing_hows[] = {
	[PAIRS_CALL] = "call",		 [PAIRS_RESUME] = "resume", [PAIRS_THROW] = "throw",
	[PAIRS_RETURN] = "return",	 [PAIRS_YIELD] = "yield",   [PAIRS_LEFT] = "leave",
	[PAIRS_EXCEPTION] = "exception", [PAIRS_LOST] = "unknown",
};

const char *const timing_remarks[] = {
	[PAIRS_CALL] = "",
	[PAIRS_RESUME] = " [resumed]",
	[PAIRS_THROW] = " [exception thrown in]",
	[PAIRS_RETURN] = "",
	[PAIRS_YIELD] = " [yield]",
	[PAIRS_LEFT] = "",
	[PAIRS_EXCEPTION] = " [exception]",
	[PAIRS_LOST] = " [end not seen]",
};

/* What an activation was called with, or has returned. NULL: it is not known. */
static const struct trace_value *values_of(const struct timing *t, const struct activation *a,
					   enum pairs_how how)
{
	bool has = how == PAIRS_CALL || how == PAIRS_RETURN || how == PAIRS_LEFT;

	return has && a->frame == t->frame ? t->values : NULL;
}

void timing__values_json(struct timing *t, struct json *j, const struct activation *a,
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

void timing__add_values(struct timing *t, struct strbuf *b, const struct activation *a,
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
	json__stringz(&j, "event", timing_hows[how]);
	json__double(&j, "seconds", timing__seconds(t, times ? times->at_ns : a->start_ns));
	timing__add_process(t, &j, a->tgid, a->start_ns);
	json__uint(&j, "thread", a->tid);
	json__uint(&j, "depth", a->depth);
	json__string(&j, "function", f->name, f->name_len);
	json__string(&j, "file", f->file, f->file_len);
	json__uint(&j, "line", f->first_line);
	if (times && how != PAIRS_LOST) {
		json__uint(&j, "total_ns", times->total_ns);
		json__uint(&j, "own_ns", times->own_ns);
	}
	timing__values_json(t, &j, a, f, how);
	json__end(&j, '}');
	fputc('\n', stdout);
}

static void write_event_text(struct timing *t, const struct activation *a,
			     const struct py_function *f, enum pairs_how how,
			     const struct pairs_times *times)
{
	struct strbuf *b = &t->line;
	int indent = a->depth < INDENT_MAX ? 2 * (int)a->depth : 2 * INDENT_MAX;

	if (timing__heads(t))
		strbuf__addf(b, "%11s %8s %10s %10s  FUNCTION\n", "SECONDS", "THREAD", "TOTAL",
			     "OWN");
	if (how == PAIRS_LOST)
		strbuf__addf(b, "%11s", "?");
	else
		strbuf__addf(b, "%11.6f", timing__seconds(t, times ? times->at_ns : a->start_ns));
	strbuf__addf(b, " %8u ", a->tid);
	if (times && how != PAIRS_LOST) {
		timing__add_time(b, times->total_ns, 10);
		strbuf__addc(b, ' ');
		timing__add_time(b, times->own_ns, 10);
	} else {
		strbuf__addf(b, "%21s", "");
	}
	strbuf__addf(b, "  %*s%s ", indent, "", times ? "<=" : "=>");
	str_sanitise(b, f->name, f->name_len, 0);
	timing__add_values(t, b, a, f, how);
	if (!times)
		timing__add_place(b, f);
	strbuf__addz(b, timing_remarks[how]);
	strbuf__addc(b, '\n');
	timing__put_line(t, a->tgid);
}

/* ---- each one -------------------------------------------------------------------------------- */

static void write_event(struct timing *t, const struct activation *a, const struct timed *f,
			enum pairs_how how, const struct pairs_times *times)
{
	if (t->mode != TIMING_CALLS)
		return;
	if (timing_slow__wanted(t)) {
		timing_slow__write_call(t, a, f, how, times);
		return;
	}
	if (t->json) {
		write_event_json(t, a, &f->function, how, times);
	} else if (t->format == TIMING_LINES) {
		write_event_text(t, a, &f->function, how, times);
	} else {
		timing_format__add_line(t, a, &f->function, how, times);
		timing__put_line(t, a->tgid);
	}
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Below all calls of a process. */
static uint32_t top_of(struct timing *t, uint32_t tgid)
{
	uint32_t at;
	int proc;

	if (!t->picture)
		return CALL_PATHS_TOP;
	at = (uint32_t)(uintptr_t)idmap__get(&t->tops, tgid);
	if (at)
		return at;
	proc = call_picture__add_process(t->picture, (pid_t)tgid,
					 blocks__name(t->blocks, (pid_t)tgid, UINT64_MAX),
					 t->version);
	at = proc < 0 ? call_paths__none() : call_paths__top(t->paths, (uint32_t)proc);
	if (idmap__set(&t->tops, tgid, (void *)(uintptr_t)at))
		t->err = -ENOMEM;
	return at;
}

/* Which way of calls it is the end of. */
static uint32_t way_of(struct timing *t, const struct activation *a, const struct timed *f)
{
	uint32_t from = a->below ? a->below->mark : 0;

	return call_paths__call(t->paths, from ? from : top_of(t, a->tgid), f->first);
}

static void on_begun(void *ctx, struct activation *a)
{
	struct timing *t = ctx;
	struct timed *f = timed_of(t, a->code);

	if (!f || !f->wanted)
		return;
	f->calls += a->how == PAIRS_CALL;
	f->resumed += a->how == PAIRS_RESUME;
	if (t->paths)
		a->mark = way_of(t, a, f);
	if (t->format == TIMING_CHROME)
		timing_chrome__begin(t, a, &f->function, a->how);
	else
		write_event(t, a, f, a->how, NULL);
}

static void on_ended(void *ctx, const struct activation *a, enum pairs_how how,
		     const struct pairs_times *times)
{
	struct timing *t = ctx;
	struct timed *f = timed_of(t, a->code);

	if (!f)
		return;
	timing_slow__note_callee(t, a, f, how, times);
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
		if (a->mark)
			call_paths__add(t->paths, a->mark, times->own_ns);
		if (times->total_ns > f->longest_ns)
			f->longest_ns = times->total_ns;
		timing_hist__take(f, times);
		timing_slow__take(t, f, a, how, times);
	}
	if (t->format == TIMING_CHROME)
		timing_chrome__end(t, a, &f->function, how, times);
	else
		write_event(t, a, f, how, times);
}

static void on_lost(void *ctx, uint32_t cnt)
{
	struct timing *t = ctx;
	struct strbuf *b = &t->line;

	t->lost_cnt += cnt;
	if (t->mode != TIMING_CALLS)
		return;
	if (t->format == TIMING_CHROME) {
		timing_chrome__write_lost(t, cnt);
		return;
	}
	/* Of many processes nobody knows which one, but for its interpreter. */
	lost__add(b,
		  t->json		      ? LOST_JSON
		  : t->format == TIMING_LINES ? LOST_LINE
					      : LOST_REMARK,
		  "events", t->blocks ? t->version : NULL, cnt);
	if (!t->blocks) {
		timing__flush_line(t);
		return;
	}
	if (b->len)
		blocks__remark(t->blocks, b->s, b->len);
	strbuf__clear(b);
}

/* What this frame calls is of interest, though it is not wanted itself. */
static bool is_callee(struct timing *t, uint64_t caller)
{
	uint64_t code = timing_slow__wanted(t) ? pairs__code(t->pairs, caller) : 0;
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
	if (!tracer__is_inside(t->tracer, e))
		return;
	t->latest_ns = e->ns > t->latest_ns ? e->ns : t->latest_ns;
	known.ran_ns = t->events.from ? 0 : known.ran_ns;
	known.frame ^= process;
	t->frame = known.frame;
	t->cpu = e->cpu;
	if (known.caller)
		known.caller ^= process;
	if (e->code) {
		f = timed_of(t, e->code);
		t->nameless_cnt += f && !f->named && !f->wanted;
		if (f && ((!f->wanted && !is_callee(t, known.caller)) || t->refused))
			known.code = 0;
	}
	if (pairs__take(t->pairs, &known, stack))
		t->err = -ENOMEM;
}

static void take_waits(void *ctx, const struct trace_waits *w)
{
	struct timing *t = ctx;

	if (pairs__take_waits(t->pairs, w))
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

void timing__want_from(struct timing *t, const struct trace_filter *from)
{
	t->events.from = from;
	t->events.cpu &= !from; /* an event has room for one of the two */
}

void timing__set_many(struct timing *t, struct blocks *blocks, const char *version)
{
	t->blocks = blocks;
	t->version = version;
	if (t->format != TIMING_LINES)
		blocks__set_mark(blocks, "# ");
}

void timing__end_process(struct timing *t, pid_t pid)
{
	pairs__end_process(t->pairs, (uint32_t)pid);
	thread_names__end_process(&t->threads, (uint32_t)pid);
	idmap__remove(&t->tops, (uint64_t)pid);
}

void timing__lose(struct timing *t, uint32_t lost)
{
	pairs__lose(t->pairs, lost);
}

int timing__want_picture(struct timing *t, struct call_picture *of_many)
{
	if (timing_slow__wanted(t))
		return 0;
	t->picture = of_many;
	t->paths = call_paths__new();
	return t->paths ? 0 : -ENOMEM;
}

struct drawing {
	struct timing *t;
	struct call_picture *picture;
};

static uint64_t word_of(void *ctx, uint32_t function)
{
	const struct drawing *d = ctx;
	const struct timed *f = &d->t->all[function];

	if (!f->named) /* once it is, it stays known when its process has ended */
		f = timed_of(d->t, f->code);
	return f ? call_picture__python(d->picture, &f->function) : 0;
}

int timing__draw(struct timing *t, struct call_picture *const pictures[PICTURES])
{
	struct drawing d = { .t = t, .picture = pictures[PICTURE_CALLS] };

	for (int i = 0; i < PICTURES; i++)
		if (pictures[i])
			call_picture__renumber(pictures[i]);
	return t->paths ? call_paths__draw(t->paths, d.picture, word_of, &d)
			: timing_slow__draw(t, pictures);
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
	t->slow_room = SLOW_BYTES;
	t->key = hash_key();
	t->events = (struct tracer_events){ .take = take_event,
					    .slow = timing_slow__wanted(t),
					    .take_waits = take_waits,
					    .cpu = mode == TIMING_HIST,
					    .callees = timing_slow__wanted(t),
					    .ctx = t };
	t->pairs = pairs__new(&h);
	if (slow.percentile > 0)
		t->windows = slow.windows ? slow.windows : windows__new();
	if (t->pairs && (t->windows || slow.percentile <= 0))
		return t;
	timing__free(t);
	return NULL;
}

void timing__set_format(struct timing *t, enum timing_format format)
{
	t->format = format;
}

bool timing__wrote_lines(const struct timing *t)
{
	return t->headed;
}

void timing__free(struct timing *t)
{
	if (!t)
		return;
	thread_names__free(&t->threads);
	pairs__free(t->pairs);
	for (size_t i = 0; i < t->cnt; i++)
		window__free(t->all[i].window);
	if (!t->slow.windows)
		windows__free(t->windows);
	call_paths__free(t->paths);
	idmap__free(&t->tops);
	free(t->firsts);
	for (size_t i = 0; i < t->cnt; i++) {
		if (t->all[i].compared)
			comparison__free(t->all[i].compared);
		free(t->all[i].compared);
	}
	idmap__free(&t->by_code);
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

uint64_t timing__resumed_cnt(const struct timing *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->cnt; i++)
		sum += t->all[i].resumed;
	return sum;
}

uint64_t timing__event_cnt(const struct timing *t)
{
	return t->event_cnt + t->lost_cnt;
}

uint64_t timing__nameless_cnt(const struct timing *t)
{
	return t->nameless_cnt;
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
	timing_hist__sum(sum, f);
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
	timing__add_time(b, f->total_ns, 11);
	strbuf__addc(b, ' ');
	timing__add_time(b, f->own_ns, 11);
	strbuf__addc(b, ' ');
	timing__add_time(b, f->longest_ns, 11);
	strbuf__addz(b, "  ");
	str_sanitise(b, f->function.name, f->function.name_len, 0);
	timing__add_place(b, &f->function);
	if (f->exceptions)
		strbuf__addf(b, ", %" PRIu64 " by exception", f->exceptions);
	if (f->unknown_ends)
		strbuf__addf(b, ", %" PRIu64 " ends not seen", f->unknown_ends);
	strbuf__addc(b, '\n');
	timing__flush_line(t);
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
	timing__flush_line(t);
	for (size_t i = 0; i < cnt && !t->err; i++) {
		write_row(t, &all[i]);
		if (t->mode == TIMING_HIST)
			timing_hist__write(t, &all[i]);
		timing_slow__write(t, &all[i]);
	}
	free(all);
	return t->err;
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
	if (t->mode == TIMING_HIST)
		timing_hist__json(t, j, f);
	timing_slow__json(t, j, f);
	json__end(j, '}');
}

uint64_t timing__lost_cnt(const struct timing *t)
{
	return t->lost_cnt;
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
