/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/idle.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "profile/export_stacks.h"
#include "profile/glue.h"
#include "profile/inside.h"
#include "profile/waits.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define FOLDED_NAME   "[waits: idle]"
#define NATIVE_DEPTH  5	   /* frames of the C library and of a loop, behind a known function */
#define TEXT_MAX      4096 /* bytes of a frame that a rule is tried on */
#define SHOWN_MAX     4
#define LABEL_MAX     40
#define QUIET_SHARE   0.95 /* of all time that is idle: then that is what there is to say */
#define BY_RULE	      "places of --idle"
#define NATIVE_THREAD "threads without Python"

/* ---- Known places ---------------------------------------------------------------------------- */

/* A Python function by the end of its file's path and its name without its class. */
struct place {
	const char *file, *func;
	const char *label; /* NULL: it waits on behalf of its caller */
	bool polls;	   /* idle in a poll only: other waits belong to functions that it calls */
};

static const struct place places[] = {
	{ "threading.py", "wait", NULL, false },
	{ "queue.py", "get", NULL, false },
	{ "Queue.py", "get", NULL, false },
	{ "selectors.py", "select", NULL, false },
	{ "multiprocessing/queues.py", "get", NULL, false },
	{ "multiprocessing/synchronize.py", "__enter__", NULL, false },
	{ "multiprocessing/connection.py", "recv", NULL, false },
	{ "multiprocessing/connection.py", "recv_bytes", NULL, false },
	{ "multiprocessing/connection.py", "_recv_bytes", NULL, false },
	{ "multiprocessing/connection.py", "_recv", NULL, false },
	{ "multiprocessing/connection.py", "wait", NULL, false },
	{ "multiprocessing/pool.py", "_wait_for_updates", NULL, false },
	{ "billiard/connection.py", "recv_bytes", NULL, false },
	{ "billiard/connection.py", "_recv_bytes", NULL, false },
	{ "billiard/connection.py", "_recv", NULL, false },
	{ "billiard/connection.py", "poll", NULL, false },
	{ "billiard/connection.py", "_poll", NULL, false },
	{ "billiard/connection.py", "wait", NULL, false },
	{ "billiard/queues.py", "get_payload", NULL, false },
	{ "billiard/synchronize.py", "__enter__", NULL, false },

	{ "asyncio/base_events.py", "_run_once", "asyncio's event loop", true },
	{ "concurrent/futures/thread.py", "_worker", "ThreadPoolExecutor", false },
	{ "concurrent/futures/process.py", "_process_worker", "ProcessPoolExecutor", false },
	{ "concurrent/futures/process.py", "_queue_management_worker", "ProcessPoolExecutor",
	  false },
	{ "concurrent/futures/process.py", "wait_result_broken_or_wakeup", "ProcessPoolExecutor",
	  false },
	{ "multiprocessing/pool.py", "worker", "multiprocessing.Pool", false },
	{ "multiprocessing/pool.py", "_handle_workers", "multiprocessing.Pool", false },
	{ "multiprocessing/pool.py", "_handle_tasks", "multiprocessing.Pool", false },
	{ "multiprocessing/pool.py", "_handle_results", "multiprocessing.Pool", false },
	{ "multiprocessing/queues.py", "_feed", "multiprocessing.Queue", false },
	{ "logging/handlers.py", "dequeue", "logging.QueueListener", false },
	{ "socketserver.py", "serve_forever", "socketserver", true },
	{ "SocketServer.py", "serve_forever", "socketserver", true },
	{ "anyio/_backends/_asyncio.py", "run", "AnyIO's workers", false },
	{ "gunicorn/arbiter.py", "sleep", "gunicorn's arbiter", false },
	{ "gunicorn/arbiter.py", "wait_for_signals", "gunicorn's arbiter", false },
	{ "gunicorn/workers/sync.py", "wait", "gunicorn's workers", true },
	{ "gunicorn/workers/gthread.py", "run", "gunicorn's workers", true },
	{ "gunicorn/workers/gthread.py", "wait_for_and_dispatch_events", "gunicorn's workers",
	  true },
	{ "uvicorn/supervisors/multiprocess.py", "run", "uvicorn's supervisor", false },
	{ "billiard/pool.py", "body", "celery's pool", false },
	{ "billiard/pool.py", "_recv", "celery's pool", false },
	{ "billiard/pool.py", "_poll_result", "celery's pool", false },
	{ "celery/utils/timer2.py", "run", "celery's timer", false },
	{ "kombu/asynchronous/hub.py", "create_loop", "celery's event loop", true },
	{ "kombu/utils/eventio.py", "poll", "celery's event loop", true },
	{ "kombu/transport/virtual/base.py", "drain_events", "celery's event loop", false },
	{ "tornado/ioloop.py", "start", "tornado's event loop", true },
	{ "twisted/internet/epollreactor.py", "doPoll", "twisted's reactor", true },
	{ "twisted/_threads/_threadworker.py", "work", "twisted's workers", false },
	{ "trio/_core/_io_epoll.py", "get_events", "trio's event loop", true },
	{ "trio/_core/_thread_cache.py", "_work", "trio's workers", false },
	{ "gevent/hub.py", "run", "gevent's hub", true },
	{ "waitress/task.py", "handler_thread", "waitress", false },
	{ "waitress/wasyncore.py", "poll", "waitress", true },
	{ "cheroot/workers/threadpool.py", "run", "cheroot", false },
	{ "grpc/_server.py", "_serve", "grpc's server", false },
	{ "grpc/_channel.py", "channel_spin", "grpc's channel", false },
	{ "apscheduler/schedulers/blocking.py", "_main_loop", "apscheduler", false },
};

