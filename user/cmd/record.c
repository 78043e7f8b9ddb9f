/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/record.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cmd/launch.h"
#include "export/outputs.h"
#include "profile/profile.h"
#include "sample/session.h"

#define TICK_NS NS_PER_S /* between two lines of progress */

struct recorder {
	const struct options *o;
	struct outputs *outputs; /* those of `o` */
	struct launch *launch;
	struct session *session;
	struct profile *profile;
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
	r->signal_fd = signals__open(export__abandon);
	if (r->signal_fd >= 0)
		return 0;
	log_err("signals: %s", strerror(-r->signal_fd));
	return r->signal_fd;
}

static int open_session(struct recorder *r)
{
	const struct session_opts opts = {
		.targets = &r->o->targets,
		.command = r->launch ? launch__pid(r->launch) : 0,
		.program = r->launch ? launch__program(r->launch) : NULL,
		.max_frames = r->o->max_frames,
		.table_mib = r->o->table_mib,
		.threads = r->o->threads,
		.no_native = r->o->no_native,
		.no_kernel = r->o->no_kernel,
		.bpf_stats = r->o->verbosity > 0,
		.urgent = true,
	};

	r->profile = profile__new();
	if (!r->profile)
		return log_no_memory();
	r->session = session__open(&opts);
	return r->session ? session__watch(r->session, r->signal_fd) : -EIO;
}

static int start(struct recorder *r)
{
	int err;

	signals__hold();
	err = session__start(r->session);
	if (err)
		return err;
	r->start_ns = now_ns();
	if (r->o->duration_s > 0)
		r->end_ns = r->start_ns + (uint64_t)llround(r->o->duration_s * 1e9);
	return r->launch ? launch__go(r->launch) : 0;
}

/* ---- while sampling -------------------------------------------------------------------------- */

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

static bool shows_progress(const struct recorder *r)
{
	return r->o->verbosity >= 0 && isatty(STDERR_FILENO);
}

/* One line on a terminal, overwritten each second. */
static void show_progress(struct recorder *r, bool last)
{
	struct profile_stats now = { .cpus = 0 };
	double seconds = (double)(now_ns() - r->start_ns) / 1e9;
	uint64_t lost;

	if (!shows_progress(r))
		return;
	if (last) {
		if (r->progress_shown)
			fputs("\r\033[K", stderr);
		return;
	}
	session__counters(r->session, now.counters);
	lost = profile__lost(&now);
	fprintf(stderr, "\r\033[K%.0f", seconds);
	if (r->o->duration_s > 0)
		fprintf(stderr, " of %g", r->o->duration_s);
	fprintf(stderr, " s, %" PRIu64 " samples", now.counters[CTR_counted]);
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

static int sample(struct recorder *r)
{
	uint64_t tick_ns = shows_progress(r) ? now_ns() + TICK_NS : UINT64_MAX;
	int err = 0;

	look_for_end(r);
	while (!r->stop && !err) {
		bool last = r->end_ns && r->end_ns < tick_ns;

		err = session__wait(r->session, last ? r->end_ns : tick_ns);
		on_signals(r);
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
	signals__release(r->signal_cnt ? 1 : 2);
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

static int finish(struct recorder *r)
{
	const struct symbolize_opts so = {
		.lines = !r->o->no_lines,
		.inlines = r->o->inlines,
		.symbols_budget = 1, /* named once, file by file: none is kept */
	};
	int err;

	session__stop(r->session);
	show_progress(r, true);
	err = session__drain(r->session, r->profile);
	if (err)
		return err;
	session__stats(r->session, &r->profile->stats);
	if (r->o->verbosity > 0)
		print_counters(&r->profile->stats);
	/* What comes next takes the place of what is not needed any more. */
	session__end(r->session);
	err = session__name(r->session, r->profile, &so);
	session__close(r->session);
	r->session = NULL;
	if (!err)
		profile__drop_frames(r->profile);
	return err;
}

static int write_outputs(struct recorder *r)
{
	const struct export_opts eo = {
		.live = true,
		.lines = !r->o->no_lines,
		.threads = r->o->threads,
		.native = r->o->native,
		.verbose = r->o->verbosity > 0,
	};

	return outputs__write(r->outputs, r->profile, &eo);
}

/* The command may run on for long: nothing of the profiler does. */
static void close_stages(struct recorder *r)
{
	outputs__close(r->outputs);
	session__close(r->session);
	profile__free(r->profile);
}

/*
 * Until the command ends, for its status: -d was shorter, or it takes its time after a signal. A
 * second signal leaves it alone.
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
	int err = session__check(&r->o->targets);

	if (!err && r->o->command) {
		r->launch = launch__new(r->o->command);
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
		err = write_outputs(&r);
	close_stages(&r);
	if (r.launch && launch__started(r.launch))
		wait_for_command(&r);
	launch__free(r.launch);
	if (r.signal_fd >= 0)
		close(r.signal_fd);
	return err ? 1 : r.status;
}
