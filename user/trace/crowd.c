/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/crowd.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/procfield.h"
#include "base/str.h"
#include "follow/held.h"
#include "follow/uprobe.h"
#include "process/called.h"
#include "process/descendants.h"
#include "process/maps_read.h"
#include "process/mmapwatch.h"
#include "process/unsupported.h"
#include "trace/advice.h"
#include "trace/price.h"
#include "trace/window.h"

#define FILES_MAX     4096 /* that may be interpreters */
#define TRACERS_MAX   64
#define TIMED_MAX     16 /* tracers with events: 20 MiB each */
#define FAILURES_MAX  8	 /* of the kernel to load a tracer: then none is tried any more */
#define PROCESSES_MAX 4096
#define KIN_MAX	      (1 << 20)
#define REASONS_MAX   16
#define REFUSALS_MAX  20  /* that are said */
#define NEW_FILES_MAX 64  /* of a process and a scan: it is looked at again in the next one */
#define OF_PROCESS    512 /* files */
#define CLOSE_MAX     256 /* links at a time */
/* Of a scan: the others have to wait for the next one. */
#define LOOK_NS	      (100 * NS_PER_MS)
#define FIRST_LOOK_NS (10 * NS_PER_S)
#define AGAIN_NS      NS_PER_S /* between two looks at all because records were lost */

/* What is known of a process number; else a struct crowd_process. */
#define NOT_PYTHON    ((void *)1)

/* The processes that were asked for, and their descendants, as the last scan saw them. */
struct kin {
	pid_t *pids; /* parents before children */
	size_t cnt, cap;
};

struct crowd_state {
	struct readers *readers;
	struct kin kin;
	struct held_watch held;
	struct exec_maps maps;
	struct mmapwatch *watch; /* NULL: programs that are executed later may be missed */
	struct idmap known;	 /* by process */
	struct strbuf reasons[REASONS_MAX]; /* why some cannot be traced, each said once */
	size_t reason_cnt, tracer_cnt, failure_cnt, refused_cnt;
	size_t tidied; /* the file whose tracer was tidied last */
	bool attached, full, many_files, made_room;
	int64_t trap_ns; /* 0: not known */
	double link_ns;	 /* that a hit takes for each further process of its interpreter */
	/* The scan that is made. */
	uint64_t look_until_ns;
	pid_t look_from; /* the one before came so far */
	pid_t stopped;	 /* 0: it has not run out of time */
	bool again;	 /* those that were no Python are looked at, too */
	bool lost;	 /* records of what they executed */
	uint64_t last_again_ns;
};

static int add_kin(struct kin *k, pid_t pid)
{
	int err = ARRAY_GROW(k->pids, k->cap, k->cnt, KIN_MAX);

	if (!err)
		k->pids[k->cnt++] = pid;
	return err;
}

struct crowd *crowd__new(const struct crowd_opts *o)
{
	struct crowd *c = calloc(1, sizeof(*c));
	struct crowd_state *s = c ? calloc(1, sizeof(*s)) : NULL;

	if (!s) {
		log_no_memory();
		free(c);
		return NULL;
	}
	c->o = *o;
	c->state = s;
	c->o.slow.windows = o->slow.percentile > 0 ? windows__new() : NULL;
	if (o->slow.percentile > 0 && !c->o.slow.windows) {
		log_no_memory();
		crowd__free(c);
		return NULL;
	}
	for (size_t i = 0; i < o->root_cnt; i++)
		if (add_kin(&s->kin, o->roots[i])) {
			log_no_memory();
			crowd__free(c);
			return NULL;
		}
	s->readers = readers__new();
	if (s->readers)
		readers__start(s->readers);
	s->watch = mmapwatch__new(0, MMAPWATCH_HALF);
	if (!s->watch)
		log_warn("processes that execute Python later than they start may be missed: perf "
			 "events: %s",
			 strerror(errno));
	if (held__permits(&s->held) && uprobe__measure_multi(&s->trap_ns, &s->link_ns))
		s->trap_ns = 0;
	log_debug("a hit takes %lld ns, and %.1f ns more for each further process",
		  (long long)s->trap_ns, s->link_ns);
	return c;
}

