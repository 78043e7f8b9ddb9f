/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/call_picture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/procfield.h"
#include "base/str.h"
#include "process/called.h"

#define FRAMES_MAX    (1U << 24) /* of all ways of calls */
#define PROCESSES_MAX (1U << 16)

struct call_picture {
	struct profile *p;
	const struct native_functions *functions;
	uint64_t *native;    /* by number: its frame; 0: it was not called yet */
	struct idmap python; /* by number of the function, from 1 on: its frame, as a pointer */
	struct idmap waits;  /* likewise, by the name */
	uint32_t proc;
	int module;
	uint64_t calls;
	uint64_t left_out; /* calls that found no room */
	bool averages;	   /* of struct call_picture_opts */
	bool is_full;	   /* there are too many functions */
};

static uint64_t unix_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Its number, or negative errno. */
static int add_process(struct call_picture *c, pid_t pid)
{
	const struct profile_proc proc = { .space = (uint32_t)c->p->proc_cnt + 1,
					   .tgid = (uint32_t)pid };

	return c->p->proc_cnt < PROCESSES_MAX ? profile__add_proc(c->p, &proc) : -ENOMEM;
}

/* False: it is gone. */
static bool read_comm(pid_t pid, char *comm, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return !procfield__read(path, "Name", comm, size);
}

int call_picture__add_process(struct call_picture *c, pid_t pid, const char *title,
			      const char *python)
{
	struct profile_proc *proc;
	char comm[64];
	int i = add_process(c, pid);

	if (i < 0)
		return i;
	proc = &c->p->procs[i];
	proc->comm = profile__intern_z(c->p, read_comm(pid, comm, sizeof(comm)) ? comm : title);
	proc->title = profile__intern_z(c->p, title);
	proc->python = profile__intern_z(c->p, python);
	return i;
}

void call_picture__set_process(struct call_picture *c, uint32_t proc)
{
	c->proc = proc;
}

void call_picture__renumber(struct call_picture *c)
{
	idmap__free(&c->python);
}

bool call_picture__name(struct call_picture *c, struct readers *rs)
{
	struct profile_proc *proc = &c->p->procs[c->proc];
	struct strbuf title = { 0 };
	char comm[64];
	bool found;

	if (!read_comm((pid_t)proc->tgid, comm, sizeof(comm)))
		return false;
	found = called__title(rs, (pid_t)proc->tgid, &title);
	proc->comm = profile__intern_z(c->p, comm);
	proc->title = found ? profile__intern_z(c->p, title.s) : 0;
	strbuf__free(&title);
	return found;
}

static int begin(struct call_picture *c, const struct call_picture_opts *o)
{
	static const struct value_type time = { .event = VALUE_FOREIGN,
						.name = VALUE_CALL_TIME,
						.unit = UNIT_NS },
				       calls = { .event = VALUE_FOREIGN,
						 .name = VALUE_CALLS,
						 .unit = UNIT_COUNT };
	struct profile_module m = { .file = 1 };
	int err = o->pid ? add_process(c, o->pid) : 0;

	if (o->functions) {
		m.path = profile__intern_z(c->p, o->path);
		c->module = profile__add_module(c->p, &m);
	}
	c->p->stats.start_unix_ns = unix_ns();
	c->p->stats.value_cnt = 1;
	c->p->stats.values[0] = o->times ? time : calls;
	return err < 0 ? err : c->module < 0 ? c->module : 0;
}

struct call_picture *call_picture__new(struct profile *p, const struct call_picture_opts *o)
{
	struct call_picture *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->p = p;
	c->functions = o->functions;
	c->averages = o->averages;
	c->native = calloc(o->functions ? o->functions->cnt + 1 : 1, sizeof(*c->native));
	if (c->native && !begin(c, o))
		return c;
	call_picture__free(c);
	return NULL;
}

void call_picture__free(struct call_picture *c)
{
	if (!c)
		return;
	idmap__free(&c->python);
	idmap__free(&c->waits);
	free(c->native);
	free(c);
}

/* 0: no memory. */
static uint64_t add_frame(struct call_picture *c, const struct sym *s, enum frame_tag tag)
{
	int i;

	if (c->p->sym_cnt >= CALL_PICTURE_FUNCTIONS) {
		c->is_full = true;
		return CALL_PICTURE_NO_ROOM;
	}
	i = profile__add_sym(c->p, s);
	return i < 0 ? 0 : FRAME_WORD(tag, (uint64_t)i);
}

uint64_t call_picture__native(struct call_picture *c, uint32_t number)
{
	const struct native_function *f = &c->functions->all[number];
	struct sym s = { .kind = SYM_NATIVE, .module = c->module, .addr = f->start, .inlined = -1 };

	if (!c->native[number] && c->is_full)
		return CALL_PICTURE_NO_ROOM;
	if (!c->native[number]) {
		s.func = profile__intern_z(c->p, f->name);
		c->native[number] = add_frame(c, &s, FRAME_NATIVE);
	}
	return c->native[number];
}

