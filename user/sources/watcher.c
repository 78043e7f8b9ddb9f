/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sources/watcher.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"

int watcher__start(struct watcher *w, const char *event, void *(*run)(void *), void *ctx)
{
	int err;

	w->end_fd = eventfd(0, EFD_CLOEXEC);
	err = w->end_fd < 0 ? -errno : thread__start(&w->thread, run, ctx);
	w->runs = !err;
	if (!err)
		return 0;
	if (w->end_fd >= 0)
		close(w->end_fd);
	log_err("-e %s: a thread of its own: %s", event, strerror(-err));
	return err;
}

bool watcher__goes_on(const struct watcher *w)
{
	struct pollfd end = { .fd = w->end_fd, .events = POLLIN };

	return !poll(&end, 1, WATCHER_MS);
}

void watcher__stop(struct watcher *w)
{
	if (!w->runs)
		return;
	if (thread__wake(w->end_fd))
		pthread_join(w->thread, NULL);
	close(w->end_fd);
	w->runs = false;
}
