/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/taskbook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/reader.h"
#include "profile/origin.h"
#include "python/pycode.h"
#include "python/pytasks.h"
#include "threads/taskdump.h"

#define LOOK_NS	      (200 * NS_PER_MS)
#define PAUSE_NS      (2 * NS_PER_S) /* of a process without tasks */
#define CPU_FACTOR    100 /* between two looks, of the CPU time that one takes here ... */
#define TIME_FACTOR   5	  /* ... and of its length: it holds up what else a profile needs */
#define PATIENCE_NS   (150 * NS_PER_MS) /* with one process */
#define ALL_NS	      (200 * NS_PER_MS) /* with all: no further one is begun */
#define PROCESSES_MAX 16
#define PLACES_MAX    4096
#define STACKS_MAX    16384
#define SYMS_MAX      65536
#define SEEN_MAX      PYTASKS_MAX
#define KEPT	      20 /* places of a process in the profile */

/* Where tasks of a process wait. */
struct place {
	uint32_t sym;
	bool own;
	uint32_t looks, last; /* last: number of the look */
	uint64_t tasks, came;
};

/* A task in the look at hand. */
struct seen {
	uint64_t addr, waiter;
	uint32_t stack;
};

struct watched {
	uint32_t space;
	uint64_t pause_ns; /* it has no tasks: not before */
	bool found, useless;
	struct pytasks_source src;
	struct pytasks_debug debug;
	struct py_binary bin; /* its own copy: the table's may go */
	struct pymem mem;
	struct pycodes codes;
	struct profile *names; /* syms, and the stacks of tasks */
	struct idmap syms;     /* place in the bytecode -> sym + 1 */
	uint64_t *stack_tasks; /* by stack */
	uint32_t *stack_place; /* by stack */
	size_t stack_cap;
	struct place *places;
	size_t place_cnt, place_cap;
	struct idmap before; /* task -> what it waited for at the last look */
	uint32_t looks, cut; /* cut: looks that have not seen all tasks */
};

struct taskbook {
	const struct process_table *pt;
	uint64_t due_ns;
	struct watched *by[PROCESSES_MAX];
	uint32_t cnt, from; /* from: the number of the process that is the next one */
	/* of the look at hand */
	struct watched *at;
	struct seen *seen;
	size_t seen_cnt, seen_cap;
	struct idmap awaiters; /* tasks that wait for others */
};

struct taskbook *taskbook__new(const struct process_table *pt)
{
	struct taskbook *b = calloc(1, sizeof(*b));

	if (b)
		b->pt = pt;
	return b;
}

static void watched__free(struct watched *w)
{
	if (!w)
		return;
	pycodes__free(&w->codes);
	profile__free(w->names);
	idmap__free(&w->syms);
	idmap__free(&w->before);
	free(w->stack_tasks);
	free(w->stack_place);
	free(w->places);
	free(w);
}

void taskbook__free(struct taskbook *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i < b->cnt; i++)
		watched__free(b->by[i]);
	free(b->seen);
	idmap__free(&b->awaiters);
	free(b);
}

uint64_t taskbook__due_ns(const struct taskbook *b)
{
	return b->due_ns;
}

/* ---- the stack of a task --------------------------------------------------------------------- */

static int read_by_reader(void *ctx, void *dst, size_t size, uint64_t at)
{
	const struct watched *w = ctx;

	return reader__read(w->src.readers, w->src.tgid, dst, size, at);
}

static uint64_t key_of(const struct pycoro_frame *f, const struct pycode *code)
{
	const struct hash_key key = hash_key();
	const uint64_t words[] = { f->code, code->id, f->offset };

	return hash_bytes(&key, words, sizeof(words));
}

/* The index of a frame's sym, or negative errno; -ENOSPC: there are as many as may be. */
static int sym_of(struct watched *w, const struct pycoro_frame *f)
{
	const struct pycode *code = pycodes__get(&w->codes, f->code);
	struct sym s = { .kind = SYM_PYTHON, .module = -1, .inlined = -1 };
	uint64_t key;
	uintptr_t had;
	int i;

	if (!code)
		return -ENOMEM;
	key = key_of(f, code);
	had = (uintptr_t)idmap__get(&w->syms, key);
	if (had)
		return (int)(had - 1);
	if (w->names->sym_cnt == SYMS_MAX)
		return -ENOSPC;
	s.func = profile__intern(w->names, code->name ? code->name : "", code->name_len);
	s.file = profile__intern(w->names, code->file ? code->file : "", code->file_len);
	s.line = pycode__line(w->mem.lay, code, f->offset);
	s.start_line = code->first_line > 0 ? (uint32_t)code->first_line : 0;
	if (!s.func)
		s.func = profile__intern_z(w->names, "<unknown>");
	i = profile__add_sym(w->names, &s);
	return i < 0 || idmap__set(&w->syms, key, (void *)((uintptr_t)i + 1)) ? -ENOMEM : i;
}

