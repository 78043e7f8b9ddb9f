/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pytasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/reader.h"
#include "base/readmem.h"
#include "python/pyawait.h"

#define READS_MAX   100000 /* of one question */
#define THREADS_MAX 4096   /* of an interpreter */
#define LOOPS_MAX   4096
#define TRIES	    4 /* to read a task, or a list, that changes meanwhile */
#define PATIENCE_S  60

/* ---- what the reader is asked ---------------------------------------------------------------- */

enum root_kind {
	ROOT_WEAK = 1,	/* a set of weak references */
	ROOT_SET = 2,	/* a set of tasks */
	ROOT_CHAIN = 3, /* a list through the tasks themselves */
	ROOT_TASK = 4,	/* one task */
	ROOT_LOOP = 5,	/* an event loop that a thread runs */
};

struct root {
	uint64_t addr, task;
	uint32_t kind, tid;
};

#define ROOTS_MAX   2048
#define MEMBERS_MAX 7680
#define TASKS_MAX   8 /* of one question */

struct question {
	struct py_binary bin;
	struct pytasks_debug debug;
	uint64_t bias;
	uint64_t from; /* where to go on in the list: an index, or a node */
	uint64_t tasks[TASKS_MAX];
	struct root root;
	uint32_t tgid, task_cnt;
};

struct roots {
	uint32_t cnt, cut;
	struct root roots[ROOTS_MAX];
};

struct members {
	uint32_t cnt, done;
	uint64_t from; /* of the next question */
	uint64_t addrs[MEMBERS_MAX];
};

struct tasks {
	uint32_t cnt, pad;
	struct pytask tasks[TASKS_MAX]; /* addr 0: it is none */
};

/* ---- in the reader --------------------------------------------------------------------------- */

struct walker {
	struct pymem mem;
	struct pytypes types;
	const struct question *q;
	struct pyawait_layout await;
	uint64_t interps[PYINTERPS_MAX];
	uint32_t interp_cnt;
};

static int read_target(void *ctx, void *dst, size_t size, uint64_t src)
{
	const struct walker *w = ctx;

	return read_process(w->q->tgid, dst, size, src);
}

static void begin(struct walker *w, const struct question *q)
{
	const struct py_layout *lay = &q->bin.interp.layout;

	*w = (struct walker){
		.mem = {
			.read = read_target,
			.ctx = w,
			.lay = lay,
			.str_type = q->bin.str_type + q->bias,
			.types = &w->types,
			.reads_max = READS_MAX,
			.version = (uint16_t)lay->version,
			.shift = (uint16_t)(lay->ob_type - 8),
		},
		.q = q,
	};
	pyawait__layout(&w->await, lay->version, &q->debug);
	w->interp_cnt = pyinterps__list(&w->mem, &q->bin, q->bias, w->interps);
}

static void add_root(struct roots *a, const struct root *root)
{
	if (!root->addr)
		return;
	if (a->cnt == ROOTS_MAX)
		a->cut = true;
	else
		a->roots[a->cnt++] = *root;
}

/* A list that holds nothing but its head is empty. */
static void add_chain(struct walker *w, uint64_t head, uint32_t tid, struct roots *a)
{
	const struct root root = { .addr = head, .kind = ROOT_CHAIN, .tid = tid };

	if (pymem__pointer(&w->mem, head) != head)
		add_root(a, &root);
}

static void add_thread(struct walker *w, uint64_t tstate, struct roots *a)
{
	const struct pytasks_debug *d = &w->q->debug;
	struct root root = { .kind = ROOT_LOOP };

	root.tid = pythread__tid(&w->mem, tstate);
	root.addr = pymem__pointer(&w->mem, tstate + d->thread_running_loop);
	root.task = pymem__pointer(&w->mem, tstate + d->thread_running_task);
	add_root(a, &root);
	add_root(a, &(struct root){ .kind = ROOT_TASK, .addr = root.task, .tid = root.tid });
	add_chain(w, tstate + d->thread_tasks_head, root.tid, a);
}

static void add_interp_lists(struct walker *w, uint64_t interp, struct roots *a)
{
	uint64_t t = pythread__first(&w->mem, interp);

	for (uint32_t n = 0; t && n < THREADS_MAX; n++, t = pythread__next(&w->mem, t))
		add_thread(w, t, a);
	add_chain(w, interp + w->q->debug.interp_tasks_head, 0, a);
}

