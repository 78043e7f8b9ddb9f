/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "top/top.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/signals.h"
#include "python/threadnames.h"
#include "sample/session.h"
#include "sample/threadbook.h"
#include "threads/gil.h"
#include "threads/hostwalk.h"
#include "threads/openwaits.h"
#include "threads/threadlist.h"
#include "top/screen.h"
#include "top/topmodel.h"
#include "top/topview.h"

#define WAITS_SHARE 0.04 /* of a CPU, for stacks of waits that go on */
#define MAX_COMMAND 1024 /* bytes of a command line */
#define MAX_LOOKED  512	 /* limit of threads of a process that are checked for the GIL */
#define MAX_NAMES   4096 /* ... whose names are read */

/* Python's name of a thread; `tid` is its number in its own pid namespace. */
struct python_name {
	uint32_t tid;
	char name[THREADNAMES_MAX_BYTES + 1];
};

struct live {
	const struct top_opts *o;
	struct session *session;
	struct topmodel *model;
	struct topview *view;
	struct screen *screen;
	struct canvas canvas;
	struct profile *window;	   /* since begin_ns, without names */
	struct openwaits *waits;   /* that go on; NULL: they do not count */
	struct threadlist *list;   /* of the process that is looked into */
	struct hostwalk *walker;   /* NULL: its memory cannot be read */
	uint32_t looked_into;	   /* its space; 0: none */
	struct python_name *names; /* of its threads, at the last look that found a new one */
	size_t name_cnt, name_cap;
	struct profile_stats then; /* at begin_ns */
	struct top_status status;
	int signal_fd;
	uint64_t begin_ns, due_ns; /* of the interval */
	uint64_t end_ns;	   /* of all; UINT64_MAX: none */
	bool stop;
};

/* ---- what there is --------------------------------------------------------------------------- */

/* Arguments with blanks between; "" when they cannot be read. They lie in its memory. */
static void read_command(struct readers *rs, uint32_t tgid, char command[MAX_COMMAND])
{
	struct strbuf text = { 0 };
	size_t len;

	opener__text_of(rs, tgid, "cmdline", MAX_COMMAND - 1, &text);
	len = text.len < MAX_COMMAND ? text.len : MAX_COMMAND - 1;
	while (len && !text.s[len - 1])
		len--;
	if (len)
		memcpy(command, text.s, len);
	command[len] = '\0';
	strbuf__free(&text);
	for (size_t i = 0; i < len; i++) /* a script behind -c has lines */
		if (!command[i] || strchr("\t\r\n", command[i]))
			command[i] = ' ';
}

static bool is_shown(const struct live *l, const struct process *p)
{
	const struct sample_spec *t = &l->o->targets;

	if (p->exited || (!t->all && !p->is_python && !p->native_only))
		return false;
	/* Who passes these filters is known when it was sampled. */
	return (!t->comm && !t->cgroup) || topmodel__process(l->model, p->space);
}

static const char *why_not_walked(const struct live *l, const struct process *p)
{
	const struct top_process *known = topmodel__process(l->model, p->space);
	const char *why = p->native_only;

	if (!why && known && known->seen && !known->has_python)
		why = process__why_no_python(p);
	return why ? why : "";
}

static int note_process(struct live *l, struct process *p)
{
	char command[MAX_COMMAND] = "";
	const struct top_process_info info = {
		.space = p->space,
		.tgid = p->tgid,
		.comm = p->comm,
		.title = process_table__title(session__procs(l->session), p),
		.command = command,
		.python = p->python,
		.why = why_not_walked(l, p),
	};

	if (!topmodel__knows(l->model, p->space))
		read_command(process_table__readers(session__procs(l->session)), p->tgid, command);
	return topmodel__set_process(l->model, &info);
}

static int note_processes(struct live *l)
{
	const struct process_table *procs = session__procs(l->session);
	struct process *p;
	int err = 0;

	topmodel__begin_processes(l->model);
	for (size_t at = 0; !err && (p = process_table__next(procs, &at));)
		if (is_shown(l, p))
			err = note_process(l, p);
	topmodel__end_processes(l->model);
	return err;
}

/* ---- the threads of the process that is looked into ------------------------------------------ */

