/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What `perf script` prints -> profile. A sample is a line, and one for each frame, innermost
 * first, up to an empty line:
 *
 *	python3 17159/17160 [001]   384.690703:   10101010 cpu-clock:
 *		          1e3c94 PyUnicode_FromWideChar+0x114 (/usr/lib/libpython3.11.so.1.0)
 *		ffffffff81001234 do_syscall_64+0x5b ([kernel.kallsyms])
 *		    7f1234567890 py::main:/srv/app.py (/tmp/perf-17159.map)
 *
 * PID/, the CPU and the period are there if they were asked for. Where a sample has no stack, its
 * one frame is on the line itself. Python frames are those that python -X perf names.
 */
#include "import/import_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S      1000000000U
#define KERNEL_START  (1ULL << 63)
#define LOOK_AT_LINES 2000 /* of comments before the first sample */

struct event {
	struct text comm, name;
	uint64_t pid, tid, period; /* pid 0: not known; period 0: none */
	struct text rest;	   /* of the line */
};

/* The name for the threads of a process: the command of its first one. */
struct named {
	uint32_t pid;
	str_id comm;
};

struct perf {
	struct import *im;
	uint64_t periods[VALUES_MAX]; /* of each value type: of all its samples, or 0 */
	bool mixed[VALUES_MAX];	      /* they differ */
	uint32_t *syms;		      /* of the sample, innermost first */
	size_t cnt, cap;
	struct named *named;
	size_t named_cnt, named_cap;
	struct hash_index named_of;
};

/* ---- The line of a sample ---- */

static struct text next_token(struct text *t)
{
	struct text token;
	size_t len = 0;

	*t = text__trim(*t);
	while (len < t->len && t->s[len] != ' ' && t->s[len] != '\t')
		len++;
	token = text__part(*t, 0, len);
	*t = text__trim(text__part(*t, len, t->len));
	return token;
}

/* "17159" or "17159/17160" */
static bool parse_task(struct text t, struct event *e)
{
	size_t slash = text__find(t, "/", false);

	e->pid = 0;
	if (slash < t.len && !text__number(text__part(t, 0, slash), 10, &e->pid))
		return false;
	return text__number(text__part(t, slash < t.len ? slash + 1 : 0, t.len), 10, &e->tid) &&
	       e->pid <= UINT32_MAX && e->tid <= UINT32_MAX;
}

/* "384.690703:" */
static bool is_time(struct text t)
{
	size_t dot = text__find(t, ".", false);
	uint64_t n;

	return text__ends(t, ":") && dot < t.len && text__number(text__part(t, 0, dot), 10, &n) &&
	       text__number(text__part(t, dot + 1, t.len - 1), 10, &n);
}

/* Parses the text after the task: "[001] 384.690703: 10101010 cpu-clock:" */
static bool parse_event(struct text t, struct event *e)
{
	struct text token = next_token(&t);

	if (text__begins(token, "[") && text__ends(token, "]"))
		token = next_token(&t);
	if (!is_time(token))
		return false;
	token = next_token(&t);
	e->period = 0;
	if (text__number(token, 10, &e->period))
		token = next_token(&t);
	if (token.len < 2 || !text__ends(token, ":"))
		return false;
	e->name = text__part(token, 0, text__find(token, ":", false));
	e->rest = t;
	return true;
}

/* A command may hold blanks and numbers: the text after it decides where it ends. */
static bool parse_header(struct text line, struct event *e)
{
	struct text t = line;

	if (!line.len || *line.s == '\t')
		return false;
	next_token(&t);
	while (t.len) {
		struct text at = t, token = next_token(&t);

		if (!parse_task(token, e) || !parse_event(t, e))
			continue;
		e->comm = text__trim(text__part(line, 0, (size_t)(at.s - line.s)));
		return true;
	}
	return false;
}

bool import_is_perf(const char *s, size_t size)
{
	struct text line, all = { s, size };
	struct event e;
	size_t at = 0;

	for (int i = 0; i < LOOK_AT_LINES && text__next_line(all, &at, &line); i++)
		if (line.len && *line.s != '#')
			return parse_header(line, &e);
	return false;
}

/* ---- Frames ---- */

