/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/deliver.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/split.h"
#include "clock.h"
#include "log.h"

struct deliver {
	pthread_mutex_t lock; /* of all below, but for what the thread uses while it is busy */
	pthread_cond_t more;  /* the queue is not empty, or it ends */
	pthread_cond_t idle;
	pthread_t thread;
	bool started, ending, busy;
	struct period *queue[DELIVER_QUEUE];
	size_t queued;
	struct deliver_stats stats;
	/* Changed only while it is not busy. */
	struct splitter *splitter;
	struct sink sinks[DELIVER_SINKS];
	size_t sink_cnt;
	/* The thread's own. */
	uint64_t windows, samples, failed;
};

struct deliver *deliver__new(const char *const *group)
{
	struct deliver *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->more, NULL);
	pthread_cond_init(&d->idle, NULL);
	d->splitter = splitter__new(group);
	if (!d->splitter) {
		deliver__close(d, NULL);
		return NULL;
	}
	return d;
}

/* ---- the thread ------------------------------------------------------------------------------------ */

static int give(void *ctx, const struct window *w)
{
	struct deliver *d = ctx;
	int first = 0;

	d->windows++;
	d->samples += w->samples;
	for (size_t i = 0; i < d->sink_cnt; i++) {
		int err = d->sinks[i].put(d->sinks[i].ctx, w);

		d->failed += err != 0;
		if (!first)
			first = err;
	}
	return first;
}

static void deliver_one(struct deliver *d, struct period *p)
{
	uint64_t end = p->span.start_unix_ns + p->span.duration_ns, before = d->failed;
	uint32_t services;
	int err = splitter__run(d->splitter, p, give, d, &services);

	if (err && d->failed == before) { /* no sink that has said why */
		log_err("windows: %s", strerror(-err));
		d->failed++;
	}
	pthread_mutex_lock(&d->lock);
	d->stats.periods++;
	d->stats.windows = d->windows;
	d->stats.samples = d->samples;
	d->stats.failed = d->failed;
	d->stats.services = services;
	d->stats.end_unix_ns = end;
	pthread_mutex_unlock(&d->lock);
}

static struct period *take(struct deliver *d)
{
	struct period *p = NULL;

	pthread_mutex_lock(&d->lock);
	d->busy = false;
	d->stats.busy_ns = 0;
	pthread_cond_broadcast(&d->idle);
	while (!d->queued && !d->ending)
		pthread_cond_wait(&d->more, &d->lock);
	if (d->queued) {
		p = d->queue[0];
		memmove(d->queue, d->queue + 1, --d->queued * sizeof(struct period *));
		d->busy = true;
		d->stats.busy_ns = now_ns();
	}
	pthread_mutex_unlock(&d->lock);
	return p;
}

static void *run(void *arg)
{
	struct deliver *d = arg;
	struct period *p;

	while ((p = take(d))) {
		deliver_one(d, p);
		period__free(p);
		malloc_trim(0); /* what a period takes is not needed until the next one */
	}
	return NULL;
}

/* ---- for the main thread ----------------------------------------------------------------------------- */

int deliver__start(struct deliver *d)
{
	sigset_t all, old;
	int err;

	sigfillset(&all); /* signals are the main thread's */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = pthread_create(&d->thread, NULL, run, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		log_err("a thread: %s", strerror(err));
	d->started = !err;
	return -err;
}

int deliver__set(struct deliver *d, const char *const *group, const struct sink *sinks, size_t cnt)
{
	struct splitter *splitter = group ? splitter__new(group) : NULL, *old = NULL;

	if (cnt > DELIVER_SINKS || (group && !splitter)) {
		splitter__free(splitter);
		return cnt > DELIVER_SINKS ? -E2BIG : -ENOMEM;
	}
	pthread_mutex_lock(&d->lock);
	while (d->busy)
		pthread_cond_wait(&d->idle, &d->lock);
	memcpy(d->sinks, sinks, cnt * sizeof(*sinks));
	d->sink_cnt = cnt;
	if (splitter) {
		old = d->splitter;
		d->splitter = splitter;
	}
	pthread_mutex_unlock(&d->lock);
	splitter__free(old);
	return 0;
}

static struct period *make_room(struct deliver *d)
{
	struct period *oldest = d->queue[0];

	if (d->queued < DELIVER_QUEUE)
		return NULL;
	memmove(d->queue, d->queue + 1, --d->queued * sizeof(struct period *));
	d->stats.dropped++;
	d->stats.dropped_samples += oldest->samples;
	return oldest;
}

void deliver__put(struct deliver *d, struct period *p)
{
	struct period *dropped;

	pthread_mutex_lock(&d->lock);
	dropped = make_room(d);
	d->queue[d->queued++] = p;
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
	if (dropped)
		log_err("a period of %" PRIu64
			" samples is dropped: %d others wait to be stored (is the disk slow?)",
			dropped->samples, DELIVER_QUEUE);
	period__free(dropped);
}

void deliver__stats(struct deliver *d, struct deliver_stats *out)
{
	pthread_mutex_lock(&d->lock);
	*out = d->stats;
	out->queued = (uint32_t)d->queued;
	pthread_mutex_unlock(&d->lock);
}

void deliver__close(struct deliver *d, struct deliver_stats *last)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->ending = true;
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
	if (d->started)
		pthread_join(d->thread, NULL);
	if (last)
		*last = d->stats;
	for (size_t i = 0; i < d->queued; i++)
		period__free(d->queue[i]);
	splitter__free(d->splitter);
	pthread_cond_destroy(&d->more);
	pthread_cond_destroy(&d->idle);
	pthread_mutex_destroy(&d->lock);
	free(d);
}
