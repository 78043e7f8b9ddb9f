/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * pprof -> profile. The message (profile.proto) is read field by field where it lies: unpacked as a
 * whole by protobuf-c it would take ten times the memory of the file, and of a hostile file a
 * hundred times.
 *
 * Two passes: samples come first in the file, but need all that comes behind them.
 *
 * A file of ours has a comment that begins with "pyperf-bpf: ", and its mappings tell the kinds of
 * frames. In files of others a function of a *.py file is Python, one in a mapping "[kernel..." the
 * kernel's, one in another mapping native, and the rest plain names.
 */
#include "import/import_pprof_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "import/import_loops.h"
#include "profile/export_stacks.h"
#include "profile/pprof.h"

#define ELEMENTS_MAX (1U << 22) /* of each table: a bound on memory */
#define NO_LINES     " lines=0"

/* ---- The wire format: https://protobuf.dev/programming-guides/encoding ---- */

struct wire {
	const uint8_t *p, *end;
	bool bad;
	/* The field that wire__next() found: a number, or bytes. */
	uint32_t field;
	bool is_bytes;
	uint64_t value;
	struct slice bytes;
};

static struct wire wire(struct slice s)
{
	return (struct wire){ .p = s.p, .end = s.p + s.len };
}

static uint64_t varint(struct wire *w)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t byte;

		if (w->p == w->end)
			break;
		byte = *w->p++;
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	w->bad = true;
	return 0;
}

static void step_over(struct wire *w, uint64_t len)
{
	if (len > (uint64_t)(w->end - w->p))
		w->bad = true;
	else
		w->p += len;
}

/* False at the end, and when the rest makes no sense (w->bad). */
static bool wire__next(struct wire *w)
{
	uint64_t tag;

	if (w->p == w->end || w->bad)
		return false;
	tag = varint(w);
	w->field = tag >> 3 > UINT32_MAX ? 0 : (uint32_t)(tag >> 3);
	w->is_bytes = false;
	w->value = 0;
	switch (tag & 7) {
	case 0:
		w->value = varint(w);
		break;
	case 1:
		step_over(w, 8); /* no field of ours has a fixed size */
		break;
	case 2:
		w->is_bytes = true;
		w->bytes.len = varint(w);
		w->bytes.p = w->p;
		step_over(w, w->bytes.len);
		break;
	case 5:
		step_over(w, 4);
		break;
	default:
		w->bad = true;
	}
	w->bad |= !w->field;
	return !w->bad;
}

/* The numbers of a repeated field: packed, or one for each occurrence. Calls once for each. */
static struct wire numbers(const struct wire *w, uint64_t *single)
{
	*single = w->value;
	return w->is_bytes ? wire(w->bytes) : (struct wire){ .p = NULL, .end = NULL };
}

/* ---- Tables ---- */

static void *table__add(struct table *t, size_t size)
{
	uint8_t *items;

	if (array_grow(&t->items, &t->cap, t->cnt, 1, size, ELEMENTS_MAX))
		return NULL;
	items = t->items;
	return memset(items + size * t->cnt++, 0, size);
}

/* Ids are any number; mostly 1, 2, 3... Files the element added last. 0 is no id. */
static int table__set_id(struct table *t, uint64_t id)
{
	return idmap__set(&t->by_id, id, (void *)(uintptr_t)t->cnt);
}

/* Index + 1; 0: there is none. */
static size_t table__find(const struct table *t, uint64_t id)
{
	return (size_t)(uintptr_t)idmap__get(&t->by_id, id);
}

static void table__free(struct table *t)
{
	free(t->items);
	idmap__free(&t->by_id);
}

static int too_many(const struct pprof_reader *r, const struct table *t)
{
	if (t->cnt < ELEMENTS_MAX)
		return -ENOMEM;
	return import_bad(r->im, "more than %u strings, functions or locations", ELEMENTS_MAX);
}

static bool starts_with(struct slice s, const char *prefix)
{
	return s.len >= strlen(prefix) && !memcmp(s.p, prefix, strlen(prefix));
}

