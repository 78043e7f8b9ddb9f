/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/config.h"
#include "agent/deliver.h"
#include "agent/known.h"
#include "agent/period.h"
#include "agent/schedule.h"
#include "agent/windowdir.h"
#include "clock.h"
#include "log.h"
#include "options.h"
#include "session.h"

#define TICK_NS	      NS_PER_S
#define STANDSTILL_NS (30 * NS_PER_S) /* of the main thread */

struct agent {
	const struct agent_opts *o;
	struct config config;
	struct targets targets;
	struct session *session;
	struct known *known; /* labels by process */
	struct deliver *deliver;
	struct schedule schedule;
	struct period *period;
	struct profile_stats then; /* at its beginning */
	uint64_t tick_ns;
	int signal_fd;
	bool stop;

	struct agent_stats stats; /* the main thread's */
	pthread_mutex_t lock;	  /* of what follows */
	struct agent_stats published;
	uint64_t alive_ns; /* when it was published; 0: not yet */
};

/* ---- configuration ---------------------------------------------------------------------------------- */

static int load_config(const struct agent_opts *o, struct config *c)
{
	int err = config__init(c);

	if (err)
		log_err("out of memory");
	else if (o->config_required || !access(o->config_path, F_OK))
		err = config__read(c, o->config_path);
	return err;
}

int agent__check_config(const struct agent_opts *o)
{
	struct config c;
	int err = load_config(o, &c);

	if (!err)
		log_info("%s: no mistakes", o->config_path);
	config__free(&c);
	return err;
}

static void set_log_level(const struct agent *a)
{
	int level = (int)a->config.agent.log_level + a->o->verbosity;

	level = level < LOG_LEVEL_ERR	  ? LOG_LEVEL_ERR
		: level > LOG_LEVEL_DEBUG ? LOG_LEVEL_DEBUG
					  : level;
	log_set_level((enum log_level)level);
}

/* ---- sampling ------------------------------------------------------------------------------------------ */

static void on_known(void *ctx, const struct process *p, const struct process *parent)
{
	struct agent *a = ctx;

	known__note(a->known, p, parent);
}

static struct label_set *labels_of(void *ctx, const struct profile *p,
				   const struct profile_proc *proc)
{
	struct agent *a = ctx;

	return known__labels(a->known, p, proc);
}

static int open_session(struct agent *a)
{
	const struct agent_config *c = &a->config.agent;
	struct session_opts o = {
		.targets = &a->targets,
		.table_mib = c->table_mib,
		.no_native = !c->native,
		.no_kernel = !c->kernel,
		.bpf_stats = true,
		.known = on_known,
		.known_ctx = a,
	};

	a->targets = (struct targets){
		.frequency_hz = c->frequency_hz,
		.comm = c->comm,
		.cgroup = c->cgroup,
	};
	a->known = known__new("", &a->config.labels);
	if (!a->known)
		return cmdline__no_memory();
	a->session = session__open(&o);
	return a->session ? 0 : -EIO;
}

/* Everything since the last drain, into the period. */
static int drain(struct agent *a)
{
	const struct period_limits limits = {
		.stacks = a->config.budget.stacks,
		.processes = a->config.budget.processes,
	};
	struct profile *p = profile__new();
	uint64_t begin = now_ns();
	int err = p ? session__drain(a->session, p) : cmdline__no_memory();

	if (!err)
		err = period__add(a->period, p, &limits);
	profile__free(p);
	a->stats.drains++;
	a->stats.drain_ns += now_ns() - begin;
	return err;
}

/* ---- periods --------------------------------------------------------------------------------------------- */

static int begin_period(struct agent *a)
{
	a->period = period__new();
	return a->period ? 0 : cmdline__no_memory();
}

static void say_why(enum schedule_why why, const struct span *span)
{
	double s = (double)(span->jump_ns < 0 ? -span->jump_ns : span->jump_ns) / NS_PER_S;

	if (why == SCHEDULE_CLOCK_SET)
		log_warn("the clock was set %s by %.1f s: the period ends here",
			 span->jump_ns < 0 ? "back" : "forward", s);
	if (why == SCHEDULE_SLEPT)
		log_warn("the machine slept for %.1f s, in which nothing was sampled", s);
}

static void note_period(struct agent *a, const struct period *p)
{
	a->stats.periods++;
	a->stats.over_stacks += p->over_stacks;
	a->stats.over_processes += p->over_processes;
	log_debug("period of %.3f s: %" PRIu64 " samples of %zu processes, %zu stacks",
		  (double)p->span.duration_ns / NS_PER_S, p->samples, p->profile->proc_cnt,
		  p->profile->stack_cnt);
}

/* Drains, names and hands over; the next period has begun at the drain. */
static int end_period(struct agent *a, enum schedule_why why, const struct clocks *now)
{
	const struct symbolize_opts so = { .lines = a->config.agent.lines };
	struct period *p = a->period;
	int err = drain(a);

	schedule__take(&a->schedule, now, &p->span);
	say_why(why, &p->span);
	a->stats.clock_jumps += why == SCHEDULE_CLOCK_SET;
	a->stats.suspends += why == SCHEDULE_SLEPT;
	p->frequency_hz = a->stats.frequency_hz;
	p->profile->stats.cpus = a->stats.run.cpus;
	if (!err)
		err = session__name(a->session, p->profile, &so);
	if (!err)
		err = period__label(p, labels_of, a);
	known__forget(a->known, session__procs(a->session));
	note_period(a, p);
	a->period = NULL;
	if (err)
		period__free(p);
	else
		deliver__put(a->deliver, p);
	return err ? err : begin_period(a);
}

/* ---- what is told of it --------------------------------------------------------------------------------- */

