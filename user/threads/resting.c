/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/resting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "process/containers.h"
#include "profile/export_text.h"
#include "threads/export_threads.h"
#include "threads/gil.h"
#include "threads/hostwalk.h"
#include "threads/threadlist.h"
#include "threads/waiter.h"

#define THREADS_MAX  (1U << 22)
#define GIL_THREADS  64 /* of a process: of more, nobody is asked for the GIL */
#define GIL_NS	     NS_PER_S
#define STATES_SHOWN 4
#define NAME_CHARS   60

/* A process, and how many threads it has. */
struct resting {
	struct process *p;
	size_t thread_cnt;
};

/* "8 sleeping in futex (lock)" */
struct state {
	char *text;
	size_t cnt;
};

struct lister {
	struct session *s;
	struct profile *profile;
	struct process_maps maps;
	struct threadlist *list;
	struct hostwalk *walker;
	uint64_t deadline_ns; /* for looking at GILs */
	struct resting *all;
	size_t cnt, cap;
	pid_t *group; /* with --pod or --container: the processes there */
	size_t group_cnt;
};

/* ---- which ----------------------------------------------------------------------------------- */

static bool is_in_group(const struct lister *l, uint32_t tgid)
{
	for (size_t i = 0; i < l->group_cnt; i++)
		if (l->group[i] == (pid_t)tgid)
			return true;
	return !session__opts(l->s)->spec->cgroup;
}

static struct process *process_of(const struct lister *l, const struct thread_now *t)
{
	struct process *p = process_table__find_tgid(session__procs(l->s), t->tgid);
	bool python = p && (p->is_python || p->native_only);

	return python && !t->exit_state && waiter__is_chosen(l->s, &l->maps, t, p) &&
			       is_in_group(l, t->tgid)
		       ? p
		       : NULL;
}

static int by_number(const void *a, const void *b)
{
	const struct resting *x = a, *y = b;

	return x->p->tgid < y->p->tgid ? -1 : x->p->tgid > y->p->tgid;
}

static int by_threads(const void *a, const void *b)
{
	const struct resting *x = a, *y = b;

	if (x->thread_cnt != y->thread_cnt)
		return x->thread_cnt > y->thread_cnt ? -1 : 1;
	return by_number(a, b);
}

/* Of an entry for each thread makes one for each process. */
static void merge_threads(struct lister *l)
{
	size_t cnt = 0;

	qsort(l->all, l->cnt, sizeof(*l->all), by_number);
	for (size_t i = 0; i < l->cnt; i++) {
		if (cnt && l->all[cnt - 1].p == l->all[i].p)
			l->all[cnt - 1].thread_cnt++;
		else
			l->all[cnt++] = l->all[i];
	}
	l->cnt = cnt;
	qsort(l->all, l->cnt, sizeof(*l->all), by_threads);
}

static int find_processes(struct lister *l)
{
	int err = threadlist__read(l->list);

	for (size_t i = 0; i < threadlist__cnt(l->list) && !err; i++) {
		struct process *p = process_of(l, threadlist__at(l->list, i));

		if (p)
			err = ARRAY_GROW(l->all, l->cap, l->cnt, THREADS_MAX);
		if (p && !err)
			l->all[l->cnt++] = (struct resting){ p, 1 };
	}
	if (l->cnt)
		merge_threads(l);
	return err;
}

/* ---- for what -------------------------------------------------------------------------------- */

static enum dumped_gil gil_of(struct lister *l, const struct thread_now *t)
{
	struct hoststack st;
	struct gil_look gil;

	if (!l->walker || now_ns() > l->deadline_ns)
		return GIL_UNKNOWN;
	hostwalk__find(l->walker, t, &st);
	gil__look(l->walker, t, &st, &gil);
	if (!gil.addr)
		return GIL_UNKNOWN;
	return gil.waits ? GIL_WAITS : gil.holds ? GIL_HOLDS : GIL_NONE;
}

/* As dump says it. */
static void add_state(struct lister *l, struct strbuf *b, const struct thread_now *t, bool gil)
{
	struct dumped_thread now = { .tid = t->tid, .state = waiter__state(t), .syscall = -1 };

	if (now.state != DUMPED_RUNNING && t->flags & THREAD_REGS)
		now.syscall = t->syscall;
	now.gil = gil ? gil_of(l, t) : GIL_UNKNOWN;
	now.waits_for = waiter__reason(t, &now);
	thread_add_state(b, &now);
}

static int by_count(const void *a, const void *b)
{
	const struct state *x = a, *y = b;

	if (x->cnt != y->cnt)
		return x->cnt > y->cnt ? -1 : 1;
	return strcmp(x->text, y->text);
}

static int count_state(struct state *states, size_t *cnt, struct strbuf *b)
{
	size_t i = 0;

	if (b->err)
		return b->err;
	while (i < *cnt && strcmp(states[i].text, b->s) != 0)
		i++;
	if (i == *cnt) {
		states[i].text = strdup(b->s);
		if (!states[i].text)
			return -ENOMEM;
		++*cnt;
	}
	states[i].cnt++;
	return 0;
}

