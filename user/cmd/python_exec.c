/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/python_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"

struct python_exec {
	pid_t child;
	int hold_fd; /* its end lets the command go */
	int said_fd;
};

/* What the child says: once it traces, and once it knows. */
struct saying {
	pid_t pid; /* 0: the command has ended; negative errno: it cannot be traced */
	char path[TARGET_PATH_MAX];
};

/* ---- the child ------------------------------------------------------------------------------- */

/* Behind the exec of another root directory a path of ours means another file. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static bool has_executed_python(pid_t pid, char path[TARGET_PATH_MAX])
{
	char link[32], exe[TARGET_PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	len = readlink(link, exe, sizeof(exe) - 1);
	if (len <= 0)
		return false;
	exe[len] = '\0';
	return is_same_file(link, exe) && !target__find_interpreter(exe, path);
}

/* True: this process has executed Python, and stands. All others go on. */
static bool on_stop(pid_t pid, int status, char path[TARGET_PATH_MAX])
{
	long sig = WSTOPSIG(status);

	switch (status >> 16) {
	case PTRACE_EVENT_EXEC:
		if (has_executed_python(pid, path))
			return true;
		sig = 0;
		break;
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		sig = 0;
		break;
	case PTRACE_EVENT_STOP:
		/* Stopped by a signal, as by Ctrl-Z: it stays so until it gets SIGCONT. */
		if (sig != SIGTRAP && !ptrace(PTRACE_LISTEN, pid, NULL, NULL))
			return false;
		sig = 0;
		break;
	}
	ptrace(PTRACE_CONT, pid, NULL, sig);
	return false;
}

/* The process, or 0: the command has ended. */
static pid_t follow(pid_t command, char path[TARGET_PATH_MAX])
{
	int status;
	pid_t pid;

	for (;;) {
		pid = waitpid(-1, &status, __WALL);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0 || (pid == command && !WIFSTOPPED(status)))
			return 0;
		if (WIFSTOPPED(status) && on_stop(pid, status, path))
			return pid;
	}
}

static void say(const struct saying *s)
{
	if (write(CHILD_OUT, s, sizeof(*s)) != sizeof(*s))
		_exit(1);
}

static void run_child(pid_t command)
{
	static const unsigned long options =
		PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
	struct saying s = { .pid = 0 };
	char nothing;

	/* Ctrl-C is for the command and for us; we say when the child is to end. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTSTP, SIG_IGN);
	if (ptrace(PTRACE_SEIZE, command, NULL, options))
		s.pid = -errno;
	say(&s);
	if (s.pid)
		_exit(1);
	s.pid = follow(command, s.path);
	say(&s);
	while (read(CHILD_IN, &nothing, 1) < 0 && errno == EINTR)
		;
	_exit(0); /* whatever is traced goes on */
}

/* ---- ours ------------------------------------------------------------------------------------ */

static pid_t listen_to(const struct python_exec *x, struct saying *s)
{
	size_t done = 0;

	while (done < sizeof(*s)) { /* longer than what a pipe takes at once */
		ssize_t n = read(x->said_fd, (char *)s + done, sizeof(*s) - done);

		if (n == 0 || (n < 0 && errno != EINTR))
			return -ECHILD;
		done += n > 0 ? (size_t)n : 0;
	}
	s->path[sizeof(s->path) - 1] = '\0';
	return s->pid;
}

struct python_exec *python_exec__begin(pid_t command)
{
	int hold[2] = { -1, -1 }, said[2] = { -1, -1 }, err = 0;
	struct python_exec *x = calloc(1, sizeof(*x));
	struct saying s;

	if (!x)
		return NULL;
	if (pipe2(hold, O_CLOEXEC) || pipe2(said, O_CLOEXEC))
		err = -errno;
	x->hold_fd = hold[1];
	x->said_fd = said[0];
	x->child = err ? -1 : child__fork(hold[0], said[1]);
	if (!x->child) {
		run_child(command);
		_exit(1);
	}
	if (!err && x->child < 0)
		err = (int)x->child;
	if (hold[0] >= 0)
		close(hold[0]);
	if (said[1] >= 0)
		close(said[1]);
	if (!err)
		err = listen_to(x, &s);
	if (!err)
		return x;
	python_exec__end(x);
	errno = -err;
	return NULL;
}

pid_t python_exec__wait(struct python_exec *x, char path[TARGET_PATH_MAX])
{
	struct saying s;
	pid_t pid = listen_to(x, &s);

	if (pid > 0)
		memcpy(path, s.path, sizeof(s.path));
	return pid;
}

void python_exec__end(struct python_exec *x)
{
	if (!x)
		return;
	if (x->hold_fd >= 0)
		close(x->hold_fd);
	if (x->child > 0)
		child__wait(x->child, false);
	if (x->said_fd >= 0)
		close(x->said_fd);
	free(x);
}