static const char libuv_loop[] = "libuv's event loop";

/* Native functions that wait for work, whoever called them. */
static const struct {
	const char *func, *label;
} native_places[] = {
	{ "uv__io_poll", libuv_loop },
	{ "uv_cond_wait", "libuv's workers" },
	{ "ev_run", "libev's event loop" },
	{ "event_base_loop", "libevent's event loop" },
	{ "blas_thread_server", "OpenBLAS's workers" },
};

/* Calls uv__io_poll(), which has no name in a library without symbols. */
static const char uv_run[] = "uv_run";

/* A thread without Python that is in one of them waits for work. */
static const char *const native_waits[] = {
	"pthread_cond_wait",
	"pthread_cond_timedwait",
	"pthread_cond_clockwait",
	"epoll_wait",
	"epoll_pwait",
	"epoll_pwait2",
	"poll",
	"ppoll",
	"select",
	"sem_wait",
	"sem_timedwait",
	"sem_clockwait",
	"wait4", /* a shell, timeout and the like */
	"__wait4",
	"waitpid",
	"__waitpid",
	"waitid",
	"sigsuspend",
	"__sigsuspend",
	"sigtimedwait",
	"sigwaitinfo",
	"sigwait",
	"pause",
};

/*
 * So is one in a futex that it calls by itself: Rust's standard library and Abseil have no other
 * condition variables. Their locks look the same; only threads of pools wait for long.
 */
static const char raw_futex[] = "syscall";

/* Waits for what the machine or another thread has to do first. */
static const char *const never_idle[] = { "CPU", "GIL", "disk", "page fault", "idle" };
static const char *const polls[] = { "poll",	     "epoll_wait", "epoll_pwait",
				     "epoll_pwait2", "select",	   "io_uring_enter" };

static bool is_reason(const char *const *list, size_t cnt, const char *reason, size_t len)
{
	for (size_t i = 0; i < cnt; i++)
		if (strlen(list[i]) == len && !memcmp(list[i], reason, len))
			return true;
	return false;
}

/* Of paths, "queue.py" is the end of "/lib/queue.py" and not of "/lib/myqueue.py". */
static bool ends_with_path(const char *path, size_t len, const char *end)
{
	size_t size = strlen(end);

	return len >= size && !memcmp(path + len - size, end, size) &&
	       (len == size || path[len - size - 1] == '/');
}

static const struct place *find_place(const struct profile *p, const struct sym *s)
{
	const char *func = profile__str(p, s->func), *dot = strrchr(func, '.');
	const char *file = profile__str(p, s->file);
	size_t len = profile__str_len(p, s->file);

	func = dot ? dot + 1 : func;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (!strcmp(places[i].func, func) && ends_with_path(file, len, places[i].file))
			return &places[i];
	return NULL;
}

