/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * speedscope's JSON (https://www.speedscope.app/file-format-schema.json) -> profile: profiles of
 * the type "sampled", as ours, py-spy and austin2speedscope write them. Names are said once for all
 * ("shared"), behind or before the profiles: so the text is read twice.
 *
 * A profile is a thread or a process, which its name says in the tool's own way:
 *
 *	py-spy	Process 17078 Thread 17083 "second"
 *	ours	the process
 */
#include "import/import_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonread.h"

#define NS_PER_S   1e9
#define FRAMES_MAX (1U << 22)
#define COUNT_MAX  9e18
#define NO_FRAME   UINT32_MAX

struct speedscope {
	struct import *im;
	struct jsonread j;
	uint32_t *syms; /* of shared.frames */
	size_t sym_cnt, sym_cap;
	/* Of the profile that is read */
	struct strbuf name;
	double unit_ns; /* of its weights; 0: they are no time */
	bool bytes, sampled;
	const char *samples, *weights; /* where they stand; NULL: not seen */
	uint32_t *stack;
	size_t cap;
	size_t profile_cnt;
};

static struct text text_of(const struct strbuf *b)
{
	return (struct text){ b->len ? b->s : "", b->len };
}

/* ---- Names ---- */

/* "do_syscall_64_[k]" and "f [lib.so]" are ours. */
static void set_kind(struct frame *f)
{
	size_t open = text__find(f->func, " [", true);

	if (text__ends(f->func, "_[k]")) {
		f->kind = SYM_KERNEL;
		f->func.len -= strlen("_[k]");
	} else if (open && open < f->func.len && text__ends(f->func, "]")) {
		f->kind = SYM_NATIVE;
		f->module = text__part(f->func, open + 2, f->func.len - 1);
		f->func.len = open;
	} else {
		frame__set_kind_by_file(f);
	}
}

/* py-spy -t and -s also put the thread and the process below the stack: the name has them. */
static bool is_of_thread(struct text func)
{
	return text__begins(func, "thread (") ||
	       (text__begins(func, "process ") && text__ends(func, "\""));
}

/* { "name": "main", "file": "/srv/app.py", "line": 3 } */
static int take_frame(struct speedscope *sp)
{
	struct strbuf name = { 0 }, file = { 0 };
	struct jsonread *j = &sp->j;
	struct frame f = { 0 };
	int sym = -ENOMEM;
	double line = 0;
	bool skip;

	if (jsonread__enter(j, '{'))
		while (jsonread__key(j)) {
			if (jsonread__is(j, "name") && jsonread__string(j))
				strbuf__add(&name, j->str.s, j->str.len);
			else if (jsonread__is(j, "file") && jsonread__string(j))
				strbuf__add(&file, j->str.s, j->str.len);
			else if (jsonread__is(j, "line"))
				line = jsonread__number(j);
			else
				jsonread__skip(j);
		}
	f.func = text_of(&name);
	f.file = text_of(&file);
	f.line = line >= 1 && line <= UINT32_MAX ? (uint32_t)line : 0;
	if (f.func.len)
		set_kind(&f);
	else
		f.kind = SYM_MARKER;
	skip = !f.file.len && is_of_thread(f.func);
	if (!name.err && !file.err && !j->str.err)
		sym = frame__sym(sp->im, &f);
	strbuf__free(&name);
	strbuf__free(&file);
	if (sym < 0 || ARRAY_GROW(sp->syms, sp->sym_cap, sp->sym_cnt, FRAMES_MAX))
		return -ENOMEM;
	sp->syms[sp->sym_cnt++] = skip ? NO_FRAME : (uint32_t)sym;
	return 0;
}

static int take_shared(struct speedscope *sp)
{
	struct jsonread *j = &sp->j;
	int err = 0;

	if (!jsonread__enter(j, '{'))
		return 0;
	while (jsonread__key(j)) {
		if (!jsonread__is(j, "frames") || sp->sym_cnt) {
			jsonread__skip(j);
			continue;
		}
		if (jsonread__enter(j, '['))
			while (!err && jsonread__element(j))
				err = take_frame(sp);
		if (err)
			return err;
	}
	return 0;
}

