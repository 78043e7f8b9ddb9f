/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/session.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rights.h"
#include "follow/follow.h"
#include "process/unsupported.h"
#include "sample/dump.h"
#include "sample/handed.h"
#include "sample/rate.h"
#include "sample/share.h"
#include "sample/urgent.h"
#include "sample/uses.h"

#define TICK_MS	       1000  /* CPUs, the cost of samples, exits that were not told */
#define QUIET_TICK_MS  10000 /* ... with -p at a low rate, which costs little */
#define QUIET_HZ       1000
#define FIRST_TICK_MS  100 /* a rate that is too high is not kept for a second */
#define RETRY_MS       10  /* an interpreter that is still starting is asked again */
#define WINDOW_S       5   /* counts are read at least this often, when something waits for it */
#define QUIET_WINDOW_S 30  /* ... when nothing does */
#define RECALL_MAX_HZ  500 /* above it the cache lines of the last sample are still there */
#define MMAP_THRESHOLD (64 << 10)
#define TRIM_THRESHOLD (256 << 10)
#define NICE_PRIORITY  (-10) /* a new process should be known before its next sample */

struct session {
	struct session_opts o;
	struct follow *follow;
	struct object *object; /* of `follow`, as the next one */
	struct process_table *procs;
	struct uses uses;
	struct share share;
	pid_t *pids; /* sampled; none: all */
	size_t pid_cnt;
	struct dump_opts dump;
	struct dump_late late;
	struct handed handed[2]; /* of each window */
	int epoll_fd;
	uint64_t start_ns, start_unix_ns, cpu_start_ns; /* start_ns 0: not started */
	uint64_t end_ns, cpu_end_ns;			/* end_ns 0: not stopped */
	uint32_t frequency_hz;
	uint64_t drained_ns, tick_ns;
	uint64_t drain_ns; /* the longest that reading a window took */
	struct rate rate;
	uint32_t window_slowed; /* the slowest that it was in the window at hand */
	uint32_t slowest;	/* ... since the start */
	long kernel_rate;	/* kernel.perf_event_max_sample_rate at the last look */
	uint64_t rate_lowered, kernel_rate_lowered; /* how often */
	uint64_t throttled_seen;		    /* up to the last tick */
	bool look_for_exits;			    /* one that was not told may be found */
	bool drained;				    /* since session__forget() */
	struct urgent urgent;
};

static uint64_t tick_ms(const struct session *s)
{
	bool slow = s->frequency_hz && s->frequency_hz <= QUIET_HZ && s->rate.slowed <= 1;

	return s->pid_cnt && slow ? QUIET_TICK_MS : TICK_MS;
}

