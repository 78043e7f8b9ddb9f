/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/agent_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/budget.h"
#include "agent/config.h"
#include "agent/confine.h"
#include "agent/deliver.h"
#include "agent/given.h"
#include "agent/guard.h"
#include "agent/http/http.h"
#include "agent/http/http_link.h"
#include "agent/label_cache.h"
#include "agent/logger.h"
#include "agent/loopstats.h"
#include "agent/notify.h"
#include "agent/oom.h"
#include "agent/period.h"
#include "agent/schedule.h"
#include "agent/secrets.h"
#include "agent/sinks.h"
#include "agent/spool_left.h"
#include "agent/stall_watch.h"
#include "agent/live_profiles.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rate_limit.h"
#include "base/resources.h"
#include "base/selfmem.h"
#include "base/str.h"
#include "base/stream.h"
#include "cmd/options.h"
#include "follow/perf.h"
#include "sample/session.h"

#define TICK_NS		  NS_PER_S
#define HTTP_AGAIN_NS	  (60 * NS_PER_S)
#define SAY_NS		  (10 * NS_PER_S) /* then the log says what the thread waits for */
#define SAY_DELIVERY_NS	  (30 * NS_PER_S) /* as SAY_NS, for a window: a slow disk takes longer */
#define NAMES_BUDGET	  (16 << 10)	  /* bytes of names that Python may have: see session.h */
#define SYMBOLS_SHARE	  4 /* cached symbols may take 1 / this of the memory budget */
#define WAITS_SHARE	  5 /* stacks of waits that go on may take 1 / this of the CPU budget */

#define HANG_SHORTENED_MS 500 /* the end of a window may wait for the two hangs of a user */

#define FAILED_DRAINS_MAX 10 /* in a row, seconds apart */

_Static_assert(AGENT_LIVE_PROFILES == LIVE_PROFILES_MAX, "one limit");

/* ---- standing still -------------------------------------------------------------------------- */

/* Sets what the main thread is doing from now on; that must not take long. */
static void at(struct agent *a, const char *doing)
{
	atomic_store(&a->doing, doing);
	atomic_store(&a->moved_ns, now_ns());
}

static void look_after(void *ctx, struct watched_thread *out)
{
	struct agent *a = ctx;
	struct deliver *deliver = atomic_load(&a->deliver);
	struct deliver_stats d = { 0 };

	if (deliver)
		deliver__stats(deliver, &d);
	out[0] = (struct watched_thread){ "sampling", atomic_load(&a->doing), getpid(),
					  atomic_load(&a->moved_ns), SAY_NS };
	out[1] = (struct watched_thread){ "storing", "with one window", d.tid, d.moved_ns,
					  SAY_DELIVERY_NS };
}

/* ---- configuration --------------------------------------------------------------------------- */

int agent__check_config(const struct agent_opts *o)
{
	bool required = o->config_required;
	struct config *c = config__load(o->config_path, &required);
	int err;

	if (!c)
		return -errno;
	secrets__check(c, o->config_path);
	err = config__check_files(c, o->config_path, LOG_LEVEL_ERR) ? -ENOENT : 0;
	if (!err)
		log_info("%s: configuration is valid", o->config_path);
	config__put(c);
	return err;
}

int agent__print_config(const struct agent_opts *o)
{
	bool required = o->config_required;
	struct config *c = config__load(o->config_path, &required);
	int err = 0;

	if (!c)
		return -errno;
	config__print(c, stdout);
	config__put(c);
	err = stream__flush(stdout);
	if (err)
		log_err("standard output: %s", strerror(-err));
	return err;
}

int agent__remove_spools(const struct agent_opts *o)
{
	bool required = o->config_required;
	struct config *c = config__load(o->config_path, &required);
	int err;

	if (!c)
		return -errno;
	err = spool_left__remove(c);
	config__put(c);
	return err;
}

/* Warns about files that do not stop the agent, and may be intended. */
static void look_at_files(const struct agent *a, const struct config *c)
{
	secrets__check(c, a->o->config_path);
	config__check_files(c, a->o->config_path, LOG_LEVEL_WARN);
}

