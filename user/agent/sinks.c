/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/sinks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/windowdir.h"
#include "log.h"

#define PUSH_LAST_MS   5000 /* at the end: what is not sent then stays in the spool */
#define PUSH_CHANGE_MS 1000

struct sinks {
	struct config *config; /* held */
	struct store *store;   /* NULL: none */
	struct push *push;     /* NULL: none */
};

static int open_store(struct sinks *s)
{
	if (!s->config->store_enabled)
		return 0;
	s->store = store__open(&s->config->store);
	return s->store ? 0 : -errno;
}

static int open_push(struct sinks *s)
{
	char spool[PATH_MAX];

	if (!s->config->push_cnt)
		return 0;
	snprintf(spool, sizeof(spool), "%s/spool", s->config->agent.state_dir);
	s->push = push__open(s->config->push, s->config->push_cnt, spool);
	return s->push ? 0 : -errno;
}

struct sinks *sinks__open(struct config *c)
{
	struct sinks *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		log_err("out of memory");
		return NULL;
	}
	s->config = config__hold(c);
	err = open_store(s);
	if (!err)
		err = open_push(s);
	if (!err)
		return s;
	sinks__close(s);
	errno = -err;
	return NULL;
}

int sinks__put(void *sinks, const struct window *w)
{
	struct sinks *s = sinks;
	int first = 0, err;

	if (s->store)
		first = store__put(s->store, w);
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
		return;
	}
	store__close(s->store);
	s->store = NULL;
	open_store(s);
}

void sinks__change(struct sinks *s, struct config *c)
{
	struct config *old = s->config;

	push__close(s->push, PUSH_CHANGE_MS); /* borrows the old configuration */
	s->push = NULL;
	s->config = config__hold(c);
	change_store(s, old);
	open_push(s);
	config__put(old);
}

void sinks__close(struct sinks *s)
{
	if (!s)
		return;
	push__close(s->push, PUSH_LAST_MS);
	store__close(s->store);
	config__put(s->config);
	free(s);
}