static void free_file(struct crowd_file *f)
{
	tracer__close(f->tracer);
	timing__free(f->timing);
	if (f->target.pid)
		target__close(&f->target);
	traced_list__free(&f->now);
	traced_list__free(&f->before);
	free(f);
}

/* The kernel may have forgotten it, and counted from 0 again. */
static void take_hits(struct crowd_process *p)
{
	uint64_t hits = tracer__hits(p->file->tracer, p->pid);

	p->hits += hits < p->seen_hits ? hits : hits - p->seen_hits;
	p->seen_hits = hits;
}

/* Its breakpoints are gone, and all its events were drained. */
static void forget_hits(struct crowd_process *p)
{
	p->file->user_cnt--;
	if (p->file->timing)
		timing__end_process(p->file->timing, p->pid);
	tracer__forget(p->file->tracer, p->pid);
}

/* Takes the breakpoints away from those that have been left, as many as can be at a time. */
static size_t close_links(struct crowd *c, struct crowd_process *closed[CLOSE_MAX])
{
	int links[CLOSE_MAX];
	size_t cnt = 0;

	for (size_t i = 0; i < c->cnt && cnt < CLOSE_MAX; i++) {
		if (!c->all[i]->left || c->all[i]->link < 0)
			continue;
		links[cnt] = c->all[i]->link;
		c->all[i]->link = -1;
		closed[cnt++] = c->all[i];
	}
	uprobe__close_links(links, cnt);
	return cnt;
}

/* All events that had come before. */
static void drain_all(struct crowd *c)
{
	for (int i = 0; i < TRACER_DRAINS && crowd__drain(c); i++)
		;
}

static void remove_breakpoints(struct crowd *c)
{
	struct crowd_process *closed[CLOSE_MAX];
	size_t cnt;

	do {
		cnt = close_links(c, closed);
		if (cnt)
			drain_all(c);
		for (size_t i = 0; i < cnt; i++)
			forget_hits(closed[i]);
	} while (cnt == CLOSE_MAX);
}

/* The breakpoints go with settle(). */
static void leave(struct crowd_process *p)
{
	if (p->left)
		return;
	p->left = true;
	if (p->link >= 0)
		take_hits(p);
	else
		p->file->user_cnt--;
}

void crowd__free(struct crowd *c)
{
	int links[PROCESSES_MAX];
	size_t cnt = 0;

	if (!c)
		return;
	for (size_t i = 0; i < c->cnt; i++) {
		if (c->all[i]->link >= 0)
			links[cnt++] = c->all[i]->link;
		free(c->all[i]);
	}
	uprobe__leave_links(links, cnt);
	for (size_t i = 0; i < c->file_cnt; i++)
		free_file(c->files[i]);
	windows__free(c->o.slow.windows);
	for (size_t i = 0; i < c->state->reason_cnt; i++)
		strbuf__free(&c->state->reasons[i]);
	mmapwatch__free(c->state->watch);
	exec_maps__free(&c->state->maps);
	idmap__free(&c->state->known);
	free(c->state->kin.pids);
	readers__free(c->state->readers);
	held__end(&c->state->held);
	free(c->state);
	free(c->all);
	free(c->files);
	free(c);
}

/* ---- what cannot be traced ------------------------------------------------------------------- */

static bool runs(pid_t pid)
{
	char path[32], state[2];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return !procfield__read(path, "State", state, sizeof(state)) && *state != 'Z' &&
	       *state != 'X';
}

/* Each reason once, with the first process that it holds for. */
static void say_untraceable(struct crowd *c, pid_t pid, const char *why)
{
	struct crowd_state *s = c->state;
	struct strbuf text = { 0 };

	str_sanitise(&text, why, strlen(why), 0);
	for (size_t i = 0; i < s->reason_cnt && text.s; i++)
		if (!strcmp(s->reasons[i].s, text.s))
			goto out;
	if (!text.s || text.err || s->reason_cnt == REASONS_MAX)
		goto out;
	log_warn("process %d, and others like it, are not traced: %s", pid, text.s);
	s->reasons[s->reason_cnt++] = text;
	return;
out:
	strbuf__free(&text);
}

