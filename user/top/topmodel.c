/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "top/topmodel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/export_stacks.h"
#include "profile/waits.h"
#include "profile/export_text.h"
#include "profile/loops.h"
#include "top/topmodel_parts.h"

#define KEEP_ENDED_NS (10 * NS_PER_S) /* a process that has ended is shown that long */
#define KEEP_IDLE_NS  (60 * NS_PER_S) /* a thread that does not run, when cells get many */
#define MAX_FUNCTIONS (1U << 17)
#define MAX_CELLS     (1U << 18) /* 80 bytes each */
#define MANY_CELLS    (MAX_CELLS / 4)
#define MAX_THREADS   (1U << 17)
#define OTHERS	      0 /* the function of those that found no room */

/* ---- strings --------------------------------------------------------------------------------- */

static void cut(struct strbuf *b)
{
	size_t at = 0;
	uint32_t c;

	if (b->err || b->len <= TOP_NAME_BYTES)
		return;
	while (at + 4 <= TOP_NAME_BYTES)
		at += utf8_next(b->s + at, b->len - at, &c);
	b->s[at] = '\0';
	b->len = at;
}

/* A safe copy, to be freed; NULL: no memory. */
static char *safe_copy(struct topmodel *m, const char *s)
{
	strbuf__clear(&m->name);
	str_sanitise(&m->name, s, strnlen(s, 2 * TOP_NAME_BYTES), TOP_NAME_BYTES);
	cut(&m->name);
	return m->name.err ? NULL : strdup(m->name.len ? m->name.s : "");
}

static int replace(struct topmodel *m, char **at, const char *s)
{
	char *copy = safe_copy(m, s);

	if (!copy)
		return -ENOMEM;
	free(*at);
	*at = copy;
	return 0;
}

/* ---- processes and threads ------------------------------------------------------------------- */

static uint64_t thread_key(uint32_t space, uint32_t tid)
{
	return (uint64_t)space << 32 | tid;
}

const struct top_process *topmodel__process(const struct topmodel *m, uint32_t space)
{
	return idmap__get(&m->procs, space);
}

const struct top_thread *topmodel__thread(const struct topmodel *m, uint32_t space, uint32_t tid)
{
	return idmap__get(&m->threads, thread_key(space, tid));
}

static void free_process(struct top_process *p)
{
	if (!p)
		return;
	free(p->name);
	free(p->command);
	free(p->python);
	free(p->why);
	free(p->loops.last.where);
	free(p->loops.all.where);
	free(p);
}

static void free_thread(struct top_thread *t)
{
	if (!t)
		return;
	free(t->name);
	free(t);
}

static struct top_process *get_process(struct topmodel *m, uint32_t space)
{
	struct top_process *p = idmap__get(&m->procs, space);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->space = space;
	p->name = strdup("");
	p->command = strdup("");
	p->python = strdup("");
	p->why = strdup("");
	if (p->name && p->command && p->python && p->why && !idmap__set(&m->procs, space, p))
		return p;
	free_process(p);
	return NULL;
}

static struct top_thread *get_thread(struct topmodel *m, uint32_t space, uint32_t tid)
{
	struct top_thread *t = idmap__get(&m->threads, thread_key(space, tid));

	if (t)
		return t;
	if (tid && m->threads.cnt >= MAX_THREADS)
		return get_thread(m, space, 0);
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->space = space;
	t->tid = tid;
	t->name = strdup("");
	t->state = "";
	if (t->name && !idmap__set(&m->threads, thread_key(space, tid), t))
		return t;
	free_thread(t);
	return NULL;
}

void topmodel__begin_processes(struct topmodel *m)
{
	m->round++;
}

bool topmodel__knows(const struct topmodel *m, uint32_t space)
{
	const struct top_process *p = topmodel__process(m, space);

	return p && p->round;
}

