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
#include "base/tenant.h"
#include "follow/object.h"
#include "process/waitword.h"
#include "threads/gil.h"
#include "threads/hostwalk.h"
#include "threads/threadlist.h"
#include "threads/turns.h"
#include "threads/waiter.h"

#define THREADS_MAX 16384
#define DEADLINE_NS (10 * NS_PER_S) /* after it, threads count without their stacks */
/* The same of an interval, of which a quarter lies between them. */
#define LEAST_NS    (NS_PER_S / 4)
#define MOST_NS	    (NS_PER_S / 2)
#define WALK_NS	    80000	    /* of CPU time: about what a stack takes, of two processes */
#define SPARED_NS   (10 * NS_PER_S) /* for so long what was not used is kept */
#define BATCH	    1024
#define LISTED_MAX  (2 * THREADS_MAX) /* of each user */
#define TABLE_MAX   (8 * THREADS_MAX)

/* A part of a wait that was counted before the wait has ended. */
struct part {
	uint32_t tid;
	bool gone; /* the wait has ended, or a longer part replaces it */
	struct wait_counted counted;
};

struct openwaits {
	const struct session *s; /* borrowed */
	struct threadlist *list;
	struct thread_now *before; /* that slept at the first look, by process */
	size_t cnt, cap;
	struct part *parts; /* by tid */
	size_t part_cnt, part_cap;
	struct idmap spaces; /* of processes in the last profile and since, with --cgroup */
	size_t next;	     /* sleeper whose stack is read first */
	uint32_t listed[SHARE_SLOTS]; /* threads of each user */
	struct turns rooms;	      /* who has a place in `before`, and whose stack is read */
	struct turns walks;
	uint64_t counted_ns; /* end of the last interval */
	double credit_ns;    /* CPU time that looks may take */
	struct openwaits_stats stats;
	uint64_t code_cnt; /* numbers of code objects that are taken */
	bool crowded;	   /* that was said */
};

/* A thread that still waits. */
struct sleeper {
	const struct thread_now *t; /* at the first look */
	const struct process *p;
	uint64_t wait_ns, queue_ns; /* what it counts for */
	uint64_t *words;	    /* its stack, innermost first; without its reason */
	size_t cnt;
	uint64_t leaf;
	bool turn;	   /* its stack is to be read */
	bool held;	   /* `words` are there, if it has not run since */
	uint64_t out_ns;   /* when its wait began */
	bool unseen;	   /* its wait began before the kernel half did */
	bool slept_on;	   /* it had not run since when it was looked at again */
	struct part *part; /* of this wait, counted before; NULL: none was */
};

/* The end of a profile, or of an interval. What is not made here is borrowed. */
struct look {
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
	uint64_t credit_ns;	     /* CPU time for stacks; 0: any */
	uint32_t most;		     /* stacks are read */
	uint64_t walk_ns;	     /* what these took */
	bool all_known;		     /* the whole table was read */
	bool goes_on;		     /* parts are counted, and counting goes on */
	bool refused;		     /* threads found no room in the table */
	const struct process *asked; /* ... of this process's user at `refused_ns`, the last time */
	uint64_t refused_ns;
};

/* ---- the first look -------------------------------------------------------------------------- */

