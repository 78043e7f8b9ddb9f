/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/python_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/foreign.h"
#include "base/log.h"
#include "process/called.h"

#define SAY_MS	 2000
#define HELD_MAX 256

struct python_exec {
	pid_t child;
	int hold_fd; /* a word there lets the command go, its end without one ends that */
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

/*
 * The server of a FUSE may be a process of the command (an AppImage), and we its tracer: it stands
 * as soon as it makes a thread or gets a signal, and cannot answer until we let it go on. So it is
 * asked nothing. Python is not traced from there anyway (foreign.h).
 */
static bool has_executed_python(pid_t pid, char path[TARGET_PATH_MAX])
{
	char link[32], exe[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	return called__program(pid, exe) && !foreign__may_be_on_fuse(pid, link) &&
	       is_same_file(link, exe) && !target__find_interpreter(exe, path);
}

struct tracing {
	pid_t command;
	pid_t held[HELD_MAX]; /* have executed Python, and stand */
	size_t held_cnt;
	bool said, ended;    /* to our parent; the command */
	struct saying found; /* of the first one held */
};

/* Python stands. */
static bool hold(struct tracing *t, pid_t pid)
{
	char path[TARGET_PATH_MAX];

	if (t->held_cnt == HELD_MAX || !has_executed_python(pid, path))
		return false;
	t->held[t->held_cnt++] = pid;
	if (t->found.pid)
		return true;
	t->found.pid = pid;
	memcpy(t->found.path, path, sizeof(path));
	return true;
}

static void forget(struct tracing *t, pid_t pid)
{
	for (size_t i = 0; i < t->held_cnt; i++)
		if (t->held[i] == pid)
			t->held[i--] = t->held[--t->held_cnt];
	t->ended |= t->command == pid;
}

/* Who executes Python stands. All others go on. */
static void on_stop(struct tracing *t, pid_t pid, int status)
{
	long sig = WSTOPSIG(status);

	switch (status >> 16) {
	case PTRACE_EVENT_EXEC:
		if (hold(t, pid))
			return;
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
			return;
		sig = 0;
		break;
	}
	ptrace(PTRACE_CONT, pid, NULL, sig);
}

static void take_stops(struct tracing *t)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0 || (pid < 0 && errno == EINTR)) {
		if (pid > 0 && WIFSTOPPED(status))
			on_stop(t, pid, status);
		else if (pid > 0)
			forget(t, pid);
	}
}

static bool say(const struct saying *s)
{
	return write(CHILD_OUT, s, sizeof(*s)) == sizeof(*s);
}

/*
 * Our parent has ended, or all are to end. Nobody would see what Python does, and a wrapper would
 * take its end for a failure, and go on.
 */
static _Noreturn void end_all(const struct tracing *t)
{
	if (!t->ended)
		kill(t->command, SIGTERM);
	for (size_t i = 0; i < t->held_cnt; i++)
		kill(t->held[i], SIGKILL);
	_exit(1);
}

/* A descriptor for the signals that we look at: they wait for it. */
static int open_signals(void)
{
	sigset_t set;

	/* Ctrl-C is for the command and for our parent; a terminal that goes is for them, too. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTSTP, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN); /* our parent has ended: there is something to do yet */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) || prctl(PR_SET_PDEATHSIG, SIGTERM))
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool is_told_to_end(int signal_fd)
{
	struct signalfd_siginfo si;

	while (read(signal_fd, &si, sizeof(si)) == sizeof(si))
		if (si.ssi_signo == SIGTERM)
			return true;
	return false;
}

static void run_child(pid_t command)
{
	static const unsigned long options =
		PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
	struct pollfd fds[] = { { .fd = open_signals(), .events = POLLIN },
				{ .fd = CHILD_IN, .events = POLLIN } };
	struct tracing t = { .command = command };
	struct saying begun = { .pid = 0 };
	char word;

	if (fds[0].fd < 0 || ptrace(PTRACE_SEIZE, command, NULL, options))
		begun.pid = -errno;
	if (!say(&begun))
		_exit(1); /* the command does not begin without our parent */
	while (!begun.pid) {
		poll(fds, 2, -1);
		if (is_told_to_end(fds[0].fd))
			end_all(&t);
		take_stops(&t);
		if (!t.said && (t.found.pid || t.ended)) {
			if (!say(&t.found))
				end_all(&t);
			t.said = true;
		}
		if (fds[1].revents && read(CHILD_IN, &word, 1) != 1)
			end_all(&t);
		if (fds[1].revents)
			break; /* whatever is traced goes on */
	}
	_exit(begun.pid ? 1 : 0);
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
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, hold) || pipe2(said, O_CLOEXEC))
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

/* Until there is something to say, or the time is over; at most a minute. */
static int wait_ms(uint64_t waited_ms, double most_ms, bool said)
{
	double left = fmin(most_ms, said ? INFINITY : SAY_MS) - (double)waited_ms;

	return (int)fmin(fmax(left, 1), 60000);
}

pid_t python_exec__wait(struct python_exec *x, double seconds, char path[TARGET_PATH_MAX])
{
	struct pollfd p = { .fd = x->said_fd, .events = POLLIN };
	double most_ms = seconds > 0 ? ceil(seconds * 1000) : INFINITY;
	uint64_t start_ms = now_ms();
	struct saying s;
	bool said = false;
	pid_t pid;

	while (poll(&p, 1, wait_ms(now_ms() - start_ms, most_ms, said)) <= 0) {
		double waited_ms = (double)(now_ms() - start_ms);

		if (waited_ms >= most_ms)
			return -ETIME;
		if (!said && waited_ms >= SAY_MS)
			log_info("waiting until the command has executed Python (--python names a "
				 "file with an interpreter that it loads)");
		said |= waited_ms >= SAY_MS;
	}
	pid = listen_to(x, &s);
	if (pid > 0)
		memcpy(path, s.path, sizeof(s.path));
	return pid;
}

void python_exec__kill(struct python_exec *x)
{
	if (!x || x->hold_fd < 0)
		return;
	close(x->hold_fd);
	x->hold_fd = -1;
}

void python_exec__end(struct python_exec *x)
{
	if (!x)
		return;
	if (x->hold_fd >= 0) {
		send(x->hold_fd, "", 1, MSG_NOSIGNAL);
		close(x->hold_fd);
	}
	if (x->child > 0)
		child__wait(x->child, false);
	if (x->said_fd >= 0)
		close(x->said_fd);
	free(x);
}