/* ---- Of each sym ----------------------------------------------------------------------------- */

/* Properties of a sym, found once for all of its stacks. */
struct sym_facts {
	const struct place *place;
	const char *native; /* the label of a native place */
	bool idle, busy;    /* by the rules */
	bool waits;	    /* one of native_waits[] */
	bool raw;	    /* raw_futex[] */
	bool uv_run;
	bool interpreter;
};

struct folder {
	const struct profile *p;
	struct sym_facts *facts; /* of each sym */
	struct profile *v;
	struct strbuf text;
};

static bool matches(struct folder *f, const regex_t *re, const struct sym *s)
{
	size_t func = profile__str_len(f->p, s->func), file = profile__str_len(f->p, s->file);

	if (!re)
		return false;
	strbuf__clear(&f->text);
	strbuf__add(&f->text, profile__str(f->p, s->func), func < TEXT_MAX ? func : TEXT_MAX);
	if (file) {
		strbuf__addz(&f->text, " (");
		strbuf__add(&f->text, profile__str(f->p, s->file),
			    file < TEXT_MAX ? file : TEXT_MAX);
		strbuf__addc(&f->text, ')');
	}
	return !f->text.err && !regexec(re, f->text.s, 0, NULL, 0);
}

static void learn(struct folder *f, size_t sym, const struct idle_rules *rules)
{
	const struct sym *s = &f->p->syms[sym];
	const char *func = profile__str(f->p, s->func);
	struct sym_facts *k = &f->facts[sym];

	if (rules && s->kind != SYM_MARKER) {
		k->idle = matches(f, rules->idle, s);
		k->busy = matches(f, rules->busy, s);
	}
	if (s->kind == SYM_PYTHON)
		k->place = find_place(f->p, s);
	if (s->kind != SYM_NATIVE)
		return;
	k->interpreter = glue_is_interpreter(f->p, s);
	for (size_t i = 0; i < ARRAY_SIZE(native_places); i++)
		if (!strcmp(native_places[i].func, func))
			k->native = native_places[i].label;
	for (size_t i = 0; i < ARRAY_SIZE(native_waits); i++)
		k->waits |= !strcmp(native_waits[i], func);
	k->raw = !strcmp(raw_futex, func);
	k->uv_run = !strcmp(uv_run, func);
}

/* ---- Of each stack --------------------------------------------------------------------------- */

static const struct sym_facts *facts_at(const struct folder *f, const struct profile_stack *s,
					uint32_t depth)
{
	static const struct sym_facts nothing;
	uint32_t sym = f->p->frame_syms[s->first + depth];

	return sym < f->p->sym_cnt ? &f->facts[sym] : &nothing;
}

static uint8_t kind_at(const struct folder *f, const struct profile_stack *s, uint32_t depth)
{
	return export_sym(f->p, f->p->frame_syms[s->first + depth])->kind;
}

/* A thread that never was in the interpreter. `cnt`: its frames without that of the wait. */
static const char *native_label(const struct folder *f, const struct profile_stack *s, uint32_t cnt,
				bool is_lock)
{
	const char *label = NULL;

	for (uint32_t i = cnt; i-- > 0;) {
		const struct sym_facts *k = facts_at(f, s, i);

		if (kind_at(f, s, i) != SYM_NATIVE || k->interpreter)
			return NULL;
		if ((k->waits && cnt - i <= NATIVE_DEPTH) || (k->raw && is_lock && i + 1 == cnt))
			label = NATIVE_THREAD;
	}
	return label;
}

/* Is it the loop's own poll: uv_run(), an unnamed function of the same file, and that of libc? */
static bool is_poll_of_libuv(const struct folder *f, const struct profile_stack *s, uint32_t depth,
			     uint32_t cnt)
{
	const uint32_t *syms = f->p->frame_syms + s->first + depth;
	const struct sym *caller, *poll;

	if (!facts_at(f, s, depth)->uv_run || cnt - depth != 3)
		return false;
	caller = export_sym(f->p, syms[0]);
	poll = export_sym(f->p, syms[1]);
	return inside_is_unnamed(f->p, poll) && poll->module == caller->module;
}

