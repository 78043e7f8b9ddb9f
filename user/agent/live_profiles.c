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

enum tap_state {
	TAP_FREE = 0,
	TAP_ASKED = 1,	 /* begins at the next drain */
	TAP_RUNNING = 2, /* `period` is the main thread's */
	TAP_DONE = 3,	 /* `period` and `err` are the asker's */
};

struct live_profile {
	enum tap_state state;
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
	struct live_profile tap[LIVE_PROFILES_MAX];
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
		if (t->tap[i].state == TAP_FREE)
			return &t->tap[i];
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
static int wait_for(struct live_profiles *t, struct live_profile *tap, int client_fd)
{
	uint64_t patience = now_ns() + LIVE_PROFILE_PATIENCE_S * NS_PER_S;

	while (tap->state != TAP_DONE) {
		wait_a_second(t);
		if (tap->state == TAP_ASKED && now_ns() >= patience)
			return -ETIMEDOUT;
		if (tap->left || tap->state == TAP_DONE || !has_left(client_fd))
			continue;
		if (tap->state == TAP_ASKED)
			return -ECANCELED;
		tap->left = true;
		wake_main(t);
	}
	return tap->err;
}

int live_profiles__profile(struct live_profiles *t, unsigned seconds, int client_fd, FILE *f)
{
	struct period *p = NULL;
	bool wanted = false;
	struct live_profile *tap;
	int err = -EBUSY, written = 0;

	if (!seconds || seconds > LIVE_PROFILE_MAX_S)
		return -EINVAL;
	pthread_mutex_lock(&t->lock);
	tap = t->ending ? NULL : find_free(t);
	if (tap) {
		*tap = (struct live_profile){ .state = TAP_ASKED, .seconds = seconds };
		t->askers++;
		wake_main(t);
		err = wait_for(t, tap, client_fd);
		p = tap->period;
		wanted = p && !tap->left;
		tap->state = TAP_FREE;
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

/* With the lock; for a running tap. */
static uint64_t end_of(const struct live_profile *tap)
{
	return tap->left ? 0 : tap->end_ns;
}

uint64_t live_profiles__wake_ns(struct live_profiles *t)
{
	uint64_t next = UINT64_MAX;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++) {
		if (t->tap[i].state == TAP_ASKED)
			next = 0;
		else if (t->tap[i].state == TAP_RUNNING && end_of(&t->tap[i]) < next)
			next = end_of(&t->tap[i]);
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
		if (t->tap[i].state == TAP_RUNNING && t->tap[i].begin.mono_ns < oldest)
			oldest = t->tap[i].begin.mono_ns;
	pthread_mutex_unlock(&t->lock);
	return oldest;
}

void live_profiles__add(struct live_profiles *t, const struct profile *drained,
			const struct period_limits *limits)
{
	/* Nobody but this thread takes a tap out of TAP_RUNNING. */
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++) {
		struct live_profile *tap = &t->tap[i];
		bool running;

		pthread_mutex_lock(&t->lock);
		running = tap->state == TAP_RUNNING;
		pthread_mutex_unlock(&t->lock);
		if (running && !tap->err)
			tap->err = period__add(tap->period, drained, limits);
	}
}

/* With the lock. */
static void begin(struct live_profile *tap, const struct clocks *now)
{
	tap->begin = *now;
	tap->end_ns = now->mono_ns + tap->seconds * NS_PER_S;
	tap->period = period__new();
	tap->err = tap->period ? 0 : -ENOMEM;
	tap->state = tap->period ? TAP_RUNNING : TAP_DONE;
}

static void finish(struct live_profiles *t, struct live_profile *tap, const struct clocks *now,
		   int err)
{
	struct profile_stats *s = &tap->period->profile->stats;

	s->start_unix_ns = tap->begin.real_ns;
	s->duration_ns = now->mono_ns - tap->begin.mono_ns;
	s->counters[CTR_delivered] = s->counters[CTR_counted] = tap->period->samples;
	pthread_mutex_lock(&t->lock);
	if (!tap->err)
		tap->err = err;
	tap->state = TAP_DONE;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

/* Ends the taps that are due at `due_ns`. */
static void end_due(struct live_profiles *t, const struct clocks *now, uint64_t due_ns,
		    uint32_t frequency_hz, uint32_t cpus, int (*name)(void *ctx, struct profile *p),
		    void *ctx)
{
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++) {
		struct live_profile *tap = &t->tap[i];
		bool due, left;

		pthread_mutex_lock(&t->lock);
		due = tap->state == TAP_RUNNING && end_of(tap) <= due_ns;
		left = tap->left;
		pthread_mutex_unlock(&t->lock);
		if (!due)
			continue;
		tap->period->profile->stats.values[0].frequency_hz = frequency_hz;
		tap->period->profile->stats.cpus = cpus;
		finish(t, tap, now, left ? -ECANCELED : name(ctx, tap->period->profile));
	}
}

void live_profiles__turn(struct live_profiles *t, const struct clocks *now, uint32_t frequency_hz,
			 uint32_t cpus, int (*name)(void *ctx, struct profile *p), void *ctx)
{
	end_due(t, now, now->mono_ns, frequency_hz, cpus, name, ctx);
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < LIVE_PROFILES_MAX; i++)
		if (t->tap[i].state == TAP_ASKED)
			begin(&t->tap[i], now);
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
		if (t->tap[i].state != TAP_ASKED)
			continue;
		t->tap[i].err = -ECANCELED;
		t->tap[i].state = TAP_DONE;
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