/* Why a process could not be looked at, or a file of it, which may be its interpreter. */
static void say_unread(struct crowd *c, pid_t pid, int err)
{
	if (!runs(pid))
		return; /* it has ended meanwhile */
	if (err == -EACCES || err == -EPERM)
		say_untraceable(c, pid, "its memory cannot be read (needs CAP_SYS_PTRACE)");
	else if (err == -ETIMEDOUT)
		say_untraceable(c, pid, "its files or its memory do not answer");
	else if (err == -ESTALE)
		say_untraceable(c, pid, "the file of its interpreter " UNSUPPORTED_UNREAD);
	else
		say_untraceable(c, pid, reader__why(err));
}

/* ---- interpreters ---------------------------------------------------------------------------- */

static bool is_called_python(const struct map_line *line)
{
	return memmem(line->name, line->name_len, "python", 6);
}

static bool is_candidate(const struct map_line *line, bool first)
{
	return line->inode && (first || is_called_python(line));
}

static struct crowd_file *find_file(const struct crowd *c, const struct map_line *line)
{
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i]->inode == line->inode && c->files[i]->major == line->major &&
		    c->files[i]->minor == line->minor)
			return c->files[i];
	return NULL;
}

/* Programs that are no Python make room, and what cannot be traced. */
static void forget_others(struct crowd *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->file_cnt; i++) {
		if (c->files[i]->kind == CROWD_PYTHON)
			c->files[kept++] = c->files[i];
		else
			free_file(c->files[i]);
	}
	c->file_cnt = kept;
}

static void forget_process(struct crowd *c, struct crowd_process *p)
{
	if (idmap__get(&c->state->known, (uint64_t)p->pid) == p)
		idmap__remove(&c->state->known, (uint64_t)p->pid);
	free(p);
}

/* Those of this interpreter, all of which have ended; NULL: all that have ended. */
static void forget_processes(struct crowd *c, const struct crowd_file *of)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->cnt; i++) {
		struct crowd_process *p = c->all[i];

		if (of ? p->file == of : p->gone && p->link < 0)
			forget_process(c, p);
		else
			c->all[kept++] = p;
	}
	c->cnt = kept;
}

bool crowd__is_filtered(const struct crowd *c)
{
	return c->o.filter_cnt || c->o.only || c->o.from;
}

static void keep_sums(struct crowd *c, struct crowd_file *f)
{
	uint64_t n[TRACE_CTR_CNT] = { 0 };

	tracer__counters(f->tracer, n);
	for (int i = 0; i < TRACE_CTR_CNT; i++)
		c->former[i] += n[i];
	if (f->timing) {
		c->former_calls += timing__call_cnt(f->timing);
		c->former_resumed += timing__resumed_cnt(f->timing);
		timing__lose(f->timing, tracer__lost(f->tracer)); /* is said now, or never */
		c->former_lost += timing__lost_cnt(f->timing);
		timing__report(f->timing, crowd__is_filtered(c));
		if (c->o.pictures[PICTURE_CALLS] && timing__draw(f->timing, c->o.pictures))
			log_no_memory();
		return;
	}
	if (tracer__read(f->tracer, &f->now))
		return;
	for (size_t i = 0; i < f->now.cnt; i++) {
		if (!tracer__wants(f->tracer, &f->now.all[i].function))
			continue;
		c->former_calls += f->now.all[i].calls;
		c->former_resumed += f->now.all[i].resumed;
	}
}

static bool is_used(const struct crowd *c, const struct crowd_file *f)
{
	for (size_t i = 0; i < c->cnt; i++)
		if (c->all[i]->file == f && (!c->all[i]->gone || c->all[i]->link >= 0))
			return true;
	return false;
}

static size_t tracers_max(const struct crowd *c)
{
	return c->o.mode == TIMING_NONE ? TRACERS_MAX : TIMED_MAX;
}