static void add_interp_sets(struct walker *w, uint64_t interp, struct roots *a)
{
	struct pymem *m = &w->mem;
	uint64_t dict = pymodules__dict(m, &w->q->bin, w->q->bias, interp, "asyncio.tasks");
	const char *name = m->version < 0x030c ? "_all_tasks" : "_scheduled_tasks";
	uint64_t all;

	if (!dict)
		return;
	all = pydict__item(m, dict, name);
	add_root(a, &(struct root){ .kind = ROOT_WEAK, .addr = pyattrs__get(m, all, "data") });
	if (m->version >= 0x030c)
		add_root(a, &(struct root){ .kind = ROOT_SET,
					    .addr = pydict__item(m, dict, "_eager_tasks") });
}

static int read_roots(const void *question, void *answer)
{
	struct roots *a = answer;
	struct walker w;

	begin(&w, question);
	a->cnt = a->cut = 0;
	for (uint32_t i = 0; i < w.interp_cnt; i++) {
		if (w.await.debug)
			add_interp_lists(&w, w.interps[i], a);
		else
			add_interp_sets(&w, w.interps[i], a);
	}
	return 0;
}

READER_OPERATION(read_roots);

/* wr_object of a weak reference: Include/cpython/weakrefobject.h. */
static uint64_t referent(struct walker *w, uint64_t ref)
{
	return ref & 7 ? 0 : pymem__pointer(&w->mem, ref + pyfield(&w->mem, 16));
}

static void read_set(struct walker *w, struct members *a)
{
	struct pyset set, again;
	uint64_t entry[2], at = w->q->from;

	if (pyset__open(&w->mem, w->q->root.addr, &set))
		return;
	for (; at < set.cnt && a->cnt < MEMBERS_MAX; at++) {
		if (pymem__read(&w->mem, entry, sizeof(entry), set.table + at * sizeof(entry)))
			return;
		if (entry[0] && w->q->root.kind == ROOT_WEAK)
			entry[0] = referent(w, entry[0]);
		if (entry[0])
			a->addrs[a->cnt++] = entry[0];
		if (w->mem.reads > READS_MAX / 2)
			break;
	}
	a->from = at;
	a->done = at >= set.cnt;
	if (pyset__open(&w->mem, w->q->root.addr, &again) || again.table != set.table)
		a->done = a->cnt = 0;
}

/* struct llist_node {next, prev}: Include/internal/pycore_llist.h. */
static void read_chain(struct walker *w, struct members *a)
{
	uint64_t head = w->q->root.addr, node = w->q->from ? w->q->from : head;

	while (a->cnt < MEMBERS_MAX) {
		node = pymem__pointer(&w->mem, node);
		if (!node || node == head)
			break;
		a->addrs[a->cnt++] = node - w->q->debug.task_node;
	}
	a->from = node;
	a->done = node == head;
}

static int read_members(const void *question, void *answer)
{
	const struct question *q = question;
	struct members *a = answer;
	struct walker w;

	begin(&w, q);
	a->cnt = a->done = 0;
	a->from = 0;
	if (q->root.kind == ROOT_CHAIN)
		read_chain(&w, a);
	else
		read_set(&w, a);
	return 0;
}

READER_OPERATION(read_members);

/* A task's own fields. */
struct fields {
	uint64_t loop, waiter, coro, name;
	uint32_t state, pad; /* compared as bytes */
};

/*
 * False: it is not a task, or it is done, and so may still be in the set, but not in all_tasks().
 */
static bool read_fields(struct walker *w, uint64_t addr, struct fields *f)
{
	const struct pyawait_layout *lay = &w->await;
	uint8_t bytes[PYTASK_BYTES];

	if (!pyawait__is_task(&w->mem, addr) || lay->size > sizeof(bytes) ||
	    pymem__read(&w->mem, bytes, lay->size, addr))
		return false;
	*f = (struct fields){
		.loop = pyword(bytes, pyfield(&w->mem, 16)),
		.waiter = pyword(bytes, lay->task_fut_waiter),
		.coro = pyword(bytes, lay->task_coro),
		.name = lay->task_name ? pyword(bytes, lay->task_name) : 0,
	};
	if (lay->task_state)
		memcpy(&f->state, bytes + lay->task_state, sizeof(f->state));
	return !f->state;
}

static void read_name(struct walker *w, uint64_t addr, struct pytask *t)
{
	struct strbuf name = { 0 };

	if (addr && !pystr__read(&w->mem, addr, PYTASK_NAME_CHARS, &name, NULL) &&
	    name.len <= sizeof(t->name)) {
		memcpy(t->name, name.s, name.len);
		t->name_len = (uint32_t)name.len;
	}
	strbuf__free(&name);
}