static bool counts_waits(const struct session *s)
{
	const struct sample_spec *t = session__opts(s)->spec;

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

static const struct process *process_of(const struct openwaits *w, const struct thread_now *t)
{
	return process_table__find_tgid(session__procs(w->s), t->tgid);
}

/* A threadlist_fn. Neither what is on a CPU nor what the session never counts. */
static bool may_count(void *ctx, const struct thread_now *t)
{
	struct openwaits *w = ctx;
	const struct session_opts *o = session__opts(w->s);
	const struct process *p = waiter__sleeps(t) ? process_of(w, t) : NULL;

	if (!p || !(o->spec->all || o->command || p->is_python || p->native_only))
		return false;
	if (w->listed[turns__user(p) % SHARE_SLOTS] == LISTED_MAX) {
		w->stats.left_out++;
		return false;
	}
	w->listed[turns__user(p) % SHARE_SLOTS]++;
	return true;
}

/* Others may have more threads than there is room for. */
static void share_room(struct openwaits *w)
{
	size_t cnt = threadlist__cnt(w->list);

	turns__begin(&w->rooms);
	for (size_t i = 0; i < cnt; i++)
		turns__add(&w->rooms, turns__user(process_of(w, threadlist__at(w->list, i))));
	turns__share(&w->rooms, THREADS_MAX);
	if (cnt > THREADS_MAX && !w->crowded)
		log_warn("more than %d threads sleep: not all are looked at", THREADS_MAX);
	w->crowded |= cnt > THREADS_MAX;
}

static int keep_sleepers(struct openwaits *w)
{
	struct process_maps maps;

	w->cnt = 0;
	session__maps(w->s, &maps);
	share_room(w);
	for (size_t i = 0; i < threadlist__cnt(w->list); i++) {
		const struct thread_now *t = threadlist__at(w->list, i);
		const struct process *p = process_of(w, t);

		if (!turns__take(&w->rooms, turns__user(p))) {
			w->stats.left_out++;
			continue;
		}
		if (!waiter__is_chosen(w->s, &maps, t, p))
			continue;
		if (ARRAY_GROW(w->before, w->cap, w->cnt, THREADS_MAX))
			return -ENOMEM;
		w->before[w->cnt++] = *t;
	}
	if (w->cnt) /* else there is no array */
		qsort(w->before, w->cnt, sizeof(*w->before), by_process);
	return 0;
}

/* The only process whose threads count; 0: there may be several. */
static uint32_t only_process(const struct session *s)
{
	const struct sample_spec *t = session__opts(s)->spec;
	bool one = t->pid_cnt == 1 && !t->children && !session__opts(s)->command;

	return one ? (uint32_t)t->pids[0] : 0;
}

static void say_lost(int err)
{
	log_warn("threads that still wait: %s: their waits do not count", strerror(-err));
}

struct openwaits *openwaits__new(const struct session *s)
{
	struct openwaits *w;

	if (!counts_waits(s))
		return NULL;
	w = calloc(1, sizeof(*w));
	if (!w) {
		log_no_memory();
		return NULL;
	}
	w->s = s;
	w->counted_ns = now_ns();
	w->credit_ns = SPARED_NS; /* no more than that is spared: see give_credit() */
	w->list = threadlist__open(only_process(s));
	if (w->list) {
		threadlist__filter(w->list, may_count, w);
		return w;
	}
	say_lost(-EIO);
	openwaits__free(w);
	return NULL;
}

static int look_first(struct openwaits *w)
{
	int err;

	memset(w->listed, 0, sizeof(w->listed));
	err = threadlist__read(w->list);
	return err ? err : keep_sleepers(w);
}

struct openwaits *openwaits__begin(const struct session *s)
{
	struct openwaits *w = openwaits__new(s);
	int err = w ? look_first(w) : 0;

	if (!err)
		return w;
	say_lost(err);
	openwaits__free(w);
	return NULL;
}

void openwaits__free(struct openwaits *w)
{
	if (!w)
		return;
	threadlist__close(w->list);
	free(w->before);
	free(w->parts);
	idmap__free(&w->spaces);
	free(w);
}

/* ---- what was counted before ----------------------------------------------------------------- */

static int by_tid(const void *a, const void *b)
{
	uint32_t x = ((const struct part *)a)->tid, y = ((const struct part *)b)->tid;

	return (x > y) - (x < y);
}

static void drop_part(const struct look *e, struct part *part)
{
	bpf_map_delete_elem(e->a.counted_fd, &part->tid);
	part->gone = true;
}

/* A part with another beginning is of a thread that may have run since: see known_since(). */
static struct part *find_part(const struct look *e, uint32_t tid, uint64_t out_ns)
{
	const struct openwaits *w = e->w;
	const struct part key = { .tid = tid };
	struct part *part =
		w->part_cnt ? bsearch(&key, w->parts, w->part_cnt, sizeof(key), by_tid) : NULL;

	if (!part || part->counted.out_ns == out_ns)
		return part;
	drop_part(e, part);
	return NULL;
}

/* A thread that the kernel half has never seen run, not a later one of its number. */
static bool still_sleeps(const struct look *e, const struct part *part)
{
	const struct thread_now *t = threadlist__find(e->w->list, part->tid);

	return t && t->start_ns <= part->counted.out_ns;
}

/* Of waits that have ended. */
static void drop_parts(const struct look *e)
{
	for (size_t i = 0; i < e->w->part_cnt; i++) {
		struct part *part = &e->w->parts[i];
		const struct wait_thread *k = idmap__get(&e->known, part->tid);

		if (k ? k->out_ns == part->counted.out_ns : still_sleeps(e, part))
			continue;
		drop_part(e, part);
	}
}

/* ---- how long -------------------------------------------------------------------------------- */

/* If the table is larger than our copy, not all threads are known. */
static int read_threads(struct look *e)
{
	uint32_t keys[BATCH], token, cnt;
	bool first = true;
	size_t have = 0, cap = 0;
	int err = 0;

	free(e->threads);
	e->threads = NULL;
	idmap__free(&e->known);
	e->known = (struct idmap){ 0 };
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
		if (e->threads[i].tgid && /* 0: it has ended */
		    idmap__set(&e->known, e->threads[i].tid, &e->threads[i]))
			return -ENOMEM;
	return 0;
}

/* As the kernel half draws waits. */
static uint64_t draw(const struct look *e, uint64_t ns)
{
	uint32_t any;

	if (ns < e->a.least_ns)
		return 0;
	if (getrandom(&any, sizeof(any), GRND_NONBLOCK) != sizeof(any))
		any = UINT32_MAX / 2;
	return wait_drawn(any, ns, e->a.step_ns);
}

/* When a thread of the process's user last found no room in the table, which has been read. */
static uint64_t refused_ns(struct look *e, const struct process *p)
{
	uint32_t slot;

	if (!e->refused)
		return 0;
	if (e->asked != p) {
		slot = tenant__slot(p->tgid);
		e->asked = p;
		e->refused_ns = 0;
		if (bpf_map_lookup_elem(e->a.refusals_fd, &slot, &e->refused_ns))
			e->refused_ns = e->a.until_ns;
	}
	return e->refused_ns;
}

/* As first_seen() of the kernel half: a thread that is not in the table has not run since. */
static uint64_t known_since(struct look *e, const struct process *p)
{
	uint64_t since_ns = e->a.since_ns, python_ns = process__python_ns(p);
	uint64_t refused = refused_ns(e, p);

	if (since_ns < python_ns)
		since_ns = python_ns;
	return since_ns < refused ? refused : since_ns;
}

/*
 * When a thread's wait began, and when it was woken, or the end. A thread that is not in the table
 * has slept since before the beginning, or it is new and has run unseen: then nothing is known.
 */
static bool find_wait(struct look *e, struct sleeper *s, uint64_t *woken)
{
	const struct wait_thread *k = idmap__get(&e->known, s->t->tid);
	uint64_t end = e->a.until_ns;

	s->unseen = !k;
	s->out_ns = k ? k->out_ns : known_since(e, s->p);
	if (!k && (!e->all_known || s->t->state == THREAD_RUNNABLE || s->t->start_ns > s->out_ns))
		return false;
	if (!s->out_ns || s->out_ns >= end)
		return false; /* it was on a CPU */
	*woken = end;
	if (k && k->preempted)
		*woken = s->out_ns;
	else if (k && k->woken_ns >= s->out_ns && k->woken_ns < end)
		*woken = k->woken_ns;
	return true;
}

/*
 * What counts of a wait that goes on: what was not counted before. Less than a step does not yet,
 * so that nothing is drawn here; nor does a wait that may stay below the least length.
 */
static void measure_part(const struct look *e, struct sleeper *s, uint64_t woken)
{
	uint64_t end = e->a.until_ns, from = s->part ? s->part->counted.until_ns : s->out_ns;
	uint64_t now_for = end - (woken < end ? woken : s->out_ns);

	if (from >= end || end - from < e->a.step_ns || now_for < e->a.least_ns)
		return;
	if (woken > from && woken - s->out_ns >= e->a.least_ns)
		s->wait_ns = woken - from;
	s->queue_ns = end - (woken > from ? woken : from);
}

/* Measures a thread's wait. False: it does not count. */
static bool measure(struct look *e, struct sleeper *s)
{
	uint64_t woken;

	if (!find_wait(e, s, &woken))
		return false;
	s->part = find_part(e, s->t->tid, s->out_ns);
	if (e->goes_on) {
		measure_part(e, s, woken);
	} else {
		s->wait_ns = draw(e, woken - s->out_ns);
		s->queue_ns = draw(e, e->a.until_ns - woken);
	}
	return s->wait_ns || s->queue_ns;
}

/* ---- whose ----------------------------------------------------------------------------------- */

static bool is_wanted(const struct look *e, const struct thread_now *t, const struct process *p)
{
	const struct sample_spec *spec = session__opts(e->s)->spec;

	if (!p || !waiter__is_chosen(e->s, &e->maps, t, p))
		return false;
	/* Which control group it is in was asked when it was first counted. */
	return !spec->cgroup || profile__find_proc(e->profile, p->space) >= 0 ||
	       idmap__get(&e->w->spaces, p->space);
}

int openwaits__note(struct openwaits *w, const struct profile *p)
{
	if (!w || !session__opts(w->s)->spec->cgroup)
		return 0;
	for (size_t i = 0; i < p->proc_cnt; i++)
		if (idmap__set(&w->spaces, p->procs[i].space, w))
			return -ENOMEM;
	return 0;
}

/* For the next look: a process that sleeps counts in no interval by itself. */
static int note_spaces(struct look *e)
{
	idmap__free(&e->w->spaces);
	return openwaits__note(e->w, e->profile);
}

static int find_sleepers(struct look *e)
{
	for (size_t i = 0; i < e->w->cnt; i++) {
		struct sleeper s = { .t = &e->w->before[i] };

		s.p = process_table__find_tgid(session__procs(e->s), s.t->tgid);
		if (!is_wanted(e, s.t, s.p) || !measure(e, &s))
			continue;
		if (ARRAY_GROW(e->sleepers, e->sleeper_cap, e->sleeper_cnt, THREADS_MAX))
			return -ENOMEM;
		e->sleepers[e->sleeper_cnt++] = s;
	}
	return 0;
}

/* ---- its stack ------------------------------------------------------------------------------- */

/* As the programs of the scheduler take it: without frames of the kernel. */
static int keep_stack(const struct look *e, struct sleeper *s, const struct hoststack *st)
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

static int walk(struct look *e, struct sleeper *s)
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

/* Whose stacks are read. Read ones are charged to their user; a look at the others costs little. */
static void share_walks(struct look *e)
{
	struct turns *t = &e->w->walks;

	turns__begin(t);
	for (size_t i = 0; i < e->sleeper_cnt; i++)
		turns__add(t, turns__user(e->sleepers[i].p));
	turns__share(t, e->most);
	for (size_t i = 0; i < e->sleeper_cnt; i++)
		e->sleepers[i].turn = turns__take(t, turns__user(e->sleepers[i].p));
}

static int walk_one(struct look *e, struct sleeper *s)
{
	uint64_t begin_ns = thread_cpu_ns(), ns;
	int err = walk(e, s);

	ns = 2 * (thread_cpu_ns() - begin_ns);
	e->walk_ns += ns > WALK_NS ? ns : WALK_NS; /* a helper reads, as long */
	if (s->p->ids_known)
		bills__note_read(session__bills(e->s), s->p->payer);
	return err;
}

/* A file whose frames come for the first time may cost as much as hundreds of stacks. */
static bool is_late(const struct look *e)
{
	return now_ns() > e->deadline_ns || (e->credit_ns && e->walk_ns > e->credit_ns);
}

/*
 * They are in the order of their processes. If the time does not suffice for all, the next look
 * begins where this one ends.
 */
static int walk_all(struct look *e)
{
	const struct process *at = NULL;
	size_t cnt = e->sleeper_cnt, first = cnt ? e->w->next % cnt : 0;
	bool readable = false, late = false;
	int err = 0;

	share_walks(e);
	for (size_t i = 0; i < cnt && !err; i++) {
		struct sleeper *s = &e->sleepers[(first + i) % cnt];

		s->leaf = wait_word_of_sleeper(s->t);
		if (!late && is_late(e)) {
			late = true;
			e->w->next = first + i;
		}
		e->w->stats.unread += late || !s->turn;
		if (late || !s->turn || !(s->t->flags & THREAD_REGS))
			continue;
		if (s->p != at)
			readable = !hostwalk__begin(e->walker, s->p);
		at = s->p;
		if (readable)
			err = walk_one(e, s);
	}
	return err;
}

/* ---- the second look ------------------------------------------------------------------------- */

/* A threadlist_fn, of the sleepers by tid. Nobody needs the list. */
static bool note_sleeper(void *ctx, const struct thread_now *now)
{
	struct sleeper *s = idmap__get(ctx, now->tid);

	if (s)
		s->slept_on = waiter__sleeps(now) && now->start_ns == s->t->start_ns &&
			      now->switches == s->t->switches;
	return false;
}

/* Who has run since the first look has changed the memory that was read. */
static int look_again(struct look *e)
{
	struct idmap by_tid = { 0 };
	int err = 0;

	for (size_t i = 0; i < e->sleeper_cnt && !err; i++)
		err = idmap__set(&by_tid, e->sleepers[i].t->tid, &e->sleepers[i]);
	threadlist__filter(e->w->list, note_sleeper, &by_tid);
	if (!err)
		err = threadlist__read(e->w->list);
	threadlist__filter(e->w->list, may_count, e->w);
	idmap__free(&by_tid);
	return err;
}

/* ---- the kernel half leaves out what is counted here ----------------------------------------- */

/*
 * Programs that did not see the part, because they began before it was there, have ended, and since
 * then the threads were looked at, and the table was read, in this order. If the wait went on at
 * either, its end will see the part, or has seen it.
 */
static bool went_on(const struct look *e, const struct sleeper *s)
{
	const struct wait_thread *k = idmap__get(&e->known, s->t->tid);

	return k ? k->out_ns == s->out_ns : s->unseen && s->slept_on;
}

/* If it has ended, the part says whether its end saw it. The thread may have ended, too. */
static bool is_left_out(const struct look *e, const struct sleeper *s)
{
	struct wait_counted now;

	return !bpf_map_lookup_elem(e->a.counted_fd, &s->t->tid, &now) &&
	       now.left_ns == s->out_ns && now.until_ns == e->a.until_ns;
}

static int add_part(struct openwaits *w, const struct part *part)
{
	if (ARRAY_GROW(w->parts, w->part_cap, w->part_cnt, 2 * THREADS_MAX))
		return -ENOMEM;
	w->parts[w->part_cnt++] = *part;
	return 0;
}

static void tell(const struct look *e, struct sleeper *s)
{
	const struct wait_counted counted = { s->out_ns, e->a.until_ns, 0 };

	if (bpf_map_update_elem(e->a.counted_fd, &s->t->tid, &counted, BPF_ANY))
		s->wait_ns = s->queue_ns = 0; /* no room: what was told before holds */
	else if (s->part)
		s->part->gone = true;
}

static void drop_gone(struct openwaits *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->part_cnt; i++)
		if (!w->parts[i].gone)
			w->parts[kept++] = w->parts[i];
	w->part_cnt = kept;
}