/* An interpreter makes room whose processes have all ended. */
static void forget_interpreter(struct crowd *c)
{
	size_t at = 0;

	while (at < c->file_cnt && (c->files[at]->kind != CROWD_PYTHON || is_used(c, c->files[at])))
		at++;
	if (at == c->file_cnt)
		return;
	if (!c->state->made_room)
		log_warn("functions of interpreters that no process runs any more are not shown, "
			 "as there are more than %zu",
			 tracers_max(c));
	c->state->made_room = true;
	keep_sums(c, c->files[at]);
	forget_processes(c, c->files[at]);
	free_file(c->files[at]);
	memmove(&c->files[at], &c->files[at + 1], (c->file_cnt - at - 1) * sizeof(*c->files));
	c->file_cnt--;
	c->state->tracer_cnt--;
}

/* Of an interpreter. NULL: no memory. */
static struct timing *new_timing(const struct crowd *c, const struct crowd_file *f)
{
	struct call_picture *picture = c->o.pictures[PICTURE_CALLS];
	struct timing *t = timing__new(c->o.mode, c->o.json, c->o.slow);

	if (!t)
		return NULL;
	timing__set_format(t, c->o.format);
	timing__set_many(t, c->o.blocks, f->target.py.version);
	timing__want_from(t, c->o.from);
	timing__want_values(t, c->o.args, c->o.returns, c->o.only);
	if (!picture || !timing__want_picture(t, picture))
		return t;
	timing__free(t);
	return NULL;
}

static void open_tracer(struct crowd *c, struct crowd_file *f, pid_t pid)
{
	const struct tracer_events *events = NULL;
	struct crowd_state *s = c->state;
	const char *why_not = NULL;

	f->kind = CROWD_UNTRACEABLE;
	if (c->o.mode != TIMING_NONE) {
		f->timing = new_timing(c, f);
		events = f->timing ? timing__events(f->timing) : NULL;
	}
	if (s->failure_cnt < FAILURES_MAX && (events || c->o.mode == TIMING_NONE))
		f->tracer = tracer__open_many(&f->target, c->o.filters, c->o.filter_cnt,
					      c->o.threads, events, s->trap_ns, &why_not);
	if (f->tracer && f->timing)
		timing__start(f->timing, f->tracer, c->start_ns);
	if (!f->tracer) {
		timing__free(f->timing);
		f->timing = NULL;
		s->failure_cnt += !why_not;
		if (why_not)
			say_untraceable(c, pid, why_not);
		return;
	}
	f->kind = CROWD_PYTHON;
	s->tracer_cnt++;
	if (f->target.generates && f->target.py.version_hex >= PY_VERSION_MINOR_HEX(3, 13))
		log_warn(
			"process %d has generated code: calls of functions that a JIT compiled are "
			"not counted (-p %d says how much of its time is there)",
			pid, pid);
}

/* What this process tells of the file behind one of its mappings. */
static void analyse(struct crowd *c, struct crowd_file *f, pid_t pid, int proc_fd,
		    const struct map_line *line)
{
	struct crowd_state *s = c->state;
	int err = target__open_mapped(&f->target, s->readers, pid, proc_fd, &s->maps, line);

	f->tried = pid;
	f->kind = err == -ENOENT    ? CROWD_OTHER
		  : err == -ENOTSUP ? CROWD_UNTRACEABLE
				    : CROWD_UNKNOWN;
	if (err == -ENOTSUP && f->target.py.why_not)
		say_untraceable(c, pid, f->target.py.why_not);
	/* Of any program it is not known that it is Python. */
	else if (err && err != -ENOENT && is_called_python(line))
		say_unread(c, pid, err);
	if (!err && s->tracer_cnt == tracers_max(c))
		forget_interpreter(c);
	if (!err && s->tracer_cnt < tracers_max(c))
		open_tracer(c, f, pid);
	else if (!err && !s->many_files)
		log_warn("process %d, and others of further interpreters, are not traced: at most "
			 "%zu interpreters at a time",
			 pid, tracers_max(c));
	s->many_files |= !err && f->kind == CROWD_UNKNOWN;
	if (f->kind == CROWD_PYTHON)
		return;
	target__close(&f->target);
	f->target = (struct target){ 0 };
}