static void publish(struct agent *a)
{
	struct agent_stats *s = &a->stats;
	struct process_stats procs;
	struct deliver_stats d;

	session__stats(a->session, &s->run);
	s->up_ns = s->run.duration_ns;
	s->frequency_cfg = a->config.agent.frequency_hz;
	s->frequency_hz = s->run.frequency_hz;
	process_table__stats(session__procs(a->session), &procs);
	s->processes = (uint32_t)procs.python;
	s->unlabelled = known__missed(a->known);
	deliver__stats(a->deliver, &d);
	s->windows = d.windows;
	s->samples = d.samples;
	s->periods_dropped = d.dropped;
	s->samples_dropped = d.dropped_samples;
	s->windows_failed = d.failed;
	s->queued = d.queued;
	s->services = d.services;
	s->period_end_ns = d.end_unix_ns;
	pthread_mutex_lock(&a->lock);
	a->published = *s;
	a->alive_ns = now_ns();
	pthread_mutex_unlock(&a->lock);
}

void agent__stats(struct agent *a, struct agent_stats *out)
{
	pthread_mutex_lock(&a->lock);
	*out = a->published;
	pthread_mutex_unlock(&a->lock);
}

/* ---- life ------------------------------------------------------------------------------------------------- */

static void on_signal(struct agent *a, uint32_t sig)
{
	switch (sig) {
	case SIGTERM:
	case SIGINT:
		a->stop = true;
		break;
	case SIGUSR1:
		if (log_get_level() < LOG_LEVEL_DEBUG)
			log_set_level(log_get_level() + 1);
		break;
	case SIGUSR2:
		if (log_get_level() > LOG_LEVEL_ERR)
			log_set_level(log_get_level() - 1);
		break;
	}
}

static void read_signals(struct agent *a)
{
	struct signalfd_siginfo si;

	while (read(a->signal_fd, &si, sizeof(si)) == sizeof(si))
		on_signal(a, si.ssi_signo);
}

/* Held from before the first thread is there, so that all threads hold them. */
static int open_signals(struct agent *a)
{
	static const int held[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++)
		sigaddset(&set, held[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->signal_fd < 0)
		log_err("signals: %s", strerror(errno));
	return a->signal_fd < 0 ? -errno : 0;
}

/* A second signal does not wait for what takes long. */
static void release_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int set_sinks(struct agent *a)
{
	struct sink sinks[DELIVER_SINKS];
	size_t cnt = 0;

	if (a->config.agent.directory)
		sinks[cnt++] =
			(struct sink){ "directory", windowdir__put, a->config.agent.directory };
	return deliver__set(a->deliver, NULL, sinks, cnt);
}

static int start(struct agent *a)
{
	struct clocks now;
	int err;

	a->deliver = deliver__new((const char *const *)a->config.agent.group);
	err = a->deliver ? set_sinks(a) : cmdline__no_memory();
	if (!err)
		err = deliver__start(a->deliver);
	if (!err)
		err = open_session(a);
	if (!err)
		err = session__watch(a->session, a->signal_fd);
	if (!err)
		err = begin_period(a);
	if (!err)
		err = session__start(a->session);
	if (err)
		return err;
	clocks__read(&now);
	schedule__begin(&a->schedule, a->config.agent.window_s * NS_PER_S, &now);
	publish(a);
	log_info("sampling at %" PRIu32 " Hz, windows of %" PRIu32 " s",
		 a->config.agent.frequency_hz, a->config.agent.window_s);
	return 0;
}

static int sample(struct agent *a)
{
	struct clocks now;
	int err = 0;

	while (!a->stop && !err) {
		enum schedule_why why;

		clocks__read(&now);
		err = session__wait(a->session, schedule__wake_ns(&a->schedule, &now));
		known__read(a->known, session__procs(a->session));
		read_signals(a);
		clocks__read(&now);
		why = schedule__check(&a->schedule, &now);
		if (!err && why != SCHEDULE_RUNS)
			err = end_period(a, why, &now);
		else if (!err && session__wants_drain(a->session))
			err = drain(a);
		if (now.mono_ns - a->tick_ns >= TICK_NS) {
			a->tick_ns = now.mono_ns;
			publish(a);
		}
	}
	return err;
}

static int finish(struct agent *a)
{
	struct clocks now;
	int err;

	session__stop(a->session);
	clocks__read(&now);
	err = end_period(a, SCHEDULE_DUE, &now);
	release_signals();
	return err;
}

static void close_all(struct agent *a)
{
	struct deliver_stats d = { 0 };
	struct profile_stats s;

	if (a->session)
		session__stats(a->session, &s);
	deliver__close(a->deliver, &d);
	if (a->session)
		log_info("ended: %" PRIu64 " samples counted, %" PRIu64 " in %" PRIu64
			 " windows of %" PRIu64 " periods, %" PRIu64 " dropped",
			 s.counters[CTR_counted], d.samples, d.windows, d.periods,
			 d.dropped_samples);
	period__free(a->period);
	session__close(a->session);
	known__free(a->known);
	if (a->signal_fd >= 0)
		close(a->signal_fd);
	pthread_mutex_destroy(&a->lock);
	config__free(&a->config);
	free(a);
}

int agent__run(const struct agent_opts *o)
{
	struct agent *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return cmdline__no_memory();
	a->o = o;
	a->signal_fd = -1;
	pthread_mutex_init(&a->lock, NULL);
	err = load_config(o, &a->config);
	if (!err) {
		set_log_level(a);
		err = open_signals(a);
	}
	if (!err)
		err = start(a);
	if (!err) {
		err = sample(a);
		if (!err)
			err = finish(a);
	}
	close_all(a);
	return err;
}