static void close_threads(struct live *l)
{
	hostwalk__free(l->walker);
	threadlist__close(l->list);
	free(l->names);
	l->names = NULL;
	l->name_cnt = l->name_cap = 0;
	l->walker = NULL;
	l->list = NULL;
	l->looked_into = 0;
}

static void open_threads(struct live *l, const struct process *p)
{
	const struct ring_sink none = { .ctx = NULL };
	struct process_maps maps;

	l->looked_into = p->space;
	session__maps(l->session, &maps);
	l->list = threadlist__open(p->tgid);
	if (l->list)
		l->walker = hostwalk__new(session__procs(l->session), &maps, &none);
}

static const char *state_of(const struct thread_now *t)
{
	if (t->exit_state)
		return "ended";
	if (t->flags & THREAD_ON_CPU)
		return "runs";
	if (t->state & THREAD_SLEEPING)
		return "sleeps";
	if (t->state & THREAD_BLOCKED)
		return "blocked";
	if (t->state & THREAD_STOPPED)
		return "stopped";
	return t->state & THREAD_TRACED ? "traced" : "ready";
}

static enum top_gil gil_of(const struct gil_look *gil)
{
	if (!gil->addr)
		return TOP_GIL_UNKNOWN;
	if (gil->waits)
		return TOP_GIL_WAITS;
	return gil->holds ? TOP_GIL_HOLDS : TOP_GIL_NONE;
}

static void look_at_gil(const struct live *l, const struct thread_now *t, struct gil_look *gil)
{
	struct hoststack st;

	*gil = (struct gil_look){ 0 };
	if (t->exit_state)
		return;
	hostwalk__find(l->walker, t, &st);
	gil__look(l->walker, t, &st, gil);
}

/* Threads are read one after the other, so two may seem to hold the GIL: the last one does. */
static bool held_later(const struct gil_look *gil, size_t at, size_t cnt)
{
	for (size_t i = at + 1; i < cnt; i++)
		if (gil[i].holds && gil[i].addr == gil[at].addr)
			return true;
	return false;
}

/* A threadnames_fn. Without memory the thread has the kernel's name. */
static void take_name(void *ctx, uint32_t tid, const char *name)
{
	struct live *l = ctx;
	struct python_name *n;

	if (ARRAY_GROW(l->names, l->name_cap, l->name_cnt, MAX_NAMES))
		return;
	n = &l->names[l->name_cnt++];
	n->tid = tid;
	snprintf(n->name, sizeof(n->name), "%s", name);
}

/*
 * Samples have names; those of sleeping threads have to be read. That is not cheap, so only when
 * one is new.
 */
static void read_names(struct live *l, const struct process *p)
{
	const struct process_table *procs = session__procs(l->session);
	const struct py_binary *bin;
	bool any_new = false;
	uint64_t bias;

	for (size_t i = 0; i < threadlist__cnt(l->list); i++)
		any_new |= !topmodel__thread(l->model, p->space, threadlist__at(l->list, i)->tid);
	bin = any_new ? process_table__python(procs, p, &bias) : NULL;
	l->name_cnt = 0;
	if (bin)
		threadnames__read(process_table__readers(procs), bin, p->tgid, bias, take_name, l);
}

static int note_thread(struct live *l, const struct process *p, const struct thread_now *t,
		       enum top_gil gil)
{
	char comm[sizeof(t->comm) + 1] = "";
	struct top_thread_info info = { .tid = t->tid, .name = comm, .state = state_of(t) };

	info.gil = gil;
	memcpy(comm, t->comm, sizeof(t->comm));
	if (p->is_python && t->tid == p->tgid) {
		info.name = MAIN_THREAD_NAME;
		info.named = true;
	}
	for (size_t i = 0; i < l->name_cnt; i++)
		if (l->names[i].tid == t->inner_tid) {
			info.name = l->names[i].name;
			info.named = true;
			break;
		}
	return topmodel__set_thread(l->model, p->space, &info);
}

