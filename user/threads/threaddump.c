/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/threaddump.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/terminal.h"
#include "follow/follow.h"
#include "process/unsupported.h"
#include "profile/profile.h"
#include "python/threadnames.h"
#include "sample/dump.h"
#include "sample/uses.h"
#include "threads/export_threads.h"
#include "threads/gil.h"
#include "threads/hostwalk.h"
#include "threads/threadlist.h"

#define SAMPLE_HZ     999
#define QUICK_LOOKS   3	   /* one after the other, before the sampler is attached */
#define LOOK_MS	      5	   /* between two looks while it is */
#define WINDOW_MS     20   /* of sampling, before the samples are looked at */
#define PATIENCE_MS   1000 /* then a thread that is not caught is given up */
#define MAX_THREADS   (1U << 22)
#define STACK_FRAMES  (2 * STACK_DEPTH_DEFAULT) /* of hostwalk, and of the sampler as set up here */
#define NICE_PRIORITY (-10) /* the looks should be close to each other, on a busy machine as well */

/* One thread while it is looked at. */
struct seen {
	struct thread_now now; /* at the last look */
	uint64_t *frames;      /* of it, innermost first; owned */
	size_t frame_cnt, frame_cap;
	bool has_stack, done, sampled, gone;
	struct gil_look gil; /* addr 0: not known, or there is none */
	unsigned look;	     /* at which that was seen */
};

struct python_name {
	uint32_t tid; /* as the process sees it */
	str_id name;
};

struct dumper {
	const struct threaddump_opts *o;
	struct threadlist *list;
	struct follow *follow;
	struct process_table *procs; /* of `follow`, as the next two */
	struct object *object;
	struct sym_jit *jit;
	struct uses sampler;
	const struct process *p;
	struct hostwalk *walker;
	struct profile *profile; /* what is printed */
	struct profile *samples; /* what the sampler gave */
	struct seen *seen;
	size_t seen_cnt, seen_cap;
	struct python_name *names;
	size_t name_cnt, name_cap;
	unsigned look; /* number of the look at hand */
	uint64_t start_ms;
};

/* ---- the GIL --------------------------------------------------------------------------------- */

/* Threads are looked at one after the other, so two can be seen to hold it: the last one does. */
static bool held_later(const struct dumper *d, const struct seen *s)
{
	for (size_t i = 0; i < d->seen_cnt; i++) {
		const struct seen *other = &d->seen[i];

		if (other->gil.holds && other->gil.addr == s->gil.addr &&
		    (other->look > s->look || (other->look == s->look && other > s)))
			return true;
	}
	return false;
}

/* ---- looking --------------------------------------------------------------------------------- */

static int keep_frames(struct seen *s, const uint64_t *frames, size_t cnt)
{
	if (array_grow(&s->frames, &s->frame_cap, 0, cnt + 1, sizeof(*s->frames), STACK_FRAMES + 1))
		return -ENOMEM;
	memcpy(s->frames, frames, cnt * sizeof(*frames));
	s->frame_cnt = cnt;
	s->has_stack = true;
	return 0;
}

/* A thread that is not on a CPU: its stack as it is now, and whether it has the GIL. */
static int walk(struct dumper *d, struct seen *s)
{
	struct hoststack st;
	int err = 0;

	if (s->now.flags & THREAD_COMPAT32) {
		const uint64_t marker = MARKER_WORD(MARK_COMPAT32, 0);

		return keep_frames(s, &marker, 1);
	}
	if (s->now.flags & THREAD_REGS) {
		hostwalk__walk(d->walker, &s->now, &st);
		err = keep_frames(s, (const uint64_t *)st.frames, st.cnt);
	} else {
		hostwalk__find(d->walker, &s->now, &st);
	}
	gil__look(d->walker, &s->now, &st, &s->gil);
	s->look = d->look;
	return err;
}

/* It has run all the time since `before`, or not at all. */
static bool is_same(const struct thread_now *before, const struct thread_now *now)
{
	return !((before->flags ^ now->flags) & THREAD_ON_CPU) && before->switches == now->switches;
}

