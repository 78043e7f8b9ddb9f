/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/loopbook.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "profile/loops.h"
#include "sample/dump.h"

#define ENDED_MAX 4096 /* threads that have ended, of a profile */

/* A thread as loopbook__take() found it last. */
struct seen {
	uint32_t space, tid;
	enum loop_kind kind;
	bool there; /* at this look */
	/* What of it is in a profile. */
	uint64_t known_ns, busy_ns, slow_ns;
	uint32_t cnt, slow_cnt;
	uint32_t hist[LOOP_BUCKETS];
};

struct loopbook {
	const struct object *o;
	struct idmap seen;   /* seen_key() -> struct seen, owned */
	struct idmap stacks; /* key -> number of the stack + 1 */
	struct idmap open;   /* tid -> the same, of a wait that goes on */
	struct loop_thread *ended;
	size_t ended_cnt, ended_cap;
};

struct loopbook *loopbook__new(const struct object *o)
{
	struct loopbook *b = calloc(1, sizeof(*b));

	if (b)
		b->o = o;
	return b;
}

void loopbook__free(struct loopbook *b)
{
	struct seen *s;

	if (!b)
		return;
	for (size_t at = 0; (s = idmap__next(&b->seen, &at));)
		free(s);
	idmap__free(&b->seen);
	idmap__free(&b->stacks);
	idmap__free(&b->open);
	free(b->ended);
	free(b);
}

static void *as_value(uint32_t stack)
{
	return (void *)((uintptr_t)stack + 1);
}

/* UINT32_MAX: not known. */
static uint32_t find(const struct idmap *m, uint64_t key)
{
	return (uint32_t)((uintptr_t)idmap__get(m, key) - 1);
}

int loopbook__note(struct loopbook *b, uint64_t key, uint32_t stack)
{
	return idmap__set(&b->stacks, key, as_value(stack));
}

void loopbook__note_open(struct loopbook *b, uint32_t tid, uint32_t stack)
{
	if (idmap__set(&b->open, tid, as_value(stack)))
		log_debug("a stack of an event loop is missing: no memory");
}

/* ---- the kernel's table ---------------------------------------------------------------------- */

typedef int (*loop_fn)(struct loopbook *b, uint32_t nr, const struct loop_thread *l, void *ctx);

/* Entries that come or go meanwhile may be missing. */
static int each_loop(struct loopbook *b, loop_fn fn, void *ctx)
{
	int fd = object__loops_fd(b->o), err = 0;
	uint32_t *nrs = calloc(LOOP_THREADS, sizeof(*nrs)), cnt = 0;
	struct loop_thread *l = malloc(sizeof(*l));

	if (!nrs || !l)
		err = -ENOMEM;
	while (!err && cnt < LOOP_THREADS &&
	       !bpf_map_get_next_key(fd, cnt ? &nrs[cnt - 1] : NULL, &nrs[cnt]))
		cnt++;
	for (uint32_t i = 0; i < cnt && !err; i++)
		if (!bpf_map_lookup_elem(fd, &nrs[i], l))
			err = fn(b, nrs[i], l, ctx);
	free(nrs);
	free(l);
	return err;
}

/* The kernel half counts, too. */
static void give_room_back(struct loopbook *b, uint32_t slot)
{
	struct shares *s = object__loop_shares(b->o);

	__atomic_fetch_sub(&s->taken, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&s->of[slot % SHARE_SLOTS], 1, __ATOMIC_RELAXED);
}

/* True: it has ended, and is no longer in the table. */
static bool take_out(struct loopbook *b, uint32_t nr, const struct loop_thread *l)
{
	if (!l->ended || bpf_map_delete_elem(object__loops_fd(b->o), &nr))
		return false;
	give_room_back(b, l->slot);
	return true;
}

static int take_ended(struct loopbook *b, uint32_t nr, const struct loop_thread *l, void *ctx)
{
	(void)ctx;
	if (!take_out(b, nr, l))
		return 0;
	if (b->ended_cnt == ENDED_MAX || !l->cnt)
		return 0;
	if (ARRAY_GROW(b->ended, b->ended_cap, b->ended_cnt, ENDED_MAX))
		return -ENOMEM;
	b->ended[b->ended_cnt++] = *l;
	return 0;
}

