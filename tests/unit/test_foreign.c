/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Files that others own: what is not opened, what is not waited for, and what cannot lead
 * elsewhere.
 */
#include "base/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/pyperf-test-foreign-XXXXXX";

#include "owndir.h"

/* One that begins in `dir`. */
static char *in_dir(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void is(int fd, const char *text)
{
	char buf[64] = "";

	assert_true(fd >= 0);
	assert_true(read(fd, buf, sizeof(buf) - 1) >= 0);
	assert_string_equal(buf, text);
	close(fd);
}

static void test_regular(void **state)
{
	(void)state;
	put("file", "text");
	is(foreign__open(in_dir("file")), "text");
	assert_int_equal(foreign__open(in_dir("nonesuch")), -ENOENT);
}

/*
 * A link to a device, as well: what opens one, or waits for a writer, would not come back from
 * read().
 */
static void test_others_are_not_opened(void **state)
{
	static const char *const of_the_kernel[] = {
		"/proc/self/status", "/proc/kmsg", "/sys/kernel/mm/transparent_hugepage/enabled"
	};

	(void)state;
	assert_int_equal(mkfifo(in_dir("fifo"), 0644), 0);
	assert_int_equal(foreign__open(in_dir("fifo")), -ENOTSUP);
	assert_int_equal(foreign__open("/dev/tty"), -ENOTSUP);
	assert_int_equal(foreign__open("/dev/zero"), -ENOTSUP);
	assert_int_equal(foreign__open(dir), -ENOTSUP);
	assert_int_equal(symlink("/dev/zero", in_dir("link")), 0);
	assert_int_equal(foreign__open(in_dir("link")), -ENOTSUP);
	for (size_t i = 0; i < sizeof(of_the_kernel) / sizeof(of_the_kernel[0]); i++)
		if (!access(of_the_kernel[i], F_OK))
			assert_int_equal(foreign__open(of_the_kernel[i]), -ENOTSUP);
}

/* An open() that waits would be ended by the alarm, and with it the test. */
static void test_lease_is_not_waited_for(void **state)
{
	int fd;

	(void)state;
	put("leased", "text");
	fd = open(in_dir("leased"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	signal(SIGIO, SIG_IGN);
	if (fcntl(fd, F_SETLEASE, F_WRLCK)) {
		print_message("leases: %s\n", strerror(errno));
		close(fd);
		skip();
	}
	alarm(20);
	assert_int_equal(foreign__open(in_dir("leased")), -EAGAIN);
	alarm(0);
	assert_int_equal(fcntl(fd, F_SETLEASE, F_UNLCK), 0);
	close(fd);
	is(foreign__open(in_dir("leased")), "text");
}

/* `dir` stands for a process's directory in /proc: its root is dir/root. */
static int proc_fd(void)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void make_root(void)
{
	put("outside", "outside");
	assert_true(!mkdir(in_dir("root"), 0755) || errno == EEXIST);
	assert_true(!mkdir(in_dir("root/tmp"), 01777) || errno == EEXIST);
	put("root/tmp/map", "map");
}

static void is_found(int place, const char *text)
{
	assert_true(place >= 0);
	is(foreign__reopen(place), text);
	close(place);
}

static void test_nothing_leads_out(void **state)
{
	int proc = proc_fd();

	(void)state;
	make_root();
	is_found(foreign__find(proc, "tmp/map"), "map");
	is_found(foreign__find_plain(proc, "tmp", "map"), "map");
	assert_int_equal(symlink("../../outside", in_dir("root/tmp/up")), 0);
	assert_int_equal(symlink("map", in_dir("root/tmp/near")), 0);
	assert_int_equal(foreign__find_plain(proc, "tmp", "up"), -ELOOP);
	assert_int_equal(foreign__find_plain(proc, "tmp", "near"), -ELOOP);
	assert_int_equal(foreign__find(proc, "tmp/../../outside"), -ENOENT);
	assert_int_equal(foreign__find_plain(proc, "tmp", "nonesuch"), -ENOENT);
	close(proc);
}

static void leads(const char *path, const char *text)
{
	int proc = proc_fd();

	is_found(foreign__find_followed(proc, path), text);
	close(proc);
}

static int where(const char *path)
{
	int proc = proc_fd(), fd = foreign__find_followed(proc, path);

	close(proc);
	return fd;
}

/* As the process itself would find it, whose root is dir/root. */
static void test_links(void **state)
{
	char longest[4200];
	struct stat st;
	int fd;

	(void)state;
	make_root();
	assert_int_equal(symlink("/tmp", in_dir("root/absolute")), 0);
	assert_int_equal(symlink("../../../tmp/./map", in_dir("root/tmp/beyond")), 0);
	assert_int_equal(symlink("absolute/../tmp//beyond", in_dir("root/chain")), 0);
	assert_int_equal(symlink("loop", in_dir("root/loop")), 0);
	assert_int_equal(symlink("/outside", in_dir("root/none")), 0);
	assert_int_equal(symlink("/proc/self/exe", in_dir("root/magic")), 0);
	leads("absolute/map", "map");
	leads("/absolute//./map", "map");
	leads("../../tmp/map", "map");
	leads("tmp/beyond", "map");
	leads("chain", "map");
	assert_int_equal(where("loop"), -ELOOP);
	assert_int_equal(where("loop/map"), -ELOOP);
	assert_int_equal(where("none"), -ENOENT);
	assert_int_equal(where("magic"), -ENOENT); /* there is no /proc in that root */
	assert_int_equal(where("tmp/map/"), -ENOTDIR);
	assert_int_equal(where("tmp/map/.."), -ENOTDIR);
	assert_int_equal(where("tmp/beyond/x"), -ENOTDIR);
	assert_int_equal(where(""), -ENOENT);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(where(longest), -ENAMETOOLONG);
	/* a link at the end is what is found, unless it is to be followed */
	fd = foreign__find(proc_fd(), "absolute");
	assert_int_equal(foreign__stat(fd, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	close(fd);
	fd = where("absolute/");
	assert_int_equal(foreign__stat(fd, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	close(fd);
}

/* Links of procfs lead where no text says. */
static void test_magic_links(void **state)
{
	static const char *const links[] = { "self/exe", "%d/exe", "%d/root", "%d/cwd/." };
	int self = open("/proc/self", O_PATH | O_DIRECTORY);
	char link[32], path[64];

	(void)state;
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		snprintf(link, sizeof(link), links[i], (int)getpid());
		snprintf(path, sizeof(path), "proc/%s", link);
		assert_int_equal(foreign__find_followed(self, path), -ELOOP);
	}
	close(self);
}

/* What a tenant mounts on a name of its /tmp. In a mount namespace of the test's own. */
static int find_mounted(void)
{
	char source[256];

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -EPERM;
	snprintf(source, sizeof(source), "%s", in_dir("outside"));
	if (mount(source, in_dir("root/tmp/map"), NULL, MS_BIND, NULL))
		return -EPERM;
	return foreign__find_plain(proc_fd(), "tmp", "map");
}

static void test_mount_on_a_file(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	make_root();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(-find_mounted() & 0xff);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == EPERM) {
		print_message("mounting needs root\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), EXDEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regular),
		cmocka_unit_test(test_others_are_not_opened),
		cmocka_unit_test(test_lease_is_not_waited_for),
		cmocka_unit_test(test_nothing_leads_out),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_magic_links),
		cmocka_unit_test(test_mount_on_a_file),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