/* Titles come, and change, later than the command line, which is given once. */
static int set_name(struct topmodel *m, struct top_process *p, const struct top_process_info *info)
{
	int err = *info->command ? replace(m, &p->command, info->command) : 0;

	if (err)
		return err;
	if (*info->title)
		return replace(m, &p->name, info->title);
	if (*info->command)
		return replace(m, &p->name, info->command);
	return *p->name ? 0 : replace(m, &p->name, info->comm);
}

int topmodel__set_process(struct topmodel *m, const struct top_process_info *info)
{
	struct top_process *p = get_process(m, info->space);
	int err = p ? 0 : -ENOMEM;

	if (!err)
		err = set_name(m, p, info);
	if (!err)
		err = replace(m, &p->python, info->python);
	if (!err)
		err = replace(m, &p->why, info->why);
	if (err)
		return err;
	p->tgid = info->tgid;
	p->round = m->round;
	return 0;
}

void topmodel__end_processes(struct topmodel *m)
{
	struct top_process *p;

	for (size_t at = 0; (p = idmap__next(&m->procs, &at));) {
		if (p->round == m->round || p->ended || p->space == TOP_ENDED)
			continue;
		p->ended = true;
		p->ended_ns = m->elapsed_ns;
	}
}

void topmodel__begin_threads(struct topmodel *m)
{
	struct top_thread *t;

	m->thread_round++;
	for (size_t at = 0; (t = idmap__next(&m->threads, &at));) {
		t->state = "";
		t->gil = TOP_GIL_UNKNOWN;
	}
}

int topmodel__set_thread(struct topmodel *m, uint32_t space, const struct top_thread_info *info)
{
	struct top_thread *t = get_thread(m, space, info->tid);

	if (!t)
		return -ENOMEM;
	if (!t->tid) /* no room for it */
		return 0;
	if (!t->named && (info->named || !*t->name) && replace(m, &t->name, info->name))
		return -ENOMEM;
	t->named |= info->named;
	t->state = info->state;
	t->gil = info->gil;
	t->round = m->thread_round;
	t->seen_ns = m->elapsed_ns;
	return 0;
}

void topmodel__end_threads(struct topmodel *m, uint32_t space)
{
	struct top_thread *t;

	for (size_t at = 0; (t = idmap__next(&m->threads, &at));)
		if (t->space == space && t->tid && t->round != m->thread_round)
			t->state = "ended";
}

const struct top_thread *topmodel__gil_holder(const struct topmodel *m, uint32_t space)
{
	const struct top_thread *t;

	for (size_t at = 0; (t = idmap__next(&m->threads, &at));)
		if (t->space == space && t->gil == TOP_GIL_HOLDS)
			return t;
	return NULL;
}

/* ---- functions ------------------------------------------------------------------------------- */

static int add_function(struct topmodel *m, uint64_t hash, const struct function *f)
{
	if (ARRAY_GROW(m->functions, m->function_cap, m->function_cnt, MAX_FUNCTIONS))
		return -ENOMEM;
	m->functions[m->function_cnt] = *f;
	if (hash_index__add(&m->function_index, hash, (uint32_t)m->function_cnt))
		return -ENOMEM;
	return (int)m->function_cnt++;
}

/* The number of a text. With the table full only that of one that is known; 0: none. */
static uint32_t text_id(const struct topmodel *m, const struct strbuf *b)
{
	return m->function_cnt == MAX_FUNCTIONS ? strtab__find(m->strings, b->s, b->len)
						: strtab__add(m->strings, b->s, b->len);
}

/*
 * The function of a frame; OTHERS when there is no room: the functions of before stay. Negative
 * errno.
 */
