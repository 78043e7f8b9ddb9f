/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/invoker.h"

struct launch {
	pid_t pid;
	const char *name;	 /* borrowed from argv */
	int go_fd;		 /* a byte lets the child go; the end of the pipe ends it */
	int err_fd;		 /* errno of a failed exec; its end by exec means success */
	struct invoker *invoker; /* owned; NULL: it runs as we do */
	bool ended;
	int status;
	char program[PATH_MAX]; /* "": not known */
};

/*
 * So many scripts the kernel follows (exec_binprm(), fs/exec.c), and reads so much of each
 * (BINPRM_BUF_SIZE).
 */
#define MAX_SCRIPTS 4
#define SCRIPT_LINE 256
#define BLANKS	    " \t"

/* ---- what will be executed ------------------------------------------------------------------- */

static bool is_executable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* As the command will see it. */
static const char *path_of(const struct launch *l)
{
	char *const *env = l->invoker ? invoker__environment(l->invoker) : environ;

	for (; *env; env++)
		if (!strncmp(*env, "PATH=", 5))
			return *env + 5;
	return NULL;
}

/* As execvp(3) looks for it. */
static bool find_program(const struct launch *l, const char *name, char *path)
{
	const char *dir = path_of(l), *end;

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_executable(path);
	for (dir = dir ? dir : "/bin:/usr/bin"; *name && dir; dir = *end ? end + 1 : NULL) {
		end = strchrnul(dir, ':');
		/* An empty entry is the working directory. */
		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - dir), dir,
			     end > dir ? "/" : "", name) < PATH_MAX &&
		    is_executable(path))
			return true;
	}
	return false;
}

/*
 * Reads the interpreter of a script's first line into `name`. 0: not a script; negative: the line
 * cannot be understood.
 */
static int read_script(const char *path, char *name)
{
	char line[SCRIPT_LINE + 1] = "", *rest = line + 2, *word;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len = fd < 0 ? -1 : read(fd, line, SCRIPT_LINE);

	if (fd >= 0)
		close(fd);
	if (len < 2 || strncmp(line, "#!", 2))
		return 0;
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(rest, BLANKS, &rest);
	if (word && !strcmp(basename(word), "env"))
		word = strtok_r(rest, BLANKS, &rest);
	if (!word || *word == '-' || strchr(word, '='))
		return -1;
	strcpy(name, word);
	return 1;
}

bool launch__resolve(const struct launch *l, const char *word, char *path)
{
	char name[SCRIPT_LINE + 1];
	bool found = find_program(l, word, path);
	int script = 1;

	for (int i = 0; found && script > 0 && i <= MAX_SCRIPTS; i++) {
		script = read_script(path, name);
		if (script > 0)
			found = find_program(l, name, path);
	}
	return found && !script;
}

const char *launch__program(const struct launch *l)
{
	return l->program[0] ? l->program : NULL;
}

/* ---- the child ------------------------------------------------------------------------------- */

/* The child: waits, then becomes the command. What it inherits of signals is as before us. */
static void run_child(const struct launch *l, char *const *argv, int go_fd, int err_fd,
		      const sigset_t *mask)
{
	char go;
	int err = 0;

	if (read(go_fd, &go, 1) != 1)
		_exit(125);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (l->invoker) {
		err = -invoker__become(l->invoker);
		environ = (char **)invoker__environment(l->invoker);
	}
	if (!err) {
		execvp(argv[0], argv);
		err = errno;
	}
	if (write(err_fd, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

struct launch *launch__new(char *const *argv, bool as_root)
{
	int go[2] = { -1, -1 }, fail[2] = { -1, -1 };
	struct launch *l = calloc(1, sizeof(*l));
	sigset_t mask, all;

	if (!l || (!as_root && invoker__find(&l->invoker)) || pipe2(go, O_CLOEXEC) ||
	    pipe2(fail, O_CLOEXEC))
		goto error;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask); /* the child takes no signal for us */
	l->pid = fork();
	if (!l->pid) {
		close(go[1]);
		run_child(l, argv, go[0], fail[1], &mask);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (l->pid < 0)
		goto error;
	close(go[0]);
	close(fail[1]);
	l->name = argv[0];
	if (!launch__resolve(l, argv[0], l->program))
		l->program[0] = '\0';
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
	if (l)
		invoker__free(l->invoker);
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
	invoker__free(l->invoker);
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
