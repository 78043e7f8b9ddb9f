/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/crowd.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/procfield.h"
#include "base/str.h"
#include "process/called.h"
#include "process/interpreter.h"
#include "process/maps_read.h"
#include "process/mmapwatch.h"
#include "process/unsupported.h"
#include "trace/price.h"

#define FILES_MAX     4096 /* that may be interpreters */
#define TRACERS_MAX   64
#define PROCESSES_MAX 4096
#define REASONS_MAX   16
#define REFUSALS_MAX  20  /* that are said */
#define LOOKS_MAX     512 /* of a scan: the others have to wait for the next one */

/* What is known of a process number; else a struct crowd_process. */
#define NOT_PYTHON    ((void *)1)

struct crowd_state {
	struct readers *readers;
	struct exec_maps maps;
	struct mmapwatch *watch; /* NULL: programs that are executed later may be missed */
	struct idmap known;	 /* by process */
	struct strbuf reasons[REASONS_MAX]; /* why some cannot be traced, each said once */
	size_t reason_cnt, tracer_cnt, refused_cnt, look_cnt;
	bool attached, full, many_files;
};

struct crowd *crowd__new(const struct crowd_opts *o)
{
	struct crowd *c = calloc(1, sizeof(*c));

	if (c)
		c->state = calloc(1, sizeof(*c->state));
	if (!c || !c->state) {
		log_no_memory();
		free(c);
		return NULL;
	}
	c->o = *o;
	c->state->readers = readers__new();
	if (c->state->readers)
		readers__start(c->state->readers);
	c->state->watch = mmapwatch__new(0, MMAPWATCH_HALF);
	return c;
}

static void free_file(struct crowd_file *f)
{
	tracer__close(f->tracer);
	if (f->target.pid)
		target__close(&f->target);
	traced_list__free(&f->now);
	traced_list__free(&f->before);
	free(f);
}

static void take_hits(struct crowd_process *p)
{
	uint64_t hits = tracer__hits(p->file->tracer, p->pid);

	p->hits = hits > p->first_hits ? hits - p->first_hits : 0;
}

static void leave(struct crowd_process *p)
{
	if (p->link < 0)
		return;
	take_hits(p);
	close(p->link);
	p->link = -1;
}

void crowd__free(struct crowd *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->cnt; i++) {
		leave(c->all[i]);
		free(c->all[i]);
	}
	for (size_t i = 0; i < c->file_cnt; i++)
		free_file(c->files[i]);
	for (size_t i = 0; i < c->state->reason_cnt; i++)
		strbuf__free(&c->state->reasons[i]);
	mmapwatch__free(c->state->watch);
	exec_maps__free(&c->state->maps);
	idmap__free(&c->state->known);
	readers__free(c->state->readers);
	free(c->state);
	free(c->all);
	free(c->files);
	free(c);
}

/* ---- what cannot be traced ------------------------------------------------------------------- */

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

/* ---- interpreters ---------------------------------------------------------------------------- */

static bool is_candidate(const struct map_line *line, bool first)
{
	return line->inode && (first || memmem(line->name, line->name_len, "python", 6));
}

static struct crowd_file *find_file(const struct crowd *c, const struct map_line *line)
{
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i]->inode == line->inode && c->files[i]->major == line->major &&
		    c->files[i]->minor == line->minor)
			return c->files[i];
	return NULL;
}

static bool is_interpreter(const struct crowd *c, pid_t pid, int proc_fd,
			   const struct map_line *line)
{
	struct interpreter in = { 0 };
	int err = interpreter__at(&in, c->state->readers, (uint32_t)pid, proc_fd, line);

	interpreter__close(&in);
	return err != -ENOENT;
}

/* Messages about an interpreter that cannot be traced come from these two. */
static void open_tracer(struct crowd *c, struct crowd_file *f, pid_t pid)
{
	if (target__open_process(&f->target, pid))
		return;
	f->tracer = tracer__open_many(&f->target, c->o.filters, c->o.filter_cnt);
	c->state->tracer_cnt += f->tracer != NULL;
	if (f->tracer && f->target.generates &&
	    f->target.py.version_hex >= PY_VERSION_MINOR_HEX(3, 13))
		log_warn("process %d has generated code: calls of JIT-compiled functions are not "
			 "counted",
			 pid);
}

/* Programs that are no Python make room. */
static void forget_programs(struct crowd *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->file_cnt; i++) {
		if (c->files[i]->is_python)
			c->files[kept++] = c->files[i];
		else
			free_file(c->files[i]);
	}
	c->file_cnt = kept;
}