void loopbook__collect(struct loopbook *b)
{
	int err = each_loop(b, take_ended, NULL);

	if (err)
		log_warn("event loops of threads that have ended: %s", strerror(-err));
}

/* ---- into the profile ------------------------------------------------------------------------ */

struct filler {
	struct profile *p;
	uint64_t start_ns, end_ns;
};

static void add_stack(struct profile_stretch *out, uint32_t stack, uint64_t ns)
{
	if (stack == UINT32_MAX || out->stack_cnt == LOOP_STACKS)
		return;
	out->stacks[out->stack_cnt++] = (struct profile_loop_stack){ .stack = stack, .ns = ns };
}

static struct profile_stretch stretch_of(const struct loopbook *b, const struct filler *f,
					 const struct loop_stretch *s)
{
	struct profile_stretch out = { .ns = s->end_ns - s->begin_ns };

	out.begin_ns = s->begin_ns > f->start_ns ? s->begin_ns - f->start_ns : 0;
	for (uint32_t i = 0; i < LOOP_STACKS; i++)
		if (s->stacks[i].stack)
			add_stack(&out, find(&b->stacks, s->stacks[i].stack), s->stacks[i].ns);
	return out;
}

/* What it does now; a wait that goes on has been walked from outside. */
static void add_open(const struct loopbook *b, const struct filler *f, const struct loop_thread *l,
		     struct profile_loop *out)
{
	struct profile_stretch *s = &out->longest[out->longest_cnt];
	struct loop_stretch now = l->now;

	if (!now.begin_ns || now.begin_ns >= f->end_ns)
		return;
	now.end_ns = f->end_ns;
	*s = stretch_of(b, f, &now);
	s->open = true;
	add_stack(s, find(&b->open, l->tid), s->ns);
	out->longest_cnt++;
}

static int cmp_stretches(const void *a, const void *b)
{
	const struct profile_stretch *sa = a, *sb = b;

	if (sa->ns != sb->ns)
		return sa->ns > sb->ns ? -1 : 1;
	return (sa->begin_ns > sb->begin_ns) - (sa->begin_ns < sb->begin_ns);
}

static void add_longest(const struct loopbook *b, const struct filler *f,
			const struct loop_thread *l, struct profile_loop *out)
{
	for (uint32_t i = 0; i < l->longest_cnt && i < LOOP_LONGEST; i++)
		out->longest[out->longest_cnt++] = stretch_of(b, f, &l->longest[i]);
}

static int add_loop(struct loopbook *b, uint32_t nr, const struct loop_thread *l, void *ctx)
{
	const struct filler *f = ctx;
	struct profile_loop out = {
		.space = l->space,
		.tid = l->tid,
		.cnt = l->cnt,
		.busy_ns = l->busy_ns,
		.slow_cnt = l->slow_cnt,
		.slow_ns = l->slow_ns,
	};

	(void)nr;
	out.poll.stack = find(&b->stacks, l->poll_stack);
	memcpy(out.hist, l->hist, sizeof(out.hist));
	add_longest(b, f, l, &out);
	if (!l->ended)
		add_open(b, f, l, &out);
	qsort(out.longest, out.longest_cnt, sizeof(out.longest[0]), cmp_stretches);
	return out.poll.stack == UINT32_MAX ? 0 : profile__add_loop(f->p, &out);
}

int loopbook__fill(struct loopbook *b, uint64_t start_ns, uint64_t end_ns, struct profile *p)
{
	struct filler f = { .p = p, .start_ns = start_ns, .end_ns = end_ns };
	int err = 0;

	loopbook__collect(b);
	for (size_t i = 0; i < b->ended_cnt && !err; i++)
		err = add_loop(b, 0, &b->ended[i], &f);
	if (!err)
		err = each_loop(b, add_loop, &f);
	if (err)
		log_err("event loops: %s", strerror(-err));
	return err;
}

/* ---- a profile for each window --------------------------------------------------------------- */

struct taker {
	const struct process_table *procs;
	struct profile *p;
};

static uint64_t seen_key(uint32_t space, uint32_t tid)
{
	return (uint64_t)space << 32 | tid;
}

