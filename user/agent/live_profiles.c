/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/live_profiles.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "export/export.h"

enum live_state {
	LIVE_FREE = 0,
	LIVE_ASKED = 1,	  /* begins at the next drain */
	LIVE_RUNNING = 2, /* `period` is the main thread's */
	LIVE_DONE = 3,	  /* `period` and `err` are the asker's */
};

struct live_profile {
	enum live_state state;
	unsigned seconds;
	bool left; /* the asker has left: the main thread ends it */
	uint64_t end_ns;
	struct clocks begin;
	struct period *period;
	int err;
};

struct live_profiles {
	pthread_mutex_t lock; /* of all */
	pthread_cond_t changed;
	int wake_fd;
	bool ending;
	unsigned askers;
	struct live_profile live[LIVE_PROFILES_MAX];
};

struct live_profiles *live_profiles__new(int wake_fd)
{
	struct live_profiles *t = calloc(1, sizeof(*t));
	pthread_condattr_t attr;

	if (!t)
		return NULL;
	t->wake_fd = wake_fd;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, &attr);
	pthread_condattr_destroy(&attr);
	return t;
}

void live_profiles__free(struct live_profiles *t)
{
	if (!t)
		return;
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- who asks -------------------------------------------------------------------------------- */

static struct live_profile *find_free(struct live_profiles *t)
{
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++)
		if (t->live[i].state == LIVE_FREE)
			return &t->live[i];
	return NULL;
}

static int write_period(const struct period *p, FILE *f)
{
	const struct export_opts o = { .lines = true };

	return export__pprof(p->profile, &o, f);
}

/* Has the other end of this socket been closed? */
static bool has_left(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* With the lock. If it fails: the main thread looks once a second anyway. */
static void wake_main(struct live_profiles *t)
{
	const uint64_t one = 1;

	if (write(t->wake_fd, &one, sizeof(one)) < 0)
		log_debug("profile: %s", strerror(errno));
}

/* With the lock. */
static void wait_a_second(struct live_profiles *t)
{
	uint64_t until = now_ns() + NS_PER_S;
	const struct timespec ts = { .tv_sec = (time_t)(until / NS_PER_S),
				     .tv_nsec = (long)(until % NS_PER_S) };

	pthread_cond_timedwait(&t->changed, &t->lock, &ts);
}

/* With the lock. -ETIMEDOUT: the main thread does not answer; -ECANCELED: the asker is gone. */
static int wait_for(struct live_profiles *t, struct live_profile *live, int client_fd)
{
	uint64_t patience = now_ns() + LIVE_PROFILE_PATIENCE_S * NS_PER_S;

	while (live->state != LIVE_DONE) {
		wait_a_second(t);
		if (live->state == LIVE_ASKED && now_ns() >= patience)
			return -ETIMEDOUT;
		if (live->left || live->state == LIVE_DONE || !has_left(client_fd))
			continue;
		if (live->state == LIVE_ASKED)
			return -ECANCELED;
		live->left = true;
		wake_main(t);
	}
	return live->err;
}

int live_profiles__profile(struct live_profiles *t, unsigned seconds, int client_fd, FILE *f)
{
	struct period *p = NULL;
	bool wanted = false;
	struct live_profile *live;
	int err = -EBUSY, written = 0;

	if (!seconds || seconds > LIVE_PROFILE_MAX_S)
		return -EINVAL;
	pthread_mutex_lock(&t->lock);
	live = t->ending ? NULL : find_free(t);
	if (live) {
		*live = (struct live_profile){ .state = LIVE_ASKED, .seconds = seconds };
		t->askers++;
		wake_main(t);
		err = wait_for(t, live, client_fd);
		p = live->period;
		wanted = p && !live->left;
		live->state = LIVE_FREE;
		t->askers--;
		pthread_cond_broadcast(&t->changed);
	}
	pthread_mutex_unlock(&t->lock);
	if (wanted)
		written = write_period(p, f);
	period__free(p);
	return written ? written : err;
}

/* ---- the main thread ------------------------------------------------------------------------- */

/* With the lock; for one that runs. */
static uint64_t end_of(const struct live_profile *live)
{
	return live->left ? 0 : live->end_ns;
}

uint64_t live_profiles__wake_ns(struct live_profiles *t)
{
	uint64_t next = UINT64_MAX;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++) {
		if (t->live[i].state == LIVE_ASKED)
			next = 0;
		else if (t->live[i].state == LIVE_RUNNING && end_of(&t->live[i]) < next)
			next = end_of(&t->live[i]);
	}
	pthread_mutex_unlock(&t->lock);
	return next;
}