int agent__print_link(const struct agent_opts *o)
{
	bool required = o->config_required;
	struct config *c = config__load(o->config_path, &required);
	int err;

	if (!c)
		return -errno;
	err = http_link__print(&c->http);
	config__put(c);
	return err;
}

static void start_log(const struct agent *a)
{
	int level = (int)a->config->agent.log_level + a->o->verbosity;

	level = level < LOG_LEVEL_ERR	  ? LOG_LEVEL_ERR
		: level > LOG_LEVEL_DEBUG ? LOG_LEVEL_DEBUG
					  : level;
	log_set_level((enum log_level)level);
	logger__start(a->config->agent.log_json);
}

/* A change for the delivery thread to make. */
struct change {
	struct agent *agent;
	struct config *config;
};

static void change_delivery(void *ctx)
{
	struct change *ch = ctx;

	if (deliver__regroup(ch->agent->deliver, (const char *const *)ch->config->agent.group))
		log_no_memory();
	deliver__set_small(ch->agent->deliver, ch->config->agent.small);
	sinks__change(ch->agent->sinks, ch->config);
	config__put(ch->config);
	free(ch);
}

/*
 * Puts a configuration into effect. A new frequency or window length begins with the next period.
 */
static int apply(struct agent *a, struct config *c)
{
	const char *late = config__stay(c, a->first);
	struct change *ch = calloc(1, sizeof(*ch));
	int err;

	if (!ch)
		return log_no_memory();
	if (late)
		log_warn("%s: %s takes effect after a restart", a->o->config_path, late);
	*ch = (struct change){ a, config__hold(c) };
	err = deliver__call(a->deliver, change_delivery, ch);
	if (err) {
		log_err("eight reloads wait for windows to be stored (is the disk slow?)");
		config__put(ch->config);
		free(ch);
		return err;
	}
	label_cache__set_config(a->labels, &c->labels);
	budget__set(&a->budget, &c->budget, c->agent.frequency_hz);
	a->schedule.length_ns = c->agent.window_s * NS_PER_S;
	config__put(a->config);
	a->config = c;
	start_log(a);
	look_at_files(a, c);
	agent__restart_http(a);
	return 0;
}

static void reload(struct agent *a)
{
	struct config *c;

	at(a, "reading the configuration");
	notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_ns() / 1000);
	c = config__load(a->o->config_path, &a->config_required);
	if (c && !apply(a, c)) {
		a->stats.reloads++;
		log_info("%s: reloaded", a->o->config_path);
	} else {
		a->stats.reloads_failed++;
		log_err("%s: keeping the previous configuration", a->o->config_path);
		config__put(c);
	}
	notify("READY=1");
}

/* ---- sampling -------------------------------------------------------------------------------- */

static void on_known(void *ctx, const struct process *p, const struct process *parent)
{
	struct agent *a = ctx;

	label_cache__note(a->labels, p, parent);
}

static struct label_set *labels_of(void *ctx, const struct profile *p,
				   const struct profile_proc *proc)
{
	struct agent *a = ctx;

	return label_cache__labels(a->labels, p, proc);
}

/* Only then are event loops seen. */
static bool counts_waits(const struct agent_config *c)
{
	for (uint32_t i = 0; i < c->event_cnt; i++)
		if (c->events[i]->type.event == EVENT_WALL ||
		    c->events[i]->type.event == EVENT_OFF_CPU)
			return true;
	return false;
}