static bool is_own(const struct watched *w, uint32_t sym)
{
	return origin_of(profile__str(w->names, w->names->syms[sym].file)) == ORIGIN_OWN;
}

/* The innermost sym of the application; else the innermost one. */
static uint32_t place_sym(const struct watched *w, const uint64_t *words, uint32_t cnt, bool *own)
{
	for (uint32_t i = cnt; i-- > 0;)
		if (is_own(w, (uint32_t)words[i])) {
			*own = true;
			return (uint32_t)words[i];
		}
	*own = false;
	return (uint32_t)words[cnt - 1];
}

/* Syms of one function and line may be several: of code objects that were made twice. */
static bool same_place(const struct watched *w, uint32_t a, uint32_t b)
{
	const struct sym *sa = &w->names->syms[a], *sb = &w->names->syms[b];

	return sa->func == sb->func && sa->file == sb->file && sa->line == sb->line;
}

/* The index of the place, or negative errno; -ENOSPC as above. */
static int place_of(struct watched *w, uint32_t sym, bool own)
{
	for (size_t i = 0; i < w->place_cnt; i++)
		if (same_place(w, w->places[i].sym, sym))
			return (int)i;
	if (w->place_cnt == PLACES_MAX)
		return -ENOSPC;
	if (ARRAY_GROW(w->places, w->place_cap, w->place_cnt, PLACES_MAX))
		return -ENOMEM;
	w->places[w->place_cnt] = (struct place){ .sym = sym, .own = own };
	return (int)w->place_cnt++;
}

/* Of the stack that is added next. */
static int note_stack(struct watched *w, uint32_t stack, const uint64_t *words, uint32_t cnt)
{
	size_t cap = w->stack_cap;
	bool own;
	uint32_t sym = place_sym(w, words, cnt, &own);
	int place = place_of(w, sym, own);

	if (place < 0)
		return place;
	if (ARRAY_GROW(w->stack_tasks, w->stack_cap, stack, STACKS_MAX) ||
	    ARRAY_GROW(w->stack_place, cap, stack, STACKS_MAX))
		return -ENOMEM;
	w->stack_tasks[stack] = 0;
	w->stack_place[stack] = (uint32_t)place;
	return 0;
}

/* The index of the stack in w->names, or negative errno. */
static int stack_of(struct watched *w, const struct pytask *t)
{
	uint64_t words[PYCORO_FRAMES];
	uint32_t next = (uint32_t)w->names->stack_cnt;
	int stack, err;

	for (uint32_t i = 0; i < t->coro.cnt; i++) {
		int sym = sym_of(w, &t->coro.frames[i]);

		if (sym < 0)
			return sym;
		words[i] = (uint64_t)sym;
	}
	stack = profile__find_stack(w->names, 0, 0, 0, words, t->coro.cnt);
	if (stack >= 0)
		return stack;
	if (next == STACKS_MAX)
		return -ENOSPC;
	err = note_stack(w, next, words, t->coro.cnt);
	return err ? err : profile__add_stack(w->names, 0, 0, words, t->coro.cnt, 1);
}

/* ---- a look ---------------------------------------------------------------------------------- */

/* A pytask_fn. */
static int take_task(void *ctx, const struct pytask *t)
{
	struct taskbook *b = ctx;
	int stack;

	for (uint32_t i = 0; i < t->awaiter_cnt; i++)
		if (idmap__set(&b->awaiters, t->awaiters[i], b))
			return -ENOMEM;
	if (t->changing || !t->waiter || t->coro.state != PYCORO_WAITS || !t->coro.cnt)
		return 0;
	stack = stack_of(b->at, t);
	if (stack == -ENOSPC)
		return 0;
	if (stack < 0)
		return stack;
	if (ARRAY_GROW(b->seen, b->seen_cap, b->seen_cnt, SEEN_MAX))
		return -ENOMEM;
	b->seen[b->seen_cnt++] = (struct seen){ t->addr, t->waiter, (uint32_t)stack };
	return 0;
}