bool live_profiles__due(struct live_profiles *t, uint64_t now)
{
	return live_profiles__wake_ns(t) <= now;
}

uint64_t live_profiles__oldest_ns(struct live_profiles *t)
{
	uint64_t oldest = UINT64_MAX;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++)
		if (t->live[i].state == LIVE_RUNNING && t->live[i].begin.mono_ns < oldest)
			oldest = t->live[i].begin.mono_ns;
	pthread_mutex_unlock(&t->lock);
	return oldest;
}

void live_profiles__add(struct live_profiles *t, const struct profile *drained,
			const struct period_limits *limits)
{
	/* Nobody but this thread takes one out of LIVE_RUNNING. */
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++) {
		struct live_profile *live = &t->live[i];
		bool running;

		pthread_mutex_lock(&t->lock);
		running = live->state == LIVE_RUNNING;
		pthread_mutex_unlock(&t->lock);
		if (running && !live->err)
			live->err = period__add(live->period, drained, limits);
	}
}

/* With the lock. */
static void begin(struct live_profile *live, const struct clocks *now)
{
	live->begin = *now;
	live->end_ns = now->mono_ns + live->seconds * NS_PER_S;
	live->period = period__new();
	live->err = live->period ? 0 : -ENOMEM;
	live->state = live->period ? LIVE_RUNNING : LIVE_DONE;
}

static void finish(struct live_profiles *t, struct live_profile *live, const struct clocks *now,
		   int err)
{
	struct profile_stats *s = &live->period->profile->stats;

	s->start_unix_ns = live->begin.real_ns;
	s->duration_ns = now->mono_ns - live->begin.mono_ns;
	s->counters[CTR_delivered] = s->counters[CTR_counted] = live->period->samples;
	pthread_mutex_lock(&t->lock);
	if (!live->err)
		live->err = err;
	live->state = LIVE_DONE;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

/* Ends the live profiles that are due at `due_ns`. */
static void end_due(struct live_profiles *t, const struct clocks *now, uint64_t due_ns,
		    uint32_t frequency_hz, uint32_t cpus, int (*name)(void *ctx, struct profile *p),
		    void *ctx)
{
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++) {
		struct live_profile *live = &t->live[i];
		bool due, left;

		pthread_mutex_lock(&t->lock);
		due = live->state == LIVE_RUNNING && end_of(live) <= due_ns;
		left = live->left;
		pthread_mutex_unlock(&t->lock);
		if (!due)
			continue;
		live->period->profile->stats.values[0].frequency_hz = frequency_hz;
		live->period->profile->stats.cpus = cpus;
		finish(t, live, now, left ? -ECANCELED : name(ctx, live->period->profile));
	}
}

void live_profiles__turn(struct live_profiles *t, const struct clocks *now, uint32_t frequency_hz,
			 uint32_t cpus, int (*name)(void *ctx, struct profile *p), void *ctx)
{
	end_due(t, now, now->mono_ns, frequency_hz, cpus, name, ctx);
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++)
		if (t->live[i].state == LIVE_ASKED)
			begin(&t->live[i], now);
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

void live_profiles__cut(struct live_profiles *t, const struct clocks *now, uint32_t frequency_hz,
			uint32_t cpus, int (*name)(void *ctx, struct profile *p), void *ctx)
{
	end_due(t, now, UINT64_MAX, frequency_hz, cpus, name, ctx);
}

void live_profiles__end(struct live_profiles *t, const struct clocks *now, uint32_t frequency_hz,
			uint32_t cpus, int (*name)(void *ctx, struct profile *p), void *ctx)
{
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++) {
		if (t->live[i].state != LIVE_ASKED)
			continue;
		t->live[i].err = -ECANCELED;
		t->live[i].state = LIVE_DONE;
	}
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	end_due(t, now, UINT64_MAX, frequency_hz, cpus, name, ctx);
	pthread_mutex_lock(&t->lock);
	while (t->askers)
		pthread_cond_wait(&t->changed, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

void live_profiles__resume(struct live_profiles *t)
{
	pthread_mutex_lock(&t->lock);
	t->ending = false;
	pthread_mutex_unlock(&t->lock);
}