/* 0 is "", and also what lack of memory gives: `err` tells them apart. */
static str_id intern(struct pprof_reader *r, struct slice s, int *err)
{
	str_id id = s.len ? profile__intern(r->im->p, (const char *)s.p, s.len) : 0;

	if (s.len && !id)
		*err = -ENOMEM;
	return id;
}

/* ---- First pass: everything but the samples ---- */

static int damaged(const struct pprof_reader *r, const char *what)
{
	return import_bad(r->im, "not a pprof profile, or damaged: %s", what);
}

static struct column_type read_type(struct slice msg, bool *bad)
{
	struct column_type t = { 0, 0 };
	struct wire w = wire(msg);

	while (wire__next(&w)) {
		if (w.field == 1)
			t.type = (int64_t)w.value;
		else if (w.field == 2)
			t.unit = (int64_t)w.value;
	}
	*bad |= w.bad;
	return t;
}

static int add_type(struct pprof_reader *r, struct slice msg)
{
	bool bad = false;

	if (r->type_cnt == TYPES_MAX)
		return damaged(r, "more than 64 sample types");
	r->types[r->type_cnt++] = read_type(msg, &bad);
	return bad ? damaged(r, "a sample type") : 0;
}

static int add_mapping(struct pprof_reader *r, struct slice msg)
{
	struct binary *m = table__add(&r->mappings, sizeof(*m));
	struct wire w = wire(msg);
	uint64_t id = 0;

	if (!m)
		return too_many(r, &r->mappings);
	while (wire__next(&w)) {
		switch (w.field) {
		case 1:
			id = w.value;
			break;
		case 2:
			m->start = w.value;
			break;
		case 3:
			m->limit = w.value;
			break;
		case 4:
			m->offset = w.value;
			break;
		case 5:
			m->filename = (int64_t)w.value;
			break;
		case 6:
			m->build_id = (int64_t)w.value;
			break;
		}
	}
	if (w.bad || !id)
		return damaged(r, "a mapping");
	return table__set_id(&r->mappings, id);
}

static int add_function(struct pprof_reader *r, struct slice msg)
{
	struct function *f = table__add(&r->functions, sizeof(*f));
	struct wire w = wire(msg);
	uint64_t id = 0;

	if (!f)
		return too_many(r, &r->functions);
	while (wire__next(&w)) {
		switch (w.field) {
		case 1:
			id = w.value;
			break;
		case 2:
			f->name = (int64_t)w.value;
			break;
		case 4:
			f->file = (int64_t)w.value;
			break;
		case 5:
			f->start_line = (int64_t)w.value;
			break;
		}
	}
	if (w.bad || !id)
		return damaged(r, "a function");
	return table__set_id(&r->functions, id);
}

static int add_location(struct pprof_reader *r, struct slice msg)
{
	struct location *l = table__add(&r->locations, sizeof(*l));
	struct wire w = wire(msg);

	if (!l)
		return too_many(r, &r->locations);
	l->msg = msg;
	while (wire__next(&w)) {
		switch (w.field) {
		case 1:
			l->id = w.value;
			break;
		case 2:
			l->mapping = w.value;
			break;
		case 3:
			l->address = w.value;
			break;
		}
	}
	if (w.bad || !l->id)
		return damaged(r, "a location");
	return table__set_id(&r->locations, l->id);
}

static int add_string(struct pprof_reader *r, struct slice s)
{
	struct slice *string = table__add(&r->strings, sizeof(*string));

	if (!string)
		return too_many(r, &r->strings);
	*string = s;
	return 0;
}

static int take_message(struct pprof_reader *r, uint32_t field, struct slice msg)
{
	bool bad = false;

	switch (field) {
	case 1:
		return add_type(r, msg);
	case 3:
		return add_mapping(r, msg);
	case 4:
		return add_location(r, msg);
	case 5:
		return add_function(r, msg);
	case 6:
		return add_string(r, msg);
	case 11:
		r->period_type = read_type(msg, &bad);
		return bad ? damaged(r, "the type of the period") : 0;
	default:
		return 0;
	}
}

