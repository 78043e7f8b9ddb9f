/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/threaddump.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/resources.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "follow/follow.h"
#include "process/called.h"
#include "process/unsupported.h"
#include "profile/profile.h"
#include "python/threadnames.h"
#include "sample/dump.h"
#include "sample/source_set.h"
#include "threads/export_groups.h"
#include "threads/export_tasks.h"
#include "threads/export_threads.h"
#include "threads/gil.h"
#include "threads/hostwalk.h"
#include "threads/taskdump.h"
#include "threads/threadlist.h"
#include "threads/waiter.h"

#define SAMPLE_HZ    999
#define QUICK_LOOKS  3	   /* one after the other, before the sampler is attached */
#define LOOK_MS	     5	   /* between two looks while it is */
#define WINDOW_MS    20	   /* duration of sampling before the samples are read */
#define DEADLINE_MS  30000 /* of all looks at a process; then what there is is printed */
#define PROGRESS_MS  200
#define PATIENCE_MS  1000 /* then a thread that is not caught is given up */
#define MAX_THREADS  (1U << 22)
/*
 * As text, the threads of one process are printed as they are read: so many at first, then twice as
 * many each time, because each part costs looks at all threads.
 */
#define PART_FIRST   512U
#define STACK_FRAMES (2 * STACK_DEPTH_DEFAULT) /* of hostwalk, and of the sampler as set up here */

/* One thread during its walk. */
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
	char *name;   /* owned */
};

struct dumper {
	const struct threaddump_opts *o;
	pid_t pid; /* the process at hand, as all that is not of `follow` */
	/* all processes that were read; owned, with their contents */
	struct dumped_process *dumped;
	size_t dumped_cnt, dumped_cap;
	struct threadlist *list;
	struct follow *follow;
	struct process_table *procs; /* of `follow`, as the next two */
	struct object *object;
	struct sym_jit *jit;
	struct source_set sampler;
	const struct process *p;
	struct hostwalk *walker;
	struct profile *profile; /* the profile to print */
	struct profile *samples; /* what the sampler gave */
	struct seen *seen;
	size_t seen_cnt, seen_cap;
	size_t from, to;   /* of them, those that are read now and then printed */
	size_t unseen_cnt; /* that were not seen at rest when the time was up */
	struct python_name *names;
	size_t name_cnt, name_cap;
	unsigned look; /* number of the current look */
	uint64_t start_ms, progress_ms;
	bool progress_shown;
};

static bool is_many(const struct dumper *d)
{
	return d->o->pid_cnt > 1 || d->o->children;
}

/* ---- the GIL --------------------------------------------------------------------------------- */

