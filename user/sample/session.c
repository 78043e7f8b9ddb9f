/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/session_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/procfield.h"
#include "base/reader.h"
#include "base/resources.h"
#include "base/rights.h"
#include "follow/cpus.h"
#include "follow/follow.h"
#include "process/starved.h"
#include "sample/bills.h"
#include "sample/dump.h"
#include "sample/nmi_stacks.h"
#include "sample/loopbook.h"
#include "sample/rate.h"
#include "sample/overhead.h"
#include "sample/threadbook.h"
#include "sample/realtime.h"
#include "sample/source_set.h"

#define TICK_MS	       1000  /* CPUs, the cost of samples, exits without an event */
#define QUIET_TICK_MS  10000 /* ... with -p at a low rate, which costs little */
#define QUIET_HZ       1000
#define FIRST_TICK_MS  100 /* a rate that is too high is not kept for a second */
#define RETRY_MS       10  /* an interpreter that is still starting is asked again */
#define WINDOW_S       5   /* counts are read at least this often, when something waits for it */
#define QUIET_WINDOW_S 30  /* ... when nothing does */
#define RECALL_MAX_HZ  500 /* above it the cache lines of the last sample are still there */
#define MMAP_THRESHOLD (64 << 10)
#define TRIM_THRESHOLD (256 << 10)

static uint64_t tick_ms(const struct session *s)
{
	bool slow = s->frequency_hz && s->frequency_hz <= QUIET_HZ && s->rate.slowed <= 1;

	return s->pid_cnt && slow ? QUIET_TICK_MS : TICK_MS;
}

/* Before that the cost of samples is not known. */
static uint64_t first_tick_ms(const struct session *s)
{
	uint64_t ms = s->frequency_hz ? OVERHEAD_SAMPLES * 1000ULL / s->frequency_hz : 0;

	if (ms < FIRST_TICK_MS)
		return FIRST_TICK_MS;
	return ms < tick_ms(s) ? ms : tick_ms(s);
}

static uint64_t unix_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return timespec_ns(ts);
}

static uint64_t timeval_ns(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * NS_PER_S + (uint64_t)tv.tv_usec * 1000;
}

uint64_t session_self_cpu_ns(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return timeval_ns(ru.ru_utime) + timeval_ns(ru.ru_stime);
}

/* ---- what the kernel tells ------------------------------------------------------------------- */

static void on_stack(void *ctx, unsigned window, const struct ev_stack *ev, size_t size)
{
	struct session *s = ctx;
	int err = nmi_stacks__add(&s->nmi_stacks[window], ev, size);

	if (!err)
		return;
	s->late.lost++;
	log_debug("a stack from NMI context: %s", strerror(-err));
}

static bool is_nmi(const struct source *s)
{
	return s->nmi;
}

bool session_is_no_clock(const struct source *s)
{
	return !value_type__is_clock(&s->type);
}

/* Is one of the sources such? */
static bool has_source(const struct sample_spec *t, bool (*is)(const struct source *s))
{
	for (uint32_t i = 0; i < t->source_cnt; i++)
		if (is(t->sources[i].source))
			return true;
	return false;
}

/* The process table is about to do what takes long. */
static void on_long_work(void *ctx)
{
	struct session *s = ctx;

	realtime__end(&s->realtime);
}

/* ---- before sampling ------------------------------------------------------------------------- */

/* A process whose main thread has ended, but not its other threads, is not a zombie. */
static bool is_zombie(pid_t pid)
{
	char path[32], state[32], threads[16];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return !procfield__read(path, "State", state, sizeof(state)) && *state == 'Z' &&
	       !procfield__read(path, "Threads", threads, sizeof(threads)) && atoi(threads) <= 1;
}

int session__check(const struct sample_spec *t)
{
	for (size_t i = 0; i < t->pid_cnt; i++) {
		if (kill(t->pids[i], 0) && errno == ESRCH)
			log_err("process %d: there is no such process", t->pids[i]);
		else if (is_zombie(t->pids[i]))
			log_err("process %d has ended (its parent has not waited for it, "
				"so its number still exists)",
				t->pids[i]);
		else
			continue;
		return -ESRCH;
	}
	return 0;
}

