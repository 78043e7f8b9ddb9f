/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The process that reads memory: what it may not do, what it answers, and that nobody waits for it
 * for ever.
 */
#include "base/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int answer_pid(const void *question, void *answer)
{
	pid_t pid = getpid();

	(void)question;
	memcpy(answer, &pid, sizeof(pid));
	return 0;
}

static pid_t reader_pid(void)
{
	pid_t pid = 0;

	assert_int_equal(reader__call((uint32_t)getpid(), answer_pid, "", 1, &pid, sizeof(pid)), 0);
	return pid;
}

static void test_memory(void **state)
{
	char *text = malloc(200000), *copy = malloc(200000);

	(void)state;
	for (int i = 0; i < 200000; i++)
		text[i] = (char)(i * 31);
	assert_int_equal(reader__read((uint32_t)getpid(), copy, 200000, (uintptr_t)text), 0);
	assert_memory_equal(copy, text, 200000);
	assert_int_equal(reader__read((uint32_t)getpid(), copy, 8, 4096), -EFAULT);
	free(text);
	free(copy);
}

static int try_the_forbidden(const void *question, void *answer)
{
	int fds[2];

	(void)question;
	memset(answer, 0, 1);
	if (open("/etc/passwd", O_RDONLY) >= 0 || socket(AF_INET, SOCK_STREAM, 0) >= 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, fds) >= 0 || fork() >= 0 || !kill(getppid(), 0))
		return 1;
	return 0;
}

static void test_rights(void **state)
{
	char byte;

	(void)state;
	assert_int_not_equal(reader_pid(), getpid());
	assert_int_equal(reader__call((uint32_t)getpid(), try_the_forbidden, "", 1, &byte, 1), 0);
}

static int result_of(const void *question, void *answer)
{
	int result;

	memcpy(&result, question, sizeof(result));
	memset(answer, 7, 1);
	return result;
}

static void test_results(void **state)
{
	static const int results[] = { 0, 5, -ENOENT, -4095 };
	int beyond = -5000;
	uint8_t byte;

	(void)state;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		byte = 1;
		assert_int_equal(reader__call((uint32_t)getpid(), result_of, &results[i],
					      sizeof(int), &byte, 1),
				 results[i]);
		assert_int_equal(byte, results[i] < 0 ? 1 : 7);
	}
	assert_int_equal(
		reader__call((uint32_t)getpid(), result_of, &beyond, sizeof(int), &byte, 1),
		-EBADMSG);
	assert_int_equal(reader__call(1, result_of, "", READER_MESSAGE_MAX + 1, &byte, 1), -E2BIG);
}

/* Ctrl-C and kill of the group are for those who read the last window by it. */
static void test_signals(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	pid_t pid = reader_pid();

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		assert_int_equal(kill(pid, signals[i]), 0);
		assert_int_equal(reader_pid(), pid);
	}
}

/* Killed from outside: the question is lost, the next one is answered by another. */
static void test_killed(void **state)
{
	pid_t pid = reader_pid(), other = 0;
	int err;

	(void)state;
	assert_int_equal(kill(pid, SIGKILL), 0);
	err = reader__call((uint32_t)getpid(), answer_pid, "", 1, &other, sizeof(other));
	assert_true(err == -EPIPE || !err);
	assert_int_not_equal(reader_pid(), pid);
}

static int wait_for_ever(const void *question, void *answer)
{
	char byte;

	(void)answer;
	(void)question;
	return (int)read(3, &byte, 1); /* of its own socket: nobody asks meanwhile */
}

static int computes(const void *question, void *answer)
{
	volatile uint64_t n = 0;

	(void)question;
	for (uint64_t i = 0; i < 200000000; i++)
		n += i;
	memset(answer, 1, 1);
	return 0;
}

/*
 * One that works has time; one that waits for somebody is given up. The user's processes are left
 * alone then.
 */
static void test_hangs(void **state)
{
	pid_t pid = reader_pid();
	uint8_t byte;

	(void)state;
	assert_int_equal(reader__call((uint32_t)getpid(), computes, "", 1, &byte, 1), 0);
	assert_int_equal(reader_pid(), pid);
	for (int i = 0; i < 2; i++)
		assert_int_equal(reader__call((uint32_t)getpid(), wait_for_ever, "", 1, &byte, 1),
				 -ETIMEDOUT);
	assert_int_equal(reader__call((uint32_t)getpid(), computes, "", 1, &byte, 1), -ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),	cmocka_unit_test(test_rights),
		cmocka_unit_test(test_results), cmocka_unit_test(test_killed),
		cmocka_unit_test(test_signals), cmocka_unit_test(test_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
