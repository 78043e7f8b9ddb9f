/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/imports.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/stream.h"
#include "python/pylines.h"
#include "trace/lost.h"

#define BOOTSTRAP   "<frozen importlib._bootstrap>"
#define IMPORTLIB   "<frozen importlib." /* with _bootstrap_external */
#define PACKAGE	    "/importlib/__init__.py"
#define MODULES_MAX 100000
#define THREADS_MAX 65536
#define IMPORTS_MAX 100000 /* of all trees that are not whole */
#define INDENT_MAX  60
#define NONE	    UINT32_MAX

struct module {
	char *name; /* UTF-8, foreign text */
	size_t len;
	uint64_t cnt, total_ns, own_ns;
};

enum state {
	STATE_THERE,   /* the module may have been there already */
	STATE_PARENTS, /* 3.15: its packages are imported; if they cannot be, nothing follows */
	STATE_LOADS,
	STATE_ENDED,
};

/* One import. */
struct import {
	uint64_t frame; /* of its _find_and_load() */
	uint64_t start_ns, total_ns, inner_ns;
	uint64_t last_ns; /* when the last one that it has caused ended, or when it began */
	uint32_t module;  /* position in `modules` */
	uint32_t parent;  /* position in the tree; NONE */
	uint32_t depth;
	uint32_t line; /* of `by`, 0: not known */
	enum state state;
	bool has_by;
	struct py_function by; /* what imports it */
};

/* A thread, and the tree that it is at: each import behind the one that caused it. */
struct thread {
	uint32_t tgid, tid;
	struct import *all;
	size_t cnt, cap;
	uint32_t open; /* the innermost one that has not ended; NONE */
};

struct imports {
	bool json, headed;
	struct tracer *tracer;
	struct tracer_events events;
	struct trace_filter filters[IMPORTS_FILTERS];
	struct module *modules;
	size_t module_cnt, module_cap;
	struct hash_index by_name;
	struct thread *threads;
	size_t thread_cnt, thread_cap;
	struct hash_index by_tid;
	struct hash_key key;
	struct strbuf line, name;
	uint64_t start_ns, cnt, total_ns, lost_cnt, full_cnt;
	size_t held;   /* imports of trees that are not whole */
	uint32_t lost; /* as the last event says, or imports__lose() */
	int err;
};

/* ---- modules and threads --------------------------------------------------------------------- */

/* NONE: no memory, or too many. */
static uint32_t module_of(struct imports *m, const char *name, size_t len)
{
	uint64_t hash = hash_bytes(&m->key, name, len);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&m->by_name, hash, &at)) != HASH_NONE;)
		if (m->modules[i].len == len && !memcmp(m->modules[i].name, name, len))
			return i;
	if (m->module_cnt == MODULES_MAX) {
		m->full_cnt++;
		return NONE;
	}
	if (ARRAY_GROW(m->modules, m->module_cap, m->module_cnt, MODULES_MAX) ||
	    hash_index__reserve(&m->by_name)) {
		m->err = -ENOMEM;
		return NONE;
	}
	m->modules[m->module_cnt] = (struct module){ .name = strndup(name, len), .len = len };
	if (!m->modules[m->module_cnt].name) {
		m->err = -ENOMEM;
		return NONE;
	}
	hash_index__add(&m->by_name, hash, (uint32_t)m->module_cnt);
	return (uint32_t)m->module_cnt++;
}

/* NULL: no memory, or too many. Valid until the next call. */
static struct thread *thread_of(struct imports *m, uint32_t tgid, uint32_t tid)
{
	uint32_t ids[2] = { tgid, tid }, i;
	uint64_t hash = hash_bytes(&m->key, ids, sizeof(ids));

	for (size_t at = 0; (i = hash_index__next(&m->by_tid, hash, &at)) != HASH_NONE;)
		if (m->threads[i].tgid == tgid && m->threads[i].tid == tid)
			return &m->threads[i];
	if (m->thread_cnt == THREADS_MAX) {
		m->full_cnt++;
		return NULL;
	}
	if (ARRAY_GROW(m->threads, m->thread_cap, m->thread_cnt, THREADS_MAX) ||
	    hash_index__add(&m->by_tid, hash, (uint32_t)m->thread_cnt)) {
		m->err = -ENOMEM;
		return NULL;
	}
	m->threads[m->thread_cnt] = (struct thread){ .tgid = tgid, .tid = tid, .open = NONE };
	return &m->threads[m->thread_cnt++];
}