/* "py::qualname:/path/of.py", as Python/perf_trampoline.c writes its map */
static bool python_frame(struct text name, struct frame *f)
{
	static const char start[] = "py::";
	struct text t = text__part(name, strlen(start), name.len);
	size_t colon = text__find(t, ":", false);

	if (!text__begins(name, start) || colon == t.len || !colon)
		return false;
	*f = (struct frame){ .kind = SYM_PYTHON,
			     .func = text__part(t, 0, colon),
			     .file = text__part(t, colon + 1, t.len) };
	return true;
}

static void without_offset(struct text *name)
{
	size_t plus = text__find(*name, "+0x", true);
	uint64_t n;

	if (plus && plus < name->len &&
	    text__number(text__part(*name, plus + 3, name->len), 16, &n))
		name->len = plus;
}

static bool is_kernel(struct text object, uint64_t addr)
{
	if (text__begins(object, "[kernel") || text__begins(object, "[guest.kernel") ||
	    text__ends(object, "/vmlinux") || text__ends(object, ".ko"))
		return true;
	return addr >= KERNEL_START && text__begins(object, "[") && !text__is(object, "[unknown]");
}

/* "1e3c94 name+0x114 (object)". False: something else. */
static bool parse_frame(struct text t, struct frame *f)
{
	struct text addr = next_token(&t), object;
	size_t open = text__find(t, " (", true);
	uint64_t n;

	if (!text__number(addr, 16, &n) || open == t.len || !open || !text__ends(t, ")"))
		return false;
	*f = (struct frame){ .kind = SYM_NATIVE, .func = text__part(t, 0, open) };
	object = text__part(t, open + 2, t.len - 1);
	without_offset(&f->func);
	if (text__is(f->func, "[unknown]")) {
		f->func.len = 0;
		f->addr = n;
	}
	if (python_frame(f->func, f))
		return true;
	if (is_kernel(object, n)) {
		f->kind = SYM_KERNEL;
	} else if (text__is(object, "inlined")) {
		f->module = (struct text){ PATH_INLINED, strlen(PATH_INLINED) };
	} else if (text__is(object, "[unknown]")) {
		/* An address in no file, mostly what a missing frame pointer left: one frame. */
		f->kind = SYM_MARKER;
		f->func = (struct text){ "unknown", strlen("unknown") };
	} else {
		f->module = object;
	}
	return true;
}

static int add_frame(struct perf *pf, struct text line)
{
	struct import *im = pf->im;
	struct frame f;
	int sym;

	if (!parse_frame(line, &f))
		return 0; /* a source line, or another field that perf was asked for */
	if (pf->cnt == IMPORT_MAX_DEPTH)
		return import_bad(im, "a sample has more than %u frames", IMPORT_MAX_DEPTH);
	sym = frame__sym(im, &f);
	if (sym < 0)
		return sym;
	if (ARRAY_GROW(pf->syms, pf->cap, pf->cnt, SIZE_MAX))
		return -ENOMEM;
	pf->syms[pf->cnt++] = (uint32_t)sym;
	return 0;
}

/* ---- What is counted ---- */

/* "cycles", "cpu_core/cycles/" */
static struct text event_base(struct text name)
{
	size_t slash = text__find(name, "/", false), end;
	struct text t = text__part(name, slash + 1, name.len);

	if (slash == name.len)
		return name;
	end = text__find(t, "/", false);
	return text__part(t, 0, end);
}

static void set_value_type(struct value_type *v, struct text name)
{
	uint32_t event = value_type__find_event(name.s, name.len);
	struct strbuf b = { 0 };

	*v = (struct value_type){ .event = event };
	if (event != EVENT_CNT)
		return;
	v->event = VALUE_FOREIGN;
	str_sanitise(&b, name.s, name.len,
		     VALUE_NAME_MAX / 4 - 1); /* a character is 4 bytes at most */
	strncpy(v->name, b.err || !b.len ? "unknown" : b.s, sizeof(v->name) - 1);
	strncpy(v->unit, UNIT_COUNT, sizeof(v->unit) - 1);
	strbuf__free(&b);
}

/* The number of the value type, or -EBADMSG after a message. */
static int value_of(struct perf *pf, struct text name)
{
	struct profile_stats *s = &pf->im->stats;
	struct value_type v;

	set_value_type(&v, event_base(name));
	for (uint32_t i = 0; i < s->value_cnt; i++)
		if (value_type__same(&s->values[i], &v))
			return (int)i;
	if (s->value_cnt == VALUES_MAX)
		return import_bad(pf->im,
				  "has more than %u events: choose some by perf's option "
				  "'script --event'",
				  VALUES_MAX);
	s->values[s->value_cnt] = v;
	return (int)s->value_cnt++;
}

