/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/waits.h"

#define ONE_MS		100 /* signals that are so near are one */
#define CLEAN_UP_MS	200
#define HAND_OVER_TRIES 3

/* Global because signals are the process's. */
static atomic_int to_hand_over;
static int signal_fd, pipe_end;
static void (*clean_up)(void);
static atomic_int waits_for;
static atomic_bool no_promise;

static bool is_ignored(int sig)
{
	struct sigaction old;

	return !sigaction(sig, NULL, &old) && old.sa_handler == SIG_IGN;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/*
 * Cleans up in a child, because the files may lie where nothing answers. Not by fork(), which waits
 * for locks that a thread may hold for ever.
 */
static void clean_up_in_child(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!pid) {
		clean_up();
		_exit(0);
	}
	for (int i = 0; pid > 0 && i < CLEAN_UP_MS && !waitpid((pid_t)pid, NULL, WNOHANG); i++)
		poll(NULL, 0, 1);
}

static _Noreturn void end(int sig)
{
	if (clean_up)
		clean_up_in_child();
	_exit(128 + sig);
}

/* Unless nobody reads that either. */
static void say_what_it_waits_for(int sig)
{
	struct pollfd err = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct strbuf what = { 0 };
	pid_t pid;

	if (poll(&err, 1, 0) <= 0 || !(err.revents & POLLOUT))
		return;
	pid = atomic_load(&waits_for);
	waits__describe(pid ? pid : getpid(), &what);
	log_err("signal %d: ended without the rest of the results, because nothing "
		"moved for 2 s: it waits for: %s",
		sig, what.s ? what.s : "?");
	strbuf__free(&what);
}

/*
 * Is it the one before once more? The terminal's and a relay's (sudo, timeout) come together; a
 * session that ends sends SIGHUP beside others. SIGTERM behind SIGINT is somebody's second word.
 */
static bool is_the_same(int sig, int last)
{
	return sig == last || sig == SIGHUP || last == SIGHUP;
}

/* Thousands that nobody has read: one more tells nothing new. Else a failure may pass. */
static void hand_over(const struct signalfd_siginfo *si)
{
	for (int i = 0; i < HAND_OVER_TRIES; i++)
		if (write(pipe_end, si, sizeof(*si)) == sizeof(*si) || errno == EAGAIN)
			return;
}

/* Returns the last signal that was handed over, or `last`. */
static int take(int last)
{
	static uint64_t last_ms;
	struct signalfd_siginfo si;

	while (read(signal_fd, &si, sizeof(si)) == sizeof(si)) {
		int sig = (int)si.ssi_signo;

		if (sig != SIGCHLD) {
			if (last && is_the_same(sig, last) && now_ms() < last_ms + ONE_MS)
				continue;
			last_ms = now_ms();
			if (atomic_fetch_sub(&to_hand_over, 1) <= 0)
				end(sig);
			last = sig;
			ending__ask();
		}
		if (sig == SIGTERM || sig == SIGHUP)
			ending__begin();
		hand_over(&si);
	}
	return last;
}

static void *run(void *unused __attribute__((unused)))
{
	struct pollfd fd = { .fd = signal_fd, .events = POLLIN };
	sigset_t quit;
	int last = 0;

	sigemptyset(&quit);
	sigaddset(&quit, SIGQUIT);
	pthread_sigmask(SIG_UNBLOCK, &quit, NULL);
	for (;;) {
		poll(&fd, 1, ending__begun() ? ENDING_TICK_MS : -1);
		last = take(last);
		if (ending__begun() && !atomic_load(&no_promise) && ending__stands_still()) {
			say_what_it_waits_for(last);
			end(last);
		}
	}
}

/* ---- for the others -------------------------------------------------------------------------- */

static void on_quit(int sig)
{
	if (clean_up)
		clean_up();
	_exit(128 + sig);
}

static void take_quit(void)
{
	struct sigaction act = { .sa_handler = on_quit };
	sigset_t quit;

	sigfillset(&act.sa_mask);
	sigaction(SIGQUIT, &act, NULL);
	sigemptyset(&quit);
	sigaddset(&quit, SIGQUIT);
	sigprocmask(SIG_BLOCK, &quit, NULL);
}

static void held(sigset_t *set, bool children)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	if (children)
		sigaddset(set, SIGCHLD);
	/* signalfd(2) would report a blocked signal even if it is ignored. */
	if (!is_ignored(SIGHUP))
		sigaddset(set, SIGHUP);
}

static int start(int ends[2])
{
	pthread_t thread;
	int err;

	pipe_end = ends[1];
	err = thread__start(&thread, run, NULL);
	if (err)
		return err;
	pthread_detach(thread);
	return ends[0];
}

int signals__open(void (*at_abort)(void), bool children)
{
	sigset_t set;
	int ends[2];

	ending__share();
	clean_up = at_abort;
	signal(SIGPIPE, SIG_IGN); /* a closed stdout is a write error, reported as such */
	signal(SIGXFSZ, SIG_IGN); /* as is a file beyond the limit */
	signal(SIGCHLD, SIG_DFL); /* ignored, the status of a command would be lost */
	take_quit();
	held(&set, children);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	return start(ends);
}

void signals__hand_over(int cnt)
{
	atomic_store(&to_hand_over, cnt);
}

void signals__wait_for(pid_t child)
{
	atomic_store(&waits_for, child);
}

void signals__keep_no_promise(void)
{
	atomic_store(&no_promise, true);
}