static void set_up_process(struct session *s)
{
	/*
	 * Otherwise malloc() raises both limits up to 32 MiB when memory is freed, and then large
	 * arrays, such as those of a window, lie in the heap and stay there. Mapped arrays are
	 * given back, and grow in place.
	 */
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD);

	descriptors__allow(); /* one for each ELF file in use */
	resources__hurry();   /* a new process should be known before its next sample */
	if (s->o.realtime)
		realtime__init(&s->realtime);
}

/* The command's descendants count, with Python or without. */
static bool takes_all(const struct session_opts *o)
{
	return o->spec->all || o->command;
}

static uint32_t config_flags(const struct session_opts *o)
{
	uint32_t flags = 0;

	if (!takes_all(o))
		flags |= CFG_PYTHON_ONLY;
	if (o->spec->pid_cnt || o->command)
		flags |= CFG_TARGETS;
	if (o->spec->children || o->command)
		flags |= CFG_CHILDREN;
	if (o->threads)
		flags |= CFG_THREADS;
	if (o->spec->nmi || has_source(o->spec, is_nmi))
		flags |= CFG_NMI;
	if (o->timed)
		flags |= CFG_TIMED;
	if (!has_source(o->spec, session_is_no_clock) && o->spec->frequency_hz <= RECALL_MAX_HZ)
		flags |= CFG_RECALL;
	if (!o->no_native)
		flags |= CFG_NATIVE;
	if (!o->no_kernel)
		flags |= CFG_KERNEL;
	return flags;
}

/*
 * Weight of one sample in the current window. At the full rate of a clock each sample counts as
 * one, whatever the kernel says it is worth: the samples just before a change of the rate count as
 * one, too. In a window in which sampling was slowed down, or that of a user, the unit is the time
 * between two samples at full rate, as the kernel measures it.
 */
static uint64_t count_unit(const struct session *s, const struct source_spec *spec)
{
	const struct source *source = spec->source;

	if (spec->sum)
		return DUMP_EXACT;
	if (session_is_no_clock(source))
		return 1;
	return s->window_slowed > 1 || s->window_cut > 1 ? NS_PER_S / s->frequency_hz : 0;
}

/* The value types that are time of threads, if one of them sees the switches to their polls. */
static uint32_t loop_types(const struct session_opts *o)
{
	uint32_t types = 0;
	bool seen = false;

	for (uint32_t i = 0; o->loops && i < o->spec->source_cnt; i++) {
		uint32_t event = o->spec->sources[i].source->type.event;
		bool waits = event == EVENT_WALL || event == EVENT_OFF_CPU;

		if (waits || event == EVENT_CPU_CLOCK)
			types |= 1U << i;
		seen |= waits;
	}
	return seen ? types : 0;
}

/* Collects the pids of -p and of the command. */
static int collect_pids(struct session *s)
{
	const struct sample_spec *t = s->o.spec;

	s->pids = calloc(t->pid_cnt + 1, sizeof(*s->pids));
	if (!s->pids)
		return log_no_memory();
	for (size_t i = 0; i < t->pid_cnt; i++)
		s->pids[s->pid_cnt++] = t->pids[i];
	if (s->o.command)
		s->pids[s->pid_cnt++] = s->o.command;
	return 0;
}

/* The command has not begun: until its exec it is a copy of this program that waits. */
static void note_held(struct session *s)
{
	const struct process *proc;

	if (!s->o.command)
		return;
	proc = process_table__find_tgid(s->procs, (uint32_t)s->o.command);
	s->dump.held = proc ? proc->space : 0;
}