/* ---- one tree -------------------------------------------------------------------------------- */

static double seconds_at(const struct imports *m, uint64_t ns)
{
	return ns > m->start_ns ? (double)(ns - m->start_ns) / 1e9 : 0;
}

static uint64_t own_ns(const struct import *i)
{
	return i->total_ns > i->inner_ns ? i->total_ns - i->inner_ns : 0;
}

static void add_time(struct strbuf *b, uint64_t ns, int width)
{
	strbuf__addf(b, "%*.3f ms", width - 3, (double)ns / 1e6);
}

static void flush_line(struct imports *m)
{
	if (m->line.err)
		m->err = m->line.err;
	else if (m->line.len)
		m->err = stream__put(stdout, m->line.s, m->line.len);
	strbuf__clear(&m->line);
}

static void add_name(struct strbuf *b, const struct module *module)
{
	if (module->len)
		str_sanitise(b, module->name, module->len, 0);
	else
		strbuf__addz(b, "<unknown>");
}

static void add_by(struct strbuf *b, const struct import *i)
{
	strbuf__addz(b, ", imported by ");
	str_sanitise(b, i->by.name, i->by.name_len, 0);
	strbuf__addz(b, " (");
	str_sanitise(b, i->by.file, i->by.file_len, 0);
	if (i->line)
		strbuf__addf(b, ":%u", i->line);
	strbuf__addc(b, ')');
}

static void write_import(struct imports *m, const struct thread *t, const struct import *i)
{
	struct strbuf *b = &m->line;
	int indent = i->depth < INDENT_MAX ? 2 * (int)i->depth : 2 * INDENT_MAX;

	if (!m->headed)
		strbuf__addf(b, "%11s %8s %13s %13s  MODULE\n", "SECONDS", "THREAD", "TOTAL",
			     "OWN");
	m->headed = true;
	strbuf__addf(b, "%11.6f %8u ", seconds_at(m, i->start_ns), t->tid);
	add_time(b, i->total_ns, 13);
	strbuf__addc(b, ' ');
	add_time(b, own_ns(i), 13);
	strbuf__addf(b, "  %*s", indent, "");
	add_name(b, &m->modules[i->module]);
	if (!i->depth && i->has_by)
		add_by(b, i);
	strbuf__addz(b, i->state == STATE_ENDED ? "\n" : " [not finished]\n");
	flush_line(m);
}

static void by_json(struct json *j, const struct import *i)
{
	if (!i->has_by) {
		json__null(j, "imported_by");
		return;
	}
	json__object(j, "imported_by");
	json__string(j, "function", i->by.name, i->by.name_len);
	json__string(j, "file", i->by.file, i->by.file_len);
	if (i->line)
		json__uint(j, "line", i->line);
	else
		json__null(j, "line");
	json__end(j, '}');
}

static void write_import_json(const struct imports *m, const struct thread *t,
			      const struct import *i)
{
	const struct module *module = &m->modules[i->module];
	struct json j = { .f = stdout };

	json__object(&j, NULL);
	json__stringz(&j, "event", "import");
	json__double(&j, "seconds", seconds_at(m, i->start_ns));
	json__uint(&j, "process", t->tgid);
	json__uint(&j, "thread", t->tid);
	json__uint(&j, "depth", i->depth);
	json__string(&j, "module", module->name, module->len);
	json__uint(&j, "total_ns", i->total_ns);
	json__uint(&j, "own_ns", own_ns(i));
	json__bool(&j, "finished", i->state == STATE_ENDED);
	by_json(&j, i);
	json__end(&j, '}');
	fputc('\n', stdout);
}

static void forget_tree(struct imports *m, struct thread *t)
{
	m->held -= t->cnt;
	free(t->all);
	t->all = NULL;
	t->cnt = t->cap = 0;
	t->open = NONE;
}

