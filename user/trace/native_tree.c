/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/native_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/json.h"
#include "base/str.h"
#include "trace/timing.h"

#define STEPS_MAX     (1U << 22)
#define STEPS_AT_ONCE 16384
#define OPEN_MAX      16384 /* calls of a thread; deeper ones are not shown */
#define INDENT_MAX    40
#define LOOK_EACH     1024 /* calls without room, until threads are looked through again */

/* A call that has not ended. */
struct open_call {
	uint64_t place, id, start_ns;
	uint64_t inner_ns; /* of what it called */
	uint64_t frame;	   /* in the picture */
	bool python;
};

struct thread_calls {
	uint32_t tid;
	struct open_call *open; /* outermost first */
	size_t cnt, cap;
};

/* Of a native function. */
struct called {
	uint64_t calls, total_ns, own_ns;
	uint32_t function;
};

struct native_tree {
	struct native_tree_opts o;
	struct native_step *steps; /* to be taken */
	size_t cnt, cap;
	size_t sorted_cnt;    /* the first of them, by time */
	struct idmap threads; /* by tid */
	uint64_t dropped_cnt;
	struct called *called; /* by number of the function */
	uint64_t root_cnt;
	bool headed;
	bool no_memory; /* for the picture */
	struct strbuf line;
};

struct native_tree *native_tree__new(const struct native_tree_opts *o)
{
	struct native_tree *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->o = *o;
	t->called = calloc(o->functions->cnt + 1, sizeof(*t->called));
	if (t->called)
		return t;
	free(t);
	return NULL;
}

static void free_thread(struct thread_calls *th)
{
	free(th->open);
	free(th);
}

void native_tree__free(struct native_tree *t)
{
	struct thread_calls *th;

	if (!t)
		return;
	for (size_t at = 0; (th = idmap__next(&t->threads, &at));)
		free_thread(th);
	idmap__free(&t->threads);
	free(t->steps);
	free(t->called);
	strbuf__free(&t->line);
	free(t);
}

uint64_t native_tree__root_cnt(const struct native_tree *t)
{
	return t->root_cnt;
}

uint64_t native_tree__dropped_cnt(const struct native_tree *t)
{
	return t->dropped_cnt;
}

/* ---- lines ----------------------------------------------------------------------------------- */

#define TIME_WIDTH 10

static void add_time(struct strbuf *b, uint64_t ns)
{
	strbuf__addc(b, ' ');
	timing__add_time(b, ns, TIME_WIDTH);
}

/* Its name is known when it was announced; another ring may have that later. */
static struct py_function python_of(const struct native_tree *t, uint64_t code)
{
	const struct py_function unknown = {
		.name = "?", .name_len = 1, .file = "", .number = UINT32_MAX
	};
	struct py_function f = unknown;

	if (t->o.tracer && !tracer__find(t->o.tracer, code, &f))
		f = unknown;
	return f;
}

static double seconds(const struct native_tree *t, uint64_t ns)
{
	return ns > t->o.start_ns ? (double)(ns - t->o.start_ns) / NS_PER_S : 0;
}

/* Its own time is known if all times are that it consists of. */
static void write_text(struct native_tree *t, uint32_t tid, const struct open_call *c, size_t depth,
		       uint64_t end_ns)
{
	struct strbuf *b = &t->line;
	uint64_t total = end_ns - c->start_ns;
	int indent = 2 * (int)(depth < INDENT_MAX ? depth : INDENT_MAX);

	if (!t->headed)
		strbuf__addf(b, "%11s %8s %10s %10s  FUNCTION\n", "SECONDS", "THREAD", "TOTAL",
			     "OWN");
	t->headed = true;
	strbuf__addf(b, "%11.6f %8u", seconds(t, end_ns ? end_ns : c->start_ns), tid);
	if (end_ns)
		add_time(b, total);
	if (end_ns && t->o.ends)
		add_time(b, total > c->inner_ns ? total - c->inner_ns : 0);
	strbuf__addf(b, "%*s%*s%s ", end_ns ? (t->o.ends ? 2 : 13) : 24, "", indent, "",
		     c->python ? (end_ns ? "<=" : "=>") : (end_ns ? "<-" : "->"));
	if (c->python) {
		struct py_function f = python_of(t, c->id);

		str_sanitise(b, f.name, f.name_len, 0);
		if (!end_ns)
			timing__add_place(b, &f);
	} else {
		const char *name = t->o.functions->all[c->id].name;

		str_sanitise(b, name, strlen(name), 0);
		if (!end_ns && !depth) { /* all others are in it, too */
			strbuf__addz(b, " [");
			str_sanitise(b, t->o.file, strlen(t->o.file), 0);
			strbuf__addc(b, ']');
		}
	}
	strbuf__addc(b, '\n');
	fwrite(b->s ? b->s : "", 1, b->len, stdout);
	strbuf__clear(b);
}