static int find_function(struct topmodel *m, const struct profile *p, const struct sym *s)
{
	struct function f = { .kind = s->kind };
	bool full = m->function_cnt == MAX_FUNCTIONS;
	uint64_t hash;
	uint32_t i;

	strbuf__clear(&m->name);
	strbuf__clear(&m->place);
	text_add_func(&m->name, p, s, "(no symbol)");
	text_add_place(&m->place, p, s, 0);
	cut(&m->name);
	cut(&m->place);
	if (m->name.err || m->place.err)
		return -ENOMEM;
	f.name = text_id(m, &m->name);
	f.place = m->place.len ? text_id(m, &m->place) : 0;
	if (!f.name || (m->place.len && !f.place))
		return full ? OTHERS : -ENOMEM;
	hash = hash_bytes(&m->hash_key, &f, sizeof(f));
	for (size_t at = 0; (i = hash_index__next(&m->function_index, hash, &at)) != HASH_NONE;)
		if (!memcmp(&m->functions[i], &f, sizeof(f)))
			return (int)i;
	return full ? OTHERS : add_function(m, hash, &f);
}

struct top_function topmodel__function(const struct topmodel *m, uint32_t function)
{
	const struct function *f = &m->functions[function < m->function_cnt ? function : OTHERS];

	return (struct top_function){
		.kind = (uint8_t)f->kind,
		.name = strtab__get(m->strings, f->name, NULL),
		.place = strtab__get(m->strings, f->place, NULL),
	};
}

/* ---- counting -------------------------------------------------------------------------------- */

static uint64_t hash_cell(const struct topmodel *m, const struct key *key)
{
	return hash_bytes(&m->hash_key, key, sizeof(*key));
}

/* NULL: no memory, or the table is full. */
static struct cell *get_cell(const struct topmodel *m, struct cells *cells, const struct key *key)
{
	uint64_t hash = hash_cell(m, key);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&cells->index, hash, &at)) != HASH_NONE;)
		if (!memcmp(&cells->list[i].key, key, sizeof(*key)))
			return &cells->list[i];
	if (cells->cnt == MAX_CELLS || ARRAY_GROW(cells->list, cells->cap, cells->cnt, MAX_CELLS))
		return NULL;
	if (hash_index__add(&cells->index, hash, (uint32_t)cells->cnt))
		return NULL;
	cells->list[cells->cnt] = (struct cell){ .key = *key };
	return &cells->list[cells->cnt++];
}

static void cells__free(struct cells *cells)
{
	free(cells->list);
	hash_index__free(&cells->index);
	*cells = (struct cells){ 0 };
}

static void add_counts(struct top_count *to, const struct top_count *more)
{
	to->self += more->self;
	to->own += more->own;
	to->total += more->total;
}

/* A stack with a frame there. False: there is no room. */
static bool count_frame(struct topmodel *m, const struct key *key, const struct top_count *more)
{
	struct cell *c = get_cell(m, &m->cells, key);
	struct top_count counts = *more;

	if (!c)
		return false;
	if (c->stack == m->stack)
		counts.total = 0;
	c->stack = m->stack;
	if (c->window != m->window)
		c->last = (struct top_count){ 0 };
	c->window = m->window;
	add_counts(&c->last, &counts);
	add_counts(&c->all, &counts);
	return true;
}

static void count_process(struct topmodel *m, struct top_process *p, struct top_thread *t,
			  const struct profile_stack *st)
{
	p->seen = true;
	p->last[st->type] += st->count;
	p->all[st->type] += st->count;
	p->thread_cnt[st->type] += !t->last[st->type];
	t->seen_ns = m->elapsed_ns;
	t->last[st->type] += st->count;
	t->all[st->type] += st->count;
}

/* The sym of a frame: sym_cnt stands for those that have none. */
static uint32_t sym_at(const struct profile *p, const struct profile_stack *st, uint32_t i)
{
	uint32_t sym = p->frame_syms[st->first + i];

	return sym < p->sym_cnt ? sym : (uint32_t)p->sym_cnt;
}

/* Index of the frame that a stack's `own` count belongs to. */
static uint32_t own_frame(const struct profile *p, const struct profile_stack *st)
{
	for (uint32_t i = st->cnt; i-- > 0;)
		if (export_sym(p, sym_at(p, st, i))->kind == SYM_PYTHON)
			return i;
	return st->cnt - 1;
}

