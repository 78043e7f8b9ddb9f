/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/sinks.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/spool_left.h"
#include "agent/windowdir.h"
#include "base/clock.h"
#include "base/log.h"
#include "export/draft.h"

#define PUSH_LAST_MS   1000 /* at the end, see ending.h; the rest stays in the spool */
#define PUSH_CHANGE_MS 1000
#define REOPEN_MS      60000

struct sinks {
	struct config *config; /* held */
	struct store *store;   /* NULL: none */
	uint64_t reopen_ms;    /* when to try again to open what could not be opened */
	pthread_mutex_t lock;  /* other threads read figures while `push` is replaced */
	struct push *push;     /* NULL: none */
};

static int open_store(struct sinks *s)
{
	if (!s->config->store_enabled)
		return 0;
	s->store = store__open(&s->config->store);
	if (!s->store)
		return -errno;
	store__say(s->store);
	return 0;
}

static void close_push(struct sinks *s, uint64_t deadline_ms)
{
	struct push *push = s->push;

	pthread_mutex_lock(&s->lock);
	s->push = NULL;
	pthread_mutex_unlock(&s->lock);
	push__close(push, deadline_ms);
}

static int open_push(struct sinks *s)
{
	char spool[PATH_MAX];
	struct push *push;
	int err;

	if (!s->config->push_cnt)
		return 0;
	snprintf(spool, sizeof(spool), "%s/spool", s->config->agent.state_dir);
	push = push__open(s->config->push, s->config->push_cnt, spool);
	err = push ? 0 : -errno;
	pthread_mutex_lock(&s->lock);
	s->push = push;
	pthread_mutex_unlock(&s->lock);
	return err;
}

struct sinks *sinks__open(struct config *c)
{
	struct sinks *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		log_no_memory();
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->config = config__hold(c);
	spool_left__say(c);
	draft__clean(c->agent.state_dir);
	if (c->agent.directory)
		draft__clean(c->agent.directory);
	err = open_store(s);
	if (!err)
		err = open_push(s);
	if (!err)
		return s;
	sinks__close(s);
	errno = -err;
	return NULL;
}

/* After a reload: 0, or -EIO with a message once a minute while a sink cannot be opened. */
static int reopen(struct sinks *s)
{
	bool no_store = s->config->store_enabled && !s->store;
	bool no_push = s->config->push_cnt && !s->push;

	if (!no_store && !no_push)
		return 0;
	if (now_ms() < s->reopen_ms)
		return -EIO;
	s->reopen_ms = now_ms() + REOPEN_MS;
	return (no_store && open_store(s)) || (no_push && open_push(s)) ? -EIO : 0;
}

int sinks__put(void *sinks, const struct window *w)
{
	struct sinks *s = sinks;
	int first = reopen(s), err;

	err = s->store ? store__put(s->store, w) : 0;
	if (!first)
		first = err;
	err = s->push ? push__put(s->push, w) : 0;
	if (!first)
		first = err;
	err = s->config->agent.directory ? windowdir__put(s->config->agent.directory, w) : 0;
	return first ? first : err;
}

static void change_store(struct sinks *s, const struct config *old)
{
	bool same = s->config->store_enabled && !strcmp(old->store.path, s->config->store.path);

	if (s->store && same) {
		store__configure(s->store, &s->config->store);
		store__say(s->store);
		return;
	}
	store__close(s->store);
	s->store = NULL;
	open_store(s);
}

void sinks__change(struct sinks *s, struct config *c)
{
	struct config *old = s->config;

	close_push(s, PUSH_CHANGE_MS); /* it borrows the old configuration */
	s->config = config__hold(c);
	change_store(s, old);
	open_push(s);
	spool_left__say(c);
	s->reopen_ms = now_ms() + REOPEN_MS;
	config__put(old);
}

void sinks__close(struct sinks *s)
{
	if (!s)
		return;
	close_push(s, PUSH_LAST_MS);
	store__close(s->store);
	config__put(s->config);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

size_t sinks__push_stats(struct sinks *s, struct push_stats *out, size_t cap)
{
	static _Thread_local char names[PUSHES_MAX]
				       [PUSH_NAME_MAX + 1]; /* the configuration may go meanwhile */
	size_t cnt;

	pthread_mutex_lock(&s->lock);
	cnt = s->push ? push__count(s->push) : 0;
	for (size_t i = 0; i < cnt && i < cap; i++) {
		push__stats(s->push, i, &out[i]);
		snprintf(names[i], sizeof(names[i]), "%s", out[i].name);
		out[i].name = names[i];
	}
	pthread_mutex_unlock(&s->lock);
	return cnt;
}
