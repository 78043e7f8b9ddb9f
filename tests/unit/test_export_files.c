/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a profile is written: which format a name means, and what becomes of the file if something
 * was there before, a write fails, or somebody else has planted a link.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ending.h"
#include "export/export.h"
#include "unit/exporting.h"

static void test_find(void **state)
{
	(void)state;
	assert_string_equal(export__find("a.pb.gz")->name, "pprof");
	assert_string_equal(export__find("/x/y.folded")->suffix, ".folded");
	assert_string_equal(export__find(".txt")->suffix, ".txt");
	assert_null(export__find("a.gz"));
	assert_null(export__find("txt"));
	assert_null(export__find(""));
	assert_null(export__find("-"));
	assert_string_equal(export__find("a.speedscope.json")->suffix, ".speedscope.json");
	assert_string_equal(export__find("a.json")->suffix, ".json");
	for (const struct export_format *x = export__formats(); x->suffix; x++)
		assert_ptr_equal(export__find(x->suffix), x);
	assert_string_equal(export__find("x.html")->name, "flame graph page");
	assert_string_equal(export__find("x.lines.html")->name, "source by line");
	assert_string_equal(export__find("/x/lines.html")->name, "source by line");
	assert_string_equal(export__find("deadlines.html")->name, "flame graph page");
}

static size_t dir_entries(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static int failing_write(const struct profile *p, const struct export_opts *o, FILE *f)
{
	(void)p;
	(void)o;
	fputs("half of it", f);
	return -ENOMEM;
}

static const struct export_format failing = { ".txt",	     "failing", "failing", false,
					      failing_write, NULL,	GLUE_KEEP };

static void test_files(void **state)
{
	char path[PATH_MAX], *s, *dir = temp_dir();
	struct profile *p = service();
	struct export_file *x;
	mode_t mask = umask(027);
	struct stat st;
	size_t len;

	(void)state;
	snprintf(path, sizeof(path), "%s/a.folded", dir);
	x = export__open(path, export__find(path));
	assert_non_null(x);
	assert_int_equal(stat(path, &st), -1);	 /* not before commit */
	assert_in_range(dir_entries(dir), 0, 1); /* which of both: test_draft.c */
	assert_int_equal(export__commit(x, p, &defaults), 0);
	export__close(x);
	assert_int_equal(dir_entries(dir), 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	s = read_file(path, &len);
	assert_non_null(strstr(s, "Cart.price"));
	free(s);

	/* an existing target keeps its mode; a failure keeps the target */
	assert_int_equal(chmod(path, 04604), 0);
	save(path, p, &defaults);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0604);
	x = export__open(path, &failing);
	assert_non_null(x);
	assert_int_equal(export__commit(x, p, &defaults), -ENOMEM);
	export__close(x);
	assert_int_equal(dir_entries(dir), 1);
	s = read_file(path, &len);
	assert_null(strstr(s, "half of it"));
	free(s);

	/* given up before commit */
	export__close(export__open(path, export__find(path)));
	export__close(NULL);
	assert_int_equal(dir_entries(dir), 1);
	umask(mask);
	remove_dir(dir);
	profile__free(p);
}

/* A link in a shared directory must not choose which file is overwritten. */
static void test_symlink(void **state)
{
	char path[PATH_MAX], victim[PATH_MAX], *s, *dir = temp_dir();
	struct profile *p = service();
	struct stat st;
	size_t len;
	mode_t mask;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/a.folded", dir);
	snprintf(victim, sizeof(victim), "%s/victim", dir);
	f = fopen(victim, "w");
	assert_non_null(f);
	fputs("precious", f);
	fclose(f);
	assert_int_equal(chmod(victim, 0666), 0);
	assert_int_equal(symlink(victim, path), 0);
	mask = umask(022);
	save(path, p, &defaults);
	umask(mask);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	s = read_file(victim, &len);
	assert_string_equal(s, "precious");
	free(s);
	remove_dir(dir);
	profile__free(p);
}

static void check_open_fails(const char *path, int error)
{
	struct export_file *x;

	errno = 0;
	x = export__open(path, &failing);
	if (x)
		export__close(x);
	assert_null(x);
	assert_int_equal(errno, error);
}

static void test_bad_targets(void **state)
{
	char path[PATH_MAX], *dir = temp_dir();
	uid_t uid = geteuid();
	struct export_file *x, *other;

	(void)state;
	check_open_fails(dir, EISDIR);
	snprintf(path, sizeof(path), "%s/", dir);
	check_open_fails(path, EISDIR);
	check_open_fails("", ENOENT);
	snprintf(path, sizeof(path), "%s/none/a.txt", dir);
	check_open_fails(path, ENOENT);
	snprintf(path, sizeof(path), "%s/none/", dir);
	check_open_fails(path, ENOENT);
	check_open_fails("/dev/null/a.txt", ENOTDIR);
	check_open_fails("/dev/fd/987", EBADF);
	/* as long as a name may be, and one more: the temporary name must not be the limit */
	snprintf(path, sizeof(path), "%s/%0*d", dir, NAME_MAX, 1);
	x = export__open(path, &failing);
	other = export__open(path, &failing);
	assert_non_null(x);
	assert_non_null(other);
	export__close(x);
	export__close(other);
	snprintf(path, sizeof(path), "%s/%0*d", dir, NAME_MAX + 1, 1);
	check_open_fails(path, ENAMETOOLONG);
	if (!uid)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(uid ? chmod(dir, 0500) : 0, 0);
	snprintf(path, sizeof(path), "%s/a.txt", dir);
	check_open_fails(path, EACCES);
	if (!uid)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(dir_entries(dir), 0);
	remove_dir(dir);
}

static void test_disk_full(void **state)
{
	static const char *const names[] = { ".pb.gz", ".folded", ".svg",
					     ".html",  ".txt",	  ".lines.html" };
	struct profile *p = service();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct export_file *x = export__open("/dev/full", export__find(names[i]));

		assert_non_null(x);
		assert_int_equal(export__commit(x, p, &defaults), -ENOSPC);
		export__close(x);
	}
	profile__free(p);
}