static bool count_frames(struct topmodel *m, const struct profile *p,
			 const struct profile_stack *st, const uint32_t *functions)
{
	uint32_t own = own_frame(p, st);
	bool fits = true;

	m->stack++;
	for (uint32_t i = 0; i < st->cnt && fits; i++) {
		uint32_t sym = sym_at(p, st, i);
		struct key key = { .space = p->procs[st->proc].space,
				   .tid = THREAD_TID(st->tid),
				   .function = functions[sym],
				   .value = st->type };
		const struct top_count counts = { .self = i + 1 == st->cnt ? st->count : 0,
						  .own = i == own ? st->count : 0,
						  .total = st->count };

		fits = count_frame(m, &key, &counts);
		key.line = export_sym(p, sym)->line;
		if (fits && key.line)
			fits = count_frame(m, &key, &counts);
	}
	return fits;
}

/* The innermost frame's, if the stack is a wait; else NULL. */
static const char *reason_of(const struct profile *p, const struct profile_stack *st, size_t *len)
{
	const struct sym *leaf;

	if (!st->cnt)
		return NULL;
	leaf = export_sym(p, sym_at(p, st, st->cnt - 1));
	return leaf->kind == SYM_MARKER ? wait_reason(profile__str(p, leaf->func), len) : NULL;
}

/* A reason to wait is a marker, too, and breaks nothing. */
static bool is_broken(const struct profile *p, const struct profile_stack *st)
{
	size_t len;
	uint32_t cnt = st->cnt - (reason_of(p, st, &len) != NULL);

	for (uint32_t i = 0; i < cnt; i++)
		if (export_sym(p, sym_at(p, st, i))->kind == SYM_MARKER)
			return true;
	return false;
}

static void count_wait(struct topmodel *m, struct top_process *process, struct top_thread *thread,
		       const struct profile *p, const struct profile_stack *st)
{
	uint32_t event = p->stats.values[st->type].event;
	enum top_wait wait = TOP_WAITING;
	const char *reason;
	size_t len;

	if (event != EVENT_WALL && event != EVENT_OFF_CPU)
		return;
	reason = reason_of(p, st, &len);
	if (!reason)
		return;
	if (wait_is_for_cpu(reason, len))
		wait = TOP_QUEUED;
	else if (len == strlen("GIL") && !memcmp(reason, "GIL", len))
		wait = TOP_FOR_GIL;
	process->waits[wait] += st->count;
	thread->waits[wait] += st->count;
	m->has_waits = true;
}

static int count_stack(struct topmodel *m, const struct profile *p, const struct profile_stack *st,
		       const uint32_t *functions)
{
	const struct profile_proc *proc = &p->procs[st->proc];
	struct top_process *process = get_process(m, proc->space);
	struct top_thread *thread =
		process ? get_thread(m, proc->space, THREAD_TID(st->tid)) : NULL;

	if (!thread)
		return -ENOMEM;
	count_process(m, process, thread, st);
	count_wait(m, process, thread, p, st);
	if (is_broken(p, st))
		process->broken[st->type] += st->count;
	m->last[st->type] += st->count;
	m->all[st->type] += st->count;
	if (st->cnt && !count_frames(m, p, st, functions))
		m->unlisted += st->count;
	return 0;
}

/* Describes a process that topmodel__set_process() does not know, from the profile. */
static int take_process(struct topmodel *m, const struct profile *p,
			const struct profile_proc *proc)
{
	struct top_process *process = get_process(m, proc->space);
	int err = process ? 0 : -ENOMEM;

	if (err)
		return err;
	process->has_python |= proc->has_python_frames;
	if (!*process->name) {
		process->tgid = proc->tgid;
		err = replace(m, &process->name, profile__str(p, profile_proc__name(proc)));
	}
	if (!err && !*process->python)
		err = replace(m, &process->python, profile__str(p, proc->python));
	if (!err && !process->round && proc->native_only)
		err = replace(m, &process->why, profile__str(p, proc->native_only));
	return err;
}