static int open_follow(struct session *s)
{
	const struct sample_spec *t = s->o.spec;
	const struct follow_opts opts = {
		.object = {
			.flags = config_flags(&s->o),
			.comm_glob = t->comm,
			.by_user = t->by_user,
			.uid = t->uid,
			.tids = t->tids,
			.tid_cnt = t->tid_cnt,
			.cgroup_path = t->cgroup,
			.sampler_cnt = t->source_cnt,
			.frequency_hz = t->frequency_hz,
			.max_frames = s->o.max_frames,
			.map_entries = t->map_entries,
			.bpf_stats = s->o.bpf_stats,
			.loop_types = loop_types(&s->o),
		},
		.processes = {
			.all = takes_all(&s->o),
			.pids = s->pids,
			.pid_cnt = s->pid_cnt,
			.children = t->children || s->o.command,
			.program = s->o.program,
			.table_budget = (uint64_t)s->o.table_mib << 20,
			.known = s->o.known,
			.known_ctx = s->o.known_ctx,
			.titles = s->o.titles,
			.before_long_work = on_long_work,
			.before_long_work_ctx = s,
		},
		.watch = FOLLOW_WATCH_HALF,
		.events = s->o.events,
		.prepare = true,
		.names = true,
		.stack = on_stack,
		.stack_ctx = s,
	};

	s->follow = follow__open(&opts);
	if (!s->follow)
		return -EIO;
	s->object = follow__object(s->follow);
	s->procs = follow__procs(s->follow);
	bills__init(&s->bills, s->object);
	s->realtime.readers = process_table__readers(s->procs);
	readers__shorten(s->realtime.readers, s->o.hang_shortened_ms);
	if (s->o.threads && !(s->names = threadbook__new(s->procs)))
		return log_no_memory();
	s->dump = (struct dump_opts){
		.python_only = !takes_all(&s->o),
		.names = s->names,
		.jit = symbolizer__jit(follow__symbolizer(s->follow)),
	};
	if (loop_types(&s->o) && !(s->loops = s->dump.loops = loopbook__new(s->object)))
		return log_no_memory();
	return follow__scan(s->follow);
}

/* The CPUs of --cpu. Refuses a list that names no CPU of this machine. */
static int collect_cpus(struct session *s, int cap)
{
	const char *list = s->o.spec->cpus;

	if (!list)
		return 0;
	s->cpus = calloc((size_t)cap, sizeof(*s->cpus));
	if (!s->cpus)
		return log_no_memory();
	cpus__parse(list, s->cpus, cap);
	if (memchr(s->cpus, true, (size_t)cap))
		return 0;
	log_err("--cpu %s: this machine has the CPUs 0 to %d", list, cap - 1);
	return -EINVAL;
}

static int open_sources(struct session *s)
{
	struct world world;

	follow__world(s->follow, &world);
	world.pids = s->pids;
	world.pid_cnt = s->pid_cnt;
	world.children = s->o.spec->children || s->o.command;
	world.probes = &s->sources.probes;
	world.tracepoints = &s->sources.tracepoints;
	if (collect_cpus(s, world.cpu_cap))
		return -EINVAL;
	world.cpus = s->cpus;
	world.curves = s->o.curves;
	if (overhead__init(&s->overhead, s->object))
		return log_no_memory();
	return source_set__open(&s->sources, s->o.spec, &world);
}

int session__check_python(const struct session *s, const char *command)
{
	return awaited__end(&s->awaited, command);
}

int session__watch(struct session *s, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (!epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		return 0;
	log_err("epoll: %s", strerror(errno));
	return -errno;
}

void session__due(struct session *s, uint64_t at_ns)
{
	readers__due(s->realtime.readers, at_ns);
}

static int prepare(struct session *s)
{
	int err = 0;

	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0) {
		err = -errno;
		log_err("epoll: %s", strerror(errno));
	}
	set_up_process(s);
	if (!err)
		err = collect_pids(s);
	if (!err)
		err = open_follow(s);
	if (!err)
		err = awaited__begin(&s->awaited, s->o.spec, s->procs, s->o.command);
	if (!err)
		note_held(s);
	if (!err)
		err = open_sources(s);
	if (!err)
		err = session__watch(s, follow__fd(s->follow));
	/*
	 * With -p nearly all records are about other processes. If there were too many, read our
	 * processes again.
	 */
	if (!err && !s->pid_cnt)
		err = session__watch(s, follow__watch_fd(s->follow));
	return err;
}

struct session *session__open(const struct session_opts *o)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s) {
		log_no_memory();
		return NULL;
	}
	s->o = *o;
	s->frequency_hz = o->spec->frequency_hz;
	s->epoll_fd = -1;
	s->tick_ns = UINT64_MAX; /* until sampling begins */
	rate__init(&s->rate);
	s->window_slowed = s->slowest = s->rate.slowed;
	s->window_cut = 1;
	if (!prepare(s))
		return s;
	session__close(s);
	return NULL;
}