/* A file that cannot grow: the old one stays, nothing is left beside it. */
static void test_file_limit(void **state)
{
	char path[PATH_MAX], *dir = temp_dir(), *s;
	struct rlimit old, limit = { 100, 100 };
	struct profile *p = service();
	struct export_file *x;
	size_t len;

	(void)state;
	snprintf(path, sizeof(path), "%s/a.folded", dir);
	save(path, p, &defaults);
	x = export__open(path, export__find(path));
	assert_non_null(x);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(export__commit(x, p, &defaults), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_DFL);
	export__close(x);
	assert_int_equal(dir_entries(dir), 1);
	s = read_file(path, &len);
	assert_true(len > 100);
	free(s);
	remove_dir(dir);
	profile__free(p);
}

/* A stream that fails after some bytes. */
static ssize_t short_write(void *cookie, const char *buf, size_t size)
{
	size_t *room = cookie;
	size_t n = size < *room ? size : *room;

	(void)buf;
	if (n < size)
		errno = EDQUOT;
	*room -= n;
	return (ssize_t)n;
}

static void test_write_errors(void **state)
{
	static const write_fn writes[] = { export__folded, export__report, export__pprof,
					   export__html,   export__svg,	   export__lines };
	struct profile *p = service();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(writes); i++) {
		for (size_t limit = 0; limit < 700; limit++) {
			size_t room = limit;
			FILE *f = fopencookie(&room, "w",
					      (cookie_io_functions_t){ .write = short_write });

			assert_non_null(f);
			setvbuf(f, NULL, _IONBF, 0);
			assert_int_equal(writes[i](p, &defaults, f), -EDQUOT);
			fclose(f);
		}
	}
	profile__free(p);
}

static void make_fifo(char path[PATH_MAX], const char *dir)
{
	snprintf(path, PATH_MAX, "%s/fifo.folded", dir);
	assert_int_equal(mkfifo(path, 0666), 0);
}