static int note_longest(struct topmodel *m, struct top_longest *l, uint64_t ns, const char *where)
{
	if (ns > l->ns)
		l->ns = ns;
	if (!*where || ns <= l->named_ns)
		return 0;
	l->named_ns = ns;
	return replace(m, &l->where, where);
}

static int take_stretch(struct topmodel *m, struct top_loops *l, const struct profile *p,
			const struct profile_stretch *s)
{
	bool is_news = s->ns > l->last.named_ns || s->ns > l->all.named_ns;
	struct strbuf path = { 0 };
	int err = s->stack_cnt && is_news ? loops_add_path(&path, p, s) : 0;
	const char *where;

	if (!err)
		err = path.err;
	where = path.len && !err ? path.s : "";
	if (!err)
		err = note_longest(m, &l->last, s->ns, where);
	if (!err)
		err = note_longest(m, &l->all, s->ns, where);
	strbuf__free(&path);
	return err;
}

static int take_loop(struct topmodel *m, const struct profile *p, const struct profile_loop *loop)
{
	struct top_process *process = idmap__get(&m->procs, loop->space);
	struct top_loops *l = process ? &process->loops : NULL;
	int err = 0;

	if (!l || !loops_is_event_loop(p, loop))
		return 0;
	l->any = true;
	l->last_cnt += loop->slow_cnt;
	l->all_cnt += loop->slow_cnt;
	for (uint32_t i = 0; i < loop->longest_cnt && !err; i++)
		if (loop->longest[i].ns >= LOOP_SLOW_NS)
			err = take_stretch(m, l, p, &loop->longest[i]);
	return err;
}

const struct top_process *topmodel__slowest_loop(const struct topmodel *m)
{
	const struct top_process *p, *slowest = NULL;

	for (size_t at = 0; (p = idmap__next(&m->procs, &at));)
		if (!p->ended && p->loops.all.ns > (slowest ? slowest->loops.all.ns : 0))
			slowest = p;
	return slowest;
}

static int take_threads(struct topmodel *m, const struct profile *p)
{
	for (size_t i = 0; i < p->thread_cnt; i++) {
		struct top_thread *t =
			idmap__get(&m->threads, thread_key(p->threads[i].space, p->threads[i].tid));

		if (!t || t->named)
			continue;
		if (replace(m, &t->name, profile__str(p, p->threads[i].name)))
			return -ENOMEM;
		t->named = true;
	}
	return 0;
}

int topmodel__give_threads(const struct topmodel *m, struct profile *p)
{
	const struct top_thread *t;
	int err = 0;

	for (size_t at = 0; err >= 0 && (t = idmap__next(&m->threads, &at));) {
		const struct profile_thread thread = { .space = t->space,
						       .tid = t->tid,
						       .name = profile__intern_z(p, t->name) };

		if (t->named)
			err = thread.name ? profile__add_thread(p, &thread) : -ENOMEM;
	}
	return err < 0 ? err : 0;
}

/* Sym -> function. To be freed; NULL: no memory. */
static uint32_t *map_functions(struct topmodel *m, const struct profile *p)
{
	uint32_t *functions = calloc(p->sym_cnt + 1, sizeof(*functions));
	int f = 0;

	for (size_t i = 0; functions && f >= 0 && i <= p->sym_cnt; i++) {
		f = find_function(m, p, export_sym(p, (uint32_t)i));
		functions[i] = (uint32_t)f;
	}
	if (f >= 0)
		return functions;
	free(functions);
	return NULL;
}

/* ---- what has ended -------------------------------------------------------------------------- */

static bool is_over(const struct topmodel *m, const struct top_process *p)
{
	return p->ended && m->elapsed_ns - p->ended_ns >= KEEP_ENDED_NS;
}