/* Keeps the part that was told, or leaves the wait to the kernel half. */
static int keep_part(struct look *e, struct sleeper *s)
{
	const struct part part = { .tid = s->t->tid, .counted = { s->out_ns, e->a.until_ns, 0 } };

	if (went_on(e, s)) {
		s->held &= s->slept_on;
		return add_part(e->w, &part);
	}
	if (is_left_out(e, s)) /* it slept until it was told, so its stack was its own */
		return add_part(e->w, &part);
	s->wait_ns = s->queue_ns = 0;
	bpf_map_delete_elem(e->a.counted_fd, &s->t->tid);
	return 0;
}

static int keep_parts(struct look *e)
{
	struct openwaits *w = e->w;
	int err = 0;

	drop_gone(w);
	for (size_t i = 0; i < e->sleeper_cnt && !err; i++)
		if (e->sleepers[i].wait_ns || e->sleepers[i].queue_ns)
			err = keep_part(e, &e->sleepers[i]);
	if (w->part_cnt)
		qsort(w->parts, w->part_cnt, sizeof(*w->parts), by_tid);
	return err;
}

/* What the kernel half cannot be told does not count here. */
static int tell_all(struct look *e)
{
	int err = session__tell(e->s, e->a.until_ns);

	for (size_t i = 0; i < e->sleeper_cnt && !err; i++)
		if (e->sleepers[i].wait_ns || e->sleepers[i].queue_ns)
			tell(e, &e->sleepers[i]);
	if (err)
		return err;
	wait_for_programs();
	err = look_again(e);
	if (!err)
		err = read_threads(e);
	return err ? err : keep_parts(e);
}