static int read_tables(struct pprof_reader *r)
{
	struct wire w = wire(r->file);
	int err = 0;

	while (!err && wire__next(&w)) {
		if (w.is_bytes)
			err = take_message(r, w.field, w.bytes);
		else if (w.field == 9)
			r->time_ns = (int64_t)w.value;
		else if (w.field == 10)
			r->duration_ns = (int64_t)w.value;
		else if (w.field == 12)
			r->period = (int64_t)w.value;
		else if (w.field == 14)
			r->default_type = (int64_t)w.value;
	}
	if (err)
		return err;
	if (w.bad)
		return damaged(r, "a field ends behind the end of the file");
	return r->type_cnt ? 0 : damaged(r, "it has no sample types");
}

/* ---- The run ---- */

/* Comments are in the string table, which comes last: they need a pass of their own. */
static void take_comment(struct pprof_reader *r, uint64_t index)
{
	struct slice s = get_string(r, (int64_t)index);

	if (starts_with(s, PPROF_COMMENT))
		r->ours = true;
}

static void read_comments(struct pprof_reader *r)
{
	struct wire w = wire(r->file);

	while (wire__next(&w)) {
		uint64_t single;
		struct wire n = numbers(&w, &single);

		if (w.field != 13)
			continue;
		if (!w.is_bytes)
			take_comment(r, single);
		while (n.p != n.end && !n.bad)
			take_comment(r, varint(&n));
	}
}

static void read_stats(struct pprof_reader *r)
{
	struct profile_stats *s = &r->im->stats;
	struct slice run = get_string(r, PPROF_RUN_STRING);

	read_comments(r);
	if (r->ours && starts_with(run, PPROF_RUN)) {
		profile_stats__parse(s, (const char *)run.p, run.len);
		r->im->has_lines |= !memmem(run.p, run.len, NO_LINES, strlen(NO_LINES));
	}
	if (r->ours && starts_with(get_string(r, PPROF_LOOPS_STRING), PPROF_LOOPS))
		r->loops = get_string(r, PPROF_LOOPS_STRING);
	if (!s->start_unix_ns && r->time_ns > 0)
		s->start_unix_ns = (uint64_t)r->time_ns;
	if (!s->duration_ns && r->duration_ns > 0)
		s->duration_ns = (uint64_t)r->duration_ns;
}

/* ---- Mappings, functions and locations -> syms ---- */

static struct slice base_name(struct slice path)
{
	const uint8_t *slash = path.len ? memrchr(path.p, '/', path.len) : NULL;
	size_t skipped = slash ? (size_t)(slash + 1 - path.p) : 0;

	return (struct slice){ path.p + skipped, path.len - skipped };
}

static bool is_bracketed(struct slice name)
{
	return name.len > 1 && name.p[0] == '[' && name.p[name.len - 1] == ']';
}

static int resolve_mapping(struct pprof_reader *r, struct binary *m)
{
	struct slice path = get_string(r, m->filename);
	struct profile_module module = { 0 };
	int err = 0;

	m->module = -1;
	m->python = r->ours && is(path, PPROF_PYTHON);
	m->generated = r->ours && is(path, PPROF_ANON);
	m->kernel = starts_with(path, "[kernel");
	m->bracketed = is_bracketed(path);
	if (m->python || m->kernel || m->generated || !path.len)
		return 0;
	module.path = intern(r, path, &err);
	module.build_id = intern(r, get_string(r, m->build_id), &err);
	module.start = m->offset;
	module.limit = m->limit > m->start ? m->offset + (m->limit - m->start) : m->offset;
	if (!err)
		m->module = import_module(r->im, &module);
	return m->module == -ENOMEM ? -ENOMEM : err;
}

static int resolve_mappings(struct pprof_reader *r)
{
	struct binary *maps = r->mappings.items;
	int err = 0;

	for (size_t i = 0; i < r->mappings.cnt && !err; i++)
		err = resolve_mapping(r, &maps[i]);
	/* Without labels, the process is the main binary. */
	if (!err && r->mappings.cnt && maps[0].module >= 0) {
		r->main_exe = r->im->p->modules[maps[0].module].path;
		r->main_comm = intern(r, base_name(get_string(r, maps[0].filename)), &err);
	}
	return err;
}