/* Changes a key to the one where its counts now belong. */
static void forward(const struct topmodel *m, struct key *key, bool idle)
{
	const struct top_process *p = topmodel__process(m, key->space);
	const struct top_thread *t = topmodel__thread(m, key->space, key->tid);

	if (!p || is_over(m, p))
		key->space = key->tid = 0;
	else if (idle && t && m->elapsed_ns - t->seen_ns >= KEEP_IDLE_NS)
		key->tid = 0;
}

static int compact_cells(struct topmodel *m, bool idle)
{
	struct cells kept = { 0 };

	for (size_t i = 0; i < m->cells.cnt; i++) {
		const struct cell *old = &m->cells.list[i];
		struct key key = old->key;
		struct cell *c;

		forward(m, &key, idle);
		c = get_cell(m, &kept, &key);
		if (!c) {
			cells__free(&kept);
			return -ENOMEM;
		}
		if (old->window == m->window) {
			c->window = m->window;
			add_counts(&c->last, &old->last);
		}
		add_counts(&c->all, &old->all);
	}
	cells__free(&m->cells);
	m->cells = kept;
	return 0;
}

/* Removing while looking through an idmap is not allowed: the keys are gathered first. */
static int compact_threads(struct topmodel *m, bool idle)
{
	uint64_t *gone = calloc(m->threads.cnt + 1, sizeof(*gone));
	struct top_thread *t, *to;
	size_t cnt = 0;
	int err = gone ? 0 : -ENOMEM;

	for (size_t at = 0; !err && (t = idmap__next(&m->threads, &at));) {
		struct key key = { .space = t->space, .tid = t->tid };

		forward(m, &key, idle);
		if (key.tid != t->tid)
			gone[cnt++] = thread_key(t->space, t->tid);
	}
	for (size_t i = 0; i < cnt; i++) {
		struct key key = { .space = (uint32_t)(gone[i] >> 32), .tid = (uint32_t)gone[i] };

		t = idmap__get(&m->threads, gone[i]);
		forward(m, &key, idle);
		to = key.space ? get_thread(m, key.space, 0) : NULL;
		for (size_t k = 0; to && k < SAMPLED_MAX; k++)
			to->all[k] += t->all[k];
		idmap__remove(&m->threads, gone[i]);
		free_thread(t);
	}
	free(gone);
	return err;
}

static int compact_processes(struct topmodel *m)
{
	uint64_t *gone = calloc(m->procs.cnt + 1, sizeof(*gone));
	struct top_process *ended = NULL, *p;
	size_t cnt = 0;

	for (size_t at = 0; gone && (p = idmap__next(&m->procs, &at));)
		if (p->space != TOP_ENDED && is_over(m, p))
			gone[cnt++] = p->space;
	if (cnt)
		ended = get_process(m, TOP_ENDED);
	for (size_t i = 0; ended && i < cnt; i++) {
		p = idmap__get(&m->procs, gone[i]);
		for (size_t k = 0; k < SAMPLED_MAX; k++) {
			ended->all[k] += p->all[k];
			ended->broken[k] += p->broken[k];
		}
		ended->ended_count++;
		ended->ended = true;
		idmap__remove(&m->procs, gone[i]);
		free_process(p);
	}
	free(gone);
	return !gone || (cnt && !ended) ? -ENOMEM : 0;
}

/* Every ten seconds: adds ended processes to TOP_ENDED. */
static int compact(struct topmodel *m)
{
	bool idle = m->cells.cnt > MANY_CELLS;
	int err;

	if (m->elapsed_ns - m->compacted_ns < KEEP_ENDED_NS)
		return 0;
	m->compacted_ns = m->elapsed_ns;
	err = compact_cells(m, idle);
	if (!err)
		err = compact_threads(m, idle);
	return err ? err : compact_processes(m);
}

/* ---- the interval ---------------------------------------------------------------------------- */