/* Tells this wait of a task from its next one, unless that has the memory of the same future. */
static void *wait_of(const struct watched *w, const struct seen *s)
{
	const struct hash_key key = hash_key();
	const uint64_t words[] = { w->stack_place[s->stack], s->waiter };

	return (void *)(uintptr_t)(hash_bytes(&key, words, sizeof(words)) | 1);
}

/* Tasks that wait for something else than a task. */
static int count_seen(struct taskbook *b, struct watched *w, bool cut)
{
	struct idmap now = { 0 };
	int err = 0;

	w->looks++;
	w->cut += cut;
	for (size_t i = 0; i < b->seen_cnt && !err; i++) {
		const struct seen *s = &b->seen[i];
		struct place *at = &w->places[w->stack_place[s->stack]];
		void *wait = wait_of(w, s);

		if (idmap__get(&b->awaiters, s->addr))
			continue;
		w->stack_tasks[s->stack]++;
		at->tasks++;
		at->looks += at->last != w->looks;
		at->last = w->looks;
		at->came += w->looks > 1 && idmap__get(&w->before, s->addr) != wait;
		err = idmap__set(&now, s->addr, wait);
	}
	idmap__free(&w->before);
	w->before = now;
	return err;
}

static int look_at(struct taskbook *b, struct watched *w)
{
	struct pytasks_found found;
	int err;

	b->at = w;
	b->seen_cnt = 0;
	idmap__free(&b->awaiters);
	b->awaiters = (struct idmap){ 0 };
	w->mem.reads = 0;
	pycodes__look(&w->codes);
	err = pytasks__read(&w->src, take_task, b, &found);
	if (!err && !found.loop_cnt && !b->seen_cnt && !found.cut)
		w->pause_ns = now_ns() + PAUSE_NS;
	else if (!err)
		err = count_seen(b, w, found.cut);
	pytasks__free(&found);
	return err;
}

/* ---- processes ------------------------------------------------------------------------------- */

static bool open_names(struct watched *w, const struct process *p)
{
	w->names = profile__new();
	return w->names &&
	       profile__add_proc(w->names, &(struct profile_proc){ .space = p->space }) >= 0;
}

/* Once asyncio is loaded, it stays so. */
static void find_source(const struct taskbook *b, struct watched *w, const struct process *p)
{
	if (!taskdump__find(b->pt, p, &w->src, &w->debug))
		return;
	w->bin = *w->src.bin;
	w->src.bin = &w->bin;
	w->src.patience_ns = PATIENCE_NS;
	if (w->bin.interp.layout.version >= 0x030e && !w->src.debug)
		return;
	w->mem = taskdump__mem(&w->src, read_by_reader, w);
	w->codes = (struct pycodes){ .mem = &w->mem,
				     .code_type = w->bin.interp.code_type + w->src.bias };
	w->found = true;
}

static struct watched *watch(struct taskbook *b, const struct process *p)
{
	struct watched *w;

	for (uint32_t i = 0; i < b->cnt; i++)
		if (b->by[i]->space == p->space)
			return b->by[i];
	if (b->cnt == PROCESSES_MAX)
		return NULL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->space = p->space;
	if (!open_names(w, p)) {
		watched__free(w);
		return NULL;
	}
	b->by[b->cnt++] = w;
	return w;
}

static void look_at_process(struct taskbook *b, const struct process *p)
{
	struct watched *w = watch(b, p);
	int err;

	if (!w || w->useless || now_ns() < w->pause_ns)
		return;
	if (!w->found)
		find_source(b, w, p);
	if (!w->found) {
		w->pause_ns = now_ns() + PAUSE_NS;
		return;
	}
	err = look_at(b, w);
	if (err && err != -ESRCH)
		log_debug("process %u: its tasks: %s", p->tgid, strerror(-err));
	w->useless = err == -ENOTSUP || err == -ENOMEM;
}

/* Those behind the first `from` processes, or these; the number of the one at which time was up. */
static uint32_t look_at_some(struct taskbook *b, uint32_t from, bool behind, uint64_t until_ns)
{
	const struct process *p;
	uint32_t nr = 0;

	for (size_t at = 0; (p = process_table__next(b->pt, &at)); nr++) {
		if ((nr >= from) != behind || !p->is_python || p->exited || !p->analysed)
			continue;
		if (now_ns() > until_ns)
			return nr;
		look_at_process(b, p);
	}
	return UINT32_MAX;
}