struct readers *session__take_readers(struct session *s)
{
	return s->follow ? follow__take_readers(s->follow) : NULL;
}

void session__close(struct session *s)
{
	if (!s)
		return;
	threadbook__free(s->names);
	loopbook__free(s->loops);
	source_set__close(&s->sources);
	overhead__free(&s->overhead);
	follow__close(s->follow);
	nmi_stacks__clear(&s->nmi_stacks[0]);
	nmi_stacks__clear(&s->nmi_stacks[1]);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s->pids);
	free(s->cpus);
	free(s);
}

/* They count, and name code objects in rings of their own. */
static int start_sources(struct session *s)
{
	int fds[SAMPLED_MAX], err = source_set__start(&s->sources);
	uint32_t cnt = err ? 0 : source_set__blobs(&s->sources, fds);

	for (uint32_t i = 0; i < cnt && !err; i++)
		err = follow__add_blobs(s->follow, fds[i]);
	return err;
}

/* Its time without a CPU says how much of a profile of one process is waiting. 0: several. */
static pid_t starving_pid(const struct session *s)
{
	const struct sample_spec *t = s->o.spec;

	if (s->o.command)
		return s->o.command;
	return t->pid_cnt == 1 ? t->pids[0] : 0;
}

/* The last reading of one that ended counts: of a command, that after its end. */
static void look_for_starving(struct session *s)
{
	pid_t pid = starving_pid(s);
	struct starved now;

	if (pid && starved__read(pid, &now) && now.ready_ns >= s->starved_now.ready_ns)
		s->starved_now = now;
}

void session__before_reap(struct session *s)
{
	look_for_starving(s);
}

int session__start(struct session *s)
{
	pid_t pid = starving_pid(s);
	int err;

	s->cpu_start_ns = session_self_cpu_ns();
	s->start_unix_ns = unix_ns();
	/* As the events find it. */
	s->kernel_rate = rights__sysctl("kernel/perf_event_max_sample_rate");
	err = object__wait_loaded(s->object);
	overhead__restart(&s->overhead);
	if (!err)
		err = start_sources(s);
	s->start_ns = s->drained_ns = s->due_ns = now_ns();
	if (pid && starved__read(pid, &s->starved_then))
		s->starved_now = s->starved_then;
	follow__stir(s->follow);
	s->tick_ns = s->start_ns + first_tick_ms(s) * NS_PER_MS;
	s->look_for_exits = true; /* no event reports a process that ended during the look */
	if (!err)
		log_debug("the profile begins");
	return err;
}

uint32_t session__slowed(const struct session *s)
{
	return s->rate.slowed;
}

/* Before each change of the rate, and so often that a CPU counts while it is there. */
static void count_due(struct session *s)
{
	uint64_t now = now_ns();

	s->due += session_due(s, now);
	s->due_ns = now;
}

int session__set_frequency(struct session *s, uint32_t frequency_hz)
{
	int err = source_set__set_rate(&s->sources, frequency_hz, s->rate.slowed);

	if (err)
		return err;
	count_due(s);
	s->rate_cnt++;
	overhead__restart(&s->overhead);
	s->frequency_hz = frequency_hz;
	return 0;
}

void session__stop(struct session *s)
{
	look_for_starving(s);
	realtime__end(&s->realtime);
	source_set__stop(&s->sources);
	wait_for_programs();
	s->end_ns = now_ns();
	s->cpu_end_ns = session_self_cpu_ns();
}

/* ---- while sampling -------------------------------------------------------------------------- */

/* Twice as many samples as now are no more than the kernel lets each CPU have. */
static bool may_double(const struct session *s)
{
	return s->kernel_rate <= 0 || s->rate.slowed < 2 ||
	       s->frequency_hz / (s->rate.slowed / 2) <= (unsigned long)s->kernel_rate;
}

