/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A command that is held at its end is let go, whatever else happens to it (stop_at_end.h). */
#include <errno.h>
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

#include "base/clock.h"
#include "heap/stop_at_end.h"

#define LONG_MS 60000

static void begin(struct stop_at_end *s)
{
	pid_t pid = fork();
	int err;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	err = stop_at_end__begin(s, pid);
	if (!err)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("skip: no breakpoints of the CPU, or no ptrace: %s\n", strerror(-err));
	skip();
}

static void ends_by(pid_t pid, int sig)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == sig);
}

/* It is not held, which nothing but an error of ours explains: that is said, and soon. */
static void one_that_runs_is_given_up(void **state)
{
	struct stop_at_end s;
	uint64_t began;

	(void)state;
	begin(&s);
	began = now_ms();
	assert_int_equal(stop_at_end__release(&s, 20), -ESRCH);
	assert_true(now_ms() - began < LONG_MS / 2);
	assert_true(s.traced);
	kill(s.pid, SIGKILL);
	assert_int_equal(stop_at_end__release(&s, LONG_MS), 0);
	ends_by(s.pid, SIGKILL);
}

/* Killed where it is held: it leaves that stop by itself, for the one at its exit. */
static void one_that_is_killed_ends(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		struct stop_at_end s;

		begin(&s);
		kill(s.pid, SIGTERM);
		while (stop_at_end__look(&s) == COMMAND_RUNS)
			;
		kill(s.pid, SIGKILL);
		assert_int_equal(stop_at_end__release(&s, LONG_MS), 0);
		assert_false(s.traced);
		assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_runs_is_given_up),
		cmocka_unit_test(one_that_is_killed_ends),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