/* ---- into the profile ------------------------------------------------------------------------ */

/* `words` has room for it. */
static struct dump_stack stack_of(const struct look *e, const struct sleeper *s, uint64_t leaf,
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
static int add_all(struct look *e)
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
	e->w->stats.parts += cnt;
	err = stacks && words ? session__add(e->s, e->profile, stacks, cnt) : log_no_memory();
	free(stacks);
	free(words);
	return err;
}

static int open_walker(struct look *e)
{
	struct ring_sink sink;

	session__maps(e->s, &e->maps);
	session__sink(e->s, &sink);
	e->walker = hostwalk__new(session__procs(e->s), &e->maps, &sink);
	if (!e->walker)
		return -ENOMEM;
	hostwalk__skip_codes(e->walker, e->w->code_cnt);
	return 0;
}

static bool table_was_full(struct session *s)
{
	uint64_t counters[CTR_CNT] = { 0 };

	session__counters(s, counters);
	return counters[CTR_note_wait_full];
}

static int read_sleepers(struct look *e)
{
	int err = open_walker(e);

	e->all_known = true;
	if (!err)
		err = read_threads(e);
	e->refused = table_was_full(e->s); /* behind it: see refused_ns() */
	if (!err) {
		drop_parts(e);
		err = find_sleepers(e);
	}
	return err ? err : walk_all(e);
}