static int note_list(struct live *l, const struct process *p)
{
	struct gil_look gil[MAX_LOOKED] = { 0 };
	size_t cnt = threadlist__cnt(l->list), looked = cnt < MAX_LOOKED ? cnt : MAX_LOOKED;
	int err = 0;

	if (!l->walker || hostwalk__begin(l->walker, p))
		looked = 0;
	read_names(l, p);
	for (size_t i = 0; i < looked; i++)
		look_at_gil(l, threadlist__at(l->list, i), &gil[i]);
	for (size_t i = 0; i < cnt && !err; i++) {
		enum top_gil known = i < looked ? gil_of(&gil[i]) : TOP_GIL_UNKNOWN;

		if (known == TOP_GIL_HOLDS && held_later(gil, i, looked))
			known = TOP_GIL_UNKNOWN;
		err = note_thread(l, p, threadlist__at(l->list, i), known);
	}
	return err;
}

/* Sets all threads, also sleeping ones, and the holder of the GIL. */
static int note_threads(struct live *l)
{
	const struct process *p =
		process_table__find(session__procs(l->session), topview__process(l->view));
	int err;

	topmodel__begin_threads(l->model);
	if (!p || p->exited || p->space != l->looked_into)
		close_threads(l);
	if (!p || p->exited)
		return 0;
	if (!l->looked_into)
		open_threads(l, p);
	if (!l->list || threadlist__read(l->list))
		return 0; /* the message has been given */
	err = note_list(l, p);
	topmodel__end_threads(l->model, p->space);
	return err;
}

/* ---- an interval ----------------------------------------------------------------------------- */

static int no_memory(int err)
{
	if (err == -ENOMEM)
		log_no_memory();
	return err;
}

static int begin_interval(struct live *l, uint64_t begin_ns)
{
	profile__free(l->window);
	l->window = profile__new();
	l->begin_ns = begin_ns;
	return l->window ? no_memory(topmodel__give_threads(l->model, l->window))
			 : no_memory(-ENOMEM);
}

static void note_counters(struct live *l, uint64_t duration_ns)
{
	struct top_status *st = &l->status;

	st->now = (struct profile_stats){ 0 };
	session__stats(l->session, &st->now);
	st->last = st->now;
	for (size_t i = 0; i < CTR_CNT; i++)
		st->last.counters[i] -= l->then.counters[i];
	st->last.duration_ns = duration_ns;
	l->then = st->now;
}

/* A failure costs these waits, not the picture. */
static void count_open_waits(struct live *l, uint64_t end_ns)
{
	if (!openwaits__count(l->waits, l->session, l->window, end_ns, WAITS_SHARE))
		return;
	openwaits__free(l->waits);
	l->waits = NULL;
}

/* The counts since the last call become the last interval. */
static int end_interval(struct live *l)
{
	const struct symbolize_opts so = { .lines = true };
	uint64_t end_ns = now_ns(); /* what comes later belongs to the next one */
	int err = session__drain(l->session, l->window);

	if (err)
		return err;
	count_open_waits(l, end_ns);
	note_counters(l, end_ns - l->begin_ns);
	profile_stats__take_values(&l->window->stats, &l->status.now);
	err = session__name(l->session, l->window, &so);
	if (err)
		return err;
	err = topmodel__add(l->model, l->window, l->status.last.duration_ns);
	if (!err)
		err = note_processes(l);
	session__forget(l->session); /* the model has names of its own */
	return err ? no_memory(err) : begin_interval(l, end_ns);
}

static int make_picture(struct live *l)
{
	unsigned rows, cols;

	screen__size(l->screen, &rows, &cols);
	canvas__begin(&l->canvas, rows, cols);
	return topview__draw(l->view, l->model, &l->status, &l->canvas);
}