/* By the function that waits. */
static const char *place_label(const struct folder *f, const struct profile_stack *s, uint32_t cnt,
			       bool is_poll, bool is_lock)
{
	for (uint32_t i = cnt; i-- > 0;) {
		const struct sym_facts *k = facts_at(f, s, i);
		uint8_t kind = kind_at(f, s, i);

		if (kind == SYM_NATIVE && k->native && cnt - i <= NATIVE_DEPTH)
			return k->native;
		if (kind == SYM_NATIVE && is_poll && is_poll_of_libuv(f, s, i, cnt))
			return libuv_loop;
		if (kind == SYM_NATIVE || kind == SYM_KERNEL)
			continue;
		if (kind != SYM_PYTHON || !k->place)
			return NULL;
		if (k->place->label)
			return k->place->polls && !is_poll ? NULL : k->place->label;
	}
	return native_label(f, s, cnt, is_lock);
}

/* The place where the stack is idle; NULL: it is not idle. */
static const char *idle_label(const struct folder *f, const struct profile_stack *s)
{
	uint32_t cnt = profile__stack_frames(f->p, s);
	const char *func, *reason;
	bool idle = false;
	size_t len;

	if (cnt < 2)
		return NULL;
	func = profile__str(f->p, export_sym(f->p, f->p->frame_syms[s->first + cnt - 1])->func);
	reason = wait_reason(func, &len);
	if (!reason || is_reason(never_idle, ARRAY_SIZE(never_idle), reason, len))
		return NULL;
	for (uint32_t i = 0; i < cnt - 1; i++) {
		if (facts_at(f, s, i)->busy)
			return NULL;
		idle |= facts_at(f, s, i)->idle;
	}
	if (idle)
		return BY_RULE;
	if (len == strlen("accept") && !memcmp(reason, "accept", len))
		return "accept()";
	return place_label(f, s, cnt - 1, is_reason(polls, ARRAY_SIZE(polls), reason, len),
			   len == strlen("lock") && !memcmp(reason, "lock", len));
}

/* ---- The views ------------------------------------------------------------------------------- */

/* The frame that stands for all that is idle in `label`; its file is the label. */
static uint32_t folded_frame(struct folder *f, const char *label)
{
	struct profile *v = f->v;
	str_id name = profile__intern_z(v, FOLDED_NAME), file = profile__intern_z(v, label);

	for (size_t i = f->p->frame_cnt; i < v->frame_cnt; i++)
		if (v->syms[v->frame_syms[i]].file == file)
			return (uint32_t)i;
	if (!name || !file || v->frame_cnt >= UINT32_MAX ||
	    ARRAY_GROW(v->syms, v->sym_cap, v->sym_cnt, INT_MAX) ||
	    ARRAY_GROW(v->frame_syms, v->frame_cap, v->frame_cnt, UINT32_MAX))
		return UINT32_MAX;
	v->frame_syms[v->frame_cnt] = (uint32_t)v->sym_cnt;
	v->syms[v->sym_cnt++] = (struct sym){
		.kind = SYM_MARKER, .func = name, .file = file, .module = -1, .inlined = -1
	};
	return (uint32_t)v->frame_cnt++;
}

static int copy_arrays(struct profile *v, const struct profile *p)
{
	v->frames = NULL;
	v->syms = calloc(p->sym_cnt + 1, sizeof(*v->syms));
	v->frame_syms = calloc(p->frame_cnt + 1, sizeof(*v->frame_syms));
	v->stacks = calloc(p->stack_cnt + 1, sizeof(*v->stacks));
	if (!v->syms || !v->frame_syms || !v->stacks)
		return -ENOMEM;
	v->sym_cap = p->sym_cnt + 1;
	v->frame_cap = p->frame_cnt + 1;
	v->stack_cap = p->stack_cnt + 1;
	if (p->sym_cnt)
		memcpy(v->syms, p->syms, p->sym_cnt * sizeof(*v->syms));
	if (p->frame_cnt)
		memcpy(v->frame_syms, p->frame_syms, p->frame_cnt * sizeof(*v->frame_syms));
	if (p->stack_cnt)
		memcpy(v->stacks, p->stacks, p->stack_cnt * sizeof(*v->stacks));
	return 0;
}

