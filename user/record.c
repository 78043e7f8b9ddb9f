/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "collect.h"
#include "dump.h"
#include "launch.h"
#include "log.h"
#include "mmapwatch.h"
#include "outputs.h"
#include "process.h"
#include "profile.h"
#include "readcode.h"
#include "signals.h"
#include "symbolize.h"

#define TICK_MS	      1000  /* names of code objects, CPUs, progress */
#define RETRY_MS      10    /* an interpreter that is still starting is asked again */
#define WINDOW_S      5	    /* counts are read at least this often */
#define NICE_PRIORITY (-10) /* a new process should be known before its next sample */

struct recorder {
	const struct options *o;
	struct outputs *outputs; /* those of `o` */
	struct launch *launch;
	struct collect *collect;
	struct symbolizer *sym;
	struct mmapwatch *watch;
	struct process_table *procs;
	struct profile *profile;
	pid_t *pids; /* sampled; none: all */
	size_t pid_cnt;
	struct dump_opts dump;
	struct dump_late late;
	int epoll_fd, signal_fd;
	uint64_t start_ns, end_ns, drained_ns, cpu_start_ns;
	uint64_t events_lost;
	int retry; /* processes that are to be asked again soon */
	bool stop;
	bool exits_seen;
	int signal_cnt, last_signal;
	int status; /* of the command */
	bool progress_shown;
};

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

/* ---- what the kernel tells -------------------------------------------------------------------- */

static void on_proc(void *ctx, const struct ev_proc *ev)
{
	struct recorder *r = ctx;

	r->exits_seen |= ev->type == EV_EXIT;
	if (ev->type != EV_DRAIN) /* that one only wakes us: see sample() */
		process_table__on_event(r->procs, ev);
}

static void on_blob(void *ctx, const struct ev_blob *ev, size_t size)
{
	struct recorder *r = ctx;

	sym_python__on_blob(symbolizer__python(r->sym), ev, size);
}

static void on_code(void *ctx, const struct ev_code *ev, size_t size)
{
	struct recorder *r = ctx;

	readcode__take(symbolizer__python(r->sym), r->procs, ev, size);
}

static void on_cpu_online(void *ctx, int cpu)
{
	struct recorder *r = ctx;

	mmapwatch__cpu_online(r->watch, cpu);
}

/* All that has happened, in the order in which it has to be looked at. */
static void catch_up(struct recorder *r)
{
	mmapwatch__read(r->watch, process_table__on_mmap, r->procs);
	collect__consume(r->collect);
	r->retry = process_table__refresh(r->procs);
}

/*
 * The events are read between the flip and the counts: whoever is in the old window was announced
 * before it was sampled, so it is known by name, and mostly whether it has Python.
 */
static int drain_window(struct recorder *r)
{
	unsigned old = collect__flip(r->collect);
	int err;

	process_table__reclaim(r->procs);
	catch_up(r);
	err = dump__window(r->collect, old, r->procs, &r->dump, r->profile, &r->late);
	process_table__tick(r->procs);
	process_table__forget_exited(r->procs);
	r->drained_ns = now_ns();
	return err;
}

/* ---- before sampling -------------------------------------------------------------------------- */

static int check_pids(const struct options *o)
{
	for (size_t i = 0; i < o->targets.pid_cnt; i++) {
		if (!kill(o->targets.pids[i], 0) || errno != ESRCH)
			continue;
		log_err("process %d: there is no such process", o->targets.pids[i]);
		return -ESRCH;
	}
	return 0;
}

