/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "import/import_loops.h"

#include <errno.h>
#include <stdlib.h>

#include "profile/pprof.h"

struct numbers {
	struct import *im;
	const struct loop_refs *refs;
	const char *at, *end;
	int err; /* after a message, but for -ENOMEM */
	uint32_t *syms;
	size_t sym_cap;
};

static uint64_t fail(struct numbers *n, int err)
{
	if (!n->err)
		n->err = err == -EBADMSG ? import_bad(n->im, "damaged: what it says of event loops")
					 : err;
	return 0;
}

/* The next one, up to `max`; after an error 0. */
static uint64_t next(struct numbers *n, uint64_t max)
{
	uint64_t value = 0;
	const char *digits;

	if (n->err || n->at == n->end || *n->at != ' ')
		return fail(n, -EBADMSG);
	digits = ++n->at;
	while (n->at != n->end && *n->at >= '0' && *n->at <= '9') {
		unsigned digit = (unsigned)(*n->at++ - '0');

		if (value > (max - digit) / 10 || digit > max)
			return fail(n, -EBADMSG);
		value = 10 * value + digit;
	}
	return n->at == digits ? fail(n, -EBADMSG) : value;
}

static struct profile_loop_stack read_stack(struct numbers *n)
{
	struct profile_loop_stack s = { .stack = UINT32_MAX, .ns = next(n, INT64_MAX) };
	uint32_t cnt = (uint32_t)next(n, IMPORT_MAX_DEPTH);

	for (uint32_t i = 0; i < cnt && !n->err; i++) {
		uint64_t location = next(n, UINT64_MAX);
		int sym = n->err ? n->err : n->refs->sym(n->refs->ctx, location);

		if (sym >= 0 && ARRAY_GROW(n->syms, n->sym_cap, i, UINT32_MAX))
			sym = -ENOMEM;
		if (sym < 0)
			n->err = sym;
		else
			n->syms[i] = (uint32_t)sym;
	}
	if (!n->err && profile__keep_syms(n->im->p, &s, n->syms, cnt))
		n->err = -ENOMEM;
	return s;
}

static void read_stretch(struct numbers *n, struct profile_stretch *s)
{
	s->begin_ns = next(n, INT64_MAX);
	s->ns = next(n, INT64_MAX);
	s->open = next(n, 1);
	s->stack_cnt = (uint32_t)next(n, LOOP_STACKS);
	for (uint32_t i = 0; i < s->stack_cnt && !n->err; i++)
		s->stacks[i] = read_stack(n);
}

static void read_loop(struct numbers *n, int proc)
{
	struct profile_loop l = { .tid = (uint32_t)next(n, UINT32_MAX) };
	uint32_t buckets;

	l.cnt = next(n, INT64_MAX);
	l.busy_ns = next(n, INT64_MAX);
	l.slow_cnt = next(n, INT64_MAX);
	l.slow_ns = next(n, INT64_MAX);
	buckets = (uint32_t)next(n, LOOP_BUCKETS);
	for (uint32_t i = 0; i < buckets; i++)
		l.hist[i] = (uint32_t)next(n, UINT32_MAX);
	l.poll = read_stack(n);
	l.longest_cnt = (uint32_t)next(n, LOOP_LONGEST + 1);
	for (uint32_t i = 0; i < l.longest_cnt && !n->err; i++)
		read_stretch(n, &l.longest[i]);
	if (n->err || proc < 0)
		return;
	l.space = n->im->p->procs[proc].space;
	n->err = profile__add_loop(n->im->p, &l);
}

static void read_await(struct numbers *n, int proc)
{
	struct profile_await a = { .own = next(n, 1) };
	struct profile_loop_stack s;

	a.looks = (uint32_t)next(n, UINT32_MAX);
	a.of = (uint32_t)next(n, UINT32_MAX);
	a.cut = (uint32_t)next(n, UINT32_MAX);
	a.tasks = next(n, INT64_MAX);
	a.came = next(n, INT64_MAX);
	s = read_stack(n);
	/* Exporters divide by both. */
	if (!n->err && (!a.looks || a.looks > a.of))
		fail(n, -EBADMSG);
	if (n->err || proc < 0)
		return;
	a.space = n->im->p->procs[proc].space;
	n->err = profile__add_await(n->im->p, &a, n->syms, s.cnt);
}

int import_loops(struct import *im, const char *text, size_t len, const struct loop_refs *refs)
{
	struct numbers n = { .im = im, .refs = refs, .at = text, .end = text + len };
	uint32_t cnt[PPROF_AWAIT + 1] = { 0 };

	while (!n.err && n.at != n.end) {
		uint32_t kind = (uint32_t)next(&n, PPROF_AWAIT);
		uint64_t sample = next(&n, UINT32_MAX);
		int proc = n.err ? -1 : refs->proc(refs->ctx, sample);

		if (!n.err && (!kind || cnt[kind]++ == PPROF_LOOPS_MAX))
			fail(&n, -EBADMSG);
		else if (kind == PPROF_LOOP)
			read_loop(&n, proc);
		else
			read_await(&n, proc);
	}
	free(n.syms);
	return n.err;
}