static void write_json(const struct native_tree *t, uint32_t tid, const struct open_call *c,
		       size_t depth, uint64_t end_ns)
{
	struct json j = { .f = stdout };
	uint64_t total = end_ns - c->start_ns;

	json__object(&j, NULL);
	json__stringz(&j, "event", end_ns ? "return" : "call");
	json__stringz(&j, "kind", c->python ? "python" : "native");
	json__double(&j, "seconds", seconds(t, end_ns ? end_ns : c->start_ns));
	json__uint(&j, "thread", tid);
	json__uint(&j, "depth", depth);
	if (c->python) {
		struct py_function f = python_of(t, c->id);

		json__string(&j, "function", f.name, f.name_len);
		json__string(&j, "file", f.file, f.file_len);
		json__uint(&j, "line", f.first_line);
	} else {
		json__stringz(&j, "function", t->o.functions->all[c->id].name);
		json__stringz(&j, "file", t->o.file);
	}
	if (end_ns)
		json__uint(&j, "total_ns", total);
	if (end_ns && t->o.ends)
		json__uint(&j, "own_ns", total > c->inner_ns ? total - c->inner_ns : 0);
	json__end(&j, '}');
	fputc('\n', stdout);
}

static void write_call(struct native_tree *t, uint32_t tid, const struct open_call *c, size_t depth,
		       uint64_t end_ns)
{
	if (t->o.json)
		write_json(t, tid, c, depth, end_ns);
	else
		write_text(t, tid, c, depth, end_ns);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* It has no open calls, or ended in the midst of them. */
static bool is_over(const struct thread_calls *th)
{
	return !th->cnt || (kill((pid_t)th->tid, 0) && errno == ESRCH);
}

static void forget_threads(struct native_tree *t)
{
	struct idmap kept = { 0 };
	struct thread_calls *th;

	for (size_t at = 0; (th = idmap__next(&t->threads, &at));)
		if (is_over(th) || idmap__set(&kept, th->tid, th))
			free_thread(th);
	idmap__free(&t->threads);
	t->threads = kept;
}

/* Makes one if `begins`. NULL: there is none, or no room. */
static struct thread_calls *thread_of(struct native_tree *t, uint32_t tid, bool begins)
{
	struct thread_calls *th = idmap__get(&t->threads, tid);

	if (th || !begins)
		return th;
	if (t->threads.cnt == NATIVE_TREE_THREADS && t->dropped_cnt % LOOK_EACH == 0)
		forget_threads(t);
	if (t->threads.cnt < NATIVE_TREE_THREADS)
		th = calloc(1, sizeof(*th));
	if (!th || idmap__set(&t->threads, tid, th)) {
		free(th);
		t->dropped_cnt++;
		return NULL;
	}
	th->tid = tid;
	return th;
}

/* The innermost call with what called it. */
static void draw(struct native_tree *t, const struct thread_calls *th, uint64_t amount)
{
	uint64_t words[CALL_PICTURE_DEPTH];
	size_t cnt = th->cnt < CALL_PICTURE_DEPTH ? th->cnt : CALL_PICTURE_DEPTH;

	for (size_t i = 0; i < cnt; i++)
		words[i] = th->open[i].frame;
	if (amount && call_picture__add(t->o.picture, words, cnt, 1, amount))
		t->no_memory = true;
}

static uint64_t frame_of(struct native_tree *t, uint64_t id, bool python)
{
	struct py_function f;
	uint64_t frame;

	if (python) {
		f = python_of(t, id);
		frame = call_picture__python(t->o.picture, &f);
	} else {
		frame = call_picture__native(t->o.picture, (uint32_t)id);
	}
	t->no_memory |= !frame;
	return frame;
}

static void begin(struct native_tree *t, struct thread_calls *th, const struct native_step *s,
		  bool python)
{
	struct open_call c = {
		.place = s->place, .id = s->id, .start_ns = s->ns, .python = python
	};

	if (ARRAY_GROW(th->open, th->cap, th->cnt, OPEN_MAX))
		return;
	if (t->o.picture)
		c.frame = frame_of(t, s->id, python);
	th->open[th->cnt++] = c;
	write_call(t, th->tid, &c, th->cnt - 1, 0);
	if (t->o.picture && !t->o.ends)
		draw(t, th, 1);
	if (!python)
		t->called[s->id].calls++;
	t->root_cnt += th->cnt == 1;
}

/* The innermost call ended at `ns`, as an event said. */
static void end_known(struct native_tree *t, struct thread_calls *th, uint64_t ns)
{
	struct open_call *c = &th->open[th->cnt - 1];
	uint64_t total = ns > c->start_ns ? ns - c->start_ns : 0;

	if (t->o.picture && t->o.ends)
		draw(t, th, total > c->inner_ns ? total - c->inner_ns : 0);
	th->cnt--;
	if (th->cnt)
		th->open[th->cnt - 1].inner_ns += total;
	write_call(t, th->tid, c, th->cnt, ns > c->start_ns ? ns : c->start_ns + 1);
	if (c->python)
		return;
	t->called[c->id].total_ns += total;
	t->called[c->id].own_ns += total > c->inner_ns ? total - c->inner_ns : 0;
}

/* The call at `place`, or th->cnt. */
static size_t find_open(const struct thread_calls *th, uint64_t place, bool python)
{
	size_t i = th->cnt;

	while (i && (th->open[i - 1].python != python || th->open[i - 1].place != place))
		i--;
	return i ? i - 1 : th->cnt;
}

/* What lies at this CFA or further in has ended, and what was called from there. */
static void end_inside(struct thread_calls *th, uint64_t cfa)
{
	for (size_t i = 0; i < th->cnt; i++) {
		if (!th->open[i].python && th->open[i].place <= cfa) {
			th->cnt = i;
			return;
		}
	}
}

static void end_at(struct native_tree *t, struct thread_calls *th, const struct native_step *s,
		   bool python)
{
	size_t i = find_open(th, s->place, python);

	if (i == th->cnt)
		return;
	th->cnt = i + 1; /* what it called has ended before, without an event */
	/* It may have jumped to the one that ends now: that has no event of its own then. */
	if (python || th->open[i].id == s->id)
		end_known(t, th, s->ns);
	else
		th->cnt = i;
}

static void end_everything(struct native_tree *t)
{
	struct thread_calls *th;

	for (size_t at = 0; (th = idmap__next(&t->threads, &at));)
		th->cnt = 0;
}

static void take(struct native_tree *t, const struct native_step *s)
{
	struct thread_calls *th = thread_of(t, s->tid, s->kind == STEP_CALL);

	if (s->kind == STEP_LOST)
		end_everything(t);
	if (!th)
		return;
	switch (s->kind) {
	case STEP_CALL:
		end_inside(th, s->place);
		begin(t, th, s, false);
		break;
	case STEP_RETURN:
		end_at(t, th, s, false);
		break;
	case STEP_PYTHON_CALL:
		if (th->cnt)
			begin(t, th, s, true);
		break;
	case STEP_PYTHON_END:
		end_at(t, th, s, true);
		break;
	case STEP_PYTHON_RAISE:
		if (find_open(th, s->place, true) < th->cnt)
			th->cnt = find_open(th, s->place, true) + 1;
		break;
	case STEP_OVER:
		th->cnt = 0;
		break;
	case STEP_LOST:
		break;
	}
}

int native_tree__add(struct native_tree *t, const struct native_step *s)
{
	if (t->no_memory || ARRAY_GROW(t->steps, t->cap, t->cnt, STEPS_MAX))
		return -ENOMEM;
	t->steps[t->cnt++] = *s;
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct native_step *sa = a, *sb = b;

	return sa->ns < sb->ns ? -1 : sa->ns > sb->ns;
}

size_t native_tree__step_cnt(const struct native_tree *t)
{
	return t->cnt;
}

size_t native_tree__drop(struct native_tree *t)
{
	size_t cnt = t->cnt;

	t->cnt = t->sorted_cnt = 0;
	return cnt;
}

bool native_tree__flush(struct native_tree *t, uint64_t until_ns)
{
	size_t taken = 0;
	bool more;

	if (t->cnt > t->sorted_cnt)
		qsort(t->steps, t->cnt, sizeof(*t->steps), by_time);
	while (taken < t->cnt && taken < STEPS_AT_ONCE && t->steps[taken].ns < until_ns)
		take(t, &t->steps[taken++]);
	more = taken < t->cnt && t->steps[taken].ns < until_ns;
	memmove(t->steps, t->steps + taken, (t->cnt - taken) * sizeof(*t->steps));
	t->cnt -= taken;
	t->sorted_cnt = t->cnt;
	return more;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int by_calls(const void *a, const void *b)
{
	const struct called *ca = a, *cb = b;

	if (ca->calls != cb->calls)
		return ca->calls > cb->calls ? -1 : 1;
	return ca->function < cb->function ? -1 : 1;
}

static void write_row(struct native_tree *t, const struct called *c)
{
	const char *name = t->o.functions->all[c->function].name;
	struct strbuf *b = &t->line;

	strbuf__addf(b, "%10" PRIu64, (uint64_t)c->calls);
	if (t->o.ends) {
		add_time(b, c->total_ns);
		add_time(b, c->own_ns);
	}
	strbuf__addz(b, "  ");
	str_sanitise(b, name, strlen(name), 0);
	strbuf__addc(b, '\n');
	fwrite(b->s ? b->s : "", 1, b->len, stdout);
	strbuf__clear(b);
}

void native_tree__write_table(struct native_tree *t, uint32_t top)
{
	size_t cnt = 0;

	for (size_t i = 0; i < t->o.functions->cnt; i++) {
		if (!t->called[i].calls)
			continue;
		t->called[cnt] = t->called[i];
		t->called[cnt++].function = (uint32_t)i;
	}
	if (!cnt)
		return;
	qsort(t->called, cnt, sizeof(*t->called), by_calls);
	printf("\n%10s%s  FUNCTION\n", "CALLS", t->o.ends ? "      TOTAL        OWN" : "");
	for (size_t i = 0; i < cnt && (!top || i < top); i++)
		write_row(t, &t->called[i]);
}
