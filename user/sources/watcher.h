/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WATCHER_H
#define PYPERF_WATCHER_H
/*
 * The thread of a source that looks each second what the source costs the processes, and takes it
 * away when that is too much.
 *
 *	watcher__start(&w, "alloc", run, x);	the source's start()
 *	while (watcher__goes_on(&w)) ...	in run()
 *	watcher__stop(&w);			the source's stop(): run() has ended then
 *
 * What run() may take away belongs to it from start to stop. Valid when all zero.
 */
#include <pthread.h>
#include <stdbool.h>

#define WATCHER_MS	 1000
#define WATCHER_DEAR_MAX 2 /* seconds in a row that are too dear */

struct watcher {
	pthread_t thread;
	bool runs;
	int end_fd; /* while it runs: readable when it is to end */
};

/* 0, or negative errno after one line about this event. */
int watcher__start(struct watcher *w, const char *event, void *(*run)(void *), void *ctx);
/* Waits WATCHER_MS. False: it is to end. */
bool watcher__goes_on(const struct watcher *w);
/* May be called again, and without a start. */
void watcher__stop(struct watcher *w);

#endif /* PYPERF_WATCHER_H */
