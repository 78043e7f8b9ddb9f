/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * draft.c, by the outputs that are made with it: what somebody else has put under a name that is
 * chosen is neither written to nor removed, and what a killed run has left is. The test chooses the
 * names: getrandom() is its own. And it says what the file system can: openat() is its own, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/draft.h"
#include "export/export.h"

static char dir[] = "/tmp/test_draft.XXXXXX";

#include "owndir.h"

/* ---- The names of temporary files ---- */

static unsigned char next_byte; /* of all of them: the first call's is 0, the second's 1 ... */

ssize_t getrandom(void *buf, size_t size, unsigned int flags);
ssize_t getrandom(void *buf, size_t size, unsigned int flags)
{
	(void)flags;
	memset(buf, next_byte++, size);
	return (ssize_t)size;
}

static bool no_tmpfile; /* the file system is one that has no O_TMPFILE */
static unsigned int nameless;

int openat(int at, const char *path, int flags, ...);
int openat(int at, const char *path, int flags, ...)
{
	bool tmpfile = (flags & O_TMPFILE) == O_TMPFILE;
	mode_t mode = 0;
	va_list args;

	va_start(args, flags);
	if (tmpfile || flags & O_CREAT)
		mode = va_arg(args, mode_t);
	va_end(args);
	nameless += tmpfile && !no_tmpfile;
	if (tmpfile && no_tmpfile) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_openat, at, path, flags, mode);
}

/* What draft.c makes of the n-th answer, n < 26, for the output x.txt. */
static const char *nth_temp(unsigned int n)
{
	static char path[PATH_MAX];
	char letter = (char)('a' + n);

	snprintf(path, sizeof(path), "%s/.x.txt.pyperf-%c%c%c%c%c%c", dir, letter, letter, letter,
		 letter, letter, letter);
	return path;
}

/* ---- What is there ---- */

static const char *in_dir(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void holds(const char *path, const char *want)
{
	char text[64] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	assert_string_equal(text, want);
}

static int write_ours(void *ctx, FILE *f)
{
	(void)ctx;
	return fputs("ours", f) < 0 ? -EIO : 0;
}

static struct export_file *open_output(void)
{
	struct export_file *x;

	next_byte = 0;
	nameless = 0;
	x = export__open(in_dir("x.txt"), export__find(".txt"));
	assert_int_equal(nameless, !no_tmpfile);
	return x;
}

static void write_output(void)
{
	struct export_file *x = open_output();

	assert_non_null(x);
	assert_int_equal(export__commit_other(x, write_ours, NULL), 0);
	export__close(x);
	holds(in_dir("x.txt"), "ours");
}

static int entries(void)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	int cnt = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		cnt += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return cnt;
}

static int clear(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'/.??* '%s'/*", dir, dir);
	no_tmpfile = *state;
	return system(command);
}

/* ---- Planted ---- */

/* A file that has another name as well: what is written to it would be read there. */
static void test_planted_file(void **state)
{
	(void)state;
	put(nth_temp(0), "theirs");
	assert_int_equal(link(nth_temp(0), in_dir("their name")), 0);
	write_output();
	assert_true(next_byte > 1); /* the first name was tried */
	holds(nth_temp(0), "theirs");
	assert_int_equal(unlink(nth_temp(0)), 0);
}

