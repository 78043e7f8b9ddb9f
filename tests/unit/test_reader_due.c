// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Questions while something is due (readers__due()): tenants take no more of that time than they
 * may, nobody is blamed for it, and what was not answered is answered when it is asked again.
 */
#include "base/reader.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/due.h"
#include "base/tenant.h"
#include "python/selfcheck.h"

#define SLACK_MS 150 /* a busy machine */

static struct readers *rs;

/* Waits for nobody, for as long as the question says, in ms. */
static void wait_here(const char *text)
{
	int ms = atoi(text), nothing = 0;
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	syscall(SYS_futex, &nothing, FUTEX_WAIT, 0, &time, NULL, 0);
}

static int wait_with_files(struct reader_job *job)
{
	wait_here(job->question);
	return 0;
}

READER_JOB(wait_with_files);

/* Of user `uid`, or of a process of root's. */
static int ask(uint32_t uid, const char *ms)
{
	char answer[4];

	return reader__files(rs,
			     &(struct reader_call){ .whose = { .tgid = uid ? 0 : (uint32_t)getpid(),
							       .tenant = tenant__of_user(uid) },
						    .op = &op_wait_with_files,
						    .question = ms,
						    .size = strlen(ms) + 1,
						    .in = -1,
						    .answer = answer,
						    .answer_size = sizeof(answer) });
}

static size_t blamed(void)
{
	struct reader_refused who[READER_REFUSED_MAX];

	return readers__hung(rs, false, who);
}

static void one_hangs(void **state)
{
	uint64_t begin = now_ms();

	(void)state;
	readers__due(rs, now_ns());
	assert_int_equal(ask(4711, "2000"), -EBUSY);
	assert_true(now_ms() - begin < DUE_ALL_MS / 2 + SLACK_MS);
	assert_int_equal(ask(4711, "0"), -EBUSY); /* it had its part */
	assert_int_equal(ask(4712, "0"), 0);	  /* another one has another */
	assert_int_equal(ask(0, "250"), 0);	  /* and root any */
	assert_int_equal(readers__put_off(rs), 2);
	assert_int_equal(blamed(), 0);
	readers__due(rs, now_ns() + 60 * NS_PER_S);
	assert_int_equal(ask(4711, "200"), 0); /* as long as ever, when there is time */
	assert_int_equal(ask(4711, "2000"), -ETIMEDOUT);
	assert_int_equal(blamed(), 1);
}

/* Also one that has begun to before. */
static void hangs_into_it(void **state)
{
	(void)state;
	assert_int_equal(ask(4711, "0"), 0);
	readers__due(rs, now_ns() + 50 * NS_PER_MS);
	assert_int_equal(ask(4711, "2000"), -EBUSY);
	assert_int_equal(ask(4711, "0"), -EBUSY);
	assert_int_equal(blamed(), 0);
}

static void many_hang(void **state)
{
	uint64_t begin;

	(void)state;
	assert_int_equal(ask(4711, "0"), 0);
	begin = now_ms();
	readers__due(rs, now_ns());
	for (uint32_t uid = 4711; uid < 4811; uid++)
		assert_int_equal(ask(uid, "2000"), -EBUSY);
	assert_true(now_ms() - begin < DUE_ALL_MS + 2 * SLACK_MS);
	assert_int_equal(ask(9999, "0"), -EBUSY); /* nothing is left */
	assert_int_equal(blamed(), 0);
	readers__due(rs, now_ns() + 60 * NS_PER_S);
	assert_int_equal(ask(9999, "0"), 0);
}

/* None of them is long, but all together are. */
static void short_waits(void **state)
{
	int answered = 0;

	(void)state;
	readers__due(rs, now_ns());
	while (answered < 100 && !ask(4711, "8"))
		answered++;
	assert_in_range(answered, 2, DUE_ALL_MS / 8);
	assert_int_equal(blamed(), 0);
}

/* A process of another user; 0: we are not root. */
static pid_t start_other(void)
{
	pid_t pid = getuid() ? 0 : fork();

	if (pid || getuid())
		return pid;
	if (setresuid(4711, 4711, 4711))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the user */
	for (;;)
		pause();
}

/* What is trusted is no less so because there was no time; what is new waits. */
static void a_check_waits(void **state)
{
	struct selfcheck sc = { .state = SELFCHECK_TRUSTED }, fresh = { 0 };
	struct py_binary bin = { 0 };
	pid_t pid = start_other();

	(void)state;
	if (!pid)
		skip();
	while (tenant__user(tenant__of_process((uint32_t)pid)) != 4711)
		sched_yield();
	readers__due(rs, now_ns());
	assert_int_equal(ask(4711, "2000"), -EBUSY);
	assert_false(selfcheck__again(rs, &sc, &bin, (uint32_t)pid, 1));
	assert_int_equal(sc.state, SELFCHECK_TRUSTED);
	selfcheck__begin(rs, &fresh, &bin, 1, (uint32_t)pid, 0, 1);
	assert_int_equal(fresh.state, SELFCHECK_REFUSED);
	assert_true(selfcheck__open(&fresh));
	assert_string_equal(fresh.why, "there was no time to read it yet");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Whose helpers still hang has no more of them. */
static void keeps_no_more_than_two(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		readers__due(rs, now_ns());
		assert_int_equal(ask(4711, "300"), -EBUSY);
	}
	readers__due(rs, 0);
	assert_int_equal(ask(4711, "0"), 0); /* they have ended, as they are killed */
}

static int setup(void **state)
{
	(void)state;
	rs = readers__new();
	readers__start(rs);
	return !rs;
}

static int teardown(void **state)
{
	(void)state;
	readers__free(rs);
	return 0;
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(one_hangs),   test(hangs_into_it),		 test(many_hang),
		test(short_waits), test(keeps_no_more_than_two), test(a_check_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