/* `states` has room for one of each thread; owned by the caller, with its texts. */
static int collect_states(struct lister *l, const struct resting *r, struct state *states,
			  size_t *cnt)
{
	bool gil = r->thread_cnt <= GIL_THREADS && l->walker && !hostwalk__begin(l->walker, r->p);
	struct strbuf b = { 0 };
	size_t seen = 0;
	int err = 0;

	for (size_t i = 0; i < threadlist__cnt(l->list) && seen < r->thread_cnt && !err; i++) {
		const struct thread_now *t = threadlist__at(l->list, i);

		if (t->tgid != r->p->tgid || process_of(l, t) != r->p)
			continue;
		seen++;
		strbuf__clear(&b);
		add_state(l, &b, t, gil);
		err = count_state(states, cnt, &b);
	}
	strbuf__free(&b);
	return err;
}

static void add_states(struct strbuf *b, struct state *states, size_t cnt, size_t threads)
{
	size_t listed = 0;

	qsort(states, cnt, sizeof(*states), by_count);
	for (size_t i = 0; i < cnt && i < STATES_SHOWN; i++) {
		strbuf__addz(b, i ? ", " : "");
		if (threads > 1)
			strbuf__addf(b, "%zu ", states[i].cnt);
		strbuf__addz(b, states[i].text);
		listed += states[i].cnt;
	}
	if (listed < threads)
		strbuf__addf(b, ", and %zu more", threads - listed);
}

/* ---- into the profile ------------------------------------------------------------------------ */

static void add_head(const struct lister *l, struct strbuf *b, const struct resting *r)
{
	const char *title = process_table__title(session__procs(l->s), r->p);
	const char *name = *title ? title : r->p->comm;

	strbuf__addf(b, "%" PRIu32 " ", r->p->tgid);
	str_sanitise(b, name, strlen(name), NAME_CHARS);
	if (*r->p->python) {
		strbuf__addz(b, ", Python ");
		str_sanitise(b, r->p->python, strlen(r->p->python), PYTHON_LEN);
	}
	if (r->thread_cnt > 1)
		strbuf__addf(b, ", %zu threads", r->thread_cnt);
	strbuf__addz(b, ": ");
}

static int note_process(struct lister *l, const struct resting *r)
{
	struct state *states = calloc(r->thread_cnt, sizeof(*states));
	struct strbuf b = { 0 };
	size_t cnt = 0;
	int err = states ? collect_states(l, r, states, &cnt) : -ENOMEM;

	if (!err && cnt) {
		add_head(l, &b, r);
		add_states(&b, states, cnt, r->thread_cnt);
		err = b.err;
	}
	if (!err && cnt)
		l->profile->resting[l->profile->resting_cnt++] =
			profile__intern(l->profile, b.s, b.len);
	for (size_t i = 0; i < cnt; i++)
		free(states[i].text);
	free(states);
	strbuf__free(&b);
	return err;
}

static int open_lister(struct lister *l)
{
	const struct sample_spec *spec = session__opts(l->s)->spec;
	const struct ring_sink none = { .ctx = NULL };

	l->list = threadlist__open(0);
	if (!l->list)
		return -EIO;
	session__maps(l->s, &l->maps);
	l->walker = hostwalk__new(session__procs(l->s), &l->maps, &none);
	l->deadline_ns = now_ns() + GIL_NS;
	/* Which group a path of -C means, only the kernel half knows. */
	return spec->group ? containers__processes("", spec->group, &l->group, &l->group_cnt) : 0;
}

static bool is_all(const struct session *s)
{
	const struct sample_spec *t = session__opts(s)->spec;

	return !t->pid_cnt && !session__opts(s)->command && !t->by_user && !t->comm &&
	       !t->tid_cnt && !t->cgroup;
}

static int note_all(struct lister *l)
{
	int err = open_lister(l);

	if (!err)
		err = find_processes(l);
	for (size_t i = 0; i < l->cnt && i < PROFILE_RESTING_MAX && !err; i++)
		err = note_process(l, &l->all[i]);
	if (err)
		return err;
	if (l->cnt) {
		l->profile->resting_tgid = l->all[0].p->tgid;
		l->profile->resting_more = (uint32_t)l->cnt - l->profile->resting_cnt;
	}
	l->profile->no_python = !l->cnt && is_all(l->s);
	return 0;
}

/* It was asked for time on CPUs. */
static bool samples_time(const struct session *s)
{
	const struct sample_spec *t = session__opts(s)->spec;

	return t->source_cnt && value_type__is_clock(&t->sources[0].source->type);
}

void resting__note(struct session *s, struct profile *p)
{
	struct lister l = { .s = s, .profile = p };
	int err;

	if (p->stack_cnt || !samples_time(s))
		return;
	err = note_all(&l);
	if (err && err != -EIO) /* that was printed */
		log_warn("threads that wait: %s: they are not listed", strerror(-err));
	hostwalk__free(l.walker);
	threadlist__close(l.list);
	free(l.group);
	free(l.all);
}
