/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"

#define KILL_MS 500
#define LOOK_MS 50

static void default_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < SIGRTMIN; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* False: they cannot be where they have to be. */
static bool keep_only(int in, int out)
{
	/* To where nothing else is first: each may have the other's number. */
	in = in < 0 ? open("/dev/null", O_RDONLY) : in;
	in = fcntl(in, F_DUPFD, 16);
	out = fcntl(out, F_DUPFD, 16);
	return in >= 0 && out >= 0 && dup2(in, CHILD_IN) >= 0 && dup2(out, CHILD_OUT) >= 0 &&
	       !syscall(SYS_close_range, CHILD_OUT + 1, ~0U, 0);
}

pid_t child__fork(int in, int out)
{
	pid_t parent = getpid(), pid;

	fflush(NULL); /* nothing of ours is to be written twice */
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid)
		return pid;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || !keep_only(in, out))
		_exit(1);
	default_signals();
	return 0;
}

int child__wait(pid_t pid, bool kill_it)
{
	int status = 0;

	if (kill_it)
		kill(pid, SIGKILL);
	/* A child that waits for a server of FUSE may not end. Nobody waits for it. */
	for (int i = 0; kill_it && i < KILL_MS; i++) {
		if (waitpid(pid, &status, WNOHANG))
			return status;
		poll(NULL, 0, 1);
	}
	if (kill_it)
		return SIGKILL;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

int child__poll(int fd, uint64_t until_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now;

	while (!ending__late() && (now = now_ms()) < until_ms)
		if (poll(&p, 1, until_ms - now < LOOK_MS ? (int)(until_ms - now) : LOOK_MS) > 0)
			return 0;
	return -ETIMEDOUT;
}