static bool is_python_file(struct slice file)
{
	return file.len > 3 && !memcmp(file.p + file.len - 3, ".py", 3);
}

static uint8_t kind_of(const struct pprof_reader *r, const struct location *l,
		       const struct binary *m, struct slice name, struct slice file)
{
	if (m && m->python)
		return SYM_PYTHON;
	if (m && (m->kernel || (m->bracketed && l->address >> 63))) /* or one of its modules */
		return SYM_KERNEL;
	if (!r->ours && is_python_file(file))
		return SYM_PYTHON;
	if ((m && (m->module >= 0 || m->generated)) || (r->ours && l->address))
		return SYM_NATIVE;
	return is_bracketed(name) ? SYM_MARKER : SYM_PLAIN;
}

/* Names that export_pprof.c gives to what has none. */
static bool stands_for_none(uint8_t kind, struct slice name)
{
	return (kind == SYM_KERNEL && is(name, PPROF_KERNEL)) ||
	       (kind == SYM_NATIVE && is(name, PPROF_ANON));
}

static uint32_t to_line(int64_t line)
{
	return line > 0 && line <= UINT32_MAX ? (uint32_t)line : 0;
}

/*
 * A location's function number `function_id` (0: it has none). `inlined`: the sym inlined into it;
 * `last`: it is inlined into none itself. Returns the sym's index.
 */
static int add_line_sym(struct pprof_reader *r, const struct location *l, uint64_t function_id,
			int64_t line, int32_t inlined, bool last)
{
	const struct binary *maps = r->mappings.items, *m;
	const struct function *functions = r->functions.items;
	size_t mapping = table__find(&r->mappings, l->mapping);
	size_t function = table__find(&r->functions, function_id);
	struct sym s = { .module = -1, .inlined = inlined };
	struct slice name = { NULL, 0 }, file = { NULL, 0 };
	int err = 0;

	if ((l->mapping && !mapping) || (function_id && !function))
		return damaged(r, "a location names a mapping or a function that is not there");
	m = mapping ? &maps[mapping - 1] : NULL;
	if (function) {
		name = get_string(r, functions[function - 1].name);
		file = get_string(r, functions[function - 1].file);
		s.start_line = to_line(functions[function - 1].start_line);
	}
	s.kind = kind_of(r, l, m, name, file);
	s.func = stands_for_none(s.kind, name) ? 0 : intern(r, name, &err);
	s.file = intern(r, file, &err);
	s.line = to_line(line);
	s.flags = s.kind == SYM_NATIVE && !last ? SYM_INLINED : 0;
	if ((s.kind == SYM_NATIVE || s.kind == SYM_KERNEL) && m)
		s.module = m->module;
	if (s.kind == SYM_NATIVE || s.kind == SYM_KERNEL)
		s.addr = m ? l->address - m->start + m->offset : l->address;
	r->im->has_lines |= s.line && s.kind != SYM_KERNEL;
	return err ? err : import_sym(r->im, &s);
}

static int line_cnt(const struct location *l)
{
	struct wire w = wire(l->msg);
	int cnt = 0;

	while (cnt < EXPORT_MAX_INLINED && wire__next(&w))
		cnt += w.field == 4 && w.is_bytes;
	return cnt;
}

static int resolve_location(struct pprof_reader *r, struct location *l)
{
	int sym = -1, lines = 0, left = line_cnt(l);
	struct wire w = wire(l->msg);

	while (lines < EXPORT_MAX_INLINED && wire__next(&w)) {
		struct wire line = wire(w.bytes);
		uint64_t function = 0, number = 0;

		if (w.field != 4 || !w.is_bytes)
			continue;
		while (wire__next(&line)) {
			if (line.field == 1)
				function = line.value;
			else if (line.field == 2)
				number = line.value;
		}
		if (line.bad)
			return damaged(r, "a line");
		sym = add_line_sym(r, l, function, (int64_t)number, sym, --left == 0);
		if (sym < 0)
			return sym;
		lines++;
	}
	if (!lines)
		sym = add_line_sym(r, l, 0, 0, -1, true);
	if (sym >= 0)
		l->sym = (uint32_t)sym + 1;
	return sym < 0 ? sym : 0;
}