static int add_seen(struct dumper *d, const struct thread_now *t)
{
	if (array_grow(&d->seen, &d->seen_cap, d->seen_cnt, 1, sizeof(*d->seen), MAX_THREADS))
		return -ENOMEM;
	d->seen[d->seen_cnt++] = (struct seen){ .now = *t };
	return 0;
}

/* The threads that there are at the beginning. */
static int first_look(struct dumper *d)
{
	int err = threadlist__read(d->list);

	for (size_t i = 0; i < threadlist__cnt(d->list) && !err; i++)
		err = add_seen(d, threadlist__at(d->list, i));
	return err;
}

static void look_at_end(struct seen *s, const struct thread_now *now)
{
	s->gone = !now;
	s->now.exit_state = 1;
	s->has_stack = false;
	s->done = true;
}

/* Takes over how the threads are now. The number of those that are not done, or negative errno. */
static int look_again(struct dumper *d)
{
	int open = 0, err = threadlist__read(d->list);

	for (size_t i = 0; i < d->seen_cnt && !err; i++) {
		struct seen *s = &d->seen[i];
		const struct thread_now *now = threadlist__find(d->list, s->now.tid);

		if (s->done)
			continue;
		if (!now || now->exit_state) {
			look_at_end(s, now);
			continue;
		}
		if (!is_same(&s->now, now))
			s->gil.addr = 0; /* what was seen may be of another moment */
		else if (!(now->flags & THREAD_ON_CPU))
			s->done = s->has_stack;
		s->now = *now;
		open += !s->done;
	}
	return err ? err : open;
}

/* One look at all threads that are not done. Their number then, or negative errno. */
static int look(struct dumper *d)
{
	int err = 0;

	d->look++;
	for (size_t i = 0; i < d->seen_cnt && !err; i++)
		if (!d->seen[i].done)
			err = walk(d, &d->seen[i]);
	return err ? err : look_again(d);
}

/* ---- threads that run ------------------------------------------------------------------------ */

/*
 * It ends early for a reason that need not be there at the next sample: a sampler cannot wait for a
 * page that the kernel is moving, and a frame that is being entered is soon linked.
 */
static bool is_cut(const struct profile *p, const struct profile_stack *st)
{
	for (size_t i = st->first; i < st->first + st->cnt; i++) {
		if (FRAME_TAG(p->frames[i]) != FRAME_MARKER)
			continue;
		switch (MARKER_WHY(p->frames[i])) {
		case MARK_READ_FAILED:
		case MARK_PY_READ_FAILED:
		case MARK_PY_BAD_CODE:
		case MARK_PY_SETUP:
			return true;
		}
	}
	return false;
}

/* The stack that was sampled most, of those that are cut, or that are not; NULL: none. */
static const struct profile_stack *find_sample(const struct dumper *d, uint32_t tid, bool cut)
{
	const struct profile_stack *best = NULL;

	for (size_t i = 0; i < d->samples->stack_cnt; i++) {
		const struct profile_stack *st = &d->samples->stacks[i];

		if (THREAD_TID(st->tid) == tid && (!best || st->count > best->count) &&
		    is_cut(d->samples, st) == cut)
			best = st;
	}
	return best;
}

/* at_last: there will be no better one. */
static int take_sample(struct dumper *d, struct seen *s, bool at_last)
{
	const struct profile_stack *st = find_sample(d, s->now.tid, false);
	int err;

	if (!st && at_last)
		st = find_sample(d, s->now.tid, true);
	if (!st)
		return 0;
	err = keep_frames(s, d->samples->frames + st->first, st->cnt);
	for (size_t i = 0, k = s->frame_cnt; !err && i + 1 < k; i++) {
		uint64_t word = s->frames[--k]; /* those of a profile are outermost first */

		s->frames[k] = s->frames[i];
		s->frames[i] = word;
	}
	if (!(s->now.flags & THREAD_ON_CPU))
		s->gil.addr = 0; /* of now, not of the sample */
	s->done = s->sampled = true;
	return err;
}