/* With f->v NULL: is there one to fold? */
static int fold_stacks(struct folder *f, bool *found)
{
	for (size_t i = 0; i < f->p->stack_cnt; i++) {
		const char *label = idle_label(f, &f->p->stacks[i]);
		uint32_t frame;

		if (!label)
			continue;
		*found = true;
		if (!f->v)
			return 0;
		frame = folded_frame(f, label);
		if (frame == UINT32_MAX)
			return -ENOMEM;
		f->v->stacks[i].first = frame;
		f->v->stacks[i].cnt = 1;
	}
	return 0;
}

static int make_view(struct folder *f)
{
	bool found;

	f->v = malloc(sizeof(*f->v));
	if (!f->v)
		return -ENOMEM;
	*f->v = *f->p;
	return copy_arrays(f->v, f->p) ? -ENOMEM : fold_stacks(f, &found);
}

/* `p` itself if it has no idle stack; NULL: no memory. */
static const struct profile *fold(const struct profile *p, const struct idle_rules *rules)
{
	struct folder f = { .p = p };
	bool found = false;
	int err = 0;

	/* Who has the GIL and waits keeps others from working. */
	if (!p->frame_syms || p->stats.values[0].event == EVENT_GIL_HELD || !waits_are_in(p))
		return p;
	f.facts = calloc(p->sym_cnt + 1, sizeof(*f.facts));
	if (!f.facts)
		return NULL;
	for (size_t i = 0; i < p->sym_cnt; i++)
		learn(&f, i, rules);
	fold_stacks(&f, &found);
	if (f.text.err)
		err = f.text.err;
	else if (found)
		err = make_view(&f);
	if (err && f.v)
		profile__free_view(f.v, p);
	strbuf__free(&f.text);
	free(f.facts);
	return err ? NULL : found ? f.v : p;
}

/* The label of a folded stack, or NULL. */
static const struct sym *folded_sym(const struct profile *p, const struct profile_stack *s)
{
	const struct sym *sym;

	if (s->cnt != 1 || !p->frame_syms)
		return NULL;
	sym = export_sym(p, p->frame_syms[s->first]);
	return sym->kind == SYM_MARKER && !strcmp(profile__str(p, sym->func), FOLDED_NAME) ? sym
											   : NULL;
}

/* `folded` itself if all of its stacks are idle, or none is; NULL: no memory. */
static const struct profile *without_idle(const struct profile *folded)
{
	struct profile *v = malloc(sizeof(*v));
	size_t kept = 0;

	if (!v)
		return NULL;
	*v = *folded;
	v->stacks = calloc(folded->stack_cnt + 1, sizeof(*v->stacks));
	if (!v->stacks) {
		free(v);
		return NULL;
	}
	for (size_t i = 0; i < folded->stack_cnt; i++) {
		if (folded_sym(folded, &folded->stacks[i]))
			v->stats.hidden_samples += folded->stacks[i].samples;
		else
			v->stacks[kept++] = folded->stacks[i];
	}
	v->stack_cnt = kept;
	if (profile__total(v) && kept < folded->stack_cnt)
		return v;
	profile__free_view(v, folded);
	return folded;
}

int idle__init(struct idle *idle, const struct profile *p, const struct idle_rules *rules)
{
	*idle = (struct idle){ .p = p };
	idle->folded = fold(p, rules);
	if (idle->folded)
		idle->busy = without_idle(idle->folded);
	if (!idle->busy) {
		idle__free(idle);
		return -ENOMEM;
	}
	if (idle->busy == idle->folded)
		idle->busy = p; /* with the stacks that say what it is idle in */
	return 0;
}

void idle__free(struct idle *idle)
{
	/* What they share is that of the next. */
	if (idle->busy != idle->p)
		profile__free_view(idle->busy, idle->folded);
	profile__free_view(idle->folded, idle->p);
	*idle = (struct idle){ .p = NULL };
}

/* ---- The line -------------------------------------------------------------------------------- */

struct label_share {
	str_id label;
	uint64_t count;
};

static int cmp_labels(const void *a, const void *b)
{
	const struct label_share *sa = a, *sb = b;

	return (sa->label > sb->label) - (sa->label < sb->label);
}