/* There may be many threads, and a look comes once a minute. */
static void forget_list(struct openwaits *w)
{
	threadlist__forget(w->list);
	free(w->before);
	w->before = NULL;
	w->cnt = w->cap = 0;
}

static void end_look(struct look *e)
{
	if (e->w)
		log_debug("%zu threads still wait", e->sleeper_cnt);
	for (size_t i = 0; i < e->sleeper_cnt; i++)
		free(e->sleepers[i].words);
	if (e->walker)
		e->w->code_cnt = hostwalk__dealt_codes(e->walker);
	free(e->sleepers);
	free(e->threads);
	idmap__free(&e->known);
	hostwalk__free(e->walker);
}

/*
 * What was not used lately is kept, so that a short interval behind a long one has its stacks, too,
 * and many short ones together take no more than their share of a CPU.
 */
static void give_credit(struct openwaits *w, uint64_t interval_ns, double share)
{
	double spared = SPARED_NS * share;

	if (w->credit_ns > spared)
		w->credit_ns = spared;
	w->credit_ns += (double)interval_ns * share;
}

static void take_credit(struct openwaits *w, double ns)
{
	w->credit_ns = w->credit_ns > ns ? w->credit_ns - ns : 0;
}

static void set_bounds(struct look *e, double share)
{
	struct openwaits *w = e->w;
	uint64_t interval_ns = e->a.until_ns - w->counted_ns, most_ns = interval_ns / 4;

	most_ns = most_ns < LEAST_NS ? LEAST_NS : most_ns > MOST_NS ? MOST_NS : most_ns;
	e->deadline_ns = now_ns() + most_ns;
	give_credit(w, interval_ns, share);
	e->most = w->credit_ns < (double)THREADS_MAX * WALK_NS ? (uint32_t)(w->credit_ns / WALK_NS)
							       : THREADS_MAX;
	e->credit_ns = (uint64_t)w->credit_ns + 1;
	w->counted_ns = e->a.until_ns;
}