/* NULL: no memory. */
static struct seen *seen_of(struct loopbook *b, const struct loop_thread *l)
{
	struct seen *s = idmap__get(&b->seen, seen_key(l->space, l->tid));

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s || idmap__set(&b->seen, seen_key(l->space, l->tid), s)) {
			free(s);
			return NULL;
		}
		s->space = l->space;
		s->tid = l->tid;
	}
	s->there = true;
	return s;
}

/* The kernel half begins anew when a thread changes from another poll to epoll. */
static struct profile_loop since(const struct seen *s, const struct loop_thread *l)
{
	static const struct seen nothing = { .tid = 0 };
	const struct seen *from = l->known_ns == s->known_ns ? s : &nothing;
	struct profile_loop out = {
		.space = l->space,
		.tid = l->tid,
		.kind = s->kind,
		.cnt = l->cnt - from->cnt,
		.busy_ns = l->busy_ns - from->busy_ns,
		.slow_cnt = l->slow_cnt - from->slow_cnt,
		.slow_ns = l->slow_ns - from->slow_ns,
	};

	for (size_t i = 0; i < LOOP_BUCKETS; i++)
		out.hist[i] = l->hist[i] - from->hist[i];
	return out;
}

static void note_seen(struct seen *s, const struct loop_thread *l)
{
	s->known_ns = l->known_ns;
	s->cnt = l->cnt;
	s->busy_ns = l->busy_ns;
	s->slow_cnt = l->slow_cnt;
	s->slow_ns = l->slow_ns;
	memcpy(s->hist, l->hist, sizeof(s->hist));
}

static int give(struct loopbook *b, struct seen *s, const struct loop_thread *l,
		const struct taker *t)
{
	struct profile_loop out = since(s, l);

	out.poll.stack = find(&b->stacks, l->poll_stack);
	if (!out.cnt || (out.poll.stack == UINT32_MAX && s->kind == LOOP_UNKNOWN))
		return 0;
	if (l->window == object__loop_shares(b->o)->window)
		add_longest(b, &(struct filler){ .start_ns = 0 }, l, &out);
	note_seen(s, l);
	if (out.poll.stack == UINT32_MAX && s->kind == LOOP_OTHER)
		return 0;
	if (dump__find_proc(t->procs, t->p, l->space) < 0)
		return -ENOMEM;
	return profile__merge_loop(t->p, &out);
}

static int take_one(struct loopbook *b, uint32_t nr, const struct loop_thread *l, void *ctx)
{
	bool ended = take_out(b, nr, l);
	struct seen *s = seen_of(b, l);
	int err = s ? give(b, s, l, ctx) : -ENOMEM;

	if (s && ended)
		s->there = false;
	return err;
}

/* Those whose process has gone without an end that was seen, too. */
static void forget_gone(struct loopbook *b)
{
	struct seen *s;

	for (size_t at = 0; (s = idmap__next(&b->seen, &at));)
		if (!s->there) {
			idmap__remove(&b->seen, seen_key(s->space, s->tid));
			free(s);
			at = 0;
		}
	for (size_t at = 0; (s = idmap__next(&b->seen, &at));)
		s->there = false;
}

void loopbook__take(struct loopbook *b, const struct process_table *procs, struct profile *p)
{
	struct taker t = { .procs = procs, .p = p };
	int err = each_loop(b, take_one, &t);

	/* A long iteration that ends between its thread's turn and this is in the numbers only. */
	__atomic_fetch_add(&object__loop_shares(b->o)->window, 1, __ATOMIC_RELAXED);
	if (err)
		log_warn("iterations of event loops are missing: %s", strerror(-err));
	else
		forget_gone(b);
	idmap__free(&b->stacks);
	idmap__free(&b->open); /* only loopbook__fill() asks for these */
}

void loopbook__learn(struct loopbook *b, const struct profile *p)
{
	for (size_t i = 0; i < p->loop_cnt; i++) {
		const struct profile_loop *l = &p->loops[i];
		struct seen *s = idmap__get(&b->seen, seen_key(l->space, l->tid));

		if (s && l->poll.cnt)
			s->kind = loops_is_event_loop(p, l) ? LOOP_EVENT : LOOP_OTHER;
	}
}