static int take_samples(struct dumper *d, bool at_last)
{
	const struct dump_opts opts = { .threads = true, .jit = d->jit };
	struct dump_late late = { 0 };
	unsigned old = object__flip(d->object);
	const struct dump_tables tables = { object__counts_fd(d->object, old),
					    object__chunks_fd(d->object, old) };
	int err;

	follow__read(d->follow);
	err = dump__window(&tables, d->procs, &opts, d->samples, &late);
	for (size_t i = 0; i < d->seen_cnt && !err; i++)
		if (!d->seen[i].done)
			err = take_sample(d, &d->seen[i], at_last);
	return err;
}

static int start_sampler(struct dumper *d)
{
	const struct sample_spec spec = {
		.sources = { { .source = source__of_event(EVENT_CPU_CLOCK) } },
		.source_cnt = 1,
		.frequency_hz = SAMPLE_HZ,
	};
	struct world world;
	int err = object__wait_loaded(d->object);

	follow__world(d->follow, &world);
	if (!err)
		err = uses__open(&d->sampler, &spec, &world);
	return err ? err : uses__start(&d->sampler);
}

/* Until all are caught, in their sleep or by a sample. */
static int sample_the_rest(struct dumper *d)
{
	int open = 1, err = start_sampler(d);
	uint64_t start = now_ms(), window = start; /* the sampler may have had to be loaded first */

	while (!err && open && now_ms() - start < PATIENCE_MS) {
		poll(NULL, 0, LOOK_MS);
		open = look(d);
		err = open < 0 ? open : 0;
		if (err || !open || now_ms() - window < WINDOW_MS)
			continue;
		window = now_ms();
		err = take_samples(d, false);
	}
	if (!err && open)
		err = take_samples(d, true);
	uses__stop(&d->sampler);
	wait_for_programs();
	follow__read(d->follow);
	return err;
}

static int look_at_all(struct dumper *d)
{
	int open;

	d->start_ms = now_ms();
	open = first_look(d);
	if (open < 0)
		return open;
	for (int i = 0; i < QUICK_LOOKS; i++) {
		open = look(d);
		if (open <= 0)
			return open;
	}
	log_debug("%d threads are running, or ran while their stacks were read", open);
	return sample_the_rest(d);
}

/* ---- the result ------------------------------------------------------------------------------ */

static enum dumped_state state_of(const struct seen *s)
{
	if (s->now.exit_state)
		return DUMPED_ENDED;
	if (s->sampled || s->now.flags & THREAD_ON_CPU)
		return DUMPED_RUNNING;
	if (s->now.state & THREAD_SLEEPING)
		return DUMPED_SLEEPING;
	if (s->now.state & THREAD_BLOCKED)
		return DUMPED_BLOCKED;
	if (s->now.state & THREAD_STOPPED)
		return DUMPED_STOPPED;
	return s->now.state & THREAD_TRACED ? DUMPED_TRACED : DUMPED_RUNNABLE;
}

static enum dumped_gil gil_of(const struct dumper *d, const struct seen *s)
{
	if (!s->gil.addr || s->now.exit_state)
		return GIL_UNKNOWN;
	if (s->gil.waits)
		return GIL_WAITS;
	if (!s->gil.holds)
		return GIL_NONE;
	return held_later(d, s) ? GIL_UNKNOWN : GIL_HOLDS;
}

/* A threadnames_fn. Without memory the thread has the kernel's name. */
static void take_name(void *ctx, uint32_t tid, const char *name)
{
	struct dumper *d = ctx;

	if (array_grow(&d->names, &d->name_cap, d->name_cnt, 1, sizeof(*d->names), MAX_THREADS))
		return;
	d->names[d->name_cnt++] =
		(struct python_name){ .tid = tid, .name = profile__intern_z(d->profile, name) };
}

static void read_names(struct dumper *d)
{
	uint64_t bias;
	const struct py_binary *bin = process_table__python(d->procs, d->p, &bias);

	if (bin)
		threadnames__read(bin, d->p->tgid, bias, take_name, d);
}