uint64_t call_picture__python(struct call_picture *c, const struct py_function *f)
{
	uint64_t key = (uint64_t)f->number + 1;
	void *known = idmap__get(&c->python, key);
	struct sym s = { .kind = SYM_PYTHON,
			 .line = f->first_line,
			 .start_line = f->first_line,
			 .module = -1,
			 .addr = f->number,
			 .inlined = -1 };
	uint64_t word;

	if (known)
		return (uintptr_t)known;
	if (c->is_full) /* not even the name is kept */
		return CALL_PICTURE_NO_ROOM;
	s.func = profile__intern(c->p, f->name, f->name_len);
	s.file = profile__intern(c->p, f->file, f->file_len);
	word = add_frame(c, &s, FRAME_PYTHON);
	if (word && word != CALL_PICTURE_NO_ROOM &&
	    idmap__set(&c->python, key, (void *)(uintptr_t)word))
		return 0;
	return word;
}

uint64_t call_picture__wait(struct call_picture *c, const char *reason)
{
	struct sym s = { .kind = SYM_MARKER, .module = -1, .inlined = -1 };
	char name[64];
	uint64_t word;

	snprintf(name, sizeof(name), "[waits: %s]", reason);
	s.func = profile__intern_z(c->p, name);
	word = (uintptr_t)idmap__get(&c->waits, s.func);
	if (word || !s.func)
		return word;
	word = add_frame(c, &s, FRAME_MARKER);
	if (word && word != CALL_PICTURE_NO_ROOM &&
	    idmap__set(&c->waits, s.func, (void *)(uintptr_t)word))
		return 0;
	return word;
}

void call_picture__leave_out(struct call_picture *c, uint64_t calls)
{
	c->left_out += calls;
}

bool call_picture__has_room(const struct call_picture *c, uint64_t functions, uint64_t frames)
{
	return c->p->sym_cnt + functions <= CALL_PICTURE_FUNCTIONS &&
	       c->p->frame_cnt + frames <= FRAMES_MAX;
}

static bool is_whole(const uint64_t *words, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (words[i] == CALL_PICTURE_NO_ROOM)
			return false;
	return true;
}

int call_picture__add(struct call_picture *c, const uint64_t *words, size_t cnt, uint64_t calls,
		      uint64_t amount)
{
	int i;

	if (c->is_full && !is_whole(words, cnt)) {
		c->left_out += calls;
		return 0;
	}
	if (c->p->frame_cnt + cnt > FRAMES_MAX) {
		i = profile__find_stack(c->p, 0, c->proc, 0, words, cnt);
		if (i < 0) {
			c->left_out += calls;
			return 0;
		}
	}
	c->calls += calls;
	i = profile__add_weighted(c->p, c->proc, 0, words, cnt, c->averages ? amount : calls,
				  amount);
	return i < 0 ? i : 0;
}

int call_picture__finish(struct call_picture *c, uint64_t duration_ns)
{
	struct profile *p = c->p;

	p->stats.duration_ns = duration_ns;
	/* Each call is seen: all that were delivered are counted. */
	p->stats.counters[CTR_delivered] = c->calls;
	p->stats.counters[CTR_counted] = c->calls;
	p->frame_syms = calloc(p->frame_cnt + 1, sizeof(*p->frame_syms));
	if (!p->frame_syms)
		return -ENOMEM;
	for (size_t i = 0; i < p->frame_cnt; i++)
		p->frame_syms[i] = (uint32_t)(p->frames[i] & FRAME_PAYLOAD);
	if (c->left_out)
		log_warn("%llu calls are not in the picture: there are too many functions, ways of "
			 "calls, or processes",
			 (unsigned long long)c->left_out);
	return 0;
}

int call_pictures__open(struct call_picture *all[PICTURES],
			struct profile *const profiles[PICTURES], pid_t pid, struct readers *rs)
{
	const struct call_picture_opts o = { .pid = pid,
					     .times = true,
					     .averages = profiles[PICTURE_OTHERS] };

	for (int i = 0; i < PICTURES; i++) {
		if (!profiles[i])
			continue;
		all[i] = call_picture__new(profiles[i], &o);
		if (!all[i])
			return -ENOMEM;
		if (pid)
			call_picture__name(all[i], rs);
	}
	return 0;
}

int call_pictures__finish(struct call_picture *const all[PICTURES], uint64_t duration_ns)
{
	int err = 0;

	for (int i = 0; i < PICTURES && !err; i++)
		if (all[i])
			err = call_picture__finish(all[i], duration_ns);
	return err;
}

void call_pictures__free(struct call_picture *const all[PICTURES])
{
	for (int i = 0; i < PICTURES; i++)
		call_picture__free(all[i]);
}
