/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the agent writes beside store and spools: never through links, never where others may, and
 * it never waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/guard.h"
#include "agent/notify.h"
#include "agent/windowdir.h"
#include "base/clock.h"
#include "base/log.h"

static char dir[] = "/tmp/pyperf-files-XXXXXX";

#include "owndir.h"

static void be_quiet(enum log_level level, const char *fmt, const char *text)
{
	(void)level, (void)fmt, (void)text;
}

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void windows_are_not_written_through_links(void **state)
{
	static const struct label labels[] = { { "service_name", "s" } };
	struct window w = { .id = "0123456789abcdef0123456789abcdef",
			    .labels = labels,
			    .label_cnt = 1 };
	char victim[128];
	struct stat st;
	FILE *f;

	(void)state;
	strcpy(victim, in_dir("victim"));
	f = fopen(victim, "w");
	assert_non_null(f);
	fputs("untouched", f);
	fclose(f);
	assert_int_equal(symlink(victim, in_dir("s-19700101T000000Z-01234567.pb.gz")), 0);
	w.pprof = "x";
	w.pprof_size = 1;
	assert_int_equal(windowdir__put(dir, &w), 0);
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_size, 9);
	assert_int_equal(lstat(in_dir("s-19700101T000000Z-01234567.pb.gz"), &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_directory_of_others_is_refused(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(chmod(dir, 01777), 0);
	assert_int_equal(guard__take(dir), -EPERM);
	assert_int_equal(chmod(dir, 0755), 0);
	if (!geteuid()) {
		assert_int_equal(chown(dir, 65534, 0), 0);
		assert_int_equal(guard__take(dir), -EPERM);
		assert_int_equal(chown(dir, 0, 0), 0);
	}
	fd = guard__take(dir);
	assert_true(fd >= 0);
	assert_int_equal(guard__take(dir), -EBUSY);
	close(fd);
}

/* The queue of a datagram socket that nobody reads is full after some. */
static void nobody_waits_for_systemd(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t begin;

	(void)state;
	strcpy(a.sun_path, in_dir("notify"));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	setenv("NOTIFY_SOCKET", a.sun_path, 1);
	alarm(60);
	begin = now_ns();
	for (int i = 0; i < 5; i++) {
		int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		while (sendto(other, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1)
			;
		notify("WATCHDOG=1");
		close(other);
	}
	assert_true(now_ns() - begin < 30 * NS_PER_S);
	alarm(0);
	unsetenv("NOTIFY_SOCKET");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_not_written_through_links),
		cmocka_unit_test(a_directory_of_others_is_refused),
		cmocka_unit_test(nobody_waits_for_systemd),
	};

	log_set_writer(be_quiet);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