static void say_rate(const struct session *s, const struct rate_look *look, uint64_t throttled,
		     uint32_t slowed)
{
	if (slowed == 1)
		log_info("sampling continues at its full rate");
	else if (slowed < s->rate.slowed)
		log_info("sampling speeds up again, to 1/%" PRIu32 " of its rate", slowed);
	else if (look->share > look->budget)
		log_warn("samples took %.0f%% of a CPU, more than %.0f%% (%.0f%% of "
			 "kernel.perf_cpu_time_max_percent): sampling continues at 1/%" PRIu32
			 " of its rate",
			 100 * look->share, 100 * look->budget, 100 * RATE_SHARE, slowed);
	else
		log_warn("the kernel stopped sampling %" PRIu64
			 " times (kernel.perf_event_max_sample_rate is %ld): sampling continues at "
			 "1/%" PRIu32 " of its rate",
			 throttled, s->kernel_rate, slowed);
}

/*
 * More than our share of a CPU goes into samples: fewer of them; or more again. A stack adds up
 * what its samples are worth, so the profile is right all the same.
 */
static void limit_rate(struct session *s)
{
	uint64_t throttled = follow__throttled(s->follow) - s->throttled_seen;
	const struct rate_look look = {
		.now_ns = now_ns(),
		.budget = rate__budget(rights__sysctl("kernel/perf_cpu_time_max_percent")),
		.share = overhead__busiest(&s->overhead),
		.throttled = throttled > 2 * follow__cpu_cnt(s->follow),
		.may_double = may_double(s),
	};
	uint32_t was = s->rate.slowed, slowed = rate__look(&s->rate, &look);

	s->throttled_seen = follow__throttled(s->follow);
	if (s->rate.over && slowed == was)
		s->tick_ns = look.now_ns + FIRST_TICK_MS * NS_PER_MS; /* is it so? */
	if (slowed == was || source_set__set_rate(&s->sources, s->frequency_hz, slowed))
		return; /* keep the old rate, and try again */
	overhead__restart(&s->overhead);
	say_rate(s, &look, throttled, slowed);
	count_due(s);
	s->rate_cnt++;
	rate__set(&s->rate, slowed);
	s->rate_lowered += slowed > was;
	s->window_slowed = slowed > s->window_slowed ? slowed : s->window_slowed;
	s->slowest = slowed > s->slowest ? slowed : s->slowest;
}

/*
 * The kernel lowers the rate for all when handlers take too long, including those of other
 * programs.
 */
static void watch_kernel_rate(struct session *s)
{
	long rate = rights__sysctl("kernel/perf_event_max_sample_rate");

	if (rate > 0 && s->kernel_rate > 0 && rate < s->kernel_rate) {
		s->kernel_rate_lowered++;
		log_warn("kernel.perf_event_max_sample_rate went from %ld to %ld: somebody changed "
			 "it, or the kernel found that samples take too long",
			 s->kernel_rate, rate);
	}
	s->kernel_rate = rate;
}

/* A CPU that could not be sampled is tried again. */
static void follow_cpus(struct session *s)
{
	const bool *online = follow__cpus(s->follow);

	if (online && source_set__cpus(&s->sources, online))
		follow__cpus_again(s->follow);
}

static void on_tick(struct session *s)
{
	look_for_starving(s);
	s->look_for_exits = true;
	count_due(s);
	follow_cpus(s);
	watch_kernel_rate(s);
	limit_rate(s);
}

/*
 * Reading a window lets the session forget processes that ended, free mappings that are in no
 * image, and bring back evicted tables. A late reading may miss threads that have ended and
 * generated code that was replaced.
 */
static bool window_is_waited_for(const struct session *s)
{
	return follow__changed(s->follow) || s->o.threads || process_table__waits(s->procs) ||
	       sym_jit__has_procs(s->dump.jit);
}

/* Not of a whole machine, where processes that have ended would be kept all the time. */
static bool window_is_long(const struct session *s)
{
	if (!s->o.spec->pid_cnt && !s->o.command)
		return false;
	for (uint32_t i = 0; i < s->sources.cnt; i++)
		if (s->sources.by[i].spec.source->to_end)
			return true;
	return false;
}

