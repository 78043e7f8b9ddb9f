/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the agent tells about itself: its figures, whether it is well, and its endpoint, which asks
 * for both and for profiles. publish() is of the main thread; all others may come from any.
 */
#include "agent/agent_parts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/http/http_link.h"
#include "base/clock.h"
#include "base/log.h"

#define STALLED_NS (60 * NS_PER_S) /* of the main thread, which turns once a second */

/* Linux 6.2 (f1f1f2569901) tells the number of descriptors; before, count them. */
static uint32_t count_fds(void)
{
	struct dirent *entry;
	struct stat st;
	uint32_t n = 0;
	DIR *d;

	if (!stat("/proc/self/fd", &st) && st.st_size)
		return (uint32_t)st.st_size;
	d = opendir("/proc/self/fd");
	while (d && (entry = readdir(d)))
		n += entry->d_name[0] != '.';
	if (d)
		closedir(d);
	return n ? n - 1 : 0; /* without the one that reads the directory */
}

static void note_delivery(struct agent *a, struct agent_stats *s)
{
	struct deliver_stats d;

	deliver__stats(a->deliver, &d);
	s->samples_ns = profile__sampler_ns(&s->run) + a->own_ns + d.cpu_ns;
	s->windows = d.windows;
	s->samples = d.samples;
	s->periods_dropped = d.dropped + a->lost_periods;
	s->samples_dropped = d.dropped_samples + a->lost_samples;
	s->samples_left_out = d.left_out_samples;
	s->windows_failed = d.failed;
	s->queued = d.queued;
	s->services = d.services;
	s->period_end_ns = d.end_unix_ns;
}

/* The session recovers as far as possible. */
static void say_lost_events(struct agent *a)
{
	uint64_t lost = a->stats.run.counters[CTR_note_event_lost], held;

	if (lost == a->events_lost || !rate_limit__allows(&a->said_lost, RATE_LIMIT_MINUTE, &held))
		return;
	log_warn("event_lost: %" PRIu64
		 " events of processes found no room in the kernel's buffer: processes were looked "
		 "for in /proc instead, and those that had ended by then are missing (was the "
		 "agent kept from running?)",
		 lost - a->events_lost);
	a->events_lost = lost;
}

void agent__publish(struct agent *a)
{
	struct agent_stats *s = &a->stats;
	struct process_stats procs;

	session__stats(a->session, &s->run);
	say_lost_events(a);
	session__fill(a->session, s->fill);
	process_table__stats(session__procs(a->session), &procs);
	s->up_ns = s->run.duration_ns;
	s->rss_bytes = agent__own_memory();
	s->fds = count_fds();
	s->frequency_cfg = a->config->agent.frequency_hz;
	s->window_s = (uint32_t)(a->schedule.length_ns / NS_PER_S);
	s->frequency_hz = s->run.values[0].frequency_hz;
	s->slowed = session__slowed(a->session);
	s->user_cnt = bills__costliest(session__bills(a->session), s->users, AGENT_USERS);
	s->processes = (uint32_t)(procs.python + procs.native_only);
	s->unlabelled = label_cache__missed(a->labels);
	openwaits__stats(a->waits, &s->waits);
	note_delivery(a, s);
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

int agent__profile(struct agent *a, unsigned seconds, int client_fd, FILE *f)
{
	return live_profiles__profile(a->live, seconds, client_fd, f);
}

bool agent__healthy(struct agent *a, const char **why)
{
	struct deliver_stats d;
	uint64_t alive, now = now_ns();

	pthread_mutex_lock(&a->lock);
	alive = a->alive_ns;
	pthread_mutex_unlock(&a->lock);
	deliver__stats(a->deliver, &d);
	*why = NULL;
	if (!alive || now - alive > STALLED_NS)
		*why = "sampling stands still";
	else if (deliver__hangs(&d, now))
		*why = "windows are not stored: one has been on its way for five minutes";
	return !*why;
}

/* ---- the endpoint ---------------------------------------------------------------------------- */

static void ask_stats(void *ctx, struct agent_stats *out)
{
	agent__stats(ctx, out);
}

static int ask_profile(void *ctx, unsigned seconds, int client_fd, FILE *f)
{
	return agent__profile(ctx, seconds, client_fd, f);
}

static bool ask_healthy(void *ctx, const char **why)
{
	return agent__healthy(ctx, why);
}

static size_t ask_push(void *ctx, struct push_stats *out, size_t cap)
{
	struct agent *a = ctx;

	return sinks__push_stats(a->sinks, out, cap);
}

static size_t ask_loops(void *ctx, struct loop_figures *out, size_t cap)
{
	struct agent *a = ctx;

	return loopstats__list(a->loops, out, cap);
}

int agent__start_http(struct agent *a)
{
	a->http_config = config__hold(a->config);
	a->backend = (struct http_backend){
		.ctx = a,
		.stats = ask_stats,
		.profile = ask_profile,
		.healthy = ask_healthy,
		.push = ask_push,
		.loops = a->loops ? ask_loops : NULL,
		.values = a->values,
		.store_path = a->config->store_enabled ? a->http_config->store.path : NULL,
	};
	a->http_ns = now_ns();
	errno = 0;
	a->http = http__start(&a->config->http, given__find(&a->given, &a->config->http),
			      &a->backend);
	if (!a->http)
		return -errno; /* 0: it is off */
	http_link__say(&a->config->http);
	return 0;
}

bool agent__http_is_missing(const struct agent *a)
{
	return !a->http && a->http_config && !a->http_config->http.off;
}

void agent__stop_http(struct agent *a)
{
	struct clocks now;

	clocks__read(&now);
	if (a->http)
		live_profiles__end(a->live, &now, a->stats.run.values[0].frequency_hz,
				   a->stats.run.cpus, agent__name, a);
	http__stop(a->http);
	a->http = NULL;
	config__put(a->http_config);
	a->http_config = NULL;
}

void agent__restart_http(struct agent *a)
{
	const struct config *old = a->http_config, *new = a->config;

	if (old && !agent__http_is_missing(a) &&
	    !memcmp(&old->http, &new->http, sizeof(new->http)) &&
	    old->store_enabled == new->store_enabled && !strcmp(old->store.path, new->store.path))
		return;
	agent__stop_http(a);
	live_profiles__resume(a->live);
	if (agent__start_http(a))
		log_err("there is no endpoint; it is tried again every minute");
}