static int open_session(struct agent *a)
{
	const struct agent_config *c = &a->config->agent;
	struct session_opts o = {
		.spec = &a->spec,
		.table_mib = c->table_mib,
		.names_budget = NAMES_BUDGET,
		.no_native = !c->native,
		.no_kernel = !c->kernel,
		.timed = true,
		.hang_shortened_ms = HANG_SHORTENED_MS,
		.loops = SESSION_LOOPS_EACH,
		.events = a->events,
		.known = on_known,
		.known_ctx = a,
	};

	a->first = config__hold(a->config);
	a->spec = (struct sample_spec){
		.frequency_hz = c->frequency_hz,
		.comm = c->comm,
		.cgroup = c->cgroup,
	};
	for (uint32_t i = 0; i < c->event_cnt; i++) {
		a->spec.sources[a->spec.source_cnt++].source = c->events[i];
		a->values[i] = source__name(c->events[i]);
	}
	a->labels = label_cache__new("", &a->config->labels);
	a->loops = counts_waits(c) ? loopstats__new() : NULL;
	if (!a->labels || (counts_waits(c) && !a->loops))
		return log_no_memory();
	a->session = session__open(&o);
	return a->session ? 0 : -EIO;
}

/* Counts what a drain found, even if it failed half-way. */
static int take(struct agent *a, const struct profile *p)
{
	const struct period_limits limits = {
		.stacks = a->budget.stacks,
		.processes = a->config->budget.processes,
	};
	uint64_t before = a->period->samples;
	int err = period__add(a->period, p, &limits);

	if (err)
		log_no_memory();
	a->other_samples += profile__all_samples(p) - profile__samples(p);
	a->lost_samples += profile__total(p) - (a->period->samples - before);
	live_profiles__add(a->live, p, &limits);
	return err;
}

/* Why the counts are read. */
enum drain_why {
	DRAIN_BETWEEN, /* because there are many, or they are old */
	DRAIN_BORDER, /* a period, or a live profile, begins or ends: waits that go on count, too */
};

/* Waits that go on at `end_ns`, as far as the CPU budget allows; a failure costs only these. */
static void count_open_waits(struct agent *a, struct profile *p, enum drain_why why,
			     uint64_t end_ns)
{
	double share = a->config->budget.cpu_percent / 100 / WAITS_SHARE;

	if (why == DRAIN_BETWEEN) {
		openwaits__note(a->waits, p);
		return;
	}
	at(a, "looking at threads that wait");
	openwaits__count(a->waits, a->session, p, end_ns, share);
}

/*
 * Moves all counts since the last drain into the period and to the live profiles. Running short of
 * memory is no reason to end: a later drain reads the counts that a failed one leaves in the
 * kernel.
 */
static void drain(struct agent *a, enum drain_why why)
{
	struct profile *p = profile__new();
	uint64_t begin = now_ns(), begin_cpu = thread_cpu_ns();
	int err;

	at(a, "reading the counts");
	err = p ? session__drain(a->session, p) : log_no_memory();
	if (p)
		bills__note(session__bills(a->session), p); /* the counts alone */
	if (!err)
		count_open_waits(a, p, why, begin);
	if (p && take(a, p))
		err = -ENOMEM;
	profile__free(p);
	a->failed_drains = err ? a->failed_drains + 1 : 0;
	a->stats.drains_failed += err != 0;
	a->stats.drains++;
	a->stats.drain_ns += now_ns() - begin;
	a->own_ns += thread_cpu_ns() - begin_cpu;
}

int agent__name(void *ctx, struct profile *p)
{
	struct agent *a = ctx;
	const struct symbolize_opts so = {
		.lines = a->config->agent.lines,
		.symbols_budget =
			a->budget.give_back
				? 1
				: ((size_t)a->config->budget.memory_mib << 20) / SYMBOLS_SHARE,
	};

	uint64_t begin = thread_cpu_ns();
	int err;

	at(a, "looking for names");
	profile_stats__take_values(&p->stats, &a->stats.run);
	err = session__name(a->session, p, &so);

	a->own_ns += thread_cpu_ns() - begin;
	return err;
}

static void turn_live_profiles(struct agent *a, const struct clocks *now)
{
	live_profiles__turn(a->live, now, a->stats.run.values[0].frequency_hz, a->stats.run.cpus,
			    agent__name, a);
}

/* ---- what it takes --------------------------------------------------------------------------- */