static uint64_t drain_due_ns(const struct session *s)
{
	unsigned after_s = window_is_waited_for(s) ? WINDOW_S : QUIET_WINDOW_S;

	return window_is_long(s) ? UINT64_MAX : s->drained_ns + after_s * NS_PER_S;
}

static int wait_ms(const struct session *s, uint64_t until_ns)
{
	uint64_t now = now_ns(), until = s->tick_ns < until_ns ? s->tick_ns : until_ns;
	uint64_t drain = drain_due_ns(s), look = follow__due_ns(s->follow);

	if (drain > now && drain < until)
		until = drain;
	if (look < until)
		until = look;
	if (s->names && s->start_ns && threadbook__due_ns(s->names) < until)
		until = threadbook__due_ns(s->names);
	return until <= now ? 0 : (int)((until - now + NS_PER_MS - 1) / NS_PER_MS);
}

/*
 * Also for a mapping that BPF told of, some microseconds before the kernel's record of it, which
 * wakes nobody.
 */
static int wait_for_events(const struct session *s, uint64_t await_ns, uint64_t until_ns)
{
	struct pollfd fd = { .fd = s->epoll_fd, .events = POLLIN };
	struct epoll_event ev[8];
	int ms = wait_ms(s, until_ns);

	if (await_ns && await_ns < (uint64_t)ms * NS_PER_MS)
		return ppoll(&fd, 1, &(struct timespec){ .tv_nsec = (long)await_ns }, NULL);
	return epoll_wait(s->epoll_fd, ev, 8, ms);
}

static void look_at_threads(struct session *s)
{
	if (!s->names || !s->start_ns || now_ns() < threadbook__due_ns(s->names))
		return;
	realtime__end(&s->realtime);
	threadbook__look(s->names);
}

int session__wait(struct session *s, uint64_t until_ns)
{
	int err, n;

	realtime__begin(&s->realtime);
	n = wait_for_events(s, follow__await_ns(s->follow), until_ns);
	if (n < 0 && errno != EINTR) {
		err = -errno;
		realtime__end(&s->realtime);
		log_err("epoll: %s", strerror(-err));
		return err;
	}
	follow__gather(s->follow, s->frequency_hz);
	realtime__woken(&s->realtime);
	follow__look(s->follow);
	follow__make_good(s->follow);
	awaited__look(&s->awaited);
	process_table__read_titles(s->procs);
	look_at_threads(s);
	if (now_ns() >= s->tick_ns) {
		realtime__end(&s->realtime);
		s->tick_ns = now_ns() + tick_ms(s) * NS_PER_MS;
		on_tick(s);
	}
	return 0;
}

bool session__wants_drain(const struct session *s)
{
	return object__wants_flip(s->object) || now_ns() >= drain_due_ns(s);
}

/* Windows of sources that have tables of their own. 0 or the first error. */
static int end_windows(struct session *s, struct dump_tables *tables, uint32_t *cnt)
{
	int first = 0;

	for (uint32_t i = 0; i < s->sources.cnt; i++) {
		struct source_use *u = &s->sources.by[i];
		struct source_tables t;
		int err;

		if (!u->spec.source->window)
			continue;
		err = u->spec.source->window(u, &t);
		if (!err && t.counts_fd >= 0)
			tables[(*cnt)++] = (struct dump_tables){ t.counts_fd, t.chunks_fd };
		first = first ? first : err;
	}
	return first;
}

/* 0 or the first error. */
static int read_windows(struct session *s, const struct dump_tables *tables, uint32_t cnt,
			struct profile *p)
{
	int first = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		int err = dump__window(&tables[i], s->procs, &s->dump, p, &s->late);

		s->dump.nmi_stacks = NULL;
		first = first ? first : err;
	}
	return first;
}

/* Samples of the window that ends stand for several. */
static void note_slowed(struct session *s, struct profile *p)
{
	uint32_t slowed = s->window_slowed > s->window_cut ? s->window_slowed : s->window_cut;

	if (slowed > 1 && slowed > p->stats.slowed)
		p->stats.slowed = slowed;
	s->window_slowed = s->rate.slowed;
	s->window_cut = bills__most_cut(&s->bills);
}