/* NULL: no memory, or too many interpreters. */
static struct crowd_file *add_file(struct crowd *c, const struct map_line *line)
{
	struct crowd_file *f = NULL;

	if (c->file_cnt == FILES_MAX)
		forget_others(c);
	if (!ARRAY_GROW(c->files, c->file_cap, c->file_cnt, FILES_MAX))
		f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->major = line->major;
	f->minor = line->minor;
	f->inode = line->inode;
	c->files[c->file_cnt++] = f;
	return f;
}

/* ---- processes ------------------------------------------------------------------------------- */

static void set_name(struct crowd *c, struct crowd_process *p)
{
	struct strbuf name = { 0 }, clean = { 0 };
	char path[32], comm[64] = "?";

	if (!called__title(c->state->readers, p->pid, &name)) {
		snprintf(path, sizeof(path), "/proc/%d/status", p->pid);
		if (procfield__read(path, "Name", comm, sizeof(comm)))
			strcpy(comm, "?");
		strbuf__addz(&name, comm);
	}
	if (name.s)
		str_sanitise(&clean, name.s, name.len, CROWD_NAME_MAX);
	snprintf(p->name, sizeof(p->name), "%s", clean.s && !clean.err ? clean.s : "?");
	strbuf__free(&name);
	strbuf__free(&clean);
}

static void follow(struct crowd *c, struct crowd_process *p)
{
	int link = tracer__follow(p->file->tracer, p->pid);

	if (link < 0)
		leave(p);
	if (link == -ESRCH) {
		p->gone = true;
		return;
	}
	if (link < 0) {
		say_untraceable(c, p->pid,
				link == -EINVAL || link == -EOPNOTSUPP
					? "breakpoints in many processes need Linux 6.6"
				: link == -EMFILE ? "there are too many open files (ulimit -n)"
						  : strerror(-link));
		return;
	}
	p->link = link;
	p->look.ns = now_ns();
	if (!price__cpu_ns(p->pid, &p->look.cpu_ns))
		p->look.cpu_ns = 0;
	p->seen_hits = 0; /* tracer__forget() */
	log_debug("process %d (%s) is traced", p->pid, p->name);
}

/* Of what is known of a process number. */
static bool is_gone(const void *what)
{
	return what && what != NOT_PYTHON && ((const struct crowd_process *)what)->gone;
}

/* Sets and removes breakpoints, if all processes answer. */
static void settle(struct crowd *c)
{
	bool any = false;

	for (size_t i = 0; i < c->cnt && !any; i++)
		any = c->all[i]->left == (c->all[i]->link >= 0);
	if (!any || !c->state->attached || !held__permits(&c->state->held))
		return;
	/* Its number may be another process's already. */
	remove_breakpoints(c);
	for (size_t i = 0; i < c->cnt; i++)
		if (!c->all[i]->left && c->all[i]->link < 0)
			follow(c, c->all[i]);
}

/* NULL: it is not traced. */
static struct crowd_process *add_process(struct crowd *c, pid_t pid, struct crowd_file *f,
					 uint64_t found_ns)
{
	struct crowd_process *p = NULL;

	if (c->cnt == PROCESSES_MAX)
		forget_processes(c, NULL);
	if (c->cnt == PROCESSES_MAX && !c->state->full)
		log_warn("process %d, and further ones, are not traced: at most %d at a time", pid,
			 PROCESSES_MAX);
	c->state->full |= c->cnt == PROCESSES_MAX;
	if (!ARRAY_GROW(c->all, c->cap, c->cnt, PROCESSES_MAX))
		p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct crowd_process){
		.pid = pid, .file = f, .link = -1, .look.slowdown = -1, .found_ns = found_ns
	};
	set_name(c, p);
	f->user_cnt++;
	c->all[c->cnt++] = p;
	return p;
}

/*
 * Its interpreter; NULL: none that can be traced (`*untraceable`), it is not Python, or this has to
 * go on in the next scan (`*more`).
 */
