/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SINKS_H
#define PYPERF_AGENT_SINKS_H
/*
 * Where windows go, as the configuration has it: the store, the backends' spools, files of a
 * directory. Of the delivery thread, but for opening and closing.
 */
#include "agent/config.h"
#include "store/window.h"

struct sinks;

/* NULL and errno after a message. */
struct sinks *sinks__open(struct config *c);
/* To each of them, whatever the others say. 0 or the first error, printed. A split_fn. */
int sinks__put(void *sinks, const struct window *w);
/*
 * What differs is closed and opened anew; what cannot be opened is tried again once a minute, after
 * a message each time.
 */
void sinks__change(struct sinks *s, struct config *c);
/* Sends and writes what it can within some seconds. */
void sinks__close(struct sinks *s);

/*
 * Figures of up to `cap` destinations; how many there are. Any thread. The names in them are valid
 * until the same thread asks again.
 */
size_t sinks__push_stats(struct sinks *s, struct push_stats *out, size_t cap);

#endif /* PYPERF_AGENT_SINKS_H */