/* ---- Profiles ---- */

/* 'Process 9 "cmd" Thread 9 "name"' as py-spy has it; any other name is the process. */
static void parse_name(struct text t, struct head *h)
{
	static const char process[] = "Process ", thread[] = "Thread ";
	size_t blank, quote;
	uint64_t n;

	*h = (struct head){ .process = t };
	if (text__begins(t, process)) {
		t = text__part(t, strlen(process), t.len);
		blank = text__find(t, " ", false);
		if (!text__number(text__part(t, 0, blank), 10, &n) || n > UINT32_MAX)
			return;
		h->tgid = n;
		t = text__part(t, text__find(t, thread, false), t.len);
	}
	blank = text__find(text__part(t, strlen(thread), t.len), " ", false) + strlen(thread);
	if (!text__begins(t, thread) || !text__number(text__part(t, strlen(thread), blank), 10, &n))
		return;
	h->process = (struct text){ "python", strlen("python") };
	h->tid = n && n <= THREAD_TID(UINT32_MAX) ? THREAD_WORD((uint32_t)n, 0) : 0;
	quote = text__find(t, "\"", false);
	h->thread = text__part(t, quote + 1, t.len - text__ends(t, "\""));
}

static double unit_ns(const struct jsonread *j)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "nanoseconds", 1 },
		      { "microseconds", 1e3 },
		      { "milliseconds", 1e6 },
		      { "seconds", NS_PER_S } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (jsonread__is(j, units[i].name))
			return units[i].ns;
	return 0;
}

/* Reads the properties of a profile, in any order, and finds its samples. */
static void look_at_profile(struct speedscope *sp)
{
	struct jsonread *j = &sp->j;

	strbuf__clear(&sp->name);
	sp->samples = sp->weights = NULL;
	sp->unit_ns = 0;
	sp->bytes = sp->sampled = false;
	if (!jsonread__enter(j, '{'))
		return;
	while (jsonread__key(j)) {
		if (jsonread__is(j, "type") && jsonread__string(j)) {
			sp->sampled = jsonread__is(j, "sampled");
		} else if (jsonread__is(j, "name") && jsonread__string(j)) {
			strbuf__add(&sp->name, j->str.s, j->str.len);
		} else if (jsonread__is(j, "unit") && jsonread__string(j)) {
			sp->unit_ns = unit_ns(j);
			sp->bytes = jsonread__is(j, "bytes");
		} else {
			if (jsonread__is(j, "samples"))
				sp->samples = j->s;
			if (jsonread__is(j, "weights"))
				sp->weights = j->s;
			jsonread__skip(j);
		}
	}
}

/* The value type of the first profile is that of all. */
static int set_value_type(struct speedscope *sp)
{
	struct profile_stats *s = &sp->im->stats;
	struct value_type v = { .event = VALUE_FOREIGN };

	if (!sp->weights)
		v = (struct value_type){ 0 };
	else if (sp->unit_ns > 0)
		v = (struct value_type){ VALUE_FOREIGN, .name = "time", .unit = UNIT_NS };
	else if (sp->bytes)
		v = (struct value_type){ VALUE_FOREIGN, .name = "memory", .unit = UNIT_BYTES };
	else
		v = (struct value_type){ 0 };
	if (s->value_cnt && !value_type__same(&v, &s->values[0]))
		return import_bad(sp->im, "its profiles do not count the same");
	s->values[0] = v;
	s->value_cnt = 1;
	return 0;
}

/* One sample: an array of indexes, outermost first. */
static int take_stack(struct speedscope *sp, struct jsonread *j, size_t *cnt)
{
	*cnt = 0;
	if (!jsonread__enter(j, '['))
		return 0;
	while (jsonread__element(j)) {
		double n = jsonread__number(j);

		if (!(n >= 0 && n < (double)sp->sym_cnt))
			return import_bad(sp->im, "a sample has a frame that is not in the file");
		if (*cnt == IMPORT_MAX_DEPTH)
			return import_bad(sp->im, "a sample has more than %u frames",
					  IMPORT_MAX_DEPTH);
		if (!*cnt && sp->syms[(size_t)n] == NO_FRAME)
			continue;
		if (sp->syms[(size_t)n] == NO_FRAME)
			return import_bad(sp->im, "a sample has a thread as frame");
		if (ARRAY_GROW(sp->stack, sp->cap, *cnt, SIZE_MAX))
			return -ENOMEM;
		sp->stack[(*cnt)++] = sp->syms[(size_t)n];
	}
	return 0;
}

