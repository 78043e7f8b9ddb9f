/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/openwaits.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "process/waitword.h"
#include "threads/gil.h"
#include "threads/hostwalk.h"
#include "threads/threadlist.h"
#include "threads/waiter.h"

#define THREADS_MAX 16384
#define DEADLINE_NS (10 * NS_PER_S) /* after it, threads count without their stacks */
#define BATCH	    1024
#define TABLE_MAX   (8 * THREADS_MAX)

struct openwaits {
	struct threadlist *list;
	struct thread_now *before; /* that slept at the first look, by process */
	size_t cnt, cap;
};

/* A thread that still waits. */
struct sleeper {
	const struct thread_now *t; /* at the first look */
	const struct process *p;
	uint64_t wait_ns, queue_ns; /* what it counts for */
	uint64_t *words;	    /* its stack, innermost first; without its reason */
	size_t cnt;
	uint64_t leaf;
	bool held; /* `words` are there, if it has not run since */
};

/* The end of a profile. What is not made here is borrowed. */
struct ending {
	struct session *s;
	struct openwaits *w;
	struct profile *profile;
	struct source_asleep a;
	struct process_maps maps;
	struct idmap known; /* tid -> struct wait_thread, in `threads` */
	struct wait_thread *threads;
	struct hostwalk *walker;
	struct sleeper *sleepers;
	size_t sleeper_cnt, sleeper_cap;
	uint64_t deadline_ns;
	bool all_known; /* a thread that is not in the table has slept since the beginning */
};

/* ---- the first look -------------------------------------------------------------------------- */

static bool counts_waits(const struct session *s)
{
	const struct sample_spec *t = session__opts(s)->targets;

	for (uint32_t i = 0; i < t->source_cnt; i++)
		if (t->sources[i].source->asleep &&
		    (t->sources[i].source->type.event == EVENT_OFF_CPU ||
		     t->sources[i].source->type.event == EVENT_WALL))
			return true;
	return false;
}