static int draw(struct live *l)
{
	int err = make_picture(l);

	return no_memory(err ? err : screen__show(l->screen, &l->canvas));
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void on_signals(struct live *l)
{
	struct signalfd_siginfo info;

	while (read(l->signal_fd, &info, sizeof(info)) == sizeof(info))
		l->stop |= info.ssi_signo != SIGCHLD;
}

/* True: the picture has changed. */
static bool on_keys(struct live *l)
{
	bool any = false;
	uint32_t key;

	while (!l->stop && (key = screen__key(l->screen))) {
		any = true;
		l->status.message = "";
		if (!topview__key(l->view, l->model, key)) {
			l->stop = true;
			break;
		}
		/* The next key may go by what this one has changed, as when a row is opened. */
		make_picture(l); /* out of memory shows when it is drawn */
	}
	if (!any && screen__is_gone(l->screen)) {
		log_err("the terminal was closed");
		l->stop = true;
	}
	return any;
}

static bool on_messages(struct live *l)
{
	const char *message = screen__message(l->screen);

	if (message)
		l->status.message = message;
	return message != NULL;
}

static int on_due(struct live *l)
{
	int err = topview__paused(l->view) ? 0 : end_interval(l);

	l->due_ns = now_ns() + l->status.every_ns;
	return err ? err : no_memory(note_threads(l));
}

/* The time is up: the last picture is of all of it, and stays. */
static int on_end(struct live *l)
{
	int err = on_due(l);

	l->stop = true;
	if (!err)
		err = draw(l);
	return err ? err : no_memory(screen__keep(l->screen));
}

static int follow(struct live *l)
{
	int err = draw(l);

	while (!l->stop && !err) {
		uint32_t space = topview__process(l->view);
		bool changed;

		err = session__wait(l->session, l->due_ns < l->end_ns ? l->due_ns : l->end_ns);
		on_signals(l);
		changed = screen__signals(l->screen);
		changed |= on_keys(l);
		if (!err && session__wants_drain(l->session))
			err = session__drain(l->session, l->window);
		if (!err && now_ns() >= l->due_ns) {
			err = on_due(l);
			changed = true;
		} else if (!err && topview__process(l->view) != space) {
			err = no_memory(note_threads(l)); /* at once, not at the next interval */
		}
		changed |= on_messages(l);
		if (!err && !l->stop && now_ns() >= l->end_ns)
			err = on_end(l);
		if (!err && changed && !l->stop)
			err = draw(l);
	}
	return err;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int open_all(struct live *l)
{
	const struct session_opts opts = {
		.spec = &l->o->targets,
		.threads = true,
		.titles = true,
		.realtime = true,
		.loops = SESSION_LOOPS_EACH,
	};
	int err;

	l->signal_fd = signals__open(screen__leave, false);
	if (l->signal_fd < 0) {
		log_err("signals: %s", strerror(-l->signal_fd));
		return l->signal_fd;
	}
	l->model = topmodel__new();
	l->view = topview__new(l->o->native);
	if (!l->model || !l->view)
		return no_memory(-ENOMEM);
	l->session = session__open(&opts);
	if (!l->session)
		return -EIO;
	signals__hand_over(1);
	err = session__start(l->session);
	if (err)
		return err;
	l->waits = openwaits__new(l->session);
	l->screen = screen__open();
	if (!l->screen)
		return -EIO;
	err = session__watch(l->session, l->signal_fd);
	if (!err)
		err = session__watch(l->session, STDIN_FILENO);
	if (!err)
		err = session__watch(l->session, screen__signal_fd(l->screen));
	return err;
}

static int run(struct live *l)
{
	int err = begin_interval(l, now_ns());

	l->status = (struct top_status){
		.frequency_hz = l->o->targets.frequency_hz,
		.every_ns = (uint64_t)llround(l->o->interval_s * 1e9),
		.message = "",
	};
	l->due_ns = l->begin_ns + l->status.every_ns;
	l->end_ns = UINT64_MAX;
	if (l->o->duration_s > 0)
		l->end_ns = l->begin_ns + (uint64_t)llround(l->o->duration_s * 1e9);
	note_counters(l, 0);
	if (!err)
		err = note_processes(l);
	return err ? no_memory(err) : follow(l);
}

static void close_all(struct live *l)
{
	close_threads(l);
	openwaits__free(l->waits);
	session__close(l->session);
	profile__free(l->window);
	topview__free(l->view);
	topmodel__free(l->model);
	canvas__free(&l->canvas);
	screen__close(l->screen); /* last: until here messages are held */
	if (l->signal_fd >= 0)
		close(l->signal_fd);
}

int top(const struct top_opts *o)
{
	struct live l = { .o = o, .signal_fd = -1 };
	int err = screen__check();

	if (!err)
		err = session__check(&o->targets);
	if (!err)
		err = open_all(&l);
	if (!err)
		err = run(&l);
	if (!err)
		err = session__check_python(l.session, NULL);
	close_all(&l);
	return err;
}