static struct crowd_file *look_at_files(struct crowd *c, pid_t pid, int proc_fd, bool *untraceable,
					bool *more)
{
	struct exec_maps *m = &c->state->maps;
	size_t file_cnt = 0, new_cnt = 0;
	uint64_t last = 0;

	for (size_t i = 0; i < m->cnt && file_cnt < OF_PROCESS; i++) {
		struct crowd_file *f;

		if (m->lines[i].inode == last || !is_candidate(&m->lines[i], !last))
			continue;
		last = m->lines[i].inode;
		file_cnt++;
		f = find_file(c, &m->lines[i]);
		*more = (!f || (f->kind == CROWD_UNKNOWN && f->tried != pid)) &&
			new_cnt++ == NEW_FILES_MAX && c->state->attached;
		if (*more)
			return NULL;
		if (!f)
			f = add_file(c, &m->lines[i]);
		if (f && f->kind == CROWD_UNKNOWN && f->tried != pid)
			analyse(c, f, pid, proc_fd, &m->lines[i]);
		if (f && f->kind == CROWD_PYTHON)
			return f;
		*untraceable |= f && f->kind == CROWD_UNTRACEABLE;
	}
	return NULL;
}

static bool may_be_python(const struct exec_maps *m)
{
	static const char *const words[] = { "python", "pypy", "qemu" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words) && m->cnt; i++)
		if (memmem(m->lines[0].name, m->lines[0].name_len, words[i], strlen(words[i])))
			return true;
	return false;
}

/* What to note of a process number that is new, or has another program. NULL: look again. */
static void *look(struct crowd *c, pid_t pid)
{
	int proc_fd = opener__proc_dir((uint32_t)pid), err;
	struct crowd_process *p = NULL;
	uint64_t found_ns = now_ns();
	char why[UNSUPPORTED_LEN];
	bool untraceable = false, more = false;
	struct crowd_file *f;

	if (proc_fd < 0)
		return NOT_PYTHON;
	err = exec_maps__ask(&c->state->maps, c->state->readers, (uint32_t)pid, proc_fd);
	if (err) {
		say_unread(c, pid, err);
	} else {
		f = look_at_files(c, pid, proc_fd, &untraceable, &more);
		if (f)
			p = add_process(c, pid, f, found_ns);
		else if (!untraceable && !more && may_be_python(&c->state->maps) &&
			 unsupported__explain(c->state->readers, pid, why))
			say_untraceable(c, pid, why);
	}
	close(proc_fd);
	if (more)
		return NULL;
	return p ? (void *)p : NOT_PYTHON;
}