static int open_signals(struct recorder *r)
{
	struct epoll_event ev = { .events = EPOLLIN };

	r->signal_fd = signals__open();
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->signal_fd < 0 || r->epoll_fd < 0 ||
	    epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->signal_fd, &ev)) {
		log_err("signals: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

static void raise_limits(void)
{
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files)) { /* one descriptor per ELF file in use */
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (setpriority(PRIO_PROCESS, 0, NICE_PRIORITY))
		log_debug("priority: %s", strerror(errno));
}

static uint32_t config_flags(const struct options *o)
{
	uint32_t flags = 0;

	if (!o->targets.all)
		flags |= CFG_PYTHON_ONLY;
	if (o->targets.pid_cnt || o->command)
		flags |= CFG_TARGETS;
	if (o->targets.children || o->command)
		flags |= CFG_CHILDREN;
	if (o->threads)
		flags |= CFG_THREADS;
	if (!o->no_native)
		flags |= CFG_NATIVE;
	if (!o->no_kernel)
		flags |= CFG_KERNEL;
	return flags;
}

static int open_collect(struct recorder *r)
{
	const struct collect_opts opts = {
		.flags = config_flags(r->o),
		.comm_glob = r->o->targets.comm,
		.cgroup_path = r->o->targets.cgroup,
		.frequency_hz = r->o->targets.frequency_hz,
		.max_frames = r->o->max_frames,
		.bpf_stats = r->o->verbosity > 0,
	};
	const struct collect_sink sink = {
		.ctx = r, .proc = on_proc, .code = on_code, .blob = on_blob
	};

	r->dump = (struct dump_opts){ .python_only = !r->o->targets.all, .threads = r->o->threads };
	r->collect = collect__open(&opts, &sink);
	return r->collect ? 0 : -EIO;
}

/* Those of -p, and the command. */
static int collect_pids(struct recorder *r)
{
	r->pids = calloc(r->o->targets.pid_cnt + 1, sizeof(*r->pids));
	if (!r->pids) {
		log_err("out of memory");
		return -ENOMEM;
	}
	for (size_t i = 0; i < r->o->targets.pid_cnt; i++)
		r->pids[r->pid_cnt++] = r->o->targets.pids[i];
	if (r->launch)
		r->pids[r->pid_cnt++] = launch__pid(r->launch);
	return 0;
}

static int open_process_table(struct recorder *r)
{
	const struct process_opts opts = {
		.all = r->o->targets.all,
		.pids = r->pids,
		.pid_cnt = r->pid_cnt,
		.children = r->o->targets.children || r->launch,
		.table_budget = (uint64_t)r->o->table_mib << 20,
	};
	struct process_maps maps;
	int err;

	r->sym = symbolizer__new();
	r->profile = profile__new();
	if (!r->sym || !r->profile) {
		log_err("out of memory");
		return -ENOMEM;
	}
	r->dump.jit = symbolizer__jit(r->sym);
	collect__process_maps(r->collect, &maps);
	r->procs = process_table__new(&maps, r->sym, &opts);
	if (!r->procs) {
		log_err("the table of processes: %s", strerror(errno));
		return -errno;
	}
	err = collect__attach_lifecycle(r->collect);
	if (err)
		return err;
	r->watch = mmapwatch__new(0);
	if (!r->watch) {
		log_err("watching for new mappings: %s (needs CAP_PERFMON)", strerror(errno));
		return -errno;
	}
	return process_table__scan(r->procs);
}

/* A process that was asked for by number and has no Python is an error, unless -a. */
static int check_targets(const struct recorder *r)
{
	for (size_t i = 0; i < r->o->targets.pid_cnt && !r->o->targets.all; i++) {
		const struct process *p =
			process_table__find_tgid(r->procs, (uint32_t)r->o->targets.pids[i]);

		if (p && (p->is_python || p->native_only || !p->analysed))
			continue;
		log_err("process %d (%s) is not Python (-a profiles it all the same)",
			r->o->targets.pids[i], p ? p->comm : "?");
		return -EINVAL;
	}
	return 0;
}

static int watch_descriptors(struct recorder *r)
{
	const int fds[] = { collect__fd(r->collect), mmapwatch__fd(r->watch) };
	struct epoll_event ev = { .events = EPOLLIN };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fds[i], &ev)) {
			log_err("epoll: %s", strerror(errno));
			return -errno;
		}
	return 0;
}

static int start(struct recorder *r)
{
	int err;

	signals__hold();
	r->cpu_start_ns = self_cpu_ns();
	r->profile->stats.start_unix_ns = unix_ns();
	r->profile->stats.frequency_hz = r->o->targets.frequency_hz;
	err = collect__attach_sampler(r->collect, r->o->targets.frequency_hz);
	if (err)
		return err;
	r->start_ns = r->drained_ns = now_ns();
	if (r->o->duration_s > 0)
		r->end_ns = r->start_ns + (uint64_t)llround(r->o->duration_s * 1e9);
	return r->launch ? launch__go(r->launch) : 0;
}

/* ---- while sampling --------------------------------------------------------------------------- */