uint64_t agent__own_memory(void)
{
	struct self_memory m;

	self_memory(&m);
	return m.resident > m.shared ? m.resident - m.shared : 0;
}

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Charges the period to users, and cuts one of them before anybody else. */
static void keep_cpu(struct agent *a, struct budget_period period)
{
	struct bills *bills = session__bills(a->session);
	uint64_t sampler = profile__sampler_ns(&a->stats.run);
	uint64_t follow = a->stats.run.counters[CTR_follow_ns];
	uint64_t own = above(period.samples_ns, sampler - a->sampler_ns);
	const struct bill *user;
	uint32_t one_of;

	bills__charge(bills, own, above(period.used_ns, period.samples_ns + follow - a->follow_ns));
	a->sampler_ns = sampler;
	a->follow_ns = follow;
	period.users = bills->list;
	period.user_cnt = bills->cnt;
	user = budget__cpu(&a->budget, &period, &one_of);
	if (user)
		session__cut_user(a->session, user->uid, one_of);
	bills__begin(bills);
}

/*
 * Sets the frequency that the budget wants. What was sampled since the last drain, by the old one,
 * still counts in the period that ends: its samples weigh what they say only there.
 */
static void change_frequency(struct agent *a)
{
	uint32_t *now_hz = &a->stats.run.values[0].frequency_hz;
	struct clocks now;

	if (session__set_frequency(a->session, a->budget.frequency_hz)) {
		a->budget.frequency_hz = *now_hz;
		session__set_frequency(a->session, *now_hz); /* of some CPUs it was */
		return;
	}
	drain(a, DRAIN_BETWEEN);
	clocks__read(&now);
	live_profiles__cut(a->live, &now, *now_hz, a->stats.run.cpus, agent__name, a);
	*now_hz = a->budget.frequency_hz;
}

/* Adjusts frequency, windows and caches after a period, for the next one. */
static void keep_budget(struct agent *a, uint64_t duration_ns)
{
	struct agent_stats *s = &a->stats;
	uint64_t used =
		s->run.self_cpu_ns + profile__sampler_ns(&s->run) + s->run.counters[CTR_follow_ns];

	const struct budget_period period = {
		.duration_ns = duration_ns,
		.used_ns = used - a->used_ns,
		.samples_ns = s->samples_ns - a->samples_ns,
	};

	budget__memory(&a->budget, s->rss_bytes);
	a->used_ns = used;
	a->samples_ns = s->samples_ns;
	keep_cpu(a, period);
	a->schedule.length_ns = a->config->agent.window_s * a->budget.stretch * NS_PER_S;
	if (a->budget.frequency_hz != s->run.values[0].frequency_hz)
		change_frequency(a);
}

/* ---- periods --------------------------------------------------------------------------------- */

static int begin_period(struct agent *a)
{
	a->period = period__new();
	return a->period ? 0 : log_no_memory();
}