static uint64_t count_of(const struct speedscope *sp, double weight)
{
	double n = sp->unit_ns > 0 ? weight * sp->unit_ns : weight;

	return n >= 0.5 && n < COUNT_MAX ? (uint64_t)(n + 0.5) : 0;
}

static int take_samples(struct speedscope *sp, int proc, uint32_t tid)
{
	struct jsonread stacks = { .s = sp->samples, .end = sp->j.end };
	struct jsonread weights = { .s = sp->weights, .end = sp->j.end };
	bool weighted = sp->weights && jsonread__enter(&weights, '[');
	int err = 0;

	if (jsonread__enter(&stacks, '['))
		while (!err && jsonread__element(&stacks)) {
			uint64_t count = 1;
			size_t cnt;

			err = take_stack(sp, &stacks, &cnt);
			if (weighted) {
				if (!jsonread__element(&weights))
					break;
				count = count_of(sp, jsonread__number(&weights));
			}
			err = err ? err
				  : import_stack(sp->im, 0, proc, tid, sp->stack, cnt,
						 sp->unit_ns > 0 || sp->bytes ? 1 : count, count);
		}
	jsonread__free(&stacks);
	jsonread__free(&weights);
	return err;
}

static int take_profile(struct speedscope *sp)
{
	struct profile_proc proc = { 0 };
	struct head h;
	int err = 0, index;

	look_at_profile(sp);
	if (sp->j.bad || sp->j.str.err || sp->name.err)
		return sp->name.err;
	if (!sp->sampled)
		return import_bad(sp->im,
				  "has calls and returns, not samples: of speedscope's files "
				  "only those with profiles of the type \"sampled\" are read");
	err = set_value_type(sp);
	if (err || !sp->samples)
		return err;
	parse_name(text_of(&sp->name), &h);
	proc.comm = text__intern(sp->im, h.process, &err);
	proc.tgid = (uint32_t)h.tgid;
	index = err ? err : import_proc(sp->im, &proc, 0);
	if (index < 0 ||
	    import_thread(sp->im, index, h.tid, text__intern(sp->im, h.thread, &err)) || err)
		return -ENOMEM;
	sp->profile_cnt++;
	return take_samples(sp, index, h.tid);
}

/* One pass over the object: its value with this key. */
static int for_key(struct speedscope *sp, const char *key, int (*take)(struct speedscope *sp))
{
	struct jsonread *j = &sp->j;
	int err = 0;

	if (jsonread__enter(j, '{'))
		while (!err && jsonread__key(j)) {
			if (jsonread__is(j, key))
				err = take(sp);
			else
				jsonread__skip(j);
		}
	return err;
}

static int take_profiles(struct speedscope *sp)
{
	int err = 0;

	if (jsonread__enter(&sp->j, '['))
		while (!err && jsonread__element(&sp->j))
			err = take_profile(sp);
	return err;
}

int import_speedscope(struct import *im, const char *text, size_t size)
{
	struct speedscope sp = { .im = im, .j = { .s = text, .end = text + size } };
	int err = for_key(&sp, "shared", take_shared);

	if (!err && !sp.j.bad) {
		sp.j.s = text;
		err = for_key(&sp, "profiles", take_profiles);
	}
	if (!err && sp.j.str.err)
		err = -ENOMEM;
	if (!err && (sp.j.bad || !sp.profile_cnt))
		err = import_bad(im, sp.j.bad ? "damaged: no valid JSON"
					      : "JSON, but not speedscope's: " IMPORT_READ);
	jsonread__free(&sp.j);
	strbuf__free(&sp.name);
	free(sp.syms);
	free(sp.stack);
	return err;
}