/* It counts when its fields and its stack were the same twice. */
static void read_task(struct walker *w, uint64_t addr, struct pytask *t)
{
	static struct pycoro before;
	struct fields f, again;

	memset(t, 0, sizeof(*t));
	t->changing = true;
	for (unsigned n = 0; n < TRIES && t->changing; n++) {
		if (!read_fields(w, addr, &f))
			return;
		pycoro__read(&w->mem, f.coro, w->interps, w->interp_cnt, &before);
		t->awaiter_cnt = PYTASK_AWAITERS;
		t->awaiters_cut = pyawait__awaiters(&w->mem, &w->await, addr, t->awaiters,
						    &t->awaiter_cnt) != 0;
		t->waiter = pyawait__is_future(&w->mem, f.waiter) ? f.waiter : 0; /* or None */
		read_name(w, f.name, t);
		pycoro__read(&w->mem, f.coro, w->interps, w->interp_cnt, &t->coro);
		t->changing = !read_fields(w, addr, &again) || memcmp(&f, &again, sizeof(f)) ||
			      memcmp(&before, &t->coro, sizeof(before));
	}
	t->loop = f.loop;
	if (t->coro.state != PYCORO_DONE && read_fields(w, addr, &again))
		t->addr = addr;
}

static int read_tasks(const void *question, void *answer)
{
	const struct question *q = question;
	struct tasks *a = answer;
	struct walker w;

	begin(&w, q);
	a->cnt = q->task_cnt < TASKS_MAX ? q->task_cnt : TASKS_MAX;
	for (uint32_t i = 0; i < a->cnt; i++)
		read_task(&w, q->tasks[i], &a->tasks[i]);
	return 0;
}

READER_OPERATION(read_tasks);

/* The thread of an event loop that says it itself: BaseEventLoop._thread_id. */
static int read_loop(const void *question, void *answer)
{
	const struct question *q = question;
	uint32_t *tid = answer;
	uint64_t ident = 0;
	struct walker w;

	begin(&w, q);
	*tid = 0;
	if (pyint__read(&w.mem, pyattrs__get(&w.mem, q->root.addr, "_thread_id"), &ident))
		return 0;
	for (uint32_t i = 0; i < w.interp_cnt && ident; i++) {
		uint64_t t = pythread__first(&w.mem, w.interps[i]);

		for (uint32_t n = 0; t && n < THREADS_MAX && !*tid; n++) {
			if (pythread__ident(&w.mem, t) == ident)
				*tid = pythread__tid(&w.mem, t);
			t = pythread__next(&w.mem, t);
		}
	}
	return 0;
}

READER_OPERATION(read_loop);

/* ---- here ------------------------------------------------------------------------------------ */

struct collector {
	struct readers *readers;
	struct question q;
	struct roots roots;
	struct members members;
	struct tasks tasks;
	struct pytasks_found *out;
	pytask_fn fn;
	void *ctx;
	struct idmap seen; /* address of a task -> the root that had it first */
	uint64_t deadline_ns;
};

static int ask(struct collector *c, const struct reader_operation *op, void *answer, size_t size)
{
	return reader__call(c->readers, c->q.tgid, op, &c->q, sizeof(c->q), answer, size);
}

static int add_loop(struct collector *c, uint64_t addr, uint64_t task, uint32_t tid)
{
	struct pytasks_found *out = c->out;

	for (size_t i = 0; i < out->loop_cnt; i++) {
		if (out->loops[i].addr != addr)
			continue;
		if (tid && !out->loops[i].tid)
			out->loops[i].tid = tid;
		return 0;
	}
	if (ARRAY_GROW(out->loops, out->loop_cap, out->loop_cnt, LOOPS_MAX))
		return -ENOMEM;
	out->loops[out->loop_cnt++] =
		(struct pytask_loop){ .addr = addr, .task = task, .tid = tid };
	return 0;
}

static int give(struct collector *c, const struct pytask *t)
{
	int err = t->loop ? add_loop(c, t->loop, 0, t->coro.tid) : 0;

	return err ? err : c->fn(c->ctx, t);
}

static int flush(struct collector *c)
{
	int err = c->q.task_cnt ? ask(c, &op_read_tasks, &c->tasks, sizeof(c->tasks)) : 0;

	for (uint32_t i = 0; err >= 0 && i < c->q.task_cnt; i++) {
		struct pytask *t = &c->tasks.tasks[i];

		/* As little to be believed as the process. */
		if (t->addr != c->q.tasks[i] || t->awaiter_cnt > PYTASK_AWAITERS ||
		    t->name_len > sizeof(t->name) || t->coro.cnt > PYCORO_FRAMES)
			continue;
		err = give(c, t);
	}
	c->q.task_cnt = 0;
	return err < 0 ? err : 0;
}