/* Ctrl-C reaches the command by itself, the others only us. */
static void on_ending_signal(struct recorder *r, int sig)
{
	r->signal_cnt++;
	r->last_signal = sig;
	if (r->launch && sig != SIGINT)
		launch__signal(r->launch, sig);
}

static void on_signals(struct recorder *r)
{
	struct signalfd_siginfo info;

	while (read(r->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			r->stop |= r->launch && launch__reap(r->launch, &r->status);
			continue;
		}
		r->stop = true;
		on_ending_signal(r, (int)info.ssi_signo);
	}
}

/* One line on a terminal, overwritten each second. */
static void show_progress(struct recorder *r, bool last)
{
	struct profile_stats now = { .cpus = 0 };
	struct process_stats st;

	if (r->o->verbosity < 0 || !isatty(STDERR_FILENO))
		return;
	if (last) {
		if (r->progress_shown)
			fputs("\r\033[K", stderr);
		return;
	}
	process_table__stats(r->procs, &st);
	dump__counters(r->collect, &r->late, now.counters);
	fprintf(stderr,
		"\r\033[K%.0f s  %" PRIu64 " samples  %" PRIu64 " Python processes  %" PRIu64
		" lost",
		(double)(now_ns() - r->start_ns) / 1e9, now.counters[CTR_counted], st.python,
		profile__lost(&now));
	r->progress_shown = true;
}

static int wait_ms(const struct recorder *r, uint64_t tick_ns)
{
	uint64_t now = now_ns(), until = tick_ns;

	if (r->retry && now + RETRY_MS * 1000000ULL < until)
		until = now + RETRY_MS * 1000000ULL;
	if (r->end_ns && r->end_ns < until)
		until = r->end_ns;
	return until <= now ? 0 : (int)((until - now + 999999) / 1000000);
}

/* Process events were lost: what the kernel and /proc say now is taken over. */
static void check_lost_events(struct recorder *r)
{
	uint64_t counters[CTR_CNT];

	collect__counters(r->collect, counters);
	if (counters[CTR_note_event_lost] == r->events_lost)
		return;
	r->events_lost = counters[CTR_note_event_lost];
	process_table__resync(r->procs);
}

/* With -p: none of the processes is left, nor of those that they started under --children. */
static bool targets_ended(struct recorder *r)
{
	struct process_stats st;

	if (!r->o->targets.pid_cnt || !r->exits_seen)
		return false;
	r->exits_seen = false;
	process_table__stats(r->procs, &st);
	return !st.live;
}

static int on_tick(struct recorder *r)
{
	check_lost_events(r);
	r->exits_seen = true; /* or not seen, but found */
	collect__follow_cpus(r->collect, on_cpu_online, r);
	show_progress(r, false);
	if (now_ns() - r->drained_ns >= WINDOW_S * NS_PER_S)
		return drain_window(r);
	return 0;
}

static int sample(struct recorder *r)
{
	uint64_t tick_ns = now_ns() + TICK_MS * 1000000ULL;
	struct epoll_event ev[4];
	int err = 0;

	while (!r->stop && !err) {
		int n = epoll_wait(r->epoll_fd, ev, 4, wait_ms(r, tick_ns));

		if (n < 0 && errno != EINTR) {
			log_err("epoll: %s", strerror(errno));
			return -errno;
		}
		on_signals(r);
		catch_up(r);
		if (collect__wants_flip(r->collect))
			err = drain_window(r);
		if (!err && now_ns() >= tick_ns) {
			tick_ns = now_ns() + TICK_MS * 1000000ULL;
			err = on_tick(r);
		}
		if (r->end_ns && now_ns() >= r->end_ns)
			r->stop = true;
		if (!r->stop && targets_ended(r)) {
			log_info("the processes have ended");
			r->stop = true;
		}
	}
	signals__release(r->signal_cnt ? 1 : 2);
	return err;
}

/* ---- after sampling --------------------------------------------------------------------------- */

static void print_counters(const struct profile_stats *s)
{
	static const char *const names[] = {
#define X(name, text) #name,
		PYPERF_COUNTERS(X)
#undef X
	};

	for (size_t i = 0; i < CTR_CNT; i++)
		if (s->counters[i])
			fprintf(stderr, "counter %s %" PRIu64 "\n", names[i], s->counters[i]);
	if (s->bpf_runs)
		fprintf(stderr, "counter bpf_ns %" PRIu64 "\ncounter bpf_runs %" PRIu64 "\n",
			s->bpf_ns, s->bpf_runs);
}