static void begin_interval(struct topmodel *m, uint64_t duration_ns)
{
	struct top_process *p;
	struct top_thread *t;

	for (size_t at = 0; (p = idmap__next(&m->procs, &at));) {
		memset(p->last, 0, sizeof(p->last));
		memset(p->thread_cnt, 0, sizeof(p->thread_cnt));
		memset(p->waits, 0, sizeof(p->waits));
		free(p->loops.last.where);
		p->loops.last = (struct top_longest){ .ns = 0 };
		p->loops.last_cnt = 0;
	}
	for (size_t at = 0; (t = idmap__next(&m->threads, &at));) {
		memset(t->last, 0, sizeof(t->last));
		memset(t->waits, 0, sizeof(t->waits));
	}
	m->window++;
	memset(m->last, 0, sizeof(m->last));
	m->interval_ns = duration_ns;
	m->elapsed_ns += duration_ns;
}

int topmodel__add(struct topmodel *m, const struct profile *p, uint64_t duration_ns)
{
	uint32_t *functions = map_functions(m, p);
	int err = functions ? 0 : -ENOMEM;

	begin_interval(m, duration_ns);
	for (size_t i = 0; i < p->proc_cnt && !err; i++)
		err = take_process(m, p, &p->procs[i]);
	for (size_t i = 0; i < p->stack_cnt && !err && p->frame_syms; i++)
		if (p->stacks[i].type < SAMPLED_MAX)
			err = count_stack(m, p, &p->stacks[i], functions);
	free(functions);
	for (size_t i = 0; i < p->loop_cnt && !err; i++)
		err = take_loop(m, p, &p->loops[i]);
	if (!err)
		err = take_threads(m, p);
	return err ? err : compact(m);
}

bool topmodel__has_waits(const struct topmodel *m)
{
	return m->has_waits;
}

uint64_t topmodel__interval_ns(const struct topmodel *m)
{
	return m->interval_ns;
}

uint64_t topmodel__elapsed_ns(const struct topmodel *m)
{
	return m->elapsed_ns;
}

uint64_t topmodel__unlisted(const struct topmodel *m)
{
	return m->unlisted;
}

void topmodel__counts(const struct topmodel *m, uint32_t space, uint32_t tid, uint32_t value,
		      uint64_t *last, uint64_t *all)
{
	const struct top_process *p = topmodel__process(m, space);
	const struct top_thread *t = topmodel__thread(m, space, tid);

	*last = *all = 0;
	if (!space) {
		*last = m->last[value];
		*all = m->all[value];
	} else if (tid && t) {
		*last = t->last[value];
		*all = t->all[value];
	} else if (!tid && p) {
		*last = p->last[value];
		*all = p->all[value];
	}
}

/* ---- all ------------------------------------------------------------------------------------- */

struct topmodel *topmodel__new(void)
{
	struct topmodel *m = calloc(1, sizeof(*m));
	struct function others = { .kind = SYM_MARKER };

	if (!m)
		return NULL;
	m->hash_key = hash_key();
	m->strings = strtab__new();
	if (m->strings) {
		others.name = strtab__add(m->strings, "[others]", strlen("[others]"));
		if (others.name && add_function(m, 0, &others) == OTHERS)
			return m;
	}
	topmodel__free(m);
	errno = ENOMEM;
	return NULL;
}

void topmodel__free(struct topmodel *m)
{
	struct top_process *p;
	struct top_thread *t;

	if (!m)
		return;
	for (size_t at = 0; (p = idmap__next(&m->procs, &at));)
		free_process(p);
	for (size_t at = 0; (t = idmap__next(&m->threads, &at));)
		free_thread(t);
	idmap__free(&m->procs);
	idmap__free(&m->threads);
	cells__free(&m->cells);
	hash_index__free(&m->function_index);
	free(m->functions);
	strtab__free(m->strings);
	strbuf__free(&m->name);
	strbuf__free(&m->place);
	free(m);
}