/* Threads are read one after the other, so two may seem to hold the GIL: the last one does. */
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
	if (ARRAY_GROW(d->seen, d->seen_cap, d->seen_cnt, MAX_THREADS))
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

	for (size_t i = d->from; i < d->to && !err; i++) {
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

static void show_progress(struct dumper *d, size_t at)
{
	uint64_t now = now_ms();

	if (!isatty(STDERR_FILENO) || now - d->progress_ms < PROGRESS_MS)
		return;
	d->progress_ms = now;
	d->progress_shown = true;
	dprintf(STDERR_FILENO, "\rdump: %zu of %zu threads\033[K", at, d->seen_cnt);
}

static void end_progress(struct dumper *d)
{
	if (d->progress_shown)
		dprintf(STDERR_FILENO, "\r\033[K");
	d->progress_shown = false;
}

/* Thousands of threads take seconds, or its memory answers slowly. A signal is a deadline, too. */
static bool is_late(const struct dumper *d)
{
	return ending__asked() || now_ms() - d->start_ms >= DEADLINE_MS;
}

/* Reads all threads that are not done. Returns how many are left, or negative errno. */
static int look(struct dumper *d)
{
	int err = 0;

	d->look++;
	for (size_t i = d->from; i < d->to && !err && !is_late(d); i++) {
		show_progress(d, i);
		if (!d->seen[i].done)
			err = walk(d, &d->seen[i]);
	}
	end_progress(d);
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
	const struct dump_opts opts = { .jit = d->jit };
	struct dump_late late = { 0 };
	unsigned old = object__flip(d->object);
	const struct dump_tables tables = { object__counts_fd(d->object, old),
					    object__chunks_fd(d->object, old) };
	int err;

	follow__read(d->follow);
	err = dump__window(&tables, d->procs, &opts, d->samples, &late);
	for (size_t i = d->from; i < d->to && !err; i++)
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
		err = source_set__open(&d->sampler, &spec, &world);
	return err ? err : source_set__start(&d->sampler);
}

/* Until all are caught, in their sleep or by a sample. */
static int sample_the_rest(struct dumper *d)
{
	int open = 1, err = start_sampler(d);
	uint64_t start = now_ms(), window = start; /* the sampler may have had to be loaded first */

	while (!err && open && now_ms() - start < PATIENCE_MS && !ending__asked()) {
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
	source_set__stop(&d->sampler);
	wait_for_programs();
	follow__read(d->follow);
	return err;
}

static void warn_late(const struct dumper *d)
{
	char when[32] = "before the signal";

	if (!ending__asked())
		snprintf(when, sizeof(when), "within %d s", DEADLINE_MS / 1000);
	if (d->unseen_cnt)
		log_warn("process %d (%s): %zu of its %zu threads were not seen at rest %s", d->pid,
			 d->p->comm, d->unseen_cnt, d->seen_cnt, when);
}

static int look_at_part(struct dumper *d)
{
	int open;

	for (int i = 0; i < QUICK_LOOKS; i++) {
		open = look(d);
		if (open <= 0)
			return open;
		if (is_late(d)) {
			d->unseen_cnt += (size_t)open;
			return 0;
		}
	}
	log_debug("%d threads are running, or ran while their stacks were read", open);
	return sample_the_rest(d);
}

/* ---- the result ------------------------------------------------------------------------------ */

static enum dumped_state state_of(const struct seen *s)
{
	return s->sampled && !s->now.exit_state ? DUMPED_RUNNING : waiter__state(&s->now);
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

	if (ARRAY_GROW(d->names, d->name_cap, d->name_cnt, MAX_THREADS))
		return;
	d->names[d->name_cnt].name = strdup(name);
	d->names[d->name_cnt].tid = tid;
	d->name_cnt += d->names[d->name_cnt].name != NULL;
}

static void read_names(struct dumper *d)
{
	uint64_t bias;
	const struct py_binary *bin = process_table__python(d->procs, d->p, &bias);

	if (bin)
		threadnames__read(process_table__readers(d->procs), bin, d->p->tgid, bias,
				  take_name, d);
}

/* As Python calls the thread, or else the kernel. */
static str_id name_of(const struct dumper *d, const struct thread_now *t)
{
	for (size_t i = 0; i < d->name_cnt; i++)
		if (d->names[i].tid == t->inner_tid)
			return profile__intern_z(d->profile, d->names[i].name);
	if (d->p->is_python && t->tid == d->p->tgid)
		return profile__intern_z(d->profile, MAIN_THREAD_NAME);
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
		.changing = !s->done && s->has_stack,
		.stack = add_stack(d, s),
	};
	if (t->state != DUMPED_RUNNING && s->now.flags & THREAD_REGS)
		t->syscall = s->now.syscall;
	t->waits_for = waiter__reason(&s->now, t);
	return t->stack == -ENOMEM ? -ENOMEM : 0;
}

static int add_process(struct dumper *d)
{
	const struct process *p = d->p;
	struct strbuf title = { 0 };
	bool has_title = called__title(process_table__readers(d->procs), d->pid, &title);
	const struct profile_proc proc = {
		.space = p->space,
		.tgid = p->tgid,
		.comm = profile__intern_z(d->profile, p->comm),
		.title = has_title ? profile__intern_z(d->profile, title.s) : 0,
		.exe = profile__intern_z(d->profile, p->exe),
		.container = profile__intern_z(d->profile, p->container),
		.python = profile__intern_z(d->profile, p->python),
		.native_only = p->native_only ? profile__intern_z(d->profile, p->native_only) : 0,
	};
	int err = profile__add_proc(d->profile, &proc);

	strbuf__free(&title);
	return err < 0 ? err : 0;
}

static void free_dumped(struct dumper *d)
{
	for (size_t i = 0; i < d->dumped_cnt; i++) {
		profile__free((struct profile *)d->dumped[i].p);
		free((struct dumped_thread *)d->dumped[i].threads);
	}
	d->dumped_cnt = 0;
}

/* What was kept, which goes. */
static int print(struct dumper *d)
{
	const struct dumped_process *all = d->dumped;
	bool color, many = is_many(d);
	int err;

	terminal__width(&color);
	if (d->o->json)
		err = many ? export_threads__json_all(stdout, all, d->dumped_cnt)
			   : export_threads__json(stdout, all);
	else
		err = many ? export_groups__text(stdout, all, d->dumped_cnt, color)
			   : export_threads__text(stdout, all, color);
	if (err)
		log_err("standard output: %s", strerror(-err));
	free_dumped(d);
	return err;
}

/* Adds the current process to the printed ones. Takes over `profile` and `threads`. */
static int keep(struct dumper *d, struct dumped_thread *threads, size_t thread_cnt)
{
	if (ARRAY_GROW(d->dumped, d->dumped_cap, d->dumped_cnt, MAX_THREADS))
		return log_no_memory();
	d->dumped[d->dumped_cnt++] = (struct dumped_process){
		.p = d->profile,
		.threads = threads,
		.thread_cnt = thread_cnt,
		.native = d->o->native,
		.all_cnt = d->seen_cnt,
		.is_continued = d->from > 0,
	};
	d->profile = NULL;
	return 0;
}

static int finish(struct dumper *d)
{
	const struct symbolize_opts so = { .lines = true };
	struct dumped_thread *threads = calloc(d->to - d->from + 1, sizeof(*threads));
	int err = threads ? add_process(d) : -ENOMEM;
	size_t cnt = 0;

	if (!d->from)
		read_names(d);
	sym_jit__begin(d->jit);
	for (size_t i = d->from; i < d->to && !err; i++)
		if (!d->seen[i].gone)
			err = fill_thread(d, &d->seen[i], &threads[cnt++]);
	if (err)
		log_err("names: %s", strerror(-err));
	else
		err = follow__names(d->follow, d->profile, &so);
	if (!err)
		err = keep(d, threads, cnt);
	if (err)
		free(threads);
	return err;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static int report_tasks(struct dumper *d)
{
	struct task_forest forest = { 0 };
	bool color;
	int err = add_process(d);

	if (err) {
		log_no_memory();
		return err;
	}
	terminal__width(&color);
	err = taskdump__read(d->procs, d->p, d->list, d->profile, &forest);
	if (err)
		goto out;
	err = d->o->json ? export_tasks__json(stdout, &forest)
			 : export_tasks__text(stdout, &forest, d->o->all, color);
	if (err)
		log_err("standard output: %s", strerror(-err));
out:
	task_forest__free(&forest);
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
		.processes = {
			.all = true,
			.pids = d->o->pids,
			.pid_cnt = d->o->pid_cnt,
			.children = d->o->children,
		},
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
	object__process_maps(d->object, &maps);
	follow__sink(d->follow, &sink);
	d->walker = hostwalk__new(d->procs, &maps, &sink);
	if (!d->walker)
		return log_no_memory();
	return follow__scan(d->follow);
}

/* Opens the parts for one process. */
static int open_process(struct dumper *d, pid_t pid)
{
	d->pid = pid;
	d->look = 0;
	d->list = threadlist__open((uint32_t)pid);
	d->profile = profile__new();
	d->samples = profile__new();
	if (!d->list)
		return -EIO;
	return d->profile && d->samples ? 0 : log_no_memory();
}

static void close_process(struct dumper *d)
{
	for (size_t i = 0; i < d->seen_cnt; i++)
		free(d->seen[i].frames);
	for (size_t i = 0; i < d->name_cnt; i++)
		free(d->names[i].name);
	d->seen_cnt = d->name_cnt = d->from = d->unseen_cnt = 0;
	source_set__close(&d->sampler);
	threadlist__close(d->list);
	d->list = NULL;
	profile__free(d->profile);
	profile__free(d->samples);
	d->profile = d->samples = NULL;
}

/* Says why there are no Python frames to dump. */
static void refuse(struct readers *rs, const struct process *p)
{
	char why[UNSUPPORTED_LEN];

	if (!p->native_only && unsupported__explain(rs, (pid_t)p->tgid, why))
		log_err("process %u is %s (--native dumps it anyway)", p->tgid, why);
	else if (!p->native_only && unsupported__unread(rs, (pid_t)p->tgid, why))
		log_err("process %u: %s (--native dumps it anyway)", p->tgid, why);
	else
		log_err("process %u (%s) %s%s (--native dumps it anyway)", p->tgid, p->comm,
			p->native_only ? "cannot be walked: " : "is not Python",
			p->native_only ? p->native_only : "");
}

/* What was read of it says little then: that no Python was found, for one. */
static bool did_not_answer(const struct dumper *d)
{
	struct reader_refused hung[READER_REFUSED_MAX];

	return readers__hung(process_table__readers(d->procs), false, hung);
}

static int no_look(struct dumper *d)
{
	if (did_not_answer(d))
		log_err("process %d (%s): what has to be read of it did not answer in time; try "
			"again",
			d->pid, d->p->comm);
	else
		log_err("process %d (%s): it cannot be read (CAP_SYS_PTRACE is needed)", d->pid,
			d->p->comm);
	return -EACCES;
}

static int choose_process(struct dumper *d)
{
	pid_t pid = d->pid;
	int err;

	d->p = process_table__find_tgid(d->procs, (uint32_t)pid);
	if (!d->p) {
		log_err("process %d: it has ended, or is not visible from this pid namespace", pid);
		return -ESRCH;
	}
	if (!d->p->analysed || (!d->p->is_python && !d->o->native && did_not_answer(d)))
		return no_look(d);
	if ((!d->p->is_python || d->p->native_only) && !d->o->native) {
		refuse(process_table__readers(d->procs), d->p);
		return -EINVAL;
	}
	err = hostwalk__begin(d->walker, d->p);
	if (err == -EPERM || err == -ENOSYS)
		log_err("process %d (%s): its memory cannot be read: %s (needs CAP_SYS_PTRACE, and "
			"kernel.yama.ptrace_scope below 3)",
			pid, d->p->comm, strerror(-err));
	else if (err == -ETIMEDOUT)
		return no_look(d);
	else if (err)
		log_err("process %d (%s): its mappings: %s", pid, d->p->comm, reader__why(err));
	return err;
}

static int check_result(const struct dumper *d)
{
	size_t ended = 0;

	for (size_t i = 0; i < d->to; i++)
		ended += d->seen[i].now.exit_state != 0;
	if (ended < d->to)
		return 0;
	log_err("process %d (%s): it has ended", d->pid, d->p->comm);
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
	free_dumped(d);
	free(d->dumped);
	free(d->seen);
	free(d->names);
	hostwalk__free(d->walker);
	follow__close(d->follow);
}

/* Where the part ends that begins at d->from. JSON, and several processes, are one part. */
static size_t part_end(const struct dumper *d)
{
	size_t part = d->from ? d->from : PART_FIRST;

	if (d->o->json || is_many(d) || is_late(d) || d->seen_cnt - d->from < 2 * part)
		return d->seen_cnt;
	return d->from + part;
}

/* Prepares for the next part, once one was printed. 0, or -ENOMEM after a message. */
static int renew(struct dumper *d)
{
	source_set__close(&d->sampler);
	profile__free(d->samples);
	d->samples = profile__new();
	d->profile = profile__new();
	return d->profile && d->samples ? 0 : log_no_memory();
}

/* All but the last part are printed here. */
static int dump_threads(struct dumper *d)
{
	int err;

	d->start_ms = d->progress_ms = now_ms();
	err = first_look(d);
	for (d->from = 0; !err; d->from = d->to) {
		d->to = part_end(d);
		err = look_at_part(d);
		if (!err && d->to == d->seen_cnt)
			log_looks(d);
		if (!err && !d->from)
			err = check_result(d);
		if (!err)
			err = finish(d);
		if (err || d->to == d->seen_cnt)
			break;
		err = print(d);
		if (!err)
			err = renew(d);
	}
	if (!err)
		warn_late(d);
	return err;
}

/* 0 or negative errno after a message. */
static int dump_process(struct dumper *d, pid_t pid)
{
	int err = open_process(d, pid);

	if (!err)
		err = choose_process(d);
	if (!err)
		err = d->o->tasks ? report_tasks(d) : dump_threads(d);
	close_process(d);
	return err;
}

/* Related processes that are not Python are not mentioned. */
static bool is_of_use(const struct dumper *d, const struct process *p)
{
	if (p->exited || (d->o->python_only && !d->o->native && !p->is_python))
		return false;
	return true;
}

static int cmp_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}

/* Dumps all known processes, by number. Reports one that ends meanwhile, or cannot be walked. */
static int dump_all(struct dumper *d)
{
	pid_t *pids = NULL;
	size_t cnt = 0, cap = 0, done = 0;
	const struct process *p;
	int err = 0;

	for (size_t at = 0; (p = process_table__next(d->procs, &at)) && !err;) {
		if (!is_of_use(d, p))
			continue;
		err = ARRAY_GROW(pids, cap, cnt, MAX_THREADS);
		if (!err)
			pids[cnt++] = (pid_t)p->tgid;
	}
	if (err)
		log_no_memory();
	if (cnt)
		qsort(pids, cnt, sizeof(*pids), cmp_pids);
	for (; done < cnt && err != -ENOMEM && !(done && ending__asked()); done++)
		err = dump_process(d, pids[done]);
	if (done < cnt && ending__asked())
		log_warn("%zu of %zu processes were not read before the signal", cnt - done, cnt);
	free(pids);
	if (!cnt)
		log_err("none of the processes is Python (--native dumps them anyway)");
	return d->dumped_cnt ? 0 : -ESRCH;
}

/* Do the requested processes exist? Of several, one is enough. */
static bool are_there(const struct threaddump_opts *o)
{
	size_t there = 0;

	for (size_t i = 0; i < o->pid_cnt; i++) {
		if (!kill(o->pids[i], 0) || errno != ESRCH)
			there++;
		else
			log_err("process %d: there is no such process", o->pids[i]);
	}
	return there > 0;
}

/* One who reads only the beginning of the output ends the program, without a word. */
static int open_signals(void)
{
	int fd = signals__open(NULL, false);

	signal(SIGPIPE, SIG_DFL);
	if (fd < 0)
		log_err("signals: %s", strerror(-fd));
	return fd;
}

int threaddump(const struct threaddump_opts *o)
{
	struct dumper d = { .o = o };
	int err, signal_fd;

	if (!are_there(o))
		return 1;
	resources__hurry(); /* the looks should be close to each other, on a busy machine as well */
	signal_fd = open_signals();
	err = signal_fd < 0 ? signal_fd : open_stages(&d);
	if (!err && !o->tasks)
		signals__hand_over(1); /* there is something to be shown from here on */
	if (!err)
		err = is_many(&d) ? dump_all(&d) : dump_process(&d, o->pids[0]);
	if (!err && !o->tasks) /* which print as they are read */
		err = print(&d);
	close_stages(&d);
	if (signal_fd >= 0)
		close(signal_fd);
	return err != 0;
}