/* NULL: no memory, or too many interpreters. */
static struct crowd_file *add_file(struct crowd *c, pid_t pid, int proc_fd,
				   const struct map_line *line)
{
	struct crowd_file *f = NULL;

	if (c->file_cnt == FILES_MAX)
		forget_programs(c);
	if (!ARRAY_GROW(c->files, c->file_cap, c->file_cnt, FILES_MAX))
		f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->major = line->major;
	f->minor = line->minor;
	f->inode = line->inode;
	f->is_python = is_interpreter(c, pid, proc_fd, line);
	if (f->is_python && c->state->tracer_cnt < TRACERS_MAX)
		open_tracer(c, f, pid);
	else if (f->is_python && !c->state->many_files)
		log_warn("process %d, and others of further interpreters, are not traced: at most "
			 "%d interpreters at a time",
			 pid, TRACERS_MAX);
	c->state->many_files |= f->is_python && c->state->tracer_cnt == TRACERS_MAX;
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
	p->last_ns = now_ns();
	if (!price__cpu_ns(p->pid, &p->last_cpu_ns))
		p->last_cpu_ns = 0;
	/* The number may have been another process's before. */
	p->first_hits = p->last_hits = tracer__hits(p->file->tracer, p->pid);
	log_debug("process %d (%s) is traced", p->pid, p->name);
}

/* Of what is known of a process number. */
static bool is_gone(const void *what)
{
	return what && what != NOT_PYTHON && ((const struct crowd_process *)what)->gone;
}

/* Those that have ended make room. */
static void forget_gone(struct crowd *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->cnt; i++) {
		struct crowd_process *p = c->all[i];

		if (!p->gone) {
			c->all[kept++] = p;
			continue;
		}
		if (idmap__get(&c->state->known, (uint64_t)p->pid) == p)
			idmap__remove(&c->state->known, (uint64_t)p->pid);
		free(p);
	}
	c->cnt = kept;
}

/* NULL: it is not traced. */
static struct crowd_process *add_process(struct crowd *c, pid_t pid, struct crowd_file *f,
					 uint64_t found_ns)
{
	struct crowd_process *p = NULL;

	if (c->cnt == PROCESSES_MAX)
		forget_gone(c);
	if (c->cnt == PROCESSES_MAX && !c->state->full)
		log_warn("process %d, and further ones, are not traced: at most %d at a time", pid,
			 PROCESSES_MAX);
	c->state->full |= c->cnt == PROCESSES_MAX;
	if (!ARRAY_GROW(c->all, c->cap, c->cnt, PROCESSES_MAX))
		p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct crowd_process){
		.pid = pid, .file = f, .link = -1, .slowdown = -1, .found_ns = found_ns
	};
	set_name(c, p);
	c->all[c->cnt++] = p;
	if (c->state->attached)
		follow(c, p);
	return p;
}

/* Its interpreter; NULL: none that can be traced (`*untraceable`), or it is not Python. */
static struct crowd_file *look_at_files(struct crowd *c, pid_t pid, int proc_fd, bool *untraceable)
{
	struct exec_maps *m = &c->state->maps;
	uint64_t last = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		struct crowd_file *f;