static int by_process(const void *a, const void *b)
{
	const struct thread_now *x = a, *y = b;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

/* Others may have more threads than there is room for. */
static int keep_sleepers(struct openwaits *w, const struct session *s)
{
	struct process_maps maps;

	session__maps(s, &maps);
	for (size_t i = 0; i < threadlist__cnt(w->list); i++) {
		const struct thread_now *t = threadlist__at(w->list, i);

		const struct process *p = process_table__find_tgid(session__procs(s), t->tgid);

		if (!waiter__sleeps(t) || !p || !waiter__is_chosen(s, &maps, t, p))
			continue;
		if (w->cnt == THREADS_MAX) {
			log_warn("more than %d threads sleep: waits of the others count only if "
				 "they have ended",
				 THREADS_MAX);
			break;
		}
		if (array_grow(&w->before, &w->cap, w->cnt, 1, sizeof(*w->before), THREADS_MAX))
			return -ENOMEM;
		w->before[w->cnt++] = *t;
	}
	if (w->cnt) /* else there is no array */
		qsort(w->before, w->cnt, sizeof(*w->before), by_process);
	return 0;
}

struct openwaits *openwaits__begin(const struct session *s)
{
	struct openwaits *w;
	int err;

	if (!counts_waits(s))
		return NULL;
	w = calloc(1, sizeof(*w));
	if (!w) {
		log_no_memory();
		return NULL;
	}
	w->list = threadlist__open(0);
	err = w->list ? threadlist__read(w->list) : -EIO;
	if (!err)
		err = keep_sleepers(w, s);
	if (!err)
		return w;
	log_warn("threads that still wait: %s: their waits do not count", strerror(-err));
	openwaits__free(w);
	return NULL;
}

void openwaits__free(struct openwaits *w)
{
	if (!w)
		return;
	threadlist__close(w->list);
	free(w->before);
	free(w);
}

/* ---- how long -------------------------------------------------------------------------------- */

/* If the table is larger than our copy, not all threads are known. */
static int read_threads(struct ending *e)
{
	uint32_t keys[BATCH], token, cnt;
	bool first = true;
	size_t have = 0, cap = 0;
	int err = 0;

	while (!err) {
		if (have + BATCH > TABLE_MAX) {
			e->all_known = false;
			break;
		}
		if (array_grow(&e->threads, &cap, have, BATCH, sizeof(*e->threads), TABLE_MAX))
			return -ENOMEM;
		cnt = BATCH;
		err = bpf_map_lookup_batch(e->a.threads_fd, first ? NULL : &token, &token, keys,
					   e->threads + have, &cnt, NULL);
		if (err && err != -ENOENT)
			return err;
		have += cnt;
		first = false;
	}
	for (size_t i = 0; i < have; i++)
		if (idmap__set(&e->known, e->threads[i].tid, &e->threads[i]))
			return -ENOMEM;
	return 0;
}

/* As the kernel half draws waits: those below `step_ns` by their length. */
static uint64_t draw(const struct ending *e, uint64_t ns)
{
	uint64_t step = e->a.step_ns;
	uint32_t any;

	if (ns < e->a.least_ns)
		return 0;
	if (ns >= step)
		return ns;
	if (getrandom(&any, sizeof(any), GRND_NONBLOCK) != sizeof(any))
		any = UINT32_MAX / 2;
	return (any * step) >> 32 < ns ? step : 0;
}

/*
 * Measures a thread's wait. A thread that is not in the table has slept since before the beginning,
 * or it is new and has run unseen: then nothing is known.
 */
static bool measure(const struct ending *e, struct sleeper *s)
{
	const struct wait_thread *k = idmap__get(&e->known, s->t->tid);
	uint64_t out = k ? k->out_ns : e->a.since_ns, end = e->a.until_ns, woken = end;

	if (!k &&
	    (!e->all_known || s->t->state == THREAD_RUNNABLE || s->t->start_ns > e->a.since_ns))
		return false;
	if (!out || out >= end)
		return false; /* it was on a CPU */
	if (k && k->preempted)
		woken = out;
	else if (k && k->woken_ns >= out && k->woken_ns < end)
		woken = k->woken_ns;
	s->wait_ns = draw(e, woken - out);
	s->queue_ns = draw(e, end - woken);
	return s->wait_ns || s->queue_ns;
}

/* ---- whose ----------------------------------------------------------------------------------- */

static bool is_wanted(const struct ending *e, const struct thread_now *t, const struct process *p)
{
	const struct sample_spec *spec = session__opts(e->s)->targets;

	if (!p || !waiter__is_chosen(e->s, &e->maps, t, p))
		return false;
	/* Which control group it is in was asked when it was first counted. */
	return !spec->cgroup || profile__find_proc(e->profile, p->space) >= 0;
}

static int find_sleepers(struct ending *e)
{
	for (size_t i = 0; i < e->w->cnt; i++) {
		struct sleeper s = { .t = &e->w->before[i] };

		s.p = process_table__find_tgid(session__procs(e->s), s.t->tgid);
		if (!is_wanted(e, s.t, s.p) || !measure(e, &s))
			continue;
		if (array_grow(&e->sleepers, &e->sleeper_cap, e->sleeper_cnt, 1,
			       sizeof(*e->sleepers), THREADS_MAX))
			return -ENOMEM;
		e->sleepers[e->sleeper_cnt++] = s;
	}
	return 0;
}

/* ---- its stack ------------------------------------------------------------------------------- */

/* As the programs of the scheduler take it: without frames of the kernel. */
static int keep_stack(const struct ending *e, struct sleeper *s, const struct hoststack *st)
{
	bool native = !session__opts(e->s)->no_native;

	s->words = malloc((st->cnt + 1) * sizeof(*s->words));
	if (!s->words)
		return -ENOMEM;
	for (size_t i = 0; i < st->cnt && s->cnt < MAX_FRAMES - 2; i++) {
		uint64_t tag = FRAME_TAG(st->frames[i]);

		if (native || (tag != FRAME_NATIVE && tag != FRAME_ANON))
			s->words[s->cnt++] = st->frames[i];
	}
	s->held = s->cnt > 0;
	return 0;
}

static int walk(struct ending *e, struct sleeper *s)
{
	struct thread_now t = *s->t;
	struct gil_look gil;
	struct hoststack st;

	t.kernel_cnt = 0;
	hostwalk__walk(e->walker, &t, &st);
	gil__look(e->walker, &t, &st, &gil);
	if (gil.waits)
		s->leaf = WAIT_WORD(WAIT_GIL, WAIT_CALL(s->leaf));
	else if (gil.holds && WAIT_KIND(s->leaf) != WAIT_FAULT)
		s->leaf |= WAIT_HELD;
	return keep_stack(e, s, &st);
}

/* They are in the order of their processes. */
static int walk_all(struct ending *e)
{
	const struct process *at = NULL;
	bool readable = false;
	int err = 0;

	for (size_t i = 0; i < e->sleeper_cnt && !err; i++) {
		struct sleeper *s = &e->sleepers[i];

		s->leaf = wait_word_of_sleeper(s->t);
		if (now_ns() > e->deadline_ns || !(s->t->flags & THREAD_REGS))
			continue;
		if (s->p != at)
			readable = !hostwalk__begin(e->walker, s->p);
		at = s->p;
		if (readable)
			err = walk(e, s);
	}
	return err;
}

/* Who has run since the first look has changed the memory that was read. */
static int check_all(struct ending *e)
{
	int err = threadlist__read(e->w->list);

	for (size_t i = 0; i < e->sleeper_cnt && !err; i++) {
		struct sleeper *s = &e->sleepers[i];
		const struct thread_now *now = threadlist__find(e->w->list, s->t->tid);

		if (!now || !waiter__sleeps(now) || now->switches != s->t->switches)
			s->held = false;
	}
	return err;
}

/* ---- into the profile ------------------------------------------------------------------------ */

/* `words` has room for it. */
static struct dump_stack stack_of(const struct ending *e, const struct sleeper *s, uint64_t leaf,
				  uint64_t ns, uint64_t *words)
{
	struct dump_stack out = { s->p->space, s->t->tid, e->a.type, ns, words, 0 };

	for (size_t i = s->cnt; s->held && i--;)
		words[out.cnt++] = s->words[i];
	if (!s->held)
		words[out.cnt++] = MARKER_WORD(MARK_NOT_TAKEN, 0);
	words[out.cnt++] = leaf;
	return out;
}

/* At once: names of threads are read once for each process. */
static int add_all(struct ending *e)
{
	struct dump_stack *stacks = calloc(2 * e->sleeper_cnt + 1, sizeof(*stacks));
	size_t word_cnt = 0, cnt = 0;
	uint64_t *words, *at;
	int err;

	for (size_t i = 0; i < e->sleeper_cnt; i++)
		word_cnt += 2 * (e->sleepers[i].cnt + 2);
	at = words = calloc(word_cnt + 1, sizeof(*words));
	for (size_t i = 0; i < e->sleeper_cnt && stacks && words; i++) {
		const struct sleeper *s = &e->sleepers[i];

		if (s->wait_ns)
			stacks[cnt++] = stack_of(e, s, s->leaf, s->wait_ns, at);
		at += s->cnt + 2;
		if (s->queue_ns)
			stacks[cnt++] =
				stack_of(e, s, WAIT_WORD(WAIT_CPU, WAIT_NO_CALL), s->queue_ns, at);
		at += s->cnt + 2;
	}
	err = stacks && words ? session__add(e->s, e->profile, stacks, cnt) : log_no_memory();
	free(stacks);
	free(words);
	return err;
}

static int open_walker(struct ending *e)
{
	struct ring_sink sink;

	session__maps(e->s, &e->maps);
	session__sink(e->s, &sink);
	e->walker = hostwalk__new(session__procs(e->s), &e->maps, &sink);
	return e->walker ? 0 : -ENOMEM;
}

static bool table_was_full(struct session *s)
{
	uint64_t counters[CTR_CNT] = { 0 };

	session__counters(s, counters);
	return counters[CTR_note_wait_full];
}

static int add_sleepers(struct ending *e)
{
	int err = open_walker(e);

	e->all_known = !table_was_full(e->s);
	e->deadline_ns = now_ns() + DEADLINE_NS;
	if (!err)
		err = read_threads(e);
	if (!err)
		err = find_sleepers(e);
	if (!err)
		err = walk_all(e);
	if (!err)
		err = check_all(e);
	return err ? err : add_all(e);
}

void openwaits__end(struct openwaits *w, struct session *s, struct profile *p)
{
	struct ending e = { .s = s, .w = w, .profile = p };
	int err = 0;

	if (w && session__asleep(s, &e.a))
		err = add_sleepers(&e);
	if (err)
		log_warn("threads that still wait: %s: their waits do not count", strerror(-err));
	if (w)
		log_debug("%zu threads still wait", e.sleeper_cnt);
	for (size_t i = 0; i < e.sleeper_cnt; i++)
		free(e.sleepers[i].words);
	free(e.sleepers);
	free(e.threads);
	idmap__free(&e.known);
	hostwalk__free(e.walker);
	openwaits__free(w);
}