/* Where time is up, the next look goes on. */
void taskbook__look(struct taskbook *b)
{
	uint64_t begun = now_ns(), cpu = thread_cpu_ns(), took, gap;
	uint32_t from = b->from, stopped = look_at_some(b, from, true, begun + ALL_NS);

	if (stopped == UINT32_MAX)
		stopped = look_at_some(b, from, false, begun + ALL_NS);
	b->from = stopped == UINT32_MAX ? 0 : stopped;
	took = now_ns() - begun;
	gap = (thread_cpu_ns() - cpu) * CPU_FACTOR;
	if (gap < took * TIME_FACTOR)
		gap = took * TIME_FACTOR;
	b->due_ns = begun + (gap > LOOK_NS ? gap : LOOK_NS);
	log_debug("a look at tasks took %u us", (unsigned)(took / 1000));
}

/* ---- into the profile ------------------------------------------------------------------------ */

/* The same tasks were there at all looks. */
static bool stands(const struct place *at, const struct watched *w)
{
	return !at->came && at->looks == w->looks;
}

/* Those of the application first, and those that come and go; then by how many tasks are there. */
static int cmp_places(const void *a, const void *b, void *watched)
{
	const struct place *pa = *(const struct place *const *)a;
	const struct place *pb = *(const struct place *const *)b;
	bool sa = stands(pa, watched), sb = stands(pb, watched);

	if (pa->own != pb->own)
		return pa->own ? -1 : 1;
	if (sa != sb)
		return sb ? -1 : 1;
	if (pa->tasks != pb->tasks)
		return pa->tasks > pb->tasks ? -1 : 1;
	return (pa->sym > pb->sym) - (pa->sym < pb->sym);
}

/* The commonest stack of a place. */
static const struct profile_stack *stack_at(const struct watched *w, const struct place *at)
{
	uint32_t place = (uint32_t)(at - w->places), best = 0;
	uint64_t most = 0;

	for (uint32_t i = 0; i < w->names->stack_cnt; i++)
		if (w->stack_place[i] == place && w->stack_tasks[i] > most) {
			most = w->stack_tasks[i];
			best = i;
		}
	return &w->names->stacks[best];
}

static int copy_sym(const struct watched *w, uint32_t from, struct profile *p)
{
	struct sym s = w->names->syms[from];

	s.func = profile__intern(p, profile__str(w->names, s.func),
				 profile__str_len(w->names, s.func));
	s.file = profile__intern(p, profile__str(w->names, s.file),
				 profile__str_len(w->names, s.file));
	return profile__add_sym(p, &s);
}

static int add_place(const struct watched *w, const struct place *at, struct profile *p)
{
	const struct profile_stack *st = stack_at(w, at);
	const struct profile_await a = {
		.space = w->space,
		.own = at->own,
		.looks = at->looks,
		.of = w->looks,
		.tasks = at->tasks,
		.came = at->came,
		.cut = w->cut,
	};
	uint32_t syms[PYCORO_FRAMES];

	for (uint32_t i = 0; i < st->cnt && i < PYCORO_FRAMES; i++) {
		int sym = copy_sym(w, (uint32_t)w->names->frames[st->first + i], p);

		if (sym < 0)
			return sym;
		syms[i] = (uint32_t)sym;
	}
	return profile__add_await(p, &a, syms, st->cnt);
}

static int fill_from(const struct watched *w, struct profile *p)
{
	const struct place **of = calloc(w->place_cnt + 1, sizeof(*of));
	size_t cnt = 0;
	int err = of ? 0 : -ENOMEM;

	for (size_t i = 0; i < w->place_cnt && of; i++)
		if (w->places[i].tasks)
			of[cnt++] = &w->places[i];
	if (cnt)
		qsort_r(of, cnt, sizeof(*of), cmp_places, (void *)w);
	for (size_t i = 0; i < cnt && i < KEPT && !err; i++)
		err = add_place(w, of[i], p);
	free(of);
	return err;
}

int taskbook__fill(const struct taskbook *b, struct profile *p)
{
	int err = 0;

	for (uint32_t i = 0; i < b->cnt && !err; i++)
		err = fill_from(b->by[i], p);
	return err;
}
