/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/rights.h"
#include "base/sanitized.h"

#define KILL_MS	    500
#define LOOK_MS	    50

#define BIRTH_STACK 16384

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4U
#endif

/* `is_deaf`: Ctrl-C and the like are for all of the terminal's; it ends with us. */
static void default_signals(bool is_deaf)
{
	static const int of_the_group[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGXFSZ };
	sigset_t none;

	for (int sig = 1; sig < SIGRTMIN; sig++)
		signal(sig, SIG_DFL);
	for (size_t i = 0; is_deaf && i < sizeof(of_the_group) / sizeof(of_the_group[0]); i++)
		signal(of_the_group[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void child__reserve(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd < CHILD_OUT);
	if (fd > CHILD_OUT)
		close(fd);
}

/*
 * All others are closed: by execve(), which lets the parent go on before, if `executes`. To close a
 * file of a tenant may take for ever (FUSE).
 */
static bool close_others(bool executes)
{
	if (executes && !syscall(SYS_close_range, CHILD_OUT + 1, ~0U, CLOSE_RANGE_CLOEXEC))
		return true;
	return !syscall(SYS_close_range, CHILD_OUT + 1, ~0U, 0); /* before Linux 5.11 */
}

/* False: they cannot be where they have to be. */
static bool keep_only(int in, int out, bool executes)
{
	/* To where nothing else is first: each may have the other's number. */
	in = in < 0 ? open("/dev/null", O_RDONLY) : in;
	in = fcntl(in, F_DUPFD, 16);
	out = fcntl(out, F_DUPFD, 16);
	return in >= 0 && out >= 0 && dup2(in, CHILD_IN) >= 0 && dup2(out, CHILD_OUT) >= 0 &&
	       close_others(executes);
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
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || !keep_only(in, out, false))
		_exit(1);
	default_signals(false);
	return 0;
}

static void take_pipe_for_reports(void)
{
	const char *path = getenv("PYPERF_REPORTS");
	int fd = path ? open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;

	if (fd >= 0)
		dup2(fd, STDERR_FILENO);
	if (fd > CHILD_OUT)
		close(fd);
}

/*
 * A child that hangs must not keep our standard files: a program that reads our output, or waits
 * for our files to be closed, would wait for it.
 */
static void give_back_standard_files(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > CHILD_OUT)
		close(null);
	if (SANITIZED)
		take_pipe_for_reports();
}

/* What it may have outlives the execution as root's, by the file (setcap), or by inheritance. */
static int pass_on(uint64_t caps)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	if (rights__keep(caps, true))
		return rights__keep(caps, false);
	for (int cap = 0; cap < 64; cap++)
		if (caps >> cap & 1)
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
	return 0;
}

/* Without it the program may not find its libraries. The dynamic linker has judged it for us. */
static char *library_path(void)
{
	static const char name[] = "LD_LIBRARY_PATH=";

	for (char **var = environ; *var; var++)
		if (!strncmp(*var, name, sizeof(name) - 1))
			return *var;
	return NULL;
}

#define LOADER_ARGS 16

struct birth {
	const struct child_program *program;
	pid_t parent;
	char *argv[LOADER_ARGS + 4]; /* argv[0] is the name, unless a dynamic linker is executed */
	char text[4096];
};

static bool runs_in_loader(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *name;

	path[n > 0 ? n : 0] = '\0';
	name = strrchr(path, '/');
	return name && !strncmp(name, "/ld-", 4);
}

/* Of "ld.so --library-path DIR PROGRAM ...", what stands before PROGRAM's own arguments. */
static void set_loader_args(struct birth *b)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, b->text, sizeof(b->text) - 1);
	char *at = b->text, *end = b->text + (n > 0 ? n : 0);
	size_t cnt = 1;

	if (fd >= 0)
		close(fd);
	b->argv[cnt++] = (char *)"--argv0";
	b->argv[cnt++] = b->argv[0];
	for (at += strlen(at) + 1; at < end && cnt < LOADER_ARGS; at += strlen(at) + 1) {
		bool is_option = !strncmp(at, "--", 2);

		b->argv[cnt++] = at;
		if (!is_option)
			return;
		if (strcmp(at, "--inhibit-cache")) { /* all others have a value */
			at += strlen(at) + 1;
			b->argv[cnt++] = at < end ? at : NULL;
		}
	}
}

/*
 * In the memory of the parent, one of whose threads waits: changes nothing there. Without ASan's
 * marks around its variables, which nothing would take away again, as it does not return.
 */
__attribute__((no_sanitize("address"))) static int be_born(void *arg)
{
	struct birth *birth = arg;
	const struct child_program *p = birth->program;
	char *const env[] = { library_path(), NULL };
	int err;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != birth->parent ||
	    !keep_only(p->in, p->out, true))
		_exit(EPERM);
	default_signals(p->is_deaf);
	give_back_standard_files();
	err = pass_on(p->caps);
	if (err)
		_exit(-err);
	execve("/proc/self/exe", birth->argv,
	       env); /* the file that runs, also if it was replaced */
	_exit(errno);
}

pid_t child__execute(const struct child_program *program)
{
	struct birth birth = { .program = program,
			       .parent = getpid(),
			       .argv = { (char *)program->name } };
	_Alignas(16) char stack[BIRTH_STACK];
	sigset_t all, old;
	pid_t pid;
	int err;

	if (runs_in_loader())
		set_loader_args(&birth);
	/* Not fork(): a copy of the tables of our memory takes longer than all the rest. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(be_born, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
	err = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid < 0 ? -err : pid;
}

bool child__is(const char *name)
{
	if (strcmp(program_invocation_name, name))
		return false;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
		fprintf(stderr, "%s: only pyperf-bpf starts it\n", name);
		_exit(EPERM);
	}
	prctl(PR_SET_NAME, name);
	return true;
}

#define NO_LIBRARY 127 /* exit status of the dynamic linker */

int child__why_not(int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;

	return code == NO_LIBRARY ? ELIBACC : code ? code : EPERM;
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