static void write_tree(struct imports *m, struct thread *t)
{
	for (size_t i = 0; i < t->cnt && !m->err; i++) {
		if (m->json)
			write_import_json(m, t, &t->all[i]);
		else
			write_import(m, t, &t->all[i]);
	}
	forget_tree(m, t);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The innermost one ends. */
static void end_open(struct imports *m, struct thread *t, uint64_t ns)
{
	struct import *i = &t->all[t->open];
	struct module *module = &m->modules[i->module];

	i->total_ns = ns > i->start_ns ? ns - i->start_ns : 0;
	i->state = STATE_ENDED;
	module->cnt++;
	module->total_ns += i->total_ns;
	module->own_ns += own_ns(i);
	m->cnt++;
	if (i->parent != NONE) {
		t->all[i->parent].inner_ns += i->total_ns;
		t->all[i->parent].last_ns = ns;
	} else {
		m->total_ns += i->total_ns;
	}
	t->open = i->parent;
	if (t->open == NONE)
		write_tree(m, t);
}

/* The innermost one has ended, or was no import: then nothing follows it in the tree. */
static void leave_open(struct imports *m, struct thread *t, uint64_t ns)
{
	struct import *i = &t->all[t->open];

	if (i->state != STATE_THERE) {
		end_open(m, t, i->state == STATE_PARENTS ? i->last_ns : ns);
		return;
	}
	m->held -= t->cnt - t->open;
	t->cnt = t->open;
	t->open = i->parent;
}

/* a.b is a package of a.b.c */
static bool is_package_of(const struct module *a, const struct module *b)
{
	return a->len < b->len && b->name[a->len] == '.' && !memcmp(a->name, b->name, a->len);
}

/* Can the innermost one cause that a module is imported? NULL: any. */
static bool may_cause(const struct imports *m, const struct import *i, const struct module *module)
{
	return i->state == STATE_LOADS || (i->state == STATE_PARENTS && module &&
					   is_package_of(module, &m->modules[i->module]));
}

static void leave_those_that_ended(struct imports *m, struct thread *t, const struct module *next)
{
	while (t->open != NONE && !may_cause(m, &t->all[t->open], next))
		leave_open(m, t, t->all[t->open].last_ns);
}

static bool is_open(const struct thread *t, uint64_t frame)
{
	for (uint32_t i = t->open; i != NONE; i = t->all[i].parent)
		if (t->all[i].frame == frame)
			return true;
	return false;
}

/* Makes the import with this frame the innermost: those that it caused have ended. False: none. */
static bool close_above(struct imports *m, struct thread *t, uint64_t frame, uint64_t ns)
{
	if (!is_open(t, frame))
		return false;
	while (t->all[t->open].frame != frame)
		leave_open(m, t, ns);
	return true;
}

/* The first function that is none of importlib's; nobody if one before is not known. */
static void find_importer(struct imports *m, struct import *i, const struct trace_raise *e)
{
	for (uint32_t k = 0; k < e->code_cnt && k < TRACE_RAISE_FRAMES && !i->has_by; k++) {
		if (!e->codes[k])
			continue;
		if (!tracer__find(m->tracer, e->codes[k], &i->by))
			return;
		if (str_starts_with(i->by.file, IMPORTLIB) ||
		    str_ends_with(i->by.file, i->by.file_len, PACKAGE))
			continue;
		i->has_by = true;
		i->line = tracer__line(m->tracer, e->codes[k], e->offsets[k]);
	}
}

/* _find_and_load() was called. */
static void begin(struct imports *m, struct thread *t, const struct trace_import *e)
{
	struct import *i;
	uint32_t module;

	if (!e->name.sent || e->name.sent >= TRACE_NAME_BYTES)
		return;
	strbuf__clear(&m->name);
	py_utf8(&m->name, e->name.data, e->name.sent, e->name.width);
	module = m->name.err ? NONE : module_of(m, m->name.len ? m->name.s : "", m->name.len);
	if (module == NONE)
		return;
	leave_those_that_ended(m, t, &m->modules[module]);
	if (m->held == IMPORTS_MAX) {
		m->full_cnt++;
		return;
	}
	if (ARRAY_GROW(t->all, t->cap, t->cnt, IMPORTS_MAX)) {
		m->err = -ENOMEM;
		return;
	}
	i = &t->all[t->cnt];
	*i = (struct import){ .frame = e->frame,
			      .start_ns = e->at.ns,
			      .last_ns = e->at.ns,
			      .module = module,
			      .parent = t->open };
	i->depth = t->open == NONE ? 0 : t->all[t->open].depth + 1;
	find_importer(m, i, &e->at);
	t->open = (uint32_t)t->cnt++;
	m->held++;
}

static void set_state(struct imports *m, struct thread *t, const struct trace_import *e,
		      enum state state)
{
	if (close_above(m, t, e->caller, e->at.ns))
		t->all[t->open].state = state;
}

static void end(struct imports *m, struct thread *t, const struct trace_import *e)
{
	if (close_above(m, t, e->caller, e->at.ns) && t->all[t->open].state == STATE_LOADS)
		end_open(m, t, e->at.ns);
}

void imports__lose(struct imports *m, uint32_t lost)
{
	uint32_t more = lost_since(&m->lost, lost);

	if (!more)
		return;
	m->lost_cnt += more;
	lost__add(&m->line, m->json ? LOST_JSON : LOST_LINE, "events", NULL, more);
	flush_line(m);
	for (size_t i = 0; i < m->thread_cnt; i++)
		forget_tree(m, &m->threads[i]);
}

static bool is_function(const struct py_function *f, const char *name)
{
	return str_ends_with(f->name, f->name_len, name) &&
	       (f->name_len == strlen(name) || f->name[f->name_len - strlen(name) - 1] == '.');
}

static void take_import(void *ctx, const struct trace_import *e)
{
	struct imports *m = ctx;
	struct py_function f;
	struct thread *t;

	imports__lose(m, e->at.lost);
	if (!e->at.code_cnt || !tracer__find(m->tracer, e->at.codes[0], &f) ||
	    strcmp(f.file, BOOTSTRAP))
		return;
	t = thread_of(m, e->at.tgid, e->at.tid);
	if (!t)
		return;
	if (is_function(&f, "_find_and_load"))
		begin(m, t, e);
	else if (is_function(&f, "_resolve_parents"))
		set_state(m, t, e, STATE_PARENTS);
	else if (is_function(&f, "_find_and_load_unlocked"))
		set_state(m, t, e, STATE_LOADS);
	else if (is_function(&f, "__exit__") || is_function(&f, "release"))
		end(m, t, e);
}

void imports__finish(struct imports *m, uint64_t now_ns)
{
	for (size_t i = 0; i < m->thread_cnt; i++) {
		struct thread *t = &m->threads[i];

		leave_those_that_ended(m, t, NULL);
		for (uint32_t k = t->open; k != NONE; k = t->all[k].parent) {
			struct import *open = &t->all[k];

			open->total_ns = now_ns > open->start_ns ? now_ns - open->start_ns : 0;
			if (open->parent != NONE)
				t->all[open->parent].inner_ns += open->total_ns;
		}
		write_tree(m, t);
	}
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int set_filters(struct imports *m)
{
	static const char *const functions[IMPORTS_FILTERS] = {
		"_find_and_load", "_resolve_parents", "_find_and_load_unlocked",
		"__exit__",	  "release",
	};

	for (size_t i = 0; i < IMPORTS_FILTERS; i++) {
		if (trace_filter__parse(&m->filters[i], functions[i]))
			return -ENOMEM;
		m->filters[i].is_path = true;
		m->filters[i].place = strdup(BOOTSTRAP);
		if (!m->filters[i].place)
			return -ENOMEM;
	}
	return 0;
}

struct imports *imports__new(bool json)
{
	struct imports *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->json = json;
	m->key = hash_key();
	m->events = (struct tracer_events){ .take_import = take_import, .ctx = m };
	if (!set_filters(m))
		return m;
	imports__free(m);
	return NULL;
}

void imports__free(struct imports *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->module_cnt; i++)
		free(m->modules[i].name);
	for (size_t i = 0; i < m->thread_cnt; i++)
		free(m->threads[i].all);
	for (size_t i = 0; i < IMPORTS_FILTERS; i++)
		trace_filter__free(&m->filters[i]);
	free(m->modules);
	free(m->threads);
	hash_index__free(&m->by_name);
	hash_index__free(&m->by_tid);
	strbuf__free(&m->line);
	strbuf__free(&m->name);
	free(m);
}

const struct trace_filter *imports__filters(const struct imports *m)
{
	return m->filters;
}

const struct tracer_events *imports__events(const struct imports *m)
{
	return &m->events;
}

void imports__start(struct imports *m, struct tracer *tr, uint64_t now_ns)
{
	m->tracer = tr;
	m->start_ns = now_ns;
}

uint64_t imports__cnt(const struct imports *m)
{
	return m->cnt;
}

void imports__add_sum(const struct imports *m, struct strbuf *b)
{
	if (!m->cnt)
		strbuf__addz(b, "no module was imported");
	else
		strbuf__addf(b, "%" PRIu64 " module%s imported in %.1f ms", m->cnt,
			     m->cnt == 1 ? "" : "s", (double)m->total_ns / 1e6);
}

static int by_own(const void *a, const void *b)
{
	const struct module *x = *(const struct module *const *)a;
	const struct module *y = *(const struct module *const *)b;

	if (x->own_ns != y->own_ns)
		return x->own_ns < y->own_ns ? 1 : -1;
	return (x > y) - (x < y);
}

/* The imported modules, most own time first. The caller frees the list. NULL: no memory. */
static struct module **sorted(const struct imports *m, uint32_t top, size_t *cnt)
{
	struct module **all = malloc((m->module_cnt + 1) * sizeof(struct module *));

	*cnt = 0;
	for (size_t i = 0; all && i < m->module_cnt; i++)
		if (m->modules[i].cnt)
			all[(*cnt)++] = &m->modules[i];
	if (all)
		qsort(all, *cnt, sizeof(*all), by_own);
	if (top && top < *cnt)
		*cnt = top;
	return all;
}

int imports__write(struct imports *m, uint32_t top)
{
	size_t cnt;
	struct module **all = sorted(m, top, &cnt);

	if (!all)
		return -ENOMEM;
	strbuf__addf(&m->line, "%10s %13s %13s  MODULE\n", "IMPORTS", "TOTAL", "OWN");
	for (size_t i = 0; i < cnt && !m->err; i++) {
		strbuf__addf(&m->line, "%10" PRIu64 " ", all[i]->cnt);
		add_time(&m->line, all[i]->total_ns, 13);
		strbuf__addc(&m->line, ' ');
		add_time(&m->line, all[i]->own_ns, 13);
		strbuf__addz(&m->line, "  ");
		add_name(&m->line, all[i]);
		strbuf__addc(&m->line, '\n');
		flush_line(m);
	}
	free(all);
	return m->err;
}

int imports__write_json(struct imports *m, struct json *j, uint32_t top)
{
	size_t cnt;
	struct module **all = sorted(m, top, &cnt);

	if (!all)
		return -ENOMEM;
	json__uint(j, "imported", m->cnt);
	json__uint(j, "total_ns", m->total_ns);
	json__uint(j, "lost_events", m->lost_cnt);
	json__array(j, "modules");
	for (size_t i = 0; i < cnt; i++) {
		json__object(j, NULL);
		json__string(j, "module", all[i]->name, all[i]->len);
		json__uint(j, "imports", all[i]->cnt);
		json__uint(j, "total_ns", all[i]->total_ns);
		json__uint(j, "own_ns", all[i]->own_ns);
		json__end(j, '}');
	}
	json__end(j, ']');
	free(all);
	return m->err;
}

void imports__report(const struct imports *m)
{
	if (m->lost_cnt)
		log_warn("%" PRIu64 " events were lost, and the imports that were open: they came "
			 "too fast",
			 m->lost_cnt);
	if (m->full_cnt)
		log_warn("%" PRIu64 " imports are not shown: there are too many modules or threads",
			 m->full_cnt);
}