/* As Python calls the thread, or else the kernel. */
static str_id name_of(const struct dumper *d, const struct thread_now *t)
{
	for (size_t i = 0; i < d->name_cnt; i++)
		if (d->names[i].tid == t->inner_tid)
			return d->names[i].name;
	return profile__intern(d->profile, t->comm, strnlen(t->comm, sizeof(t->comm)));
}

static int add_stack(struct dumper *d, const struct seen *s)
{
	uint64_t words[STACK_FRAMES];
	int cnt;

	if (!s->has_stack || !s->frame_cnt)
		return -1;
	for (size_t i = 0; i < s->frame_cnt; i++)
		words[i] = s->frames[s->frame_cnt - 1 - i];
	cnt = dump__name_generated(d->jit, d->p->space, words, (int)s->frame_cnt);
	return profile__add_stack(d->profile, 0, s->now.tid, words, (size_t)cnt, 1);
}

static int fill_thread(struct dumper *d, const struct seen *s, struct dumped_thread *t)
{
	*t = (struct dumped_thread){
		.tid = s->now.tid,
		.name = name_of(d, &s->now),
		.state = state_of(s),
		.syscall = -1,
		.gil = gil_of(d, s),
		.changing = !s->done,
		.stack = add_stack(d, s),
	};
	if (t->state != DUMPED_RUNNING && s->now.flags & THREAD_REGS)
		t->syscall = s->now.syscall;
	return t->stack == -ENOMEM ? -ENOMEM : 0;
}

static int add_process(struct dumper *d)
{
	const struct process *p = d->p;
	const struct profile_proc proc = {
		.space = p->space,
		.tgid = p->tgid,
		.comm = profile__intern_z(d->profile, p->comm),
		.exe = profile__intern_z(d->profile, p->exe),
		.container = profile__intern_z(d->profile, p->container),
		.python = profile__intern_z(d->profile, p->python),
		.native_only = p->native_only ? profile__intern_z(d->profile, p->native_only) : 0,
	};
	int err = profile__add_proc(d->profile, &proc);

	return err < 0 ? err : 0;
}

static int print(struct dumper *d, const struct dumped_thread *threads, size_t thread_cnt)
{
	const struct dumped_process out = {
		.p = d->profile,
		.threads = threads,
		.thread_cnt = thread_cnt,
		.native = d->o->native,
	};
	bool color;
	int err;

	terminal__width(&color);
	err = d->o->json ? export_threads__json(stdout, &out)
			 : export_threads__text(stdout, &out, color);
	if (err)
		log_err("standard output: %s", strerror(-err));
	return err;
}

static int report(struct dumper *d)
{
	const struct symbolize_opts so = { .lines = true };
	struct dumped_thread *threads = calloc(d->seen_cnt + 1, sizeof(*threads));
	int err = threads ? add_process(d) : -ENOMEM;
	size_t cnt = 0;

	read_names(d);
	sym_jit__begin(d->jit);
	for (size_t i = 0; i < d->seen_cnt && !err; i++)
		if (!d->seen[i].gone)
			err = fill_thread(d, &d->seen[i], &threads[cnt++]);
	if (err)
		log_err("names: %s", strerror(-err));
	else
		err = follow__names(d->follow, d->profile, &so);
	if (!err)
		err = print(d, threads, cnt);
	free(threads);
	return err;
}

/* ---- before ---------------------------------------------------------------------------------- */

static int open_stages(struct dumper *d)
{
	const struct follow_opts opts = {
		.object = {
			.flags = CFG_NATIVE | CFG_KERNEL | CFG_TARGETS | CFG_THREADS,
			.frequency_hz = SAMPLE_HZ,
		},
		.processes = { .all = true, .pids = &d->o->pid, .pid_cnt = 1 },
		.prepare = true,
		.names = true,
	};
	struct process_maps maps;
	struct ring_sink sink;

	d->follow = follow__open(&opts);
	if (!d->follow)
		return -EIO;
	d->procs = follow__procs(d->follow);
	d->object = follow__object(d->follow);
	d->jit = symbolizer__jit(follow__symbolizer(d->follow));
	d->list = threadlist__open((uint32_t)d->o->pid);
	if (!d->list)
		return -EIO;
	d->profile = profile__new();
	d->samples = profile__new();
	object__process_maps(d->object, &maps);
	follow__sink(d->follow, &sink);
	d->walker = hostwalk__new(d->procs, &maps, &sink);
	if (!d->profile || !d->samples || !d->walker)
		return log_no_memory();
	return follow__scan(d->follow);
}