static void fill_stats(struct recorder *r)
{
	struct profile_stats *s = &r->profile->stats;
	struct file_stats files;
	struct rusage ru;

	dump__counters(r->collect, &r->late, s->counters);
	collect__run_time(r->collect, &s->bpf_ns, &s->bpf_runs);
	s->cpus = collect__cpu_cnt(r->collect);
	getrusage(RUSAGE_SELF, &ru);
	s->rss_bytes = (uint64_t)ru.ru_maxrss * 1024;
	if (s->rss_bytes > collect__mapped_bytes(r->collect)) /* those are counted below */
		s->rss_bytes -= collect__mapped_bytes(r->collect);
	process_table__file_stats(r->procs, &files);
	s->counters[CTR_note_table_evicted] = files.tables_evicted;
	s->counters[CTR_note_table_refused] = files.tables_refused;
	s->counters[CTR_note_file_released] = files.released;
	s->map_bytes = collect__map_bytes(r->collect) + files.table_bytes + files.spare_bytes;
	if (r->o->verbosity > 0)
		print_counters(s);
}

static int finish(struct recorder *r)
{
	const struct symbolize_opts so = { .lines = !r->o->no_lines, .inlines = r->o->inlines };
	int err;

	collect__detach_sampler(r->collect);
	r->profile->stats.duration_ns = now_ns() - r->start_ns;
	r->profile->stats.self_cpu_ns = self_cpu_ns() - r->cpu_start_ns;
	show_progress(r, true);
	err = drain_window(r);
	if (err)
		return err;
	fill_stats(r);
	err = dump__modules(r->procs, r->profile);
	if (!err)
		err = symbolizer__run(r->sym, r->profile, &so);
	if (err)
		log_err("names: %s", strerror(-err));
	return err;
}

static int write_outputs(struct recorder *r)
{
	const struct export_opts eo = {
		.live = true,
		.lines = !r->o->no_lines,
		.threads = r->o->threads,
	};

	return outputs__write(r->outputs, r->profile, &eo);
}

/* The command may run on for long: nothing of the profiler does. */
static void close_stages(struct recorder *r)
{
	outputs__close(r->outputs);
	symbolizer__free(r->sym);
	process_table__free(r->procs);
	mmapwatch__free(r->watch);
	collect__close(r->collect);
	profile__free(r->profile);
	free(r->pids);
}

/*
 * Until the command ends, for its status: -d was shorter, or it takes its time after a signal. A second
 * signal leaves it alone.
 */
static void wait_for_command(struct recorder *r)
{
	struct pollfd fd = { .fd = r->signal_fd, .events = POLLIN };
	int sig = signals__hold();

	if (sig) /* it came while the results were written */
		on_ending_signal(r, sig);
	while (!launch__reap(r->launch, &r->status)) {
		if (r->signal_cnt > 1) {
			r->status = 128 + r->last_signal;
			break;
		}
		poll(&fd, 1, -1);
		on_signals(r);
	}
}

static int prepare(struct recorder *r)
{
	int err = check_pids(r->o);

	if (!err && r->o->command) {
		r->launch = launch__new(r->o->command);
		err = r->launch ? 0 : -errno;
	}
	if (!err)
		err = open_signals(r);
	if (!err)
		err = outputs__open(r->outputs);
	if (err)
		return err;
	raise_limits();
	err = collect_pids(r);
	if (!err)
		err = open_collect(r);
	if (!err)
		err = open_process_table(r);
	if (!err)
		err = check_targets(r);
	return err ? err : watch_descriptors(r);
}

int record(struct options *opts)
{
	struct recorder r = {
		.o = opts, .outputs = &opts->outputs, .epoll_fd = -1, .signal_fd = -1
	};
	int err = prepare(&r);

	if (!err)
		err = start(&r);
	if (!err)
		err = sample(&r);
	if (!err)
		err = finish(&r);
	if (!err)
		err = write_outputs(&r);
	close_stages(&r);
	if (r.launch && launch__started(r.launch))
		wait_for_command(&r);
	launch__free(r.launch);
	if (r.signal_fd >= 0)
		close(r.signal_fd);
	if (r.epoll_fd >= 0)
		close(r.epoll_fd);
	return err ? 1 : r.status;
}
