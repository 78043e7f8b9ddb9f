/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/record.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cmd/chosen.h"
#include "cmd/launch.h"
#include "export/outputs.h"
#include "profile/profile.h"
#include "sample/session.h"
#include "threads/openwaits.h"
#include "threads/resting.h"
#include "threads/taskbook.h"

#define TICK_NS NS_PER_S /* between two lines of progress */

struct recorder {
	struct options *o;
	struct outputs *outputs; /* those of `o` */
	struct launch *launch;
	struct session *session;
	struct taskbook *tasks; /* NULL: what tasks wait for is not asked */
	struct profile *profile;
	struct readers *readers; /* once the session is closed */
	int signal_fd;
	uint64_t start_ns, end_ns; /* end_ns 0: until it is told to stop */
	bool stop;
	int signal_cnt, last_signal;
	int status; /* of the command */
	bool progress_shown;
};

/* ---- before sampling ------------------------------------------------------------------------- */

static int open_signals(struct recorder *r)
{
	r->signal_fd = signals__open(export__abandon, true);
	if (r->signal_fd >= 0)
		return 0;
	log_err("signals: %s", strerror(-r->signal_fd));
	return r->signal_fd;
}

static int open_session(struct recorder *r)
{
	const struct session_opts opts = {
		.spec = &r->o->targets,
		.command = r->launch ? launch__pid(r->launch) : 0,
		.program = r->launch ? launch__program(r->launch) : NULL,
		.max_frames = r->o->max_frames,
		.table_mib = r->o->table_mib,
		.threads = r->o->threads,
		.titles = true,
		.loops = SESSION_LOOPS_WHOLE,
		.no_native = r->o->no_native,
		.no_kernel = r->o->no_kernel,
		.bpf_stats = r->o->verbosity > 0,
		.realtime = true,
		.curves = true,
	};

	r->profile = profile__new();
	if (!r->profile)
		return log_no_memory();
	r->session = session__open(&opts);
	return r->session ? session__watch(r->session, r->signal_fd) : -EIO;
}

/* ---- signals --------------------------------------------------------------------------------- */

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
			if (r->session)
				session__before_reap(r->session);
			r->stop |= r->launch && launch__reap(r->launch, &r->status);
			continue;
		}
		r->stop = true;
		on_ending_signal(r, (int)info.ssi_signo);
	}
}

/* ---- the start ------------------------------------------------------------------------------- */

/* Once, as soon as it may. */
static int let_command_go(struct recorder *r, bool now)
{
	return now && r->launch && !launch__started(r->launch) ? launch__go(r->launch) : 0;
}

/* --delay: processes that start meanwhile are followed but not sampled. */
static int wait_for_begin(struct recorder *r)
{
	uint64_t begin_ns = now_ns() + (uint64_t)llround(r->o->delay_s * 1e9);
	int err = 0;

	while (r->o->delay_s > 0 && !err && !r->stop && now_ns() < begin_ns) {
		err = session__wait(r->session, begin_ns);
		on_signals(r);
	}
	return err;
}

static int start(struct recorder *r)
{
	int err;

	signals__hand_over(1);
	err = let_command_go(r, r->o->delay_s > 0);
	if (!err)
		err = wait_for_begin(r);
	if (err)
		return err;
	if (r->o->watch)
		r->o->watch->begin(r->o->watch, &r->o->targets);
	err = session__start(r->session);
	if (r->o->watch)
		r->o->watch->start_err = err;
	if (err)
		return err;
	r->start_ns = now_ns();
	if (r->o->duration_s > 0)
		r->end_ns = r->start_ns + (uint64_t)llround(r->o->duration_s * 1e9);
	return let_command_go(r, true);
}

/* ---- while sampling -------------------------------------------------------------------------- */

static bool shows_progress(const struct recorder *r)
{
	return r->o->verbosity >= 0 && isatty(STDERR_FILENO);
}

/* What the counters count: "samples", "hits". */
static const char *counted_word(const struct recorder *r, uint64_t count)
{
	const struct sample_spec *t = &r->o->targets;
	struct value_type values[VALUES_MAX];

	for (uint32_t i = 0; i < t->source_cnt; i++) {
		values[i] = source_spec__type(&t->sources[i]);
		values[i].period = t->period;
	}
	return value_types__sample(values, t->source_cnt, count);
}