		if (m->lines[i].inode == last || !is_candidate(&m->lines[i], !last))
			continue;
		last = m->lines[i].inode;
		f = find_file(c, &m->lines[i]);
		if (!f)
			f = add_file(c, pid, proc_fd, &m->lines[i]);
		if (f && f->tracer)
			return f;
		*untraceable |= f && f->is_python;
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

/* What to note of a process number that is new, or has another program. */
static void *look(struct crowd *c, pid_t pid)
{
	int proc_fd = opener__proc_dir((uint32_t)pid), err;
	struct crowd_process *p = NULL;
	uint64_t found_ns = now_ns();
	char why[UNSUPPORTED_LEN];
	bool untraceable = false;
	struct crowd_file *f;

	if (proc_fd < 0)
		return NOT_PYTHON;
	err = exec_maps__ask(&c->state->maps, c->state->readers, (uint32_t)pid, proc_fd);
	if (err == -EACCES || err == -EPERM)
		say_untraceable(c, pid, "its memory cannot be read (needs CAP_SYS_PTRACE)");
	if (!err) {
		f = look_at_files(c, pid, proc_fd, &untraceable);
		if (f)
			p = add_process(c, pid, f, found_ns);
		else if (!untraceable && may_be_python(&c->state->maps) &&
			 unsupported__explain(c->state->readers, pid, why))
			say_untraceable(c, pid, why);
	}
	close(proc_fd);
	return p && !p->gone ? (void *)p : NOT_PYTHON;
}

/* A program was executed, or a library loaded: look again. */
static void on_mmap(void *ctx, const struct mmap_event *e)
{
	struct crowd *c = ctx;
	struct crowd_process *p;
	void *what = idmap__get(&c->state->known, e->tgid);

	if (!what || (e->type != MMAP_EVENT_EXEC && e->type != MMAP_EVENT_MMAP))
		return;
	p = what == NOT_PYTHON ? NULL : what;
	if (p && e->type == MMAP_EVENT_EXEC && e->time_ns > p->found_ns) {
		p->gone = true;
		leave(p);
		what = NOT_PYTHON;
	}
	if (what == NOT_PYTHON)
		idmap__remove(&c->state->known, e->tgid);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int take_entry(struct crowd *c, const struct dirent *e, struct idmap *seen)
{
	long long pid;
	void *what;

	if (*e->d_name < '0' || *e->d_name > '9' || parse_int(e->d_name, 1, INT32_MAX, &pid) ||
	    pid == getpid())
		return 0;
	what = idmap__get(&c->state->known, (uint64_t)pid);
	if (is_gone(what))
		what = NULL;
	if (!what && c->state->look_cnt == LOOKS_MAX && c->state->attached)
		return 0;
	c->state->look_cnt += !what;
	if (!what)
		what = look(c, (pid_t)pid);
	return idmap__set(seen, (uint64_t)pid, what);
}

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

int crowd__scan(struct crowd *c)
{
	struct idmap seen = { 0 };
	struct dirent *e;
	DIR *dir;
	int err = 0;

	if (c->state->watch)
		mmapwatch__read(c->state->watch, on_mmap, c);
	dir = opendir("/proc");
	if (!dir) {
		err = -errno;
		log_err("/proc: %s", strerror(-err));
		return err;
	}
	c->state->look_cnt = 0;
	while (!err && (e = readdir(dir)))
		err = take_entry(c, e, &seen);
	closedir(dir);
	if (err) {
		idmap__free(&seen);
		return log_no_memory();
	}
	idmap__free(&c->state->known);
	c->state->known = seen;
	note_ended(c);
	return 0;
}

/* A link for each process. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int crowd__attach(struct crowd *c)
{
	size_t wanted = c->cnt;

	allow_descriptors();
	c->state->attached = true;
	for (size_t i = 0; i < c->cnt; i++)
		if (!c->all[i]->gone)
			follow(c, c->all[i]);
	if (!wanted || crowd__followed_cnt(c))
		return 0;
	log_err("none of %zu Python processes can be traced", wanted);
	return -EIO;
}

size_t crowd__followed_cnt(const struct crowd *c)
{
	size_t cnt = 0;

	for (size_t i = 0; i < c->cnt; i++)
		cnt += c->all[i]->link >= 0;
	return cnt;
}

void crowd__drain(struct crowd *c)
{
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i]->tracer)
			tracer__drain(c->files[i]->tracer);
}

void crowd__stop(struct crowd *c)
{
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i]->tracer)
			tracer__stop(c->files[i]->tracer);
}

void crowd__count(struct crowd *c)
{
	for (size_t i = 0; i < c->cnt; i++)
		if (c->all[i]->link >= 0)
			take_hits(c->all[i]);
}

/* ---- the price ------------------------------------------------------------------------------- */

static void refuse(struct crowd *c, struct crowd_process *p, double per_second)
{
	leave(p);
	p->refused = true;
	if (++c->state->refused_cnt > REFUSALS_MAX)
		return;
	log_warn("process %d (%s) is not traced: %.0f calls/s at %.2f us each would slow it down "
		 "by %.0f%% of its CPU time, more than %g%% (--max-slowdown %.0f or --force allows "
		 "that)",
		 p->pid, p->name, per_second, tracer__hit_ns(p->file->tracer) / 1000, p->slowdown,
		 c->o.max_slowdown, ceil(p->slowdown * 1.2));
	if (c->state->refused_cnt == REFUSALS_MAX)
		log_warn("further processes that would be slowed down too much are not named");
}

static void judge_one(struct crowd *c, struct crowd_process *p, uint64_t now)
{
	uint64_t hits = tracer__hits(p->file->tracer, p->pid), cpu, ns = now - p->last_ns;
	uint64_t new_hits = hits > p->last_hits ? hits - p->last_hits : 0;
	double cost = (double)new_hits * tracer__hit_ns(p->file->tracer);

	if (!price__cpu_ns(p->pid, &cpu))
		cpu = p->last_cpu_ns;
	take_hits(p);
	p->slowdown =
		price__slowdown(cost, cpu > p->last_cpu_ns ? (double)(cpu - p->last_cpu_ns) : 0);
	p->load = ns ? 100 * cost / (double)ns : 0;
	p->last_ns = now;
	p->last_cpu_ns = cpu;
	p->last_hits = hits;
	p->judged = true;
	if (!c->o.force && price__is_high(p->slowdown, p->load, c->o.max_slowdown))
		refuse(c, p, (double)new_hits * NS_PER_S / (double)(ns ? ns : 1));
}

void crowd__judge(struct crowd *c, uint64_t interval_ns)
{
	uint64_t now = now_ns();

	for (size_t i = 0; i < c->cnt; i++) {
		struct crowd_process *p = c->all[i];
		uint64_t least = p->judged ? interval_ns : PRICE_MEASURE_MS * NS_PER_MS;

		if (p->link >= 0 && now - p->last_ns >= least)
			judge_one(c, p, now);
	}
}
