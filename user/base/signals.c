/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Global because a handler is given nothing. */
static volatile sig_atomic_t abort_at = 1;
static volatile sig_atomic_t let_pass; /* the last one that did not abort */
static void (*clean_up)(void);

static void on_signal(int sig)
{
	if (sig != SIGQUIT && --abort_at > 0) {
		let_pass = sig;
		return;
	}
	if (clean_up)
		clean_up();
	_exit(128 + sig);
}

static bool is_ignored(int sig)
{
	struct sigaction old;

	return !sigaction(sig, NULL, &old) && old.sa_handler == SIG_IGN;
}

/* Those that end a run. A held signal would be seen although it is ignored (signalfd(2)). */
static void ending(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	if (!is_ignored(SIGHUP))
		sigaddset(set, SIGHUP);
}

static void handle(const sigset_t *set)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigfillset(&act.sa_mask);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(set, sig) == 1)
			sigaction(sig, &act, NULL);
	sigaction(SIGQUIT, &act, NULL);
}

int signals__open(void (*at_abort)(void))
{
	sigset_t set, child;
	int fd;

	clean_up = at_abort;
	signal(SIGPIPE, SIG_IGN); /* a closed stdout is a write error, reported as such */
	signal(SIGXFSZ, SIG_IGN); /* as is a file beyond the limit */
	signal(SIGCHLD, SIG_DFL); /* ignored, the status of a command would be lost */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	ending(&set);
	handle(&set);
	sigaddset(&set, SIGCHLD);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int signals__hold(void)
{
	sigset_t set;
	int sig;

	ending(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sig = let_pass;
	let_pass = 0;
	return sig;
}

void signals__release(int nth)
{
	sigset_t set;

	abort_at = nth;
	ending(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}