static int cmp_shares(const void *a, const void *b, void *p)
{
	const struct label_share *sa = a, *sb = b;

	if (sa->count != sb->count)
		return sa->count > sb->count ? -1 : 1;
	return export_str_cmp(p, sa->label, sb->label);
}

/* By label, the largest first. */
static size_t find_shares(const struct profile *p, struct label_share *shares)
{
	size_t all = 0, cnt = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct sym *sym = folded_sym(p, &p->stacks[i]);

		if (sym)
			shares[all++] = (struct label_share){ sym->file, p->stacks[i].count };
	}
	if (all)
		qsort(shares, all, sizeof(*shares), cmp_labels);
	for (size_t i = 0; i < all; i++) {
		if (cnt && shares[cnt - 1].label == shares[i].label)
			shares[cnt - 1].count += shares[i].count;
		else
			shares[cnt++] = shares[i];
	}
	if (cnt)
		qsort_r(shares, cnt, sizeof(*shares), cmp_shares, (void *)p);
	return cnt;
}

/* Time on a CPU, of all that is known of it. */
static uint64_t time_on_cpu(const struct profile *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];
		uint32_t cnt = profile__stack_frames(p, s);
		const struct sym *leaf =
			cnt ? export_sym(p, p->frame_syms[s->first + cnt - 1]) : NULL;

		if (!leaf || !wait_reason(profile__str(p, leaf->func), NULL))
			sum += s->count;
	}
	return sum;
}

static bool has_many_processes(const struct profile *p)
{
	for (size_t i = 1; i < p->stack_cnt; i++)
		if (p->stacks[i].proc != p->stacks[0].proc)
			return true;
	return false;
}

static void add_amount(struct strbuf *b, const struct profile *p, uint64_t count, uint64_t all)
{
	const struct value_type *type = &p->stats.values[0];

	if (value_type__per_second(type))
		strbuf__addf(b, " %.1f s", value_type__seconds(type, count));
	else /* folded stacks do not say what they count */
		strbuf__addf(b, " %.0f%%", 100.0 * (double)count / (double)all);
}

static void add_shares(struct strbuf *b, const struct profile *p, const struct label_share *shares,
		       size_t cnt)
{
	for (size_t i = 0; i < cnt && i < SHOWN_MAX; i++) {
		strbuf__addz(b, i ? ", " : "");
		str_sanitise(b, profile__str(p, shares[i].label),
			     profile__str_len(p, shares[i].label), LABEL_MAX);
		add_amount(b, p, shares[i].count, profile__total(p));
	}
	if (cnt > SHOWN_MAX)
		strbuf__addf(b, ", %zu more", cnt - SHOWN_MAX);
}

/* Says how little it did; false: it did not do little, or that is not known. */
static bool add_quiet(struct strbuf *b, const struct profile *p, uint64_t idle)
{
	const struct value_type *type = &p->stats.values[0];
	const char *it = has_many_processes(p) ? "They" : "It";
	double percent;

	if (type->event != EVENT_WALL || !p->stats.duration_ns ||
	    (double)idle < QUIET_SHARE * (double)profile__total(p))
		return false;
	percent = 100.0 * value_type__seconds(type, time_on_cpu(p)) /
		  ((double)p->stats.duration_ns / NS_PER_S);
	strbuf__addf(b, "%s used %.1f%% of a CPU; %s in ", it, percent,
		     *it == 'I' ? "it waits" : "they wait");
	return true;
}

void idle_add_line(struct strbuf *b, const struct idle *idle)
{
	const struct profile *p = idle->folded;
	struct label_share *shares = calloc(p->stack_cnt + 1, sizeof(*shares));
	bool left_out = idle->busy != idle->p, quiet;
	uint64_t sum = 0;
	size_t cnt;

	if (!shares) {
		b->err = -ENOMEM;
		return;
	}
	cnt = find_shares(p, shares);
	for (size_t i = 0; i < cnt; i++)
		sum += shares[i].count;
	if (sum) {
		quiet = add_quiet(b, p, sum);
		if (!quiet)
			strbuf__addz(b, left_out ? "Idle, in no share below: " : "All idle: ");
		add_shares(b, p, shares, cnt);
		strbuf__addz(b, quiet && left_out ? " (in no share below)" : "");
	}
	free(shares);
}