/* ---- Second pass: samples ---- */

struct labels {
	struct profile_proc proc;
	uint64_t life;
	uint32_t tid, interp;
	str_id thread;
};

static uint32_t to_id(int64_t num)
{
	return num > 0 && num <= UINT32_MAX ? (uint32_t)num : 0;
}

static int read_label(struct pprof_reader *r, struct slice msg, struct labels *l)
{
	struct wire w = wire(msg);
	int64_t key = 0, str = 0, num = 0;
	struct slice name, text;
	int err = 0;

	while (wire__next(&w)) {
		if (w.field == 1)
			key = (int64_t)w.value;
		else if (w.field == 2)
			str = (int64_t)w.value;
		else if (w.field == 3)
			num = (int64_t)w.value;
	}
	if (w.bad)
		return damaged(r, "a label");
	name = get_string(r, key);
	text = get_string(r, str);
	if (is(name, "pid"))
		l->proc.tgid = to_id(num);
	else if (is(name, "tid"))
		l->tid = to_id(num);
	else if (is(name, "interpreter"))
		l->interp = to_id(num);
	else if (is(name, "life"))
		l->life = (uint64_t)num;
	else if (is(name, "comm"))
		l->proc.comm = intern(r, text, &err);
	else if (is(name, "title"))
		l->proc.title = intern(r, text, &err);
	else if (is(name, "exe"))
		l->proc.exe = intern(r, text, &err);
	else if (is(name, "container"))
		l->proc.container = intern(r, text, &err);
	else if (is(name, "python"))
		l->proc.python = intern(r, text, &err);
	else if (is(name, "native-only"))
		l->proc.native_only = intern(r, text, &err);
	else if (is(name, "thread"))
		l->thread = intern(r, text, &err);
	return err;
}

/* The index of the innermost sym of a location, or negative errno after a message. */
static int sym_of(struct pprof_reader *r, uint64_t location_id)
{
	struct location *locations = r->locations.items;
	size_t index = table__find(&r->locations, location_id);
	int err = 0;

	if (!index)
		return damaged(r, "a sample names a location that is not there");
	if (!locations[index - 1].sym)
		err = resolve_location(r, &locations[index - 1]);
	return err ? err : (int)(locations[index - 1].sym - 1);
}

static int add_frame(struct pprof_reader *r, uint64_t location_id, size_t at)
{
	int sym = sym_of(r, location_id);

	if (sym < 0)
		return sym;
	if (at == IMPORT_MAX_DEPTH)
		return import_bad(r->im, "a stack of more than %u frames", IMPORT_MAX_DEPTH);
	if (ARRAY_GROW(r->frames, r->frame_cap, at, UINT32_MAX))
		return -ENOMEM;
	r->frames[at] = (uint32_t)sym;
	return 0;
}

static void reverse(uint32_t *frames, size_t cnt)
{
	for (size_t i = 0; i < cnt / 2; i++) {
		uint32_t frame = frames[i];

		frames[i] = frames[cnt - 1 - i];
		frames[cnt - 1 - i] = frame;
	}
}

static uint64_t column_value(const struct pprof_reader *r, const struct column *c)
{
	uint64_t count = r->values[c->count];

	return c->divisor ? count / c->divisor + (count % c->divisor >= (c->divisor + 1) / 2)
			  : count;
}

static int check_values(const struct pprof_reader *r, bool *counts)
{
	*counts = false;
	for (uint32_t k = 0; k < r->column_cnt; k++) {
		const struct column *c = &r->columns[k];

		if (r->values[c->count] > INT64_MAX || r->values[c->samples] > INT64_MAX)
			return import_bad(r->im, "negative values: a difference of two profiles?");
		*counts |= column_value(r, c) != 0;
	}
	return 0;
}

/* For event loops. */
static int note_proc(struct pprof_reader *r, int proc)
{
	if (!r->loops.len)
		return 0;
	if (ARRAY_GROW(r->sample_procs, r->sample_cap, r->sample_cnt, UINT32_MAX))
		return -ENOMEM;
	r->sample_procs[r->sample_cnt++] = (uint32_t)(proc + 1);
	return 0;
}