/* A failure costs the iterations of some threads, and is printed. */
static void drain_loops(struct session *s, struct profile *p)
{
	if (s->loops && s->o.loops == SESSION_LOOPS_EACH)
		loopbook__take(s->loops, s->procs, p);
	else if (s->loops)
		loopbook__collect(s->loops);
}

/*
 * The events are read between the flip and the counts: whoever is in the old window was announced
 * before it was sampled, so it is known by name, and mostly whether it has Python.
 */
int session__drain(struct session *s, struct profile *p)
{
	struct dump_tables tables[1 + SAMPLED_MAX];
	uint64_t begin_ns = now_ns();
	uint32_t cnt = 1;
	unsigned old;
	int err, read_err;

	realtime__end(&s->realtime);
	/*
	 * Stacks handed over up to now belong to this window, those that come while it is flipped
	 * to the next one, which names them early enough: files and processes are kept for one
	 * more.
	 */
	follow__read(s->follow);
	old = object__flip(s->object);
	tables[0] = (struct dump_tables){ object__counts_fd(s->object, old),
					  object__chunks_fd(s->object, old) };
	err = end_windows(s, tables, &cnt);
	process_table__reclaim(s->procs);
	follow__look(s->follow);
	awaited__look(&s->awaited);
	s->dump.nmi_stacks = &s->nmi_stacks[old];
	for (uint32_t i = 0; i < s->sources.cnt; i++)
		s->dump.units[i] = count_unit(s, &s->sources.by[i].spec);
	note_slowed(s, p);
	read_err = read_windows(s, tables, cnt, p);
	if (s->names)
		threadbook__end_window(s->names);
	drain_loops(s, p);
	process_table__tick(s->procs);
	process_table__forget_exited(s->procs);
	s->drained = true;
	follow__take_changes(s->follow);
	s->drained_ns = now_ns();
	if (s->drained_ns - begin_ns > s->drain_ns)
		s->drain_ns = s->drained_ns - begin_ns;
	return err ? err : read_err;
}

struct bills *session__bills(struct session *s)
{
	return &s->bills;
}

int session__cut_user(struct session *s, uint32_t uid, uint32_t one_of)
{
	if (one_of > s->window_cut)
		s->window_cut = one_of; /* before the first sample that stands for several */
	return bills__cut(&s->bills, uid, one_of);
}

bool session__asleep(const struct session *s, struct source_asleep *out)
{
	for (uint32_t i = 0; i < s->sources.cnt; i++) {
		const struct source *source = s->sources.by[i].spec.source;

		if (source->asleep && !source->asleep(&s->sources.by[i], out))
			return true;
	}
	return false;
}

int session__tell(struct session *s, uint64_t until_ns)
{
	int err = 0;

	for (uint32_t i = 0; i < s->sources.cnt && !err; i++)
		if (s->sources.by[i].spec.source->tell)
			err = s->sources.by[i].spec.source->tell(&s->sources.by[i], until_ns);
	return err;
}

int session__add(struct session *s, struct profile *p, const struct dump_stack *stacks, size_t cnt)
{
	return dump__add(stacks, cnt, s->procs, &s->dump, p, &s->late);
}

int session__curves(struct session *s, struct profile *p)
{
	for (uint32_t i = 0; i < s->sources.cnt; i++) {
		const struct source *source = s->sources.by[i].spec.source;
		const struct curves *c = source->curves ? source->curves(&s->sources.by[i]) : NULL;
		int err;

		if (!c)
			continue;
		s->has_peak = true;
		err = dump__add_curves(c, i, s->sources.cnt, s->procs, &s->dump, p, &s->late);
		if (p->curves)
			p->curves->event = source->type.event;
		return err;
	}
	return 0;
}

int session__loops(struct session *s, struct profile *p)
{
	return s->loops && s->o.loops == SESSION_LOOPS_WHOLE
		       ? loopbook__fill(s->loops, s->start_ns, s->end_ns, p)
		       : 0;
}

bool session__targets_ended(struct session *s)
{
	struct process_stats st;

	if (!s->o.spec->pid_cnt || !(follow__take_exits(s->follow) | s->look_for_exits))
		return false;
	s->look_for_exits = false;
	process_table__stats(s->procs, &st);
	return !st.live;
}