/* One line on a terminal, overwritten each second. */
static void show_progress(struct recorder *r, bool last)
{
	struct profile_stats now = { .cpus = 0 };
	double seconds = (double)(now_ns() - r->start_ns) / 1e9;
	uint64_t counted, lost;

	if (!shows_progress(r))
		return;
	if (last) {
		if (r->progress_shown)
			fputs("\r\033[K", stderr);
		return;
	}
	session__counters(r->session, now.counters);
	counted = now.counters[CTR_counted];
	lost = profile__lost(&now);
	fprintf(stderr, "\r\033[K%.0f", seconds);
	if (r->o->duration_s > 0)
		fprintf(stderr, " of %g", r->o->duration_s);
	fprintf(stderr, " s, %" PRIu64 " %s", counted, counted_word(r, counted));
	if (lost)
		fprintf(stderr, ", %" PRIu64 " lost", lost);
	fputs(", Ctrl-C ends and reports", stderr);
	r->progress_shown = true;
}

static void look_for_end(struct recorder *r)
{
	if (r->stop || !session__targets_ended(r->session))
		return;
	log_info("the processes have ended");
	r->stop = true;
}

/* Of chosen processes, where threads that wait are asked for. */
static bool wants_tasks(const struct recorder *r)
{
	const struct sample_spec *t = &r->o->targets;
	bool waits = false;

	for (uint32_t i = 0; i < t->source_cnt; i++) {
		uint32_t event = t->sources[i].source->type.event;

		waits |= event == EVENT_WALL || event == EVENT_OFF_CPU;
	}
	return waits && (t->pid_cnt || r->launch);
}

static int open_tasks(struct recorder *r)
{
	if (!wants_tasks(r))
		return 0;
	r->tasks = taskbook__new(session__procs(r->session));
	return r->tasks ? 0 : log_no_memory();
}

/* When the next thing is due that session__wait() does not know of. */
static uint64_t wake_ns(const struct recorder *r, uint64_t tick_ns)
{
	uint64_t at = r->end_ns && r->end_ns < tick_ns ? r->end_ns : tick_ns;

	return r->tasks && taskbook__due_ns(r->tasks) < at ? taskbook__due_ns(r->tasks) : at;
}

static int sample(struct recorder *r)
{
	uint64_t tick_ns = shows_progress(r) ? now_ns() + TICK_NS : UINT64_MAX;
	int err = open_tasks(r);

	look_for_end(r);
	while (!r->stop && !err) {
		err = session__wait(r->session, wake_ns(r, tick_ns));
		on_signals(r);
		if (r->tasks && now_ns() >= taskbook__due_ns(r->tasks))
			taskbook__look(r->tasks);
		if (!err && session__wants_drain(r->session))
			err = session__drain(r->session, r->profile);
		if (now_ns() >= tick_ns) {
			tick_ns = now_ns() + TICK_NS;
			show_progress(r, false);
		}
		if (r->end_ns && now_ns() >= r->end_ns)
			r->stop = true;
		look_for_end(r);
	}
	return err;
}

/* ---- after sampling -------------------------------------------------------------------------- */

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
	fprintf(stderr, "counter drain_ns %" PRIu64 "\n", s->drain_ns);
}

/*
 * The time without a CPU is that of the process that was asked for. If what it has started was
 * sampled, it says nothing of that.
 */
static void check_watched(struct recorder *r)
{
	const struct sample_spec *t = &r->o->targets;
	pid_t pid = r->launch ? launch__pid(r->launch) : t->pid_cnt == 1 ? t->pids[0] : 0;
	struct profile *p = r->profile;

	for (size_t i = 0; i < p->stack_cnt; i++)
		if (p->stacks[i].proc < p->proc_cnt &&
		    p->procs[p->stacks[i].proc].tgid != (uint32_t)pid)
			p->stats.ready_ns = p->stats.throttled_ns = 0;
}