/* A clock's sample stands for its period, which is the same for all: their frequency. */
static uint64_t count_of(struct perf *pf, uint32_t type, uint64_t period)
{
	if (!event_is_clock(pf->im->stats.values[type].event) ||
	    pf->im->stats.values[type].event == VALUE_FOREIGN)
		return period ? period : 1;
	if (!pf->periods[type])
		pf->periods[type] = period;
	pf->mixed[type] |= !period || pf->periods[type] != period;
	return 1;
}

static void set_frequencies(struct perf *pf)
{
	struct profile_stats *s = &pf->im->stats;

	for (uint32_t i = 0; i < s->value_cnt; i++)
		if (pf->periods[i] && !pf->mixed[i] && pf->periods[i] <= NS_PER_S)
			s->values[i].frequency_hz =
				(uint32_t)((NS_PER_S + pf->periods[i] / 2) / pf->periods[i]);
}

/* ---- Samples ---- */

/*
 * The name of the process: that of its main thread at that time, or of the first thread that was
 * seen.
 */
static int process_comm(struct perf *pf, const struct event *e, str_id comm, str_id *out)
{
	uint32_t pid = (uint32_t)e->pid, i;
	uint64_t hash = hash_bytes(&pf->im->key, &pid, sizeof(pid));

	*out = comm;
	if (!pid)
		return 0;
	for (size_t at = 0; (i = hash_index__next(&pf->named_of, hash, &at)) != HASH_NONE;) {
		if (pf->named[i].pid != pid)
			continue;
		if (e->tid == e->pid)
			pf->named[i].comm = comm;
		*out = pf->named[i].comm;
		return 0;
	}
	if (ARRAY_GROW(pf->named, pf->named_cap, pf->named_cnt, UINT32_MAX - 1) ||
	    hash_index__add(&pf->named_of, hash, (uint32_t)pf->named_cnt))
		return -ENOMEM;
	pf->named[pf->named_cnt++] = (struct named){ pid, comm };
	return 0;
}

/*
 * Innermost first -> outermost first. Outermost addresses in no file are what the walk met when it
 * had lost its way: without them stacks meet at the last frame that is known.
 */
static void turn_round(struct perf *pf)
{
	while (pf->cnt > 1 && pf->im->p->syms[pf->syms[pf->cnt - 1]].kind == SYM_MARKER)
		pf->cnt--;
	for (size_t i = 0; i < pf->cnt / 2; i++) {
		uint32_t sym = pf->syms[i];

		pf->syms[i] = pf->syms[pf->cnt - 1 - i];
		pf->syms[pf->cnt - 1 - i] = sym;
	}
}

static int end_sample(struct perf *pf, const struct event *e)
{
	struct profile_proc proc = { .tgid = (uint32_t)e->pid };
	uint32_t tid = e->tid <= THREAD_TID(UINT32_MAX) ? (uint32_t)e->tid : 0;
	int err = 0, type = value_of(pf, e->name), index;
	str_id comm = text__intern(pf->im, e->comm, &err);

	if (type < 0)
		return type;
	err = err ? err : process_comm(pf, e, comm, &proc.comm);
	index = err ? err : import_proc(pf->im, &proc, 0);
	if (index < 0 || import_thread(pf->im, index, tid, comm))
		return -ENOMEM;
	turn_round(pf);
	return import_stack(pf->im, (uint32_t)type, index, tid, pf->syms, pf->cnt, 1,
			    count_of(pf, (uint32_t)type, e->period));
}

static int take_lines(struct perf *pf, struct text all)
{
	struct event e, next;
	bool open = false;
	struct text line;
	int err = 0;

	for (size_t at = 0; !err && text__next_line(all, &at, &line);) {
		bool header = parse_header(line, &next);

		if (open && (header || !line.len)) {
			err = end_sample(pf, &e);
			open = false;
		}
		if (header && !err) {
			pf->cnt = 0;
			e = next;
			open = true;
			err = add_frame(pf, e.rest);
		} else if (open) {
			err = add_frame(pf, line);
		}
	}
	return err || !open ? err : end_sample(pf, &e);
}

int import_perf(struct import *im, const char *s, size_t size)
{
	struct perf pf = { .im = im };
	const struct text all = { s, size };
	int err = take_lines(&pf, all);

	set_frequencies(&pf);
	hash_index__free(&pf.named_of);
	free(pf.named);
	free(pf.syms);
	return err;
}