static int store_sample(struct pprof_reader *r, struct labels *l, size_t frame_cnt)
{
	uint32_t thread;
	bool counts;
	int proc, err = check_values(r, &counts);

	if (err || !counts)
		return err ? err : note_proc(r, -1);
	if (!l->proc.comm) {
		l->proc.comm = r->main_comm;
		l->proc.exe = r->main_exe;
	}
	proc = import_proc(r->im, &l->proc, l->life);
	if (proc < 0)
		return proc;
	/* No thread of Linux has a greater number. */
	thread = THREAD_INTERP(l->tid) || !l->tid ? 0 : THREAD_WORD(l->tid, l->interp);
	err = import_thread(r->im, proc, thread, l->thread);
	if (!err)
		err = note_proc(r, proc);
	if (err)
		return err;
	reverse(r->frames, frame_cnt);
	for (uint32_t k = 0; k < r->column_cnt && !err; k++) {
		const struct column *c = &r->columns[k];
		uint64_t count = column_value(r, c);

		err = import_stack(r->im, k, proc, thread, r->frames, frame_cnt,
				   c->samples == c->count ? count : r->values[c->samples], count);
	}
	return err;
}

static void take_value(struct pprof_reader *r, size_t column, uint64_t n)
{
	if (column < TYPES_MAX)
		r->values[column] = n;
}

static int read_sample(struct pprof_reader *r, struct slice msg)
{
	struct wire w = wire(msg);
	struct labels l = { .tid = 0 };
	size_t frame_cnt = 0, value_cnt = 0;
	int err = 0;

	while (!err && wire__next(&w)) {
		uint64_t number;
		struct wire n = numbers(&w, &number);
		bool more = !w.is_bytes;

		if (w.field == 3 && w.is_bytes)
			err = read_label(r, w.bytes, &l);
		if (w.field != 1 && w.field != 2)
			continue;
		while (!err && (more || n.p != n.end)) {
			number = more ? number : varint(&n);
			more = false;
			if (n.bad)
				err = damaged(r, "a sample");
			else if (w.field == 1)
				err = add_frame(r, number, frame_cnt++);
			else
				take_value(r, value_cnt++, number);
		}
	}
	if (!err && (w.bad || value_cnt != r->type_cnt))
		err = damaged(r, "a sample");
	return err ? err : store_sample(r, &l, frame_cnt);
}

static int read_samples(struct pprof_reader *r)
{
	struct wire w = wire(r->file);
	int err = 0;

	while (!err && wire__next(&w))
		if (w.field == 2 && w.is_bytes)
			err = read_sample(r, w.bytes);
	return err;
}

static int loop_sym(void *reader, uint64_t location_id)
{
	return sym_of(reader, location_id);
}

static int loop_proc(void *reader, uint64_t sample)
{
	const struct pprof_reader *r = reader;

	return sample < r->sample_cnt ? (int)r->sample_procs[sample] - 1 : -1;
}

static int read_loops(struct pprof_reader *r)
{
	const struct loop_refs refs = { .ctx = r, .sym = loop_sym, .proc = loop_proc };
	size_t prefix = strlen(PPROF_LOOPS);

	if (!r->loops.len)
		return 0;
	return import_loops(r->im, (const char *)r->loops.p + prefix, r->loops.len - prefix, &refs);
}

int import_pprof(struct import *im, const uint8_t *data, size_t size)
{
	struct pprof_reader r = { .im = im, .file = { data, size } };
	int err = read_tables(&r);

	if (!err)
		read_stats(&r);
	if (!err)
		err = pprof_columns__choose(&r);
	if (!err)
		pprof_columns__set_values(&r);
	if (!err)
		err = resolve_mappings(&r);
	if (!err)
		err = read_samples(&r);
	if (!err)
		err = read_loops(&r);
	table__free(&r.strings);
	table__free(&r.mappings);
	table__free(&r.functions);
	table__free(&r.locations);
	free(r.frames);
	free(r.sample_procs);
	return err;
}
