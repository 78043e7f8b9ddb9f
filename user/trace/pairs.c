/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "trace/lost.h"

#define BUCKETS	    8192    /* a power of two, of each table */
#define WAITING_MAX 1000000 /* frames of generators that are remembered */
#define CHAIN_MAX   4096    /* frames that are searched for recursion */
#define THREADS_MAX 65536

/* A generator or coroutine that has yielded. */
struct waiting {
	uint64_t frame, code;
	uint32_t tgid;
	bool left; /* or it has returned: up to CPython 3.10 the end does not tell */
	struct waiting *next;
};

struct callee {
	struct activation *a;
	struct callee *next;
};

struct thread {
	uint32_t tid;
	struct activation *top;	    /* the innermost that is known to run there; of this thread */
	struct pairs_waited waited; /* before its last event, since it is in the table */
};

struct pairs {
	struct pairs_handler h;
	struct hash_key key;
	struct activation *open[BUCKETS]; /* by frame */
	struct waiting *waiting[BUCKETS]; /* by frame */
	struct callee *callees[BUCKETS];  /* by the caller's frame */
	struct thread *threads;
	size_t thread_cnt, thread_cap;
	size_t open_cnt, waiting_cnt;
	uint64_t unknown_cnt;
	uint32_t lost;
	bool only_called;
};

static size_t bucket(const struct pairs *p, uint64_t frame)
{
	return hash_bytes(&p->key, &frame, sizeof(frame)) & (BUCKETS - 1);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static struct activation *find(const struct pairs *p, uint64_t frame)
{
	struct activation *a = p->open[bucket(p, frame)];

	while (a && a->frame != frame)
		a = a->next;
	return a;
}

static void unlink_open(struct pairs *p, struct activation *a)
{
	struct activation **at = &p->open[bucket(p, a->frame)];

	while (*at && *at != a)
		at = &(*at)->next;
	if (*at) {
		*at = a->next;
		p->open_cnt--;
	}
}

static struct activation *called_by(const struct pairs *p, uint64_t caller)
{
	struct callee *c = caller ? p->callees[bucket(p, caller)] : NULL;

	while (c && c->a->caller != caller)
		c = c->next;
	return c ? c->a : NULL;
}

static int link_callee(struct pairs *p, struct activation *a)
{
	struct callee *c, **at = &p->callees[bucket(p, a->caller)];

	if (!a->caller)
		return 0;
	c = malloc(sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct callee){ .a = a, .next = *at };
	*at = c;
	return 0;
}

static void unlink_callee(struct pairs *p, const struct activation *a)
{
	struct callee **at = &p->callees[bucket(p, a->caller)], *gone;

	while (*at && (*at)->a != a)
		at = &(*at)->next;
	gone = *at;
	if (!gone)
		return;
	*at = gone->next;
	free(gone);
}

static struct thread *find_thread(struct pairs *p, uint32_t tid)
{
	for (size_t i = p->thread_cnt; i-- > 0;)
		if (p->threads[i].tid == tid)
			return &p->threads[i];
	return NULL;
}

/* Those that run nothing: most have ended. */
static void forget_threads(struct pairs *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->thread_cnt; i++)
		if (p->threads[i].top)
			p->threads[kept++] = p->threads[i];
	p->thread_cnt = kept;
}

static struct thread *thread_of(struct pairs *p, uint32_t tid)
{
	struct thread *t = find_thread(p, tid);

	if (t)
		return t;
	if (p->thread_cnt == p->thread_cap)
		forget_threads(p);
	if (ARRAY_GROW(p->threads, p->thread_cap, p->thread_cnt, THREADS_MAX))
		return NULL;
	p->threads[p->thread_cnt] = (struct thread){ .tid = tid };
	return &p->threads[p->thread_cnt++];
}

/* Takes the frame from those that wait. 0: it does not; its code may be 0, too. */
static bool wake(struct pairs *p, uint64_t frame, bool surely, uint64_t *code)
{
	struct waiting **at = &p->waiting[bucket(p, frame)], *w;

	while (*at && (*at)->frame != frame)
		at = &(*at)->next;
	w = *at;
	if (!w || (surely && w->left))
		return false;
	*at = w->next;
	*code = w->code;
	p->waiting_cnt--;
	free(w);
	return true;
}