/* Says why there are no Python frames to dump. */
static void refuse(const struct process *p)
{
	char why[UNSUPPORTED_LEN];

	if (!p->native_only && unsupported__explain((pid_t)p->tgid, why))
		log_err("process %u is %s (--native dumps it all the same)", p->tgid, why);
	else
		log_err("process %u (%s) %s%s (--native dumps it all the same)", p->tgid, p->comm,
			p->native_only ? "cannot be walked: " : "is not Python",
			p->native_only ? p->native_only : "");
}

static int choose_process(struct dumper *d)
{
	pid_t pid = d->o->pid;
	int err;

	d->p = process_table__find_tgid(d->procs, (uint32_t)pid);
	if (!d->p) {
		log_err("process %d: it has ended, or is not visible from this pid namespace", pid);
		return -ESRCH;
	}
	if (!d->p->analysed) {
		log_err("process %d (%s): it cannot be looked into (CAP_SYS_PTRACE is needed)", pid,
			d->p->comm);
		return -EACCES;
	}
	if ((!d->p->is_python || d->p->native_only) && !d->o->native) {
		refuse(d->p);
		return -EINVAL;
	}
	err = hostwalk__begin(d->walker, d->p);
	if (err == -EPERM || err == -ENOSYS)
		log_err("process %d (%s): its memory cannot be read: %s (needs CAP_SYS_PTRACE, and "
			"kernel.yama.ptrace_scope below 3)",
			pid, d->p->comm, strerror(-err));
	else if (err)
		log_err("process %d (%s): its mappings: %s", pid, d->p->comm, strerror(-err));
	return err;
}

static int check_result(const struct dumper *d)
{
	size_t ended = 0;

	for (size_t i = 0; i < d->seen_cnt; i++)
		ended += d->seen[i].now.exit_state != 0;
	if (ended < d->seen_cnt)
		return 0;
	log_err("process %d (%s): it has ended", d->o->pid, d->p->comm);
	return -ESRCH;
}

static void log_looks(const struct dumper *d)
{
	size_t sampled = 0, changing = 0;

	for (size_t i = 0; i < d->seen_cnt; i++) {
		sampled += d->seen[i].sampled;
		changing += !d->seen[i].done;
	}
	log_debug("%zu threads in %u looks, %" PRIu64
		  " ms: %zu by a sample, %zu never caught at rest",
		  d->seen_cnt, d->look, now_ms() - d->start_ms, sampled, changing);
}

static void close_stages(struct dumper *d)
{
	for (size_t i = 0; i < d->seen_cnt; i++)
		free(d->seen[i].frames);
	free(d->seen);
	free(d->names);
	hostwalk__free(d->walker);
	uses__close(&d->sampler);
	follow__close(d->follow);
	threadlist__close(d->list);
	profile__free(d->profile);
	profile__free(d->samples);
}

int threaddump(const struct threaddump_opts *o)
{
	struct dumper d = { .o = o };
	int err = 0;

	if (kill(o->pid, 0) && errno == ESRCH) {
		log_err("process %d: there is no such process", o->pid);
		return 1;
	}
	if (setpriority(PRIO_PROCESS, 0, NICE_PRIORITY))
		log_debug("priority: %s", strerror(errno));
	err = open_stages(&d);
	if (!err)
		err = choose_process(&d);
	if (!err)
		err = look_at_all(&d);
	if (!err)
		log_looks(&d);
	if (!err)
		err = check_result(&d);
	if (!err)
		err = report(&d);
	close_stages(&d);
	return err != 0;
}
