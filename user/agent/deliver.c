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
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define CALLS_MAX 8

struct call {
	void (*fn)(void *ctx);
	void *ctx;
};

struct deliver {
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t more;  /* there is work, or the thread shall end */
	pthread_t thread;
	bool started, ending;
	struct period *queue[DELIVER_QUEUE];
	size_t queued;
	struct call calls[CALLS_MAX];
	size_t call_cnt;
	struct deliver_stats stats;
	/* Owned by the thread. */
	struct splitter *splitter;
	split_fn put;
	void *ctx;
	uint64_t windows, samples, failed;
};

struct deliver *deliver__new(const char *const *group, split_fn put, void *ctx)
{
	struct deliver *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->more, NULL);
	d->put = put;
	d->ctx = ctx;
	d->splitter = splitter__new(group);
	if (!d->splitter) {
		deliver__close(d, NULL);
		return NULL;
	}
	return d;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int give(void *ctx, const struct window *w)
{
	struct deliver *d = ctx;
	int err = d->put(d->ctx, w);

	d->windows++;
	d->samples += w->samples;
	d->failed += err != 0;
	pthread_mutex_lock(&d->lock);
	d->stats.moved_ns = now_ns();
	pthread_mutex_unlock(&d->lock);
	return err;
}

static void deliver_one(struct deliver *d, struct period *p)
{
	uint64_t end = p->span.start_unix_ns + p->span.duration_ns, before = d->samples, lost,
		 left_out;
	uint32_t services, unmade;
	int err = splitter__run(d->splitter, p, give, d, &services, &unmade);

	left_out = splitter__left_out(d->splitter);
	lost = p->samples - left_out - (d->samples - before);
	if (unmade) /* put() reports windows that could not be put */
		log_err("%" PRIu32 " windows of %" PRIu64 " samples could not be made: %s", unmade,
			lost, strerror(-err));
	d->failed += unmade;
	pthread_mutex_lock(&d->lock);
	d->stats.dropped_samples += lost;
	d->stats.left_out_samples += left_out;
	d->stats.cpu_ns = thread_cpu_ns();
	d->stats.periods++;
	d->stats.windows = d->windows;
	d->stats.samples = d->samples;
	d->stats.failed = d->failed;
	d->stats.services = services;
	d->stats.end_unix_ns = end;
	pthread_mutex_unlock(&d->lock);
}

/* Takes the next call or the next period. False: there is nothing left to do. */
static bool take(struct deliver *d, struct call *call, struct period **p)
{
	*call = (struct call){ NULL, NULL };
	*p = NULL;
	pthread_mutex_lock(&d->lock);
	d->stats.moved_ns = 0;
	while (!d->queued && !d->call_cnt && !d->ending)
		pthread_cond_wait(&d->more, &d->lock);
	if (d->call_cnt) {
		*call = d->calls[0];
		memmove(d->calls, d->calls + 1, --d->call_cnt * sizeof(*d->calls));
	} else if (d->queued) {
		*p = d->queue[0];
		memmove(d->queue, d->queue + 1, --d->queued * sizeof(struct period *));
	}
	if (call->fn || *p)
		d->stats.moved_ns = now_ns();
	pthread_mutex_unlock(&d->lock);
	return call->fn || *p;
}

static void *run(void *arg)
{
	struct deliver *d = arg;
	struct period *p;
	struct call call;

	pthread_mutex_lock(&d->lock);
	d->stats.tid = gettid();
	pthread_mutex_unlock(&d->lock);
	while (take(d, &call, &p)) {
		if (call.fn) {
			call.fn(call.ctx);
			continue;
		}
		deliver_one(d, p);
		period__free(p);
		malloc_trim(0); /* the memory of a period is not needed until the next one */
	}
	return NULL;
}

/* ---- for the main thread --------------------------------------------------------------------- */

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

int deliver__call(struct deliver *d, void (*fn)(void *ctx), void *ctx)
{
	int err = 0;

	pthread_mutex_lock(&d->lock);
	if (d->call_cnt < CALLS_MAX)
		d->calls[d->call_cnt++] = (struct call){ fn, ctx };
	else
		err = -EBUSY;
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
	return err;
}

int deliver__regroup(struct deliver *d, const char *const *group)
{
	struct splitter *s = splitter__new(group);

	if (!s)
		return -ENOMEM;
	splitter__free(d->splitter);
	d->splitter = s;
	return 0;
}

void deliver__set_small(struct deliver *d, uint32_t samples)
{
	splitter__set_small(d->splitter, samples);
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

bool deliver__hangs(const struct deliver_stats *s, uint64_t now)
{
	return s->moved_ns && now > s->moved_ns && now - s->moved_ns > DELIVER_PATIENCE_NS;
}

void deliver__finish(struct deliver *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->ending = true;
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
	if (d->started)
		pthread_join(d->thread, NULL);
	d->started = false;
}

void deliver__close(struct deliver *d, struct deliver_stats *last)
{
	if (!d)
		return;
	deliver__finish(d);
	if (last)
		*last = d->stats;
	for (size_t i = 0; i < d->queued; i++)
		period__free(d->queue[i]);
	splitter__free(d->splitter);
	pthread_cond_destroy(&d->more);
	pthread_mutex_destroy(&d->lock);
	free(d);
}
