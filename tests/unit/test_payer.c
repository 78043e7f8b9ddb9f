/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whom processes in user namespaces are charged to (payer.h). */
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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/payer.h"
#include "bpf/pyperf.h"

#define MAKER 65534
#define OTHER 12345

static int write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	int err = done ? 0 : errno;

	if (fd >= 0)
		close(fd);
	return err;
}

/* Whose user is root in it: only who has a name there may make another one below. */
static int make_namespace(void)
{
	uid_t maker = geteuid();
	char map[32];
	int err = unshare(CLONE_NEWUSER) ? errno : 0;

	snprintf(map, sizeof(map), "0 %u 1\n", maker);
	if (!err)
		err = write_map("/proc/self/setgroups", "deny");
	if (!err)
		err = write_map("/proc/self/uid_map", map);
	return err ? err : write_map("/proc/self/gid_map", map);
}

/* In the child: so many namespaces, each in the one before. */
static int nest(uid_t maker, int levels)
{
	int err = 0;

	if (maker && (setresgid(maker, maker, maker) || setresuid(maker, maker, maker) ||
		      prctl(PR_SET_DUMPABLE, 1)))
		return errno;
	for (int i = 0; i < levels && !err; i++)
		err = make_namespace();
	return err;
}

/* Of a process in `levels` user namespaces that `maker` made; 0: it may not make them. */
static uint32_t payer_below(uid_t maker, int levels)
{
	int said[2], proc_fd, err = -1;
	uint32_t payer = 0;
	char path[32];
	pid_t pid;

	assert_int_equal(pipe(said), 0);
	pid = fork();
	if (!pid) {
		err = nest(maker, levels);
		if (write(said[1], &err, sizeof(err)) == sizeof(err))
			pause();
		_exit(0);
	}
	assert_int_equal(read(said[0], &err, sizeof(err)), sizeof(err));
	snprintf(path, sizeof(path), "/proc/%d", pid);
	proc_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	assert_true(proc_fd >= 0);
	if (!err)
		payer = payer__of(proc_fd, OTHER);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(proc_fd);
	close(said[0]);
	close(said[1]);
	if (err)
		printf("user namespaces: %s\n", strerror(err));
	return payer;
}

static void without_a_namespace_it_is_the_user(void **state)
{
	(void)state;
	assert_int_equal(payer_below(0, 0), OTHER);
	assert_int_equal(payer__of(-1, OTHER), OTHER);
}

static void who_made_the_outermost_pays(void **state)
{
	uid_t maker = geteuid() ? geteuid() : MAKER;

	(void)state;
	for (int levels = 1; levels < 4; levels++) {
		uint32_t payer = payer_below(maker, levels);

		if (!payer)
			skip();
		assert_int_equal(payer, maker);
	}
}

/* As many steps as BPF takes. */
static void who_nests_deeper_pays_together(void **state)
{
	uid_t maker = geteuid() ? geteuid() : MAKER;
	uint32_t payer = payer_below(maker, PAYER_LEVELS);

	(void)state;
	if (!payer)
		skip();
	assert_int_equal(payer, maker);
	assert_int_equal(payer_below(maker, PAYER_LEVELS + 1), PAYER_TOO_DEEP);
}

/* A container's: its users are told apart. */
static void below_one_of_root_it_is_the_user(void **state)
{
	uint32_t payer = payer_below(0, 1);

	(void)state;
	if (!payer)
		skip();
	assert_int_equal(payer, geteuid() ? geteuid() : OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_namespace_it_is_the_user),
		cmocka_unit_test(who_made_the_outermost_pays),
		cmocka_unit_test(who_nests_deeper_pays_together),
		cmocka_unit_test(below_one_of_root_it_is_the_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