/* A program was executed, or a library loaded: look again. */
static void on_mmap(void *ctx, const struct mmap_event *e)
{
	struct crowd *c = ctx;
	struct crowd_process *p;
	void *what = idmap__get(&c->state->known, e->tgid);

	c->state->lost |= e->type == MMAP_EVENT_LOST;
	if (!what || (e->type != MMAP_EVENT_EXEC && e->type != MMAP_EVENT_MMAP))
		return;
	p = what == NOT_PYTHON ? NULL : what;
	if (p && e->type == MMAP_EVENT_EXEC && e->time_ns > p->found_ns) {
		/* What has come of it has its name, not that of the next program. */
		drain_all(c);
		if (c->o.blocks)
			blocks__end(c->o.blocks);
		p->gone = true;
		leave(p);
		what = NOT_PYTHON;
	}
	if (what == NOT_PYTHON)
		idmap__remove(&c->state->known, e->tgid);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* There is time for it in this scan. */
static bool is_its_turn(struct crowd_state *s, pid_t pid)
{
	if (pid < s->look_from || s->stopped)
		return false;
	if (now_ns() >= s->look_until_ns)
		s->stopped = pid;
	return !s->stopped;
}

static int take_process(struct crowd *c, pid_t pid, struct idmap *seen)
{
	void *what = idmap__get(&c->state->known, (uint64_t)pid);

	if (pid == getpid())
		return 0;
	if (is_gone(what) || (what == NOT_PYTHON && c->state->again))
		what = NULL;
	if (!what && is_its_turn(c->state, pid))
		what = look(c, pid);
	return what ? idmap__set(seen, (uint64_t)pid, what) : 0;
}

/* All processes. 0 or negative errno. */
static int take_all(struct crowd *c, struct idmap *seen)
{
	struct dirent *e;
	long long pid;
	int err = 0;
	DIR *dir = opendir("/proc");

	if (!dir) {
		err = -errno;
		log_err("/proc: %s", strerror(-err));
		return err;
	}
	while (!err && (e = readdir(dir)))
		if (*e->d_name >= '0' && *e->d_name <= '9' &&
		    !parse_int(e->d_name, 1, INT32_MAX, &pid))
			err = take_process(c, (pid_t)pid, seen);
	closedir(dir);
	return err ? log_no_memory() : 0;
}

/* ---- some and their descendants -------------------------------------------------------------- */

/* A scan of them. */
struct kin_scan {
	struct crowd *c;
	struct idmap *seen;
	struct kin now;
};

/* A descendants_fn. */
static int take_descendant(void *ctx, uint32_t tgid)
{
	struct kin_scan *k = ctx;
	int err;

	/* The number of one that has ended may be given to another process. */
	if (kill((pid_t)tgid, 0) && errno == ESRCH)
		return 0;
	err = add_kin(&k->now, (pid_t)tgid);
	if (!err)
		err = take_process(k->c, (pid_t)tgid, k->seen);
	return err ? err : 1;
}

/* From all that were there in the scan before: a parent may have ended. */
static int take_kin(struct crowd *c, struct idmap *seen)
{
	struct kin_scan k = { c, seen, { 0 } };
	struct kin *kin = &c->state->kin;
	int err = descendants__visit(kin->pids, kin->cnt, take_descendant, &k);

	free(kin->pids);
	*kin = k.now;
	if (err)
		log_err("the processes that -p means: %s", strerror(-err));
	return err;
}

bool crowd__is_over(const struct crowd *c)
{
	const struct kin *kin = &c->state->kin;

	if (!c->o.root_cnt)
		return false;
	for (size_t i = 0; i < kin->cnt; i++)
		if (runs(kin->pids[i]))
			return false;
	return true;
}

/* ---- scans ----------------------------------------------------------------------------------- */

/* `known` has those of this scan alone. */
static void note_ended(struct crowd *c)
{
	for (size_t i = 0; i < c->cnt; i++) {
		struct crowd_process *p = c->all[i];

		if (p->gone || idmap__get(&c->state->known, (uint64_t)p->pid) == p)
			continue;
		p->gone = true;
		leave(p);
	}
}

/* Of one interpreter in a scan. */
static void tidy(struct crowd *c)
{
	for (size_t i = 1; i <= c->file_cnt; i++) {
		size_t at = (c->state->tidied + i) % c->file_cnt;

		if (!c->files[at]->tracer || !tracer__tidy(c->files[at]->tracer))
			continue;
		c->state->tidied = at;
		return;
	}
}

static void begin_scan(struct crowd *c)
{
	struct crowd_state *s = c->state;
	uint64_t now = now_ns();

	if (s->watch)
		mmapwatch__read(s->watch, on_mmap, c);
	s->again = s->lost && now - s->last_again_ns >= AGAIN_NS;
	if (s->again) {
		s->lost = false;
		s->last_again_ns = now;
	}
	s->look_until_ns = now + (s->attached ? LOOK_NS : FIRST_LOOK_NS);
	s->look_from = s->stopped;
	s->stopped = 0;
}

int crowd__scan(struct crowd *c)
{
	struct idmap seen = { 0 };
	int err;

	begin_scan(c);
	err = c->o.root_cnt ? take_kin(c, &seen) : take_all(c, &seen);
	if (err) {
		idmap__free(&seen);
		return err;
	}
	idmap__free(&c->state->known);
	c->state->known = seen;
	note_ended(c);
	settle(c);
	tidy(c);
	return 0;
}

int crowd__attach(struct crowd *c)
{
	size_t wanted = c->cnt;

	descriptors__allow(); /* a link for each process */
	c->state->attached = true;
	c->start_ns = now_ns();
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i]->timing)
			timing__start(c->files[i]->timing, c->files[i]->tracer, c->start_ns);
	settle(c);
	for (size_t i = 0; i < c->cnt; i++)
		if (!c->all[i]->left)
			return 0;
	if (!wanted)
		return 0;
	log_err("none of %zu Python processes can be traced", wanted);
	return -EIO;
}