/* A link to a file that we may write and its owner may not, one to nothing, and one to a device. */
static void test_planted_links(void **state)
{
	struct stat st;

	(void)state;
	put(in_dir("victim"), "precious");
	assert_int_equal(symlink("victim", nth_temp(0)), 0);
	assert_int_equal(symlink("chosen", nth_temp(1)), 0);
	assert_int_equal(symlink("/dev/null", nth_temp(2)), 0);
	write_output();
	assert_true(next_byte > 3);
	holds(in_dir("victim"), "precious");
	assert_int_equal(lstat(in_dir("chosen"), &st), -1);
	assert_int_equal(lstat(in_dir("x.txt"), &st), 0);
	assert_true(S_ISREG(st.st_mode));
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(lstat(nth_temp(i), &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		assert_int_equal(unlink(nth_temp(i)), 0);
	}
	assert_int_equal(unlink(in_dir("victim")), 0);
}

/* All names are taken: an error, and nothing was touched. */
static void test_all_planted(void **state)
{
	struct export_file *x;
	struct stat st;

	(void)state;
	for (unsigned int i = 0; i < 26; i++)
		assert_int_equal(symlink("victim", nth_temp(i)), 0);
	for (unsigned int i = 0; i < 10; i++) {
		char name[32];

		snprintf(name, sizeof(name), ".x.txt.pyperf-%u%u%u%u%u%u", i, i, i, i, i, i);
		assert_int_equal(symlink("victim", in_dir(name)), 0);
	}
	x = open_output();
	if (no_tmpfile) {
		assert_null(x);
		assert_int_equal(errno, EEXIST);
	} else {
		assert_int_equal(export__commit_other(x, write_ours, NULL), -EEXIST);
		export__close(x);
	}
	assert_int_equal(lstat(in_dir("x.txt"), &st), -1);
	assert_int_equal(lstat(in_dir("victim"), &st), -1);
	assert_int_equal(entries(), 36);
}

/* ---- While it is written ---- */

static void test_not_seen(void **state)
{
	struct export_file *x = open_output();

	(void)state;
	assert_non_null(x);
	assert_int_equal(entries(), no_tmpfile);
	export__close(x);
	assert_int_equal(entries(), 0);
	put(in_dir("x.txt"), "old");
	assert_int_equal(chmod(in_dir("x.txt"), 0604), 0);
	write_output();
	assert_int_equal(entries(), 1);
}

/* What the second Ctrl-C leaves: nothing. */
static void test_abandon(void **state)
{
	struct export_file *x = open_output(), *y, *z;
	int status;
	pid_t pid;

	(void)state;
	y = export__open(in_dir("y.txt"), export__find(".txt"));
	z = export__open(in_dir("z.txt"), export__find(".txt"));
	assert_non_null(x);
	assert_non_null(y);
	assert_non_null(z);
	assert_int_equal(entries(), 3 * no_tmpfile);
	export__close(y);
	assert_int_equal(entries(), 2 * no_tmpfile);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		export__abandon();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(entries(), 0);
	export__close(z);
	export__close(x);
	export__abandon();
}

/* ---- Dead runs ---- */

/* Opens an output in a child, and ends it by SIGKILL. */
static void killed_run(void)
{
	int ready[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		next_byte = 3;
		if (!export__open(in_dir("x.txt"), export__find(".txt")) ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(ready[0]);
	close(ready[1]);
}

/* The next run of the same output takes it away; a run of another output does not look. */
static void test_dead_run(void **state)
{
	struct export_file *x;

	(void)state;
	killed_run();
	assert_int_equal(entries(), no_tmpfile);
	x = export__open(in_dir("y.txt"), export__find(".txt"));
	export__close(x);
	assert_int_equal(entries(), no_tmpfile);
	write_output();
	assert_int_equal(entries(), 1);
}

/* Two runs at a time do not take each other's. */
static void test_living_run(void **state)
{
	struct export_file *x = open_output(), *y;

	(void)state;
	assert_non_null(x);
	y = export__open(in_dir("x.txt"), export__find(".txt"));
	assert_non_null(y);
	assert_int_equal(export__commit_other(x, write_ours, NULL), 0);
	export__close(x);
	assert_int_equal(export__commit_other(y, write_ours, NULL), 0);
	export__close(y);
	holds(in_dir("x.txt"), "ours");
	assert_int_equal(entries(), 1);
}

/* Names that are like ours, of what is not: links, FIFOs, other users', other lengths. */
static void test_not_ours(void **state)
{
	static const char *const names[] = { ".x.txt.backup", ".x.txt.pyperf-abc",
					     ".x.txt.pyperf-abcdefg", ".x.txt.pyperf-ABCDEF",
					     ".y.txt.pyperf-abcdef" };
	int cnt = sizeof(names) / sizeof(names[0]) + 3;

	(void)state;
	for (int i = 0; i < cnt - 3; i++)
		put(in_dir(names[i]), "precious");
	put(in_dir("twice"), "precious");
	assert_int_equal(link(in_dir("twice"), nth_temp(20)), 0);
	assert_int_equal(mkfifo(nth_temp(21), 0600), 0);
	assert_int_equal(symlink("twice", nth_temp(22)), 0);
	if (!geteuid()) {
		put(nth_temp(23), "theirs");
		assert_int_equal(chown(nth_temp(23), 12345, 12345), 0);
		cnt++;
	}
	write_output();
	assert_int_equal(entries(), cnt + 2);
}

/* ---- Files that are written once ---- */

/* What is there under that name is replaced, not written to; the name is there when all is. */
static void test_put(void **state)
{
	struct stat st;

	(void)state;
	next_byte = 0;
	put(in_dir("victim"), "precious");
	assert_int_equal(symlink("victim", nth_temp(0)), 0);
	assert_int_equal(symlink("victim", in_dir("x.txt")), 0);
	assert_int_equal(draft__put(dir, "x.txt", 0600, "ours", 4), 0);
	holds(in_dir("x.txt"), "ours");
	holds(in_dir("victim"), "precious");
	assert_int_equal(lstat(in_dir("x.txt"), &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(entries(), 3);
	assert_int_equal(draft__put(in_dir("none"), "x.txt", 0600, "ours", 4), -ENOENT);
}

/* Who publishes may be a child, whose parent knows of no name: nothing is left for it to remove. */
static void test_not_published(void **state)
{
	struct draft d;
	int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(at >= 0);
	assert_int_equal(mkdir(in_dir("x.txt"), 0700), 0);
	assert_int_equal(draft__open(&d, at, "x.txt"), 0);
	assert_int_equal(draft__publish(&d, d.fd), -EISDIR);
	assert_int_equal(entries(), 1);
	assert_int_equal(rmdir(in_dir("x.txt")), 0);
	draft__remove(&d);
	close(d.fd);
	close(at);
}

/* Whatever the target was called; but no living run's, and nothing that is only like one. */
static void test_clean(void **state)
{
	static const char *const names[] = { ".x.txt.backup", ".x.txt.pyperf-abc",
					     "x.txt.pyperf-abcdef", ".pyperf-abcdef",
					     ".x.pyperf-ABCDEF" };
	struct export_file *x;

	(void)state;
	killed_run();
	put(in_dir(".some window.pyperf-abcdef"), "dead");
	put(in_dir(".a.pyperf-b.pyperf-abcdef"), "dead");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		put(in_dir(names[i]), "precious");
	x = open_output();
	assert_non_null(x);
	draft__clean(dir);
	assert_int_equal(entries(), 5 + no_tmpfile);
	export__close(x);
	assert_int_equal(entries(), 5);
}

#define WITHOUT ((void *)1)
#define BOTH(fn)                                                                                   \
	cmocka_unit_test_prestate_setup_teardown(fn, clear, NULL, NULL),                           \
		cmocka_unit_test_prestate_setup_teardown(fn, clear, NULL, WITHOUT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_planted_file), BOTH(test_planted_links), BOTH(test_all_planted),
		BOTH(test_not_seen),	 BOTH(test_abandon),	   BOTH(test_dead_run),
		BOTH(test_living_run),	 BOTH(test_not_ours),	   BOTH(test_put),
		BOTH(test_clean),	 BOTH(test_not_published),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