/* Commits in a child, which waits for a reader; it exits with 0 if the result is `expected`. */
static pid_t commit_in_child(struct export_file *x, const struct profile *p, bool ends,
			     int expected)
{
	pid_t pid;
	int err;

	assert_non_null(x);
	pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	alarm(20); /* by itself it would wait for longer */
	if (ends)
		ending__ask();
	err = export__commit(x, p, &defaults);
	export__close(x);
	_exit(err != expected);
}

static void expect_success(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A FIFO is written directly, also when its reader comes only after export__open(). */
static void test_fifo(void **state)
{
	char path[PATH_MAX], *dir = temp_dir(), buf[64] = "";
	struct profile *p = service();
	struct export_file *x;
	pid_t pid;
	int fd;

	(void)state;
	make_fifo(path, dir);
	x = export__open(path, export__find(path));
	pid = commit_in_child(x, p, false, 0);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_true(read(fd, buf, 8) == 8);
	assert_string_equal(buf, "celery;<");
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	close(fd);
	expect_success(pid);
	export__close(x);
	remove_dir(dir);
	profile__free(p);
}

/* A FIFO that nobody reads is given up when the end is wanted, in a child, which keeps the wish. */
static void test_fifo_without_reader(void **state)
{
	char path[PATH_MAX], *dir = temp_dir();
	struct profile *p = service();
	struct export_file *x;

	(void)state;
	make_fifo(path, dir);
	x = export__open(path, export__find(path));
	expect_success(commit_in_child(x, p, true, -ENXIO));
	export__close(x);
	remove_dir(dir);
	profile__free(p);
}

/* A socket takes no stream: said before anything is sampled. */
static void test_socket(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char *dir = temp_dir();

	(void)state;
	assert_true(fd >= 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%.90s/s.folded", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_null(export__open(at.sun_path, export__find(".folded")));
	assert_int_equal(errno, EPERM);
	close(fd);
	remove_dir(dir);
}

static void opens(const char *path, bool wanted)
{
	struct export_file *x = export__open(path, export__find(".folded"));

	assert_int_equal(!!x, wanted);
	export__close(x);
}

/* What somebody else has put where the profile is to go: it would be theirs, or wait for them. */
static void test_planted(void **state)
{
	char path[PATH_MAX], link[PATH_MAX], *dir = temp_dir();

	(void)state;
	make_fifo(path, dir);
	snprintf(link, sizeof(link), "%s/link.folded", dir);
	assert_int_equal(symlink("/dev/null", link), 0);
	opens("/dev/null", true);
	opens(path, true);
	opens(link, false);
	assert_int_equal(chmod(dir, 01777), 0);
	opens(path, true); /* nobody else can exchange it */
	assert_int_equal(chmod(dir, 0777), 0);
	opens(path, false);
	assert_int_equal(chmod(dir, 01777), 0);
	if (!geteuid()) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		opens(path, false);
	}
	remove_dir(dir);
}

/* "-", /dev/stdout and /dev/fd/1 append to what stdout is, a regular file among others. */
static void test_stdout(void **state)
{
	static const char *const names[] = { "-", "/dev/stdout", "/dev/fd/1" };
	char path[PATH_MAX], *dir = temp_dir(), *s;
	struct profile *p = service();
	int saved, fd;
	size_t len;

	(void)state;
	snprintf(path, sizeof(path), "%s/out", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	dup2(fd, STDOUT_FILENO);
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct export_file *x = export__open(names[i], export__find(".folded"));

		if (x)
			export__commit(x, p, &defaults);
		export__close(x);
	}
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_int_equal(dir_entries(dir), 1);
	s = read_file(path, &len);
	for (size_t i = 0; i < 3; i++) {
		char *next = strstr(s + (i ? 1 : 0), "celery;<module>");

		assert_non_null(next);
		memset(next, 'x', 6);
	}
	free(s);
	remove_dir(dir);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_symlink),
		cmocka_unit_test(test_bad_targets),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_file_limit),
		cmocka_unit_test(test_write_errors),
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_fifo_without_reader),
		cmocka_unit_test(test_socket),
		cmocka_unit_test(test_planted),
		cmocka_unit_test(test_stdout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