static int count(struct look *e)
{
	int err = look_first(e->w);

	if (!err)
		err = read_sleepers(e);
	if (!err)
		err = tell_all(e);
	if (!err)
		err = add_all(e);
	return err ? err : note_spaces(e);
}

int openwaits__count(struct openwaits *w, struct session *s, struct profile *p, uint64_t end_ns,
		     double share)
{
	struct look e = { .s = s, .w = w, .profile = p, .goes_on = true };
	uint64_t begin_ns = thread_cpu_ns();
	int err;

	if (!w || !session__asleep(s, &e.a))
		return 0;
	e.a.until_ns = end_ns;
	set_bounds(&e, share);
	err = count(&e);
	end_look(&e);
	forget_list(w);
	take_credit(w, (double)e.walk_ns);
	w->stats.cpu_ns += thread_cpu_ns() - begin_ns;
	if (err)
		say_lost(err);
	return err;
}

void openwaits__stats(const struct openwaits *w, struct openwaits_stats *out)
{
	*out = w ? w->stats : (struct openwaits_stats){ 0 };
}

void openwaits__end(struct openwaits *w, struct session *s, struct profile *p)
{
	struct look e = { .s = s, .w = w, .profile = p, .most = THREADS_MAX };
	int err = 0;

	e.deadline_ns = now_ns() + DEADLINE_NS;
	if (w && session__asleep(s, &e.a))
		err = read_sleepers(&e);
	if (w && !err)
		err = look_again(&e);
	for (size_t i = 0; i < e.sleeper_cnt; i++)
		e.sleepers[i].held &= e.sleepers[i].slept_on;
	if (w && !err)
		err = add_all(&e);
	if (err)
		say_lost(err);
	end_look(&e);
	openwaits__free(w);
}