/* Before, nothing can be said of what samples take. */
static uint64_t first_tick_ms(const struct session *s)
{
	uint64_t ms = s->frequency_hz ? SHARE_SAMPLES * 1000ULL / s->frequency_hz : 0;

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

static uint64_t self_cpu_ns(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return timeval_ns(ru.ru_utime) + timeval_ns(ru.ru_stime);
}

/* ---- what the kernel tells ------------------------------------------------------------------- */

static void on_stack(void *ctx, unsigned window, const struct ev_stack *ev, size_t size)
{
	struct session *s = ctx;
	int err = handed__add(&s->handed[window], ev, size);

	if (!err)
		return;
	s->late.lost++;
	log_debug("a stack from NMI context: %s", strerror(-err));
}

static bool is_nmi(const struct source *s)
{
	return s->nmi;
}

static bool is_no_clock(const struct source *s)
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
static void on_lengthy(void *ctx)
{
	struct session *s = ctx;

	urgent__end(&s->urgent);
}

/* ---- before sampling ------------------------------------------------------------------------- */

int session__check(const struct sample_spec *t)
{
	for (size_t i = 0; i < t->pid_cnt; i++) {
		if (!kill(t->pids[i], 0) || errno != ESRCH)
			continue;
		log_err("process %d: there is no such process", t->pids[i]);
		return -ESRCH;
	}
	return 0;
}

static void set_up_process(struct session *s)
{
	struct rlimit files;

	/*
	 * Both would grow up to 32 MiB with what is freed; then large arrays, such as those of a
	 * window, lie in the heap and stay there. Mapped, they are given back, and grow in place.
	 */
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD);

	if (!getrlimit(RLIMIT_NOFILE, &files)) { /* one descriptor per ELF file in use */
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (setpriority(PRIO_PROCESS, 0, NICE_PRIORITY))
		log_debug("priority: %s", strerror(errno));
	if (s->o.urgent)
		urgent__init(&s->urgent);
}

/* What a command starts counts, Python or not. */
static bool takes_all(const struct session_opts *o)
{
	return o->targets->all || o->command;
}

static uint32_t config_flags(const struct session_opts *o)
{
	uint32_t flags = 0;

	if (!takes_all(o))
		flags |= CFG_PYTHON_ONLY;
	if (o->targets->pid_cnt || o->command)
		flags |= CFG_TARGETS;
	if (o->targets->children || o->command)
		flags |= CFG_CHILDREN;
	if (o->threads)
		flags |= CFG_THREADS;
	if (o->targets->nmi || has_source(o->targets, is_nmi))
		flags |= CFG_NMI;
	if (o->timed)
		flags |= CFG_TIMED;
	if (!has_source(o->targets, is_no_clock) && o->targets->frequency_hz <= RECALL_MAX_HZ)
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
 * one, too. In a window in which sampling was slowed down, the unit is the time between two samples
 * at full rate, as the kernel measures it.
 */
static uint64_t count_unit(const struct session *s, const struct source *source)
{
	if (is_no_clock(source))
		return 1;
	return s->window_slowed > 1 ? NS_PER_S / s->frequency_hz : 0;
}

/* Collects the pids of -p and of the command. */
static int collect_pids(struct session *s)
{
	const struct sample_spec *t = s->o.targets;

	s->pids = calloc(t->pid_cnt + 1, sizeof(*s->pids));
	if (!s->pids)
		return log_no_memory();
	for (size_t i = 0; i < t->pid_cnt; i++)
		s->pids[s->pid_cnt++] = t->pids[i];
	if (s->o.command)
		s->pids[s->pid_cnt++] = s->o.command;
	return 0;
}

static int open_follow(struct session *s)
{
	const struct sample_spec *t = s->o.targets;
	const struct follow_opts opts = {
		.object = {
			.flags = config_flags(&s->o),
			.comm_glob = t->comm,
			.cgroup_path = t->cgroup,
			.sampler_cnt = t->source_cnt,
			.frequency_hz = t->frequency_hz,
			.max_frames = s->o.max_frames,
			.map_entries = t->map_entries,
			.bpf_stats = s->o.bpf_stats,
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
			.lengthy = on_lengthy,
			.lengthy_ctx = s,
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
	s->dump = (struct dump_opts){
		.python_only = !takes_all(&s->o),
		.threads = s->o.threads,
		.jit = symbolizer__jit(follow__symbolizer(s->follow)),
	};
	return follow__scan(s->follow);
}

static int open_sources(struct session *s)
{
	struct world world;

	follow__world(s->follow, &world);
	world.pids = s->pids;
	world.pid_cnt = s->pid_cnt;
	world.children = s->o.targets->children || s->o.command;
	world.probes = &s->uses.probes;
	if (share__init(&s->share, s->object))
		return log_no_memory();
	return uses__open(&s->uses, s->o.targets, &world);
}

/* A process that was asked for by number and has no Python is an error, unless -a. */
static int check_targets(const struct session *s)
{
	const struct sample_spec *t = s->o.targets;
	char why[UNSUPPORTED_LEN];

	for (size_t i = 0; i < t->pid_cnt && !t->all; i++) {
		const struct process *p = process_table__find_tgid(s->procs, (uint32_t)t->pids[i]);

		if (p && (p->is_python || p->native_only || !p->analysed))
			continue;
		if (p && unsupported__explain(t->pids[i], why))
			log_err("process %d is %s (-a profiles it all the same)", t->pids[i], why);
		else
			log_err("process %d (%s) is not Python (-a profiles it all the same)",
				t->pids[i], p ? p->comm : "?");
		return -EINVAL;
	}
	return 0;
}

int session__watch(struct session *s, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (!epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		return 0;
	log_err("epoll: %s", strerror(errno));
	return -errno;
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
		err = check_targets(s);
	if (!err)
		err = open_sources(s);
	if (!err)
		err = session__watch(s, follow__fd(s->follow));
	/*
	 * With -p nearly all records are of others. If there were too many, our processes are
	 * looked at.
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
	s->frequency_hz = o->targets->frequency_hz;
	s->epoll_fd = -1;
	rate__init(&s->rate);
	s->window_slowed = s->slowest = s->rate.slowed;
	if (!prepare(s))
		return s;
	session__close(s);
	return NULL;
}

void session__close(struct session *s)
{
	if (!s)
		return;
	uses__close(&s->uses);
	share__free(&s->share);
	follow__close(s->follow);
	handed__clear(&s->handed[0]);
	handed__clear(&s->handed[1]);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s->pids);
	free(s);
}

/* They count, and name code objects in rings of their own. */
static int start_sources(struct session *s)
{
	int fds[SAMPLED_MAX], err = uses__start(&s->uses);
	uint32_t cnt = err ? 0 : uses__blobs(&s->uses, fds);

	for (uint32_t i = 0; i < cnt && !err; i++)
		err = follow__add_blobs(s->follow, fds[i]);
	return err;
}

int session__start(struct session *s)
{
	int err;

	s->cpu_start_ns = self_cpu_ns();
	s->start_unix_ns = unix_ns();
	/* As the events find it. */
	s->kernel_rate = rights__sysctl("kernel/perf_event_max_sample_rate");
	err = object__wait_loaded(s->object);
	share__restart(&s->share);
	if (!err)
		err = start_sources(s);
	s->start_ns = s->drained_ns = now_ns();
	follow__stir(s->follow);
	s->tick_ns = s->start_ns + first_tick_ms(s) * NS_PER_MS;
	s->look_for_exits = true; /* one that ended while it was looked at was not told */
	return err;
}

uint32_t session__slowed(const struct session *s)
{
	return s->rate.slowed;
}

int session__set_frequency(struct session *s, uint32_t frequency_hz)
{
	int err = uses__set_rate(&s->uses, frequency_hz, s->rate.slowed);

	if (err)
		return err;
	share__restart(&s->share);
	s->frequency_hz = frequency_hz;
	return 0;
}

void session__stop(struct session *s)
{
	urgent__end(&s->urgent);
	uses__stop(&s->uses);
	wait_for_programs();
	s->end_ns = now_ns();
	s->cpu_end_ns = self_cpu_ns();
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
		.share = share__busiest(&s->share),
		.throttled = throttled > 2 * follow__cpu_cnt(s->follow),
		.may_double = may_double(s),
	};
	uint32_t was = s->rate.slowed, slowed = rate__look(&s->rate, &look);

	s->throttled_seen = follow__throttled(s->follow);
	if (s->rate.over && slowed == was)
		s->tick_ns = look.now_ns + FIRST_TICK_MS * NS_PER_MS; /* is it so? */
	if (slowed == was || uses__set_rate(&s->uses, s->frequency_hz, slowed))
		return; /* it goes on as it did, and is tried again */
	share__restart(&s->share);
	say_rate(s, &look, throttled, slowed);
	rate__set(&s->rate, slowed);
	s->rate_lowered += slowed > was;
	s->window_slowed = slowed > s->window_slowed ? slowed : s->window_slowed;
	s->slowest = slowed > s->slowest ? slowed : s->slowest;
}

/* The kernel lowers it for all when handlers take too long, those of other programs among them. */
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

	if (online && uses__cpus(&s->uses, online))
		follow__cpus_again(s->follow);
}

static void on_tick(struct session *s)
{
	s->look_for_exits = true;
	follow_cpus(s);
	watch_kernel_rate(s);
	limit_rate(s);
}

/*
 * Processes that ended are forgotten, mappings that are in no image are free again, and tables that
 * gave way come back when a window was read. Threads may be gone, and generated code replaced, when
 * they are looked at too late.
 */
static bool window_is_waited_for(const struct session *s)
{
	return follow__changed(s->follow) || s->o.threads || process_table__waits(s->procs) ||
	       sym_jit__has_procs(s->dump.jit);
}

static uint64_t drain_due_ns(const struct session *s)
{
	unsigned after_s = window_is_waited_for(s) ? WINDOW_S : QUIET_WINDOW_S;

	return s->drained_ns + after_s * NS_PER_S;
}

static int wait_ms(const struct session *s, uint64_t until_ns)
{
	uint64_t now = now_ns(), until = s->tick_ns < until_ns ? s->tick_ns : until_ns;
	uint64_t drain = drain_due_ns(s), look = follow__due_ns(s->follow);

	if (drain > now && drain < until)
		until = drain;
	if (look < until)
		until = look;
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

int session__wait(struct session *s, uint64_t until_ns)
{
	int err, n;

	urgent__begin(&s->urgent);
	n = wait_for_events(s, follow__await_ns(s->follow), until_ns);
	if (n < 0 && errno != EINTR) {
		err = -errno;
		urgent__end(&s->urgent);
		log_err("epoll: %s", strerror(-err));
		return err;
	}
	follow__gather(s->follow, s->frequency_hz);
	urgent__woken(&s->urgent);
	follow__look(s->follow);
	follow__make_good(s->follow);
	if (now_ns() >= s->tick_ns) {
		urgent__end(&s->urgent);
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

	for (uint32_t i = 0; i < s->uses.cnt; i++) {
		struct source_use *u = &s->uses.by[i];
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

		s->dump.handed = NULL;
		first = first ? first : err;
	}
	return first;
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

	urgent__end(&s->urgent);
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
	s->dump.handed = &s->handed[old];
	for (uint32_t i = 0; i < s->uses.cnt; i++)
		s->dump.units[i] = count_unit(s, s->uses.by[i].spec.source);
	if (s->window_slowed > 1 && s->window_slowed > p->stats.slowed)
		p->stats.slowed = s->window_slowed;
	s->window_slowed = s->rate.slowed;
	read_err = read_windows(s, tables, cnt, p);
	process_table__tick(s->procs);
	process_table__forget_exited(s->procs);
	s->drained = true;
	follow__take_changes(s->follow);
	s->drained_ns = now_ns();
	if (s->drained_ns - begin_ns > s->drain_ns)
		s->drain_ns = s->drained_ns - begin_ns;
	return err ? err : read_err;
}

bool session__targets_ended(struct session *s)
{
	struct process_stats st;

	if (!s->o.targets->pid_cnt || !(follow__take_exits(s->follow) | s->look_for_exits))
		return false;
	s->look_for_exits = false;
	process_table__stats(s->procs, &st);
	return !st.live;
}

/* ---- results --------------------------------------------------------------------------------- */

void session__end(struct session *s)
{
	follow__end(s->follow);
}

int session__name(struct session *s, struct profile *p, const struct symbolize_opts *so)
{
	return follow__names(s->follow, p, so);
}

void session__forget(struct session *s)
{
	if (!s->drained)
		return;
	s->drained = false;
	follow__forget_names(s->follow, s->o.names_budget);
}

bool session__worn(const struct session *s)
{
	return follow__worn(s->follow);
}

void session__fill(const struct session *s, struct table_fill out[SESSION_FILLS])
{
	struct process_maps maps;
	struct process_stats procs;
	struct file_stats files;

	object__process_maps(s->object, &maps);
	process_table__stats(s->procs, &procs);
	process_table__file_stats(s->procs, &files);
	object__fill(s->object, procs.live, out);
	out[OBJECT_FILLS] =
		(struct table_fill){ "mappings", procs.mappings_used, maps.mapping_cap };
	out[OBJECT_FILLS + 1] = (struct table_fill){ "tables", files.tables, maps.table_cap };
}

void session__counters(struct session *s, uint64_t counters[CTR_CNT])
{
	object__counters(s->object, counters);
	uses__counters(&s->uses, counters);
	dump__correct(&s->late, counters);
	counters[CTR_note_rate_lowered] = s->rate_lowered;
	counters[CTR_note_kernel_rate] = s->kernel_rate_lowered;
	counters[CTR_note_throttled] = follow__throttled(s->follow);
}

static void set_rate(const struct session *s, struct profile_stats *out)
{
	const struct sample_spec *t = s->o.targets;

	for (out->value_cnt = 0; out->value_cnt < t->source_cnt; out->value_cnt++) {
		const struct source *source = t->sources[out->value_cnt].source;
		struct value_type *v = &out->values[out->value_cnt];
		bool clock = !is_no_clock(source);

		*v = source_spec__type(&t->sources[out->value_cnt]);
		v->frequency_hz = clock ? s->frequency_hz : 0;
		v->period = clock ? 0 : t->period;
		v->rate_hz = clock || v->period ? 0 : s->frequency_hz;
	}
	out->slowed = s->slowest > 1 ? s->slowest : 0;
}

/* Of this program; not ru_maxrss, which begins with that of the parent. */
static uint64_t peak_rss(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "VmHWM: %llu kB", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib << 10;
}

void session__stats(struct session *s, struct profile_stats *out)
{
	struct file_stats files;

	session__counters(s, out->counters);
	object__run_time(s->object, &out->bpf_ns, &out->bpf_runs);
	if (!s->o.timed)
		out->counters[CTR_follow_ns] = object__follow_time(s->object);
	out->drain_ns = s->drain_ns;
	out->start_unix_ns = s->start_unix_ns;
	out->duration_ns = (s->end_ns ? s->end_ns : now_ns()) - s->start_ns;
	out->self_cpu_ns = (s->end_ns ? s->cpu_end_ns : self_cpu_ns()) - s->cpu_start_ns;
	set_rate(s, out);
	out->cpus = follow__cpu_cnt(s->follow);
	out->rss_bytes = peak_rss();
	if (out->rss_bytes > object__mapped_bytes(s->object)) /* those are counted below */
		out->rss_bytes -= object__mapped_bytes(s->object);
	process_table__file_stats(s->procs, &files);
	out->counters[CTR_note_table_evicted] = files.tables_evicted;
	out->counters[CTR_note_table_refused] = files.tables_refused;
	out->counters[CTR_note_file_released] = files.released;
	out->map_bytes = object__map_bytes(s->object) + files.table_bytes + files.spare_bytes;
}

const struct process_table *session__procs(const struct session *s)
{
	return s->procs;
}

void session__maps(const struct session *s, struct process_maps *maps)
{
	object__process_maps(s->object, maps);
}