static int finish(struct recorder *r)
{
	const struct symbolize_opts so = {
		.lines = !r->o->no_lines,
		.inlines = r->o->inlines,
		.symbols_budget = 1, /* named once, file by file: none is kept */
	};
	struct openwaits *waits = openwaits__begin(r->session);
	int err;

	session__stop(r->session);
	if (r->o->watch)
		r->o->watch->end(r->o->watch);
	show_progress(r, true);
	err = session__drain(r->session, r->profile);
	if (!err)
		err = session__check_python(r->session, r->launch ? *r->o->command : NULL);
	if (err) {
		openwaits__free(waits);
		return err;
	}
	openwaits__end(waits, r->session, r->profile);
	if (outputs__reports(r->outputs))
		resting__note(r->session, r->profile);
	err = session__loops(r->session, r->profile);
	if (err)
		return err;
	err = session__curves(r->session, r->profile);
	if (err)
		return err;
	session__stats(r->session, &r->profile->stats);
	check_watched(r);
	if (r->o->verbosity > 0)
		print_counters(&r->profile->stats);
	/* Frees memory that is no longer needed, for the next steps. */
	session__end(r->session);
	err = session__name(r->session, r->profile, &so);
	profile__part_curves(r->profile);
	r->readers = session__take_readers(r->session);
	session__close(r->session);
	r->session = NULL;
	if (!err &&
	    (profile__name_loops(r->profile) || (r->tasks && taskbook__fill(r->tasks, r->profile))))
		err = log_no_memory();
	if (!err)
		profile__drop_frames(r->profile);
	return err;
}

static int write_outputs(struct recorder *r)
{
	const struct export_opts eo = {
		.source = true,
		.live = true,
		.readers = r->readers,
		.lines = !r->o->no_lines,
		.threads = r->o->threads,
		.ends = true,
		.native = r->o->native,
		.verbose = r->o->verbosity > 0,
	};

	if (r->o->watch)
		r->o->watch->report(r->o->watch, r->profile, outputs__reports(r->outputs));
	return outputs__write(r->outputs, r->profile, &eo);
}

/*
 * Writes in a child process: the file that it writes to may block it where no signal ends that, and
 * this process keeps its promises.
 */
static int write_in_child(struct recorder *r)
{
	int status = 0, err;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return write_outputs(r);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		err = write_outputs(r);
		_exit(fflush(stdout) || err ? 1 : 0);
	}
	signals__wait_for(pid);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	signals__wait_for(0);
	if (WIFSIGNALED(status))
		log_err("signal %d ended the process that wrote the results", WTERMSIG(status));
	return status ? -EIO : 0;
}

/* The command may run on for long: nothing of the profiler does. */
static void close_stages(struct recorder *r)
{
	outputs__close(r->outputs);
	taskbook__free(r->tasks);
	session__close(r->session);
	readers__free(r->readers);
	profile__free(r->profile);
}

/*
 * Until the command ends, for its status: -d was shorter, or it takes its time after a signal. A
 * second signal leaves it alone.
 */
static void wait_for_command(struct recorder *r)
{
	struct pollfd fd = { .fd = r->signal_fd, .events = POLLIN };

	signals__keep_no_promise();
	signals__hand_over(SIGNALS_ALL);
	on_signals(r); /* that came while the results were written */
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
	int err = chosen__find(&r->o->targets);

	if (!err)
		err = session__check(&r->o->targets);
	if (!err && r->o->command) {
		r->launch = launch__new(r->o->command, r->o->as_root);
		err = r->launch ? 0 : -errno;
	}
	if (!err)
		err = open_signals(r);
	if (!err)
		err = outputs__open(r->outputs);
	return err ? err : open_session(r);
}

int record(struct options *opts)
{
	struct recorder r = { .o = opts, .outputs = &opts->outputs, .signal_fd = -1 };
	int err = prepare(&r);

	if (!err)
		err = start(&r);
	if (!err)
		err = sample(&r);
	if (!err)
		err = finish(&r);
	if (!err)
		err = write_in_child(&r);
	close_stages(&r);
	if (r.launch && launch__started(r.launch))
		wait_for_command(&r);
	launch__free(r.launch);
	if (r.signal_fd >= 0)
		close(r.signal_fd);
	return err ? 1 : r.status;
}
