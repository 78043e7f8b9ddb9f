// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/stall_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/waits.h"
#include "base/clock.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/thread.h"

#define LOOK_MS	     5000
#define LOOK_SOON_MS 1000	       /* something stands still */
#define END_NS	     NS_PER_S	       /* how long the end may take before that is reported */
#define ONE_NS	     (100 * NS_PER_MS) /* signals that are so near are one: timeout(1) sends two */
#define AGAIN_NS     (60 * NS_PER_S)

/* The last report about a thread. */
struct said {
	uint64_t moved_ns; /* it stood still since then; 0: nothing was reported */
	uint64_t said_ns;
};

struct stall_watch {
	int signal_fd, wake_fd, stop_fd;
	bool wakes;		 /* somebody has to be woken yet */
	atomic_uint taken[NSIG]; /* that nobody has been handed */
	atomic_bool stopped;	 /* besides stop_fd, whose write() may fail */
	void (*look)(void *ctx, struct watched_thread *out);
	void *ctx;
	pthread_t thread;
	uint64_t ending_ns; /* since when; 0: nobody told us to */
	struct said said[STALL_WATCH_THREADS];
};

/* ---- standing still -------------------------------------------------------------------------- */

static void say(const struct stall_watch *s, const struct watched_thread *t, uint64_t now)
{
	struct strbuf what = { 0 };

	waits__describe(t->tid, &what);
	log_warn("%s has stood still for %.0f s, %s: it waits for: %s%s", t->name,
		 (double)(now - t->moved_ns) / NS_PER_S, t->doing, what.s ? what.s : "?",
		 s->ending_ns ? " (the agent ends without it, 2 s after the signal)" : "");
	strbuf__free(&what);
}

static void look_at(struct stall_watch *s, const struct watched_thread *t, struct said *said)
{
	uint64_t now = now_ns();
	uint64_t patience = s->ending_ns && t->patience_ns > END_NS ? END_NS : t->patience_ns;

	if (said->moved_ns && said->moved_ns != t->moved_ns) {
		log_info("%s continues after %.0f s", t->name,
			 (double)((t->moved_ns ? t->moved_ns : now) - said->moved_ns) / NS_PER_S);
		*said = (struct said){ 0 };
	}
	if (!t->moved_ns || now < t->moved_ns + patience)
		return;
	if (said->said_ns && now - said->said_ns < AGAIN_NS)
		return;
	*said = (struct said){ .moved_ns = t->moved_ns, .said_ns = now };
	say(s, t, now);
}

static bool look_at_all(struct stall_watch *s)
{
	struct watched_thread threads[STALL_WATCH_THREADS] = { { 0 } };
	bool still = false;

	s->look(s->ctx, threads);
	for (size_t i = 0; i < STALL_WATCH_THREADS; i++) {
		look_at(s, &threads[i], &s->said[i]);
		still |= s->said[i].moved_ns != 0;
	}
	return still;
}

/* ---- signals --------------------------------------------------------------------------------- */

/*
 * As if it had never been held back: the kernel ends the process, with the status that says so,
 * even when this thread should wait for something.
 */
static void let_the_next_one_end_it(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The signalfd says that there is one; nothing is read of it, as a read may fail. */
static int take_signal(void)
{
	const struct timespec now = { 0 };
	sigset_t held;
	int number;

	pthread_sigmask(SIG_BLOCK, NULL, &held);
	do
		number = sigtimedwait(&held, NULL, &now);
	while (number < 0 && errno == EINTR);
	return number;
}

static void take_signals(struct stall_watch *s)
{
	int number;

	while ((number = take_signal()) > 0) {
		atomic_fetch_add(&s->taken[number], 1);
		s->wakes = true;
		if (number != SIGTERM && number != SIGINT)
			continue;
		memset(s->said, 0, sizeof(s->said)); /* report anew what stands still */
		s->ending_ns = s->ending_ns ? s->ending_ns : now_ns();
		ending__begin();
	}
}

/* Signals are kept until they are handed over, so a failure costs a tick. */
static void wake(struct stall_watch *s)
{
	if (s->wakes && thread__wake(s->wake_fd))
		s->wakes = false;
}

/* As the second signal does. */
static void end_process(void)
{
	log_err("the agent ends without its last windows, because nothing moved for 2 s");
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM); /* not blocked here, by now */
}

static int patience_ms(const struct stall_watch *s, bool soon)
{
	return s->ending_ns || s->wakes ? ENDING_TICK_MS : soon ? LOOK_SOON_MS : LOOK_MS;
}

static void *run(void *arg)
{
	struct stall_watch *s = arg;
	struct pollfd fds[] = { { .fd = s->signal_fd, .events = POLLIN },
				{ .fd = s->stop_fd, .events = POLLIN } };
	bool soon = false, next_ends = false;

	for (;;) {
		poll(fds, 2, patience_ms(s, soon));
		if (atomic_load(&s->stopped))
			return NULL;
		if (fds[0].revents)
			take_signals(s);
		wake(s);
		if (!next_ends && s->ending_ns && now_ns() > s->ending_ns + ONE_NS) {
			let_the_next_one_end_it();
			next_ends = true;
		}
		soon = look_at_all(s);
		if (s->ending_ns && ending__stands_still())
			end_process();
	}
}

/* ---- start and stop -------------------------------------------------------------------------- */

static void close_fds(struct stall_watch *s)
{
	const int fds[] = { s->wake_fd, s->stop_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int begin(struct stall_watch *s)
{
	int err;

	s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->stop_fd < 0 || s->wake_fd < 0)
		err = errno;
	else
		err = pthread_create(&s->thread, NULL, run, s); /* the caller holds the signals */
	if (err)
		log_err("a thread for signals: %s", strerror(err));
	return -err;
}

struct stall_watch *
stall_watch__start(int signal_fd, void (*look)(void *ctx, struct watched_thread *out), void *ctx)
{
	struct stall_watch *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		log_no_memory();
		return NULL;
	}
	*s = (struct stall_watch){
		.signal_fd = signal_fd, .wake_fd = -1, .stop_fd = -1, .look = look, .ctx = ctx
	};
	err = begin(s);
	if (!err)
		return s;
	close_fds(s);
	free(s);
	errno = -err;
	return NULL;
}

int stall_watch__fd(const struct stall_watch *s)
{
	return s->wake_fd;
}

int stall_watch__next(struct stall_watch *s)
{
	eventfd_t unused;

	eventfd_read(s->wake_fd, &unused); /* before the look: who is woken later looks again */
	for (int number = 1; number < NSIG; number++) {
		if (atomic_load(&s->taken[number])) {
			atomic_fetch_sub(&s->taken[number], 1);
			return number;
		}
	}
	return 0;
}

void stall_watch__stop(struct stall_watch *s)
{
	if (!s)
		return;
	atomic_store(&s->stopped, true);
	thread__wake(s->stop_fd);
	pthread_join(s->thread, NULL);
	close_fds(s);
	free(s);
}
