/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/sinks.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/windowdir.h"
#include "log.h"

struct sinks {
	struct config *config; /* held */
};

struct sinks *sinks__open(struct config *c)
{
	struct sinks *s = calloc(1, sizeof(*s));

	if (!s) {
		log_err("out of memory");
		return NULL;
	}
	s->config = config__hold(c);
	return s;
}

int sinks__put(void *sinks, const struct window *w)
{
	struct sinks *s = sinks;
	int err = 0;

	if (s->config->agent.directory)
		err = windowdir__put(s->config->agent.directory, w);
	return err;
}

void sinks__change(struct sinks *s, struct config *c)
{
	struct config *old = s->config;

	s->config = config__hold(c);
	config__put(old);
}

void sinks__close(struct sinks *s)
{
	if (!s)
		return;
	config__put(s->config);
	free(s);
}
