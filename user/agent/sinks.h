/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SINKS_H
#define PYPERF_AGENT_SINKS_H
/*
 * The destinations of windows as configured: the store, the backends' spools, files of a directory.
 * Used by the delivery thread, except for opening and closing.
 */
#include "agent/config.h"
#include "store/window.h"

struct sinks;

/* NULL and errno after a message. */
struct sinks *sinks__open(struct config *c);
/* Puts a window to each of them, even if one fails. 0 or the first error, printed. A split_fn. */
int sinks__put(void *sinks, const struct window *w);
/*
 * Closes and reopens what differs; tries again once a minute, with a message each time, what cannot
 * be opened.
 */
void sinks__change(struct sinks *s, struct config *c);
/* Sends and writes what it can within some seconds. */
void sinks__close(struct sinks *s);

/*
 * Gets figures of up to `cap` destinations; returns how many there are. Any thread. The names in
 * them are valid until the same thread asks again.
 */
size_t sinks__push_stats(struct sinks *s, struct push_stats *out, size_t cap);

#endif /* PYPERF_AGENT_SINKS_H */