const char *crowd__name(const struct crowd *c, pid_t pid, uint64_t ns)
{
	const void *what = idmap__get(&c->state->known, (uint64_t)pid);
	const struct crowd_process *p = what == NOT_PYTHON ? NULL : what;

	if (!p || p->found_ns > ns)
		p = crowd__process_at(c->all, c->cnt, pid, ns);
	return p ? p->name : "?";
}

size_t crowd__followed_cnt(const struct crowd *c)
{
	size_t cnt = 0;

	for (size_t i = 0; i < c->cnt; i++)
		cnt += c->all[i]->link >= 0 && !c->all[i]->left;
	return cnt;
}

double crowd__hit_ns(const struct crowd *c, const struct crowd_file *f)
{
	size_t others = f->user_cnt ? f->user_cnt - 1 : 0;

	return tracer__hit_ns(f->tracer) + c->state->link_ns * (double)others;
}

void crowd__counters(const struct crowd *c, uint64_t out[TRACE_CTR_CNT])
{
	uint64_t n[TRACE_CTR_CNT];

	memcpy(out, c->former, sizeof(c->former));
	for (size_t i = 0; i < c->file_cnt; i++) {
		if (!c->files[i]->tracer || tracer__counters(c->files[i]->tracer, n))
			continue;
		for (int k = 0; k < TRACE_CTR_CNT; k++)
			out[k] += n[k];
	}
}

bool crowd__drain(struct crowd *c)
{
	bool more = false;

	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i]->tracer)
			more |= tracer__drain(c->files[i]->tracer);
	return more;
}

void crowd__stop(struct crowd *c, uint64_t until_ns)
{
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i]->tracer)
			tracer__stop(c->files[i]->tracer, until_ns);
}

void crowd__count(struct crowd *c)
{
	for (size_t i = 0; i < c->cnt; i++)
		if (c->all[i]->link >= 0 && !c->all[i]->left)
			take_hits(c->all[i]);
}

/* ---- the price ------------------------------------------------------------------------------- */

static void refuse(struct crowd *c, struct crowd_process *p)
{
	const struct advice a = { .price = &p->look,
				  .hit_ns = crowd__hit_ns(c, p->file),
				  .max_slowdown = c->o.max_slowdown,
				  .what = c->o.mode == TIMING_NONE ? "calls" : "calls and ends",
				  .filtered = c->o.filter_cnt || c->o.threads };
	struct strbuf advice = { 0 };

	leave(p);
	p->refused = true;
	if (++c->state->refused_cnt > REFUSALS_MAX)
		return;
	advice__add(&advice, p->file->tracer, p->pid, &a);
	log_warn("process %d (%s) is not traced: %s", p->pid, p->name, advice.s ? advice.s : "");
	strbuf__free(&advice);
	if (c->state->refused_cnt == REFUSALS_MAX)
		log_warn("further processes that would be slowed down too much are not named");
}

static void judge_one(struct crowd *c, struct crowd_process *p, uint64_t now)
{
	uint64_t cpu;

	if (!price__cpu_ns(p->pid, &cpu))
		cpu = p->look.cpu_ns;
	take_hits(p);
	price__look(&p->look, now, cpu, p->hits, crowd__hit_ns(c, p->file));
	p->judged = true;
	if (!c->o.force && price__is_high(p->look.slowdown, p->look.load, c->o.max_slowdown))
		refuse(c, p);
}

void crowd__judge(struct crowd *c, uint64_t interval_ns)
{
	uint64_t now = now_ns();

	for (size_t i = 0; i < c->cnt; i++) {
		struct crowd_process *p = c->all[i];
		uint64_t least = p->judged ? interval_ns : PRICE_MEASURE_MS * NS_PER_MS;

		if (p->link >= 0 && !p->left && now - p->look.ns >= least)
			judge_one(c, p, now);
	}
	settle(c);
}
