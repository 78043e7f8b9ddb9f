/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"

struct launch {
	pid_t pid;
	const char *name; /* borrowed from argv */
	int go_fd;	  /* a byte lets the child go; the end of the pipe ends it */
	int err_fd;	  /* errno of a failed exec; its end by exec means success */
	bool ended;
	int status;
};

/* The child: waits, then becomes the command. What it inherits of signals is as before us. */
static void run_child(char *const *argv, int go_fd, int err_fd, const sigset_t *mask)
{
	char go;
	int err;

	if (read(go_fd, &go, 1) != 1)
		_exit(125);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	err = errno;
	if (write(err_fd, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

struct launch *launch__new(char *const *argv)
{
	int go[2] = { -1, -1 }, fail[2] = { -1, -1 };
	struct launch *l = calloc(1, sizeof(*l));
	sigset_t mask, all;

	if (!l || pipe2(go, O_CLOEXEC) || pipe2(fail, O_CLOEXEC))
		goto error;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask); /* the child takes no signal for us */
	l->pid = fork();
	if (!l->pid) {
		close(go[1]);
		run_child(argv, go[0], fail[1], &mask);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (l->pid < 0)
		goto error;
	close(go[0]);
	close(fail[1]);
	l->name = argv[0];
	l->go_fd = go[1];
	l->err_fd = fail[0];
	return l;
error:
	log_err("%s: %s", argv[0], strerror(errno));
	for (int i = 0; i < 2; i++) {
		if (go[i] >= 0)
			close(go[i]);
		if (fail[i] >= 0)
			close(fail[i]);
	}
	free(l);
	return NULL;
}

void launch__free(struct launch *l)
{
	if (!l)
		return;
	if (l->go_fd >= 0)
		close(l->go_fd); /* one that still waits ends now */
	if (l->err_fd >= 0)
		close(l->err_fd);
	if (!l->ended && l->go_fd >= 0)
		waitpid(l->pid, NULL, 0);
	free(l);
}

pid_t launch__pid(const struct launch *l)
{
	return l->pid;
}

int launch__go(struct launch *l)
{
	int err = 0;

	if (write(l->go_fd, "g", 1) != 1)
		err = errno;
	close(l->go_fd);
	l->go_fd = -1;
	if (!err && read(l->err_fd, &err, sizeof(err)) != sizeof(err))
		err = 0; /* closed by exec */
	if (err)
		log_err("%s: %s", l->name, strerror(err));
	return -err;
}

bool launch__started(const struct launch *l)
{
	return l->go_fd < 0;
}

static void note_end(struct launch *l, int status)
{
	l->ended = true;
	l->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool launch__reap(struct launch *l, int *status)
{
	int raw;

	if (!l->ended && waitpid(l->pid, &raw, WNOHANG) == l->pid)
		note_end(l, raw);
	*status = l->status;
	return l->ended;
}

void launch__signal(struct launch *l, int sig)
{
	if (!l->ended && launch__started(l)) /* not reaped: the number is still its own */
		kill(l->pid, sig);
}