/* A task that this list has had already: the list leads back into itself. */
static int take_member(struct collector *c, uint64_t addr, struct root *root, bool *again)
{
	struct root *had = idmap__get(&c->seen, addr);

	*again = had == root;
	if (had)
		return 0;
	if (c->seen.cnt >= PYTASKS_MAX || now_ns() > c->deadline_ns) {
		c->out->cut = true;
		return 0;
	}
	if (idmap__set(&c->seen, addr, root))
		return -ENOMEM;
	c->q.tasks[c->q.task_cnt++] = addr;
	return c->q.task_cnt == TASKS_MAX ? flush(c) : 0;
}

/* A part of a list. 1: go on. */
static int read_part(struct collector *c, struct root *root)
{
	struct members *a = &c->members;
	bool again = false;
	int err = ask(c, &op_read_members, a, sizeof(*a));

	if (err < 0)
		return err;
	if (a->cnt > MEMBERS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < a->cnt && !c->out->cut; i++) {
		err = take_member(c, a->addrs[i], root, &again);
		if (err)
			return err;
		if (again && root->kind == ROOT_CHAIN) {
			c->out->cycle = true;
			return 0;
		}
	}
	c->q.from = a->from;
	return !a->done && !c->out->cut;
}

static int read_root(struct collector *c, struct root *root)
{
	unsigned failed = 0;
	uint64_t passed = 0;
	bool again;
	int err = 1;

	if (root->kind == ROOT_LOOP)
		return add_loop(c, root->addr, root->task, root->tid);
	if (root->kind == ROOT_TASK)
		return take_member(c, root->addr, root, &again);
	c->q.root = *root;
	c->q.from = 0;
	while (err > 0) {
		err = read_part(c, root);
		passed += c->members.cnt;
		/* It may lead into another one that leads back into itself. */
		if (root->kind == ROOT_CHAIN && passed > 2 * PYTASKS_MAX) {
			c->out->cycle = true;
			return 0;
		}
		c->out->cut |= now_ns() > c->deadline_ns;
		if (err > 0 && c->out->cut)
			return 0;
		if (err > 0 && !c->members.cnt && ++failed == TRIES) {
			c->out->cut = true;
			return 0;
		}
	}
	return err;
}

static int find_threads(struct collector *c)
{
	for (size_t i = 0; i < c->out->loop_cnt; i++) {
		struct pytask_loop *loop = &c->out->loops[i];
		int err;

		c->q.root.addr = loop->addr;
		if (loop->tid || now_ns() > c->deadline_ns)
			continue;
		err = ask(c, &op_read_loop, &loop->tid, sizeof(loop->tid));
		if (err < 0)
			return err;
	}
	return 0;
}

static int collect(struct collector *c)
{
	int err = ask(c, &op_read_roots, &c->roots, sizeof(c->roots));

	if (err < 0)
		return err;
	c->out->cut = c->roots.cut;
	for (uint32_t i = 0; i < c->roots.cnt && i < ROOTS_MAX && err >= 0; i++) {
		/* There may be thousands of lists, and a part of each is read in any case. */
		if (now_ns() > c->deadline_ns) {
			c->out->cut = true;
			break;
		}
		err = read_root(c, &c->roots.roots[i]);
	}
	if (err >= 0)
		err = flush(c);
	return err < 0 ? err : find_threads(c);
}

int pytasks__read(const struct pytasks_source *src, pytask_fn fn, void *ctx,
		  struct pytasks_found *out)
{
	const struct py_binary *bin = src->bin;
	uint32_t version = bin->interp.layout.version;
	struct collector *c;
	int err;

	_Static_assert(sizeof(struct tasks) <= READER_MESSAGE_MAX, "one answer");
	_Static_assert(sizeof(struct roots) <= READER_MESSAGE_MAX, "one answer");
	_Static_assert(sizeof(struct members) <= READER_MESSAGE_MAX, "one answer");
	*out = (struct pytasks_found){ 0 };
	if (version < 0x0307 || bin->trace_refs || !bin->str_type ||
	    (version < 0x030e && bin->free_threaded))
		return -ENOTSUP;
	if (version >= 0x030e && !src->debug)
		return 0; /* the module is not loaded: there are no tasks */
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->readers = src->readers;
	c->q = (struct question){ .bin = *bin, .bias = src->bias, .tgid = src->tgid };
	c->q.bin.why_not = NULL; /* an address of ours */
	if (src->debug)
		c->q.debug = *src->debug;
	c->out = out;
	c->fn = fn;
	c->ctx = ctx;
	c->deadline_ns = now_ns() + (src->patience_ns ? src->patience_ns : PATIENCE_S * NS_PER_S);
	err = collect(c);
	idmap__free(&c->seen);
	free(c);
	return err;
}

void pytasks__free(struct pytasks_found *found)
{
	free(found->loops);
	*found = (struct pytasks_found){ 0 };
}