/* Without memory, or with too many, a throw() into it will not be seen to begin. */
static void put_to_wait(struct pairs *p, const struct trace_event *e, uint64_t code)
{
	struct waiting *w = p->waiting_cnt < WAITING_MAX ? malloc(sizeof(*w)) : NULL;
	size_t at = bucket(p, e->frame);

	if (!w)
		return;
	*w = (struct waiting){ .frame = e->frame,
			       .code = code,
			       .tgid = e->tgid,
			       .left = e->kind == EVENT_LEFT,
			       .next = p->waiting[at] };
	p->waiting[at] = w;
	p->waiting_cnt++;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void set_below(struct activation *a, struct activation *below)
{
	if (a->below)
		a->below->above_cnt--;
	a->below = below;
	if (below)
		below->above_cnt++;
}

/* Nobody may point at an activation that is freed. */
static void forget(struct pairs *p, struct activation *a)
{
	struct thread *t = find_thread(p, a->tid);

	unlink_callee(p, a);
	unlink_open(p, a);
	for (size_t i = 0; i < BUCKETS && a->above_cnt; i++)
		for (struct activation *b = p->open[i]; b; b = b->next)
			if (b->below == a)
				set_below(b, a->below);
	if (t && t->top == a)
		t->top = a->below && a->below->tid == a->tid ? a->below : NULL;
	set_below(a, NULL);
	free(a->stack);
	free(a->note);
	free(a);
}

#define TICK_NS 10000000 /* of a kernel with CONFIG_HZ=100 */

/*
 * What the kernel had added up, and what came since then, which is less than a tick at each end.
 * Each CPU has a clock of its own, so that is not known of a thread that has changed it. The clock
 * stands still while a hypervisor or an interrupt takes the CPU away.
 */
static uint64_t cpu_between(const struct pairs_cpu *from, const struct pairs_cpu *to,
			    uint64_t total_ns)
{
	const unsigned shift = 64 - TRACE_LAG_BITS;
	int64_t ran = (int64_t)(to->ran_ns - from->ran_ns);
	int64_t since = (int64_t)((to->lag - from->lag) << shift) >> shift;

	if (!from->ran_ns || !to->ran_ns)
		return PAIRS_CPU_UNKNOWN;
	if (from->lag >> TRACE_LAG_BITS == to->lag >> TRACE_LAG_BITS)
		ran += since > TICK_NS ? TICK_NS : since < -TICK_NS ? -TICK_NS : since;
	if (ran < 0)
		return 0;
	return (uint64_t)ran < total_ns ? (uint64_t)ran : total_ns;
}

static void waits_between(const struct pairs_waited *from, const struct pairs_waited *to,
			  uint64_t total_ns, struct pairs_waits *out)
{
	for (size_t i = 0; i < TRACE_REASON_CNT; i++) {
		uint64_t ns = to->ns[i] > from->ns[i] ? to->ns[i] - from->ns[i] : 0;

		ns = ns < total_ns ? ns : total_ns;
		total_ns -= ns;
		out->us[i] = ns / 1000 < UINT32_MAX ? (uint32_t)(ns / 1000) : UINT32_MAX;
	}
}

static struct pairs_cpu cpu_of(const struct trace_event *e)
{
	return (struct pairs_cpu){ .ran_ns = e->ran_ns, .lag = e->ran_lag };
}

static void end(struct pairs *p, struct activation *a, enum pairs_how how, uint64_t ns,
		struct pairs_cpu cpu)
{
	struct pairs_times t = { .at_ns = ns, .cpu_ns = PAIRS_CPU_UNKNOWN };

	if (how != PAIRS_LOST && ns >= a->start_ns) {
		const struct thread *thread = find_thread(p, a->tid);

		t.total_ns = ns - a->start_ns;
		if (thread)
			waits_between(&a->start_waited, &thread->waited, t.total_ns, &t.waits);
		t.own_ns = t.total_ns > a->inner_ns ? t.total_ns - a->inner_ns : 0;
		t.cpu_ns = cpu_between(&a->start_cpu, &cpu, t.total_ns);
		if (a->below)
			a->below->inner_ns += t.total_ns;
	}
	p->h.ended(p->h.ctx, a, how, &t);
	forget(p, a);
}

/*
 * Ends without an event: the activation `a`, and all that it had called. `e`: the exception came to
 * the caller; NULL: the time is not known.
 */
static void end_by_exception(struct pairs *p, struct activation *a, const struct trace_event *e)
{
	while (a) {
		struct activation *inner = a, *next;

		for (int i = 0; i < CHAIN_MAX && (next = called_by(p, inner->frame)); i++)
			inner = next;
		if (e)
			end(p, inner, PAIRS_EXCEPTION, e->ns, cpu_of(e));
		else if (inner->raised_ns)
			end(p, inner, PAIRS_EXCEPTION, inner->raised_ns, inner->raised_cpu);
		else
			end(p, inner, PAIRS_LOST, 0, (struct pairs_cpu){ 0 });
		if (inner == a)
			return;
	}
}

static void end_all(struct pairs *p)
{
	for (size_t i = 0; i < BUCKETS; i++)
		while (p->open[i])
			end(p, p->open[i], PAIRS_LOST, 0, (struct pairs_cpu){ 0 });
}

static struct activation *first_of(const struct pairs *p, size_t at, uint32_t tgid)
{
	struct activation *a = p->open[at];

	while (a && a->tgid != tgid)
		a = a->next;
	return a;
}

static void forget_waiting(struct pairs *p, struct waiting **at, uint32_t tgid)
{
	while (*at) {
		struct waiting *w = *at;

		if (w->tgid != tgid) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		p->waiting_cnt--;
		free(w);
	}
}

void pairs__end_process(struct pairs *p, uint32_t tgid)
{
	struct activation *a;

	for (size_t i = 0; i < BUCKETS; i++) {
		forget_waiting(p, &p->waiting[i], tgid);
		while ((a = first_of(p, i, tgid))) {
			/* What it has called comes first. */
			for (int k = 0; k < CHAIN_MAX && called_by(p, a->frame); k++)
				a = called_by(p, a->frame);
			end(p, a, PAIRS_LOST, 0, (struct pairs_cpu){ 0 });
		}
	}
}

/* ---- beginnings ------------------------------------------------------------------------------ */

static bool is_nested(const struct activation *a)
{
	const struct activation *b = a->below;

	for (int i = 0; b && i < CHAIN_MAX; i++, b = b->below)
		if (b->code == a->code)
			return true;
	return false;
}

/* Without memory there is none. */
static struct pairs_stack *copy_stack(const struct trace_raise *from)
{
	struct pairs_stack *s = from ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return NULL;
	s->cnt = from->code_cnt < PAIRS_FRAMES ? from->code_cnt : PAIRS_FRAMES;
	s->cut = from->cut || s->cnt < from->code_cnt;
	memcpy(s->codes, from->codes, s->cnt * sizeof(*s->codes));
	memcpy(s->offsets, from->offsets, s->cnt * sizeof(*s->offsets));
	return s;
}

static int begin(struct pairs *p, const struct trace_event *e, enum pairs_how how, uint64_t code,
		 const struct trace_raise *stack)
{
	struct thread *t = thread_of(p, e->tid);
	struct activation *a = t ? calloc(1, sizeof(*a)) : NULL;
	size_t at = bucket(p, e->frame);

	if (!a)
		return -ENOMEM;
	*a = (struct activation){ .frame = e->frame,
				  .caller = e->caller,
				  .code = code,
				  .start_ns = e->ns,
				  .start_cpu = cpu_of(e),
				  .start_waited = t->waited,
				  .stack = copy_stack(stack),
				  .tgid = e->tgid,
				  .tid = e->tid,
				  .how = how };
	/* If the caller is not traced, this is the best known time. */
	if (a->caller) {
		struct activation *below = find(p, a->caller);

		set_below(a, below ? below : t->top);
	}
	a->depth = a->below ? a->below->depth + 1 : 0;
	a->nested = is_nested(a);
	if (link_callee(p, a)) {
		set_below(a, NULL);
		free(a->stack);
		free(a);
		return -ENOMEM;
	}
	a->next = p->open[at];
	p->open[at] = a;
	p->open_cnt++;
	t->top = a;
	p->h.begun(p->h.ctx, a);
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

static int take_begin(struct pairs *p, const struct trace_event *e, const struct trace_raise *stack)
{
	struct activation *old;
	uint64_t code;
	bool waited;

	end_by_exception(p, called_by(p, e->frame), NULL);
	old = find(p, e->frame);
	if (old) /* its frame has been used again */
		end_by_exception(p, old, NULL);
	end_by_exception(p, called_by(p, e->caller), NULL);
	waited = wake(p, e->frame, false, &code);
	if (!e->code || (p->only_called && e->kind == EVENT_RESUME && !waited))
		return 0;
	return begin(p, e, e->kind == EVENT_RESUME ? PAIRS_RESUME : PAIRS_CALL, e->code, stack);
}

static void take_end(struct pairs *p, const struct trace_event *e)
{
	struct activation *a;
	uint64_t code;

	end_by_exception(p, called_by(p, e->frame), NULL);
	a = find(p, e->frame);
	if (!a) {
		p->unknown_cnt++;
		return;
	}
	code = a->code;
	end(p, a,
	    e->kind == EVENT_YIELD    ? PAIRS_YIELD
	    : e->kind == EVENT_RETURN ? PAIRS_RETURN
				      : PAIRS_LEFT,
	    e->ns, cpu_of(e));
	if (e->kind == EVENT_YIELD || (e->kind == EVENT_LEFT && p->only_called))
		put_to_wait(p, e, code);
}

static int take_raise(struct pairs *p, const struct trace_event *e)
{
	struct activation *a;
	uint64_t code;
	int err = 0;

	end_by_exception(p, called_by(p, e->frame), e);
	a = find(p, e->frame);
	if (!a && wake(p, e->frame, true, &code)) {
		end_by_exception(p, called_by(p, e->caller), NULL);
		err = begin(p, e, PAIRS_THROW, code, NULL);
		a = find(p, e->frame);
	}
	if (a) {
		a->raised_ns = e->ns;
		a->raised_cpu = cpu_of(e);
	}
	return err;
}

void pairs__lose(struct pairs *p, uint32_t lost)
{
	uint32_t more = lost_since(&p->lost, lost);

	if (!more)
		return;
	end_all(p);
	p->h.lost(p->h.ctx, more);
}

int pairs__take_waits(struct pairs *p, const struct trace_waits *w)
{
	struct thread *t;

	pairs__lose(p, w->e.lost);
	t = thread_of(p, w->e.tid);
	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < TRACE_REASON_CNT; i++)
		t->waited.ns[i] += w->ns[i];
	return 0;
}

int pairs__take(struct pairs *p, const struct trace_event *e, const struct trace_raise *stack)
{
	pairs__lose(p, e->lost);
	switch (e->kind) {
	case EVENT_CALL:
	case EVENT_RESUME:
		return take_begin(p, e, stack);
	case EVENT_RAISE:
		return take_raise(p, e);
	default:
		take_end(p, e);
		return 0;
	}
}

struct pairs *pairs__new(const struct pairs_handler *h)
{
	struct pairs *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->h = *h;
	p->key = hash_key();
	return p;
}

void pairs__free(struct pairs *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		struct activation *a;
		struct callee *c;
		struct waiting *w;

		while ((a = p->open[i])) {
			p->open[i] = a->next;
			free(a->stack);
			free(a->note);
			free(a);
		}
		while ((c = p->callees[i])) {
			p->callees[i] = c->next;
			free(c);
		}
		while ((w = p->waiting[i])) {
			p->waiting[i] = w->next;
			free(w);
		}
	}
	free(p->threads);
	free(p);
}

uint64_t pairs__code(const struct pairs *p, uint64_t frame)
{
	const struct activation *a = frame ? find(p, frame) : NULL;

	return a ? a->code : 0;
}

void pairs__only_called(struct pairs *p)
{
	p->only_called = true;
}

size_t pairs__open_cnt(const struct pairs *p)
{
	return p->open_cnt;
}

uint64_t pairs__unknown_cnt(const struct pairs *p)
{
	return p->unknown_cnt;
}

bool pairs_stack__is_same(const struct pairs_stack *a, const struct pairs_stack *b)
{
	return a->cnt == b->cnt && a->cut == b->cut &&
	       !memcmp(a->codes, b->codes, a->cnt * sizeof(*a->codes)) &&
	       !memcmp(a->offsets, b->offsets, a->cnt * sizeof(*a->offsets));
}

uint64_t pairs_stack__hash(const struct pairs_stack *s)
{
	const struct hash_key key = hash_key();
	uint64_t parts[3] = { hash_bytes(&key, s->codes, s->cnt * sizeof(*s->codes)),
			      hash_bytes(&key, s->offsets, s->cnt * sizeof(*s->offsets)), s->cnt };

	return hash_bytes(&key, parts, sizeof(parts));
}
