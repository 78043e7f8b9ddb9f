/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* source.c: what is read with the rights of another user, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/source.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static char dir[] = "/tmp/test_source.XXXXXX";

#include "owndir.h"

/* A file in a directory that all may look into. */
static const char *make_file(char path[PATH_MAX], const char *name, mode_t mode, const char *text)
{
	FILE *f;

	snprintf(path, PATH_MAX, "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

static int read_as(const struct source_owner *who, const char *path)
{
	struct strbuf b = { 0 };
	int err = source__read(NULL, who, path, &b, NULL);

	if (err)
		assert_int_equal(b.len, 0);
	strbuf__free(&b);
	return err;
}

static void test_source_names(void **state)
{
	(void)state;
	assert_true(source__is_name("/a/b.py"));
	assert_true(source__is_name("b.pyx"));
	assert_false(source__is_name("/etc/shadow"));
	assert_false(source__is_name("/a.py/shadow"));
	assert_false(source__is_name("/a/b.pyc"));
	assert_false(source__is_name("<string>"));
	assert_false(source__is_name(""));
}

/* This program is the process: it lives, and its root directory is ours. */
static void test_source(void **state)
{
	const struct source_owner self = { .tgid = (uint32_t)getpid() };
	const struct source_owner ended = { .own_root = true }; /* user not known: nobody */
	const struct source_owner ended_ours = { 0, true, getuid(), getgid(), true };
	const struct source_owner gone = { 0, true, getuid(), getgid(), false };
	char path[PATH_MAX], link[PATH_MAX];

	(void)state;
	make_file(path, "open.py", 0644, "x = 1\n");
	assert_int_equal(read_as(&self, path), 0);
	assert_int_equal(read_as(&ended, path), 0);
	assert_int_equal(read_as(&gone, path), -ESRCH);
	make_file(path, "private.py", 0600, "secret\n");
	assert_int_equal(read_as(&self, path), 0);
	assert_int_equal(read_as(&ended_ours, path), 0);
	assert_int_equal(read_as(&ended, path), getuid() ? -EPERM : -EACCES);
	make_file(path, "shadow", 0644, "secret\n");
	assert_int_equal(read_as(&self, path), -EINVAL);
	snprintf(link, sizeof(link), "%s/magic.py", dir);
	assert_int_equal(symlink("/proc/self/exe", link), 0);
	assert_int_equal(read_as(&self, link), -ELOOP);
	snprintf(link, sizeof(link), "%s/fifo.py", dir);
	assert_int_equal(mkfifo(link, 0644), 0);
	assert_int_equal(read_as(&self, link), -ENOTSUP);
	make_file(path, "large.py", 0644, "x\n");
	assert_int_equal(truncate(path, SOURCE_MAX + 1), 0);
	assert_int_equal(read_as(&self, path), -EFBIG);
	assert_int_equal(read_as(&self, "/tmp/none/none.py"), -ENOENT);
	assert_int_equal(read_as(&self, "../none.py"), -EXDEV);
}

/* A process of another user: what it may not read, nor look into, is not read for it. */
static void test_source_rights(void **state)
{
	char path[PATH_MAX], inner[PATH_MAX + 16];
	const struct source_owner other = { 0, true, 12345, 12345, true };
	const gid_t own[] = { 0, 4242 };
	gid_t groups[64];
	int fd;

	(void)state;
	if (getuid()) {
		puts("not root");
		skip();
	}
	assert_int_equal(setgroups(ARRAY_SIZE(own), own), 0);
	make_file(path, "others.py", 0640, "secret\n"); /* our groups are not its groups */
	assert_int_equal(chown(path, 0, own[1]), 0);
	assert_int_equal(read_as(&other, path), -EACCES);
	make_file(path, "own.py", 0600, "mine\n");
	assert_int_equal(chown(path, 12345, 0), 0);
	assert_int_equal(read_as(&other, path), 0);
	snprintf(path, sizeof(path), "%s/closed", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(inner, sizeof(inner), "%s/open.py", path);
	fd = open(inner, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(read_as(&other, inner), -EACCES);
	/* all is as it was */
	assert_int_equal(access(inner, R_OK), 0);
	fd = open(inner, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(getgroups(64, groups), ARRAY_SIZE(own));
}

/*
 * The opener is not user 0 towards files, but has capabilities. So the kernel does not take those
 * away that override permissions when it becomes another user; it does for user 0, where nothing
 * would be seen if we did not.
 */
static void become_opener(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (prctl(PR_SET_KEEPCAPS, 1) || setresgid(65534, 65534, 65534) ||
	    setresuid(65534, 65534, 65534) || syscall(SYS_capget, &head, caps))
		_exit(10);
	for (int i = 0; i < 2; i++)
		caps[i].effective = caps[i].permitted;
	if (syscall(SYS_capset, &head, caps))
		_exit(11);
}

/* What a child with the opener's rights says. */
static int in_opener(const struct source_owner *who, const char *path)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		int err;

		become_opener();
		if (access("/proc/1/environ", F_OK) || open(path, O_RDONLY | O_CLOEXEC) < 0)
			_exit(12); /* it has no rights to drop */
		err = read_as(who, path);
		/* They are back afterwards. */
		if (open(path, O_RDONLY | O_CLOEXEC) < 0)
			_exit(13);
		_exit(err ? 100 - err : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_false(WEXITSTATUS(status) >= 10 && WEXITSTATUS(status) < 100);
	return WEXITSTATUS(status) ? 100 - WEXITSTATUS(status) : 0;
}

static void test_opener_rights(void **state)
{
	const struct source_owner other = { 0, true, 12345, 12345, true };
	const struct source_owner nobody = { 0, true, 65534, 65534, true };
	const struct source_owner root = { 0, true, 0, 0, true };
	char path[PATH_MAX];

	(void)state;
	if (getuid()) {
		puts("not root");
		skip();
	}
	make_file(path, "third.py", 0600, "secret\n");
	assert_int_equal(chown(path, 4711, 4711), 0);
	assert_int_equal(in_opener(&other, path), -EACCES);
	assert_int_equal(in_opener(&nobody, path), -EACCES); /* not even a change of user */
	assert_int_equal(in_opener(&root, path), 0);
	make_file(path, "roots.py", 0600, "secret\n");
	assert_int_equal(in_opener(&other, path), -EACCES);
	make_file(path, "theirs.py", 0600, "mine\n");
	assert_int_equal(chown(path, 12345, 12345), 0);
	assert_int_equal(in_opener(&other, path), 0);
	snprintf(path, sizeof(path), "%s/shut", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	make_file(path, "shut/open.py", 0644, "secret\n");
	assert_int_equal(in_opener(&other, path), -EACCES);
}

static void test_ids(void **state)
{
	uint32_t uid = 0, gid = 0;

	(void)state;
	assert_true(
		source__parse_ids("Name:\tx\nUid:\t7\t0\t0\t0\nGid:\t8\t0\t0\t0\n", &uid, &gid));
	assert_int_equal(uid, 7);
	assert_int_equal(gid, 8);
	assert_false(source__parse_ids("", &uid, &gid));
	assert_false(source__parse_ids("\nUid:\t\nGid:\t1", &uid, &gid));
	assert_false(source__parse_ids("Uid:\t4294967295\t0\t0\t0\nGid:\t1\t1\t1\t1", &uid, &gid));
	/* a command may be called like a line */
	assert_true(source__parse_ids("Name:\tUid:\\t0\nUid:\t7\t0\t0\t0\nGid:\t8\t0\t0\t0\n", &uid,
				      &gid));
	assert_int_equal(uid, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_source_names),  cmocka_unit_test(test_source),
		cmocka_unit_test(test_source_rights), cmocka_unit_test(test_opener_rights),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