static void say_why(enum schedule_why why, const struct span *span)
{
	double s = (double)(span->jump_ns < 0 ? -span->jump_ns : span->jump_ns) / NS_PER_S;

	if (why == SCHEDULE_CLOCK_SET)
		log_warn("the clock was set %s by %.1f s: the period ends here",
			 span->jump_ns < 0 ? "back" : "forward", s);
	if (why == SCHEDULE_SLEPT)
		log_warn("the machine was suspended for %.1f s; nothing was sampled", s);
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

/*
 * A period has names of its own by now. A live profile that began before the last period has none
 * yet for what was only sampled then, and what this and the last period did not name would be
 * forgotten. So that waits, but not for ever: others may follow it without a gap.
 */
static void forget(struct agent *a, const struct clocks *now)
{
	bool waits = live_profiles__oldest_ns(a->live) < a->border_ns &&
		     now->mono_ns - a->forgot_ns < 2 * LIVE_PROFILE_MAX_S * NS_PER_S;

	a->border_ns = now->mono_ns;
	label_cache__forget(a->labels, session__procs(a->session));
	if (waits)
		return;
	a->forgot_ns = now->mono_ns;
	session__forget(a->session);
}

/* Names the period and hands it to delivery. */
static void give_away(struct agent *a, struct period *p)
{
	int err = agent__name(a, p->profile);

	if (!err)
		err = period__label(p, labels_of, a);
	if (!err) {
		if (a->loops)
			loopstats__add(a->loops, p, now_ns());
		deliver__put(a->deliver, p);
		return;
	}
	log_err("a period of %" PRIu64 " samples is dropped: %s", p->samples, strerror(-err));
	a->lost_samples += p->samples;
	a->lost_periods++;
	period__free(p);
}

/* Drains and hands over; the next period has begun at the drain. */
static int end_period(struct agent *a, enum schedule_why why, const struct clocks *now)
{
	struct period *p = a->period;

	drain(a, DRAIN_BORDER);
	turn_live_profiles(a, now);
	schedule__take(&a->schedule, now, &p->span);
	say_why(why, &p->span);
	a->stats.clock_jumps += why == SCHEDULE_CLOCK_SET;
	a->stats.suspends += why == SCHEDULE_SLEPT;
	p->frequency_hz = a->stats.run.values[0].frequency_hz;
	profile_stats__take_values(&p->profile->stats, &a->stats.run);
	p->profile->stats.cpus = a->stats.run.cpus;
	if (!a->stop) { /* before naming, whose time belongs to the next period */
		agent__publish(a);
		keep_budget(a, p->span.duration_ns);
	}
	note_period(a, p);
	a->period = NULL;
	give_away(a, p);
	forget(a, now);
	return begin_period(a);
}

/* ---- each second ----------------------------------------------------------------------------- */

/* Where the functions are that grew: in windows, if they have page faults. */
static void add_functions(struct strbuf *b, const struct config *c, uint64_t unix_s)
{
	const char *faults = NULL;

	for (size_t i = 0; i < SAMPLED_MAX && c->agent.events[i]; i++) {
		uint32_t event = c->agent.events[i]->type.event;

		if (event == EVENT_PAGE_FAULTS || event == EVENT_MINOR_FAULTS)
			faults = event_name(event);
	}
	if (!faults)
		strbuf__addz(b, "With page-faults among `events` of the configuration, windows "
				"would tell which functions\ntouched new memory.");
	else if (c->store_enabled)
		strbuf__addf(b,
			     "Which functions touched new memory:\n  pyperf-bpf report --store %s "
			     "--from %" PRIu64 " --to %" PRIu64 " --value %s",
			     c->store.path, unix_s - OOM_POINTS * OOM_APART_S, unix_s, faults);
	else
		strbuf__addf(b,
			     "Which functions touched new memory is in the windows that were "
			     "sent: %s.",
			     faults);
}

/* A page is written here: it is small, and who waits for a window is not to wait for it. */
static void look_for_kills(struct agent *a, uint64_t now)
{
	uint64_t unix_s = (uint64_t)time(NULL);
	struct strbuf how = { 0 };

	if (!a->oom)
		return;
	oom__look(a->oom, session__procs(a->session), now / NS_PER_S);
	if (!oom__is_due(a->oom, now / NS_PER_S))
		return;
	at(a, "writing a page about a kill");
	add_functions(&how, a->config, unix_s);
	oom__write(a->oom, a->config->agent.state_dir, how.err ? "" : how.s, unix_s);
	strbuf__free(&how);
}

static void tick(struct agent *a, uint64_t now)
{
	if (now - a->tick_ns >= TICK_NS) {
		a->tick_ns = now;
		agent__publish(a);
		look_for_kills(a, now);
	}
	if (agent__http_is_missing(a) && now - a->http_ns >= HTTP_AGAIN_NS)
		agent__restart_http(a);
	if (a->watchdog_ns && now - a->watched_ns >= a->watchdog_ns / 2) {
		const char *why;

		a->watched_ns = now;
		if (agent__healthy(a, &why))
			notify("WATCHDOG=1");
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_signal(struct agent *a, int sig)
{
	switch (sig) {
	case SIGTERM:
	case SIGINT:
		a->stop = true;
		break;
	case SIGHUP:
		reload(a);
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
	uint64_t n;
	int number;

	while (read(a->wake_fd, &n, sizeof(n)) == sizeof(n))
		; /* live_profiles__due() says why not */

	while ((number = stall_watch__next(a->stall_watch)))
		on_signal(a, number);
}

/* Blocked before the first thread exists, so that all threads block them. */
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
	a->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->signal_fd >= 0 && a->wake_fd >= 0)
		return 0;
	log_err("signals: %s", strerror(errno));
	return -errno;
}

static int open_events(struct agent *a)
{
	const struct agent_config *c = &a->config->agent;
	struct perf_kind kinds[SAMPLED_MAX];
	size_t cnt = 0;

	for (uint32_t i = 0; i < c->event_cnt; i++)
		if (c->events[i]->perf)
			kinds[cnt++] = (struct perf_kind){ c->events[i]->kind, c->events[i]->config,
							   source__name(c->events[i]) };
	a->events = perf_events__open(kinds, cnt, c->frequency_hz);
	return a->events ? 0 : -EIO;
}

/* Opens what needs privileges that the agent then gives up, and what all else needs. */
static int settle(struct agent *a)
{
	resources__hurry();
	a->guard_fd = guard__take(a->config->agent.state_dir);
	if (a->guard_fd < 0)
		return a->guard_fd;
	return open_events(a) ? -EIO : confine();
}

static int open_delivery(struct agent *a)
{
	a->live = live_profiles__new(a->wake_fd);
	a->sinks = sinks__open(a->config);
	if (!a->sinks)
		return -errno;
	a->deliver =
		deliver__new((const char *const *)a->config->agent.group, sinks__put, a->sinks);
	if (!a->deliver || !a->live)
		return log_no_memory();
	deliver__set_small(a->deliver, a->config->agent.small);
	return 0;
}

static int start(struct agent *a)
{
	struct clocks now;
	int err;

	at(a, "starting");
	err = settle(a);
	if (!err) {
		a->stall_watch = stall_watch__start(a->signal_fd, look_after, a);
		err = a->stall_watch ? 0 : -errno;
	}
	if (!err)
		err = open_delivery(a);
	if (!err)
		err = open_session(a);
	if (!err)
		err = session__watch(a->session, stall_watch__fd(a->stall_watch));
	if (!err)
		err = session__watch(a->session, a->wake_fd);
	if (!err)
		err = deliver__start(a->deliver);
	if (!err)
		err = begin_period(a);
	if (!err)
		err = session__start(a->session);
	if (err)
		return err;
	a->waits = openwaits__new(a->session); /* without it waits count when they end */
	clocks__read(&now);
	schedule__begin(&a->schedule, a->config->agent.window_s * NS_PER_S, &now);
	budget__init(&a->budget, &a->config->budget, a->config->agent.frequency_hz);
	a->watchdog_ns = notify__watchdog_ns();
	agent__publish(a);
	a->oom = oom__new("");
	if (!a->oom)
		log_no_memory();
	err = agent__start_http(a);
	if (err)
		return err;
	log_info("sampling at %" PRIu32 " Hz, windows of %" PRIu32 " s",
		 a->config->agent.frequency_hz, a->config->agent.window_s);
	notify("READY=1\nSTATUS=sampling");
	return 0;
}

static uint64_t wake_ns(const struct agent *a, const struct clocks *now)
{
	uint64_t due = schedule__wake_ns(&a->schedule, now), live = live_profiles__wake_ns(a->live);

	return live < due ? live : due;
}

/*
 * Numbers are never reused, so they run out some day. Then the supervisor of the agent restarts
 * it.
 */
static void end_if_worn(struct agent *a)
{
	if (a->stop || !session__worn(a->session))
		return;
	log_warn("half of all numbers for processes, files and functions are used up: the agent "
		 "ends and must be restarted");
	a->stop = true;
}

/* Drains when any reason for it is due. */
static int look(struct agent *a)
{
	enum schedule_why why;
	struct clocks now;
	int err = 0;

	clocks__read(&now);
	why = schedule__check(&a->schedule, &now);
	if (why != SCHEDULE_RUNS) {
		err = end_period(a, why, &now);
		end_if_worn(a);
	} else if (live_profiles__due(a->live, now.mono_ns)) {
		drain(a, DRAIN_BORDER);
		turn_live_profiles(a, &now);
	} else if (session__wants_drain(a->session)) {
		drain(a, DRAIN_BETWEEN);
	}
	if (a->failed_drains < FAILED_DRAINS_MAX)
		return err;
	log_err("the counts could not be read %u times in a row: the agent ends and must be "
		"restarted",
		a->failed_drains);
	return -EIO;
}

static int sample(struct agent *a)
{
	struct clocks now;
	int err = 0;

	while (!a->stop && !err) {
		clocks__read(&now);
		at(a, "following processes");
		session__due(a->session, schedule__wake_ns(&a->schedule, &now));
		err = session__wait(a->session, wake_ns(a, &now));
		label_cache__read(a->labels, session__procs(a->session));
		read_signals(a);
		if (!err)
			err = look(a);
		tick(a, now_ns());
	}
	return err;
}

/* Ends the last period, which is shorter. */
static void finish(struct agent *a)
{
	struct clocks now;

	session__due(a->session, now_ns());
	notify("STOPPING=1\nSTATUS=writing the last windows");
	if (a->period) /* threads that wait are looked at as long as the programs follow them */
		drain(a, DRAIN_BORDER);
	openwaits__free(a->waits);
	a->waits = NULL;
	at(a, "writing the last windows");
	session__stop(a->session);
	a->stop = true;
	if (!a->period) /* out of memory */
		return;
	if (a->stats.drains_failed)
		drain(a, DRAIN_BETWEEN); /* samples that are still in the other table */
	clocks__read(&now);
	end_period(a, SCHEDULE_DUE, &now);
}

static void say_end(const struct agent *a, const struct deliver_stats *d)
{
	struct profile_stats s;

	session__stats(a->session, &s);
	log_info("ended: %" PRIu64 " samples counted, %" PRIu64 " in %" PRIu64
		 " windows of %" PRIu64 " periods, %" PRIu64 " dropped",
		 s.counters[CTR_counted] - a->other_samples, d->samples, d->windows, d->periods,
		 d->dropped_samples + a->lost_samples + d->left_out_samples);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void close_all(struct agent *a, bool ran)
{
	struct deliver_stats d = { 0 };

	agent__stop_http(a);
	given__close(&a->given);
	at(a, "writing the last windows");
	deliver__finish(a->deliver);
	at(a, "sending what the spools hold");
	sinks__close(a->sinks);
	stall_watch__stop(a->stall_watch);
	deliver__close(a->deliver, &d);
	if (ran)
		say_end(a, &d);
	live_profiles__free(a->live);
	period__free(a->period);
	openwaits__free(a->waits);
	session__close(a->session);
	perf_events__free(a->events);
	label_cache__free(a->labels);
	loopstats__free(a->loops);
	oom__free(a->oom);
	close_fd(a->signal_fd);
	close_fd(a->wake_fd);
	close_fd(a->guard_fd);
	pthread_mutex_destroy(&a->lock);
	config__put(a->first);
	config__put(a->config);
	free(a);
}

int agent__run(const struct agent_opts *o)
{
	struct agent *a = calloc(1, sizeof(*a));
	bool ran = false;
	int err = 0;

	if (!a)
		return log_no_memory();
	a->o = o;
	a->guard_fd = a->signal_fd = a->wake_fd = -1;
	pthread_mutex_init(&a->lock, NULL);
	a->config_required = o->config_required;
	a->config = config__load(o->config_path, &a->config_required);
	if (!a->config)
		err = -errno;
	if (!err) {
		start_log(a);
		given__take(&a->given);
		look_at_files(a, a->config);
		err = open_signals(a);
	}
	if (!err)
		err = start(a);
	if (!err) {
		ran = true;
		err = sample(a);
		finish(a);
	}
	close_all(a, ran);
	return err;
}
