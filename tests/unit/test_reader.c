/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The process that reads memory: what it may not do, what it answers, and that nobody waits for it
 * for ever.
 */
#include "base/reader.h"

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
#include <stdlib.h>
#include <string.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/tenant.h"

static struct readers *rs;

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

	assert_int_equal(reader__call(rs, (uint32_t)getpid(), answer_pid, "", 1, &pid, sizeof(pid)),
			 0);
	return pid;
}

static void test_memory(void **state)
{
	char *text = malloc(200000), *copy = malloc(200000);

	(void)state;
	for (int i = 0; i < 200000; i++)
		text[i] = (char)(i * 31);
	assert_int_equal(reader__read(rs, (uint32_t)getpid(), copy, 200000, (uintptr_t)text), 0);
	assert_memory_equal(copy, text, 200000);
	assert_int_equal(reader__read(rs, (uint32_t)getpid(), copy, 8, 4096), -EFAULT);
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
	assert_int_equal(reader__call(rs, (uint32_t)getpid(), try_the_forbidden, "", 1, &byte, 1),
			 0);
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
		assert_int_equal(reader__call(rs, (uint32_t)getpid(), result_of, &results[i],
					      sizeof(int), &byte, 1),
				 results[i]);
		assert_int_equal(byte, results[i] < 0 ? 1 : 7);
	}
	assert_int_equal(
		reader__call(rs, (uint32_t)getpid(), result_of, &beyond, sizeof(int), &byte, 1),
		-EBADMSG);
	assert_int_equal(reader__call(rs, 1, result_of, "", READER_MESSAGE_MAX + 1, &byte, 1),
			 -E2BIG);
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
	err = reader__call(rs, (uint32_t)getpid(), answer_pid, "", 1, &other, sizeof(other));
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
	assert_int_equal(reader__call(rs, (uint32_t)getpid(), computes, "", 1, &byte, 1), 0);
	assert_int_equal(reader_pid(), pid);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			reader__call(rs, (uint32_t)getpid(), wait_for_ever, "", 1, &byte, 1),
			-ETIMEDOUT);
	assert_int_equal(reader__call(rs, (uint32_t)getpid(), computes, "", 1, &byte, 1),
			 -ETIMEDOUT);
}

/* A process of a user in a mount namespace of its own, and perhaps a user namespace. */
static pid_t in_namespace(int flags)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		if (!(flags & CLONE_NEWUSER) && unshare(flags))
			_exit(1);
		if (setresuid(65534, 65534, 65534) || ((flags & CLONE_NEWUSER) && unshare(flags)))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* A user is one, in however many namespaces; nobody else is refused for what he does. */
static void test_one_user(void **state)
{
	static const int flags[] = { CLONE_NEWNS, CLONE_NEWUSER | CLONE_NEWNS, CLONE_NEWNS };
	pid_t pids[3];
	uint8_t byte;

	(void)state;
	if (geteuid())
		skip();
	for (int i = 0; i < 3; i++)
		pids[i] = in_namespace(flags[i]);
	assert_true(tenant__of_process((uint32_t)pids[0]) != tenant__of_process((uint32_t)pids[2]));
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			reader__call(rs, (uint32_t)pids[i], wait_for_ever, "", 1, &byte, 1),
			-ETIMEDOUT);
	assert_int_equal(reader__call(rs, (uint32_t)pids[2], computes, "", 1, &byte, 1),
			 -ETIMEDOUT);
	assert_int_not_equal(reader_pid(), getpid());
	for (int i = 0; i < 3; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

#define TENANTS 4

static unsigned int message_cnt;
static char last_message[256];

static void count_message(enum log_level level, const char *fmt, const char *text)
{
	(void)fmt;
	if (level > LOG_LEVEL_WARN)
		return;
	message_cnt++;
	strncpy(last_message, text, sizeof(last_message) - 1);
}

/* One message is for all that hang of a user's, in whatever namespaces; one says what follows. */
static void test_hangs_are_said_once(void **state)
{
	pid_t pids[TENANTS];
	uint8_t byte;

	(void)state;
	if (geteuid()) {
		print_message("skipped: needs root, for other users\n");
		skip();
	}
	for (int i = 0; i < TENANTS; i++)
		pids[i] = in_namespace(CLONE_NEWNS);
	message_cnt = 0;
	log_set_writer(count_message);
	for (int i = 0; i < TENANTS; i++) {
		assert_int_equal(
			reader__call(rs, (uint32_t)pids[i], wait_for_ever, "", 1, &byte, 1),
			-ETIMEDOUT);
		if (!i)
			assert_non_null(strstr(last_message, "of user 65534: its memory does not "
							     "answer when it is read"));
	}
	log_set_writer(NULL);
	assert_int_equal(message_cnt, 2);
	assert_non_null(strstr(last_message, "are not read any more"));
	for (int i = 0; i < TENANTS; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

/* ---- files ---------------------------------------------------------------------------------- */

static int open_place(struct reader_job *job)
{
	int fd = openat(AT_FDCWD, job->question, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	job->out[job->out_cnt++] = fd;
	return 0;
}

static int ask_files(reader_job_fn fn, const char *question, int fds[READER_FDS_MAX], size_t *cnt)
{
	static char answer[64];

	return reader__files(rs, &(struct reader_call){ .whose = { .tgid = (uint32_t)getpid() },
							.fn = fn,
							.question = question,
							.size = strlen(question) + 1,
							.in = -1,
							.answer = answer,
							.answer_size = sizeof(answer),
							.out = fds,
							.out_cnt = cnt });
}

static void test_opens(void **state)
{
	int fds[READER_FDS_MAX];
	char text[4];
	size_t cnt;

	(void)state;
	assert_int_equal(ask_files(open_place, "/proc/self/exe", fds, &cnt), 0);
	assert_int_equal(cnt, 1);
	assert_int_equal(read(fds[0], text, 4), 4);
	assert_memory_equal(text, "\177ELF", 4);
	assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	close(fds[0]);
	assert_int_equal(ask_files(open_place, "/nowhere", fds, &cnt), -ENOENT);
	assert_int_equal(cnt, 0);
}

/* Not even an empty file, where everyone may create one. */
static int creates(const char *dir, const char *name)
{
	const struct open_how new = { .flags = O_RDONLY | O_CREAT, .mode = 0600 },
			      nameless = { .flags = O_WRONLY | O_TMPFILE, .mode = 0600 };
	int at = open(dir, O_PATH | O_DIRECTORY);

	return at < 0 || openat(at, name, O_RDONLY | O_CREAT, 0600) >= 0 ||
	       openat(at, name, O_WRONLY | O_CREAT | O_EXCL, 0600) >= 0 ||
	       openat(at, ".", O_WRONLY | O_TMPFILE, 0600) >= 0 ||
	       syscall(SYS_openat2, at, name, &new, sizeof(new)) >= 0 ||
	       syscall(SYS_openat2, at, ".", &nameless, sizeof(nameless)) >= 0 ||
	       !mkdirat(at, name, 0700) || !symlinkat("/", at, name) ||
	       !mknodat(at, name, S_IFIFO | 0600, 0) || syscall(SYS_memfd_create, "", 0) >= 0;
}

static int changes(const char *path, const char *name)
{
	const struct open_how how = { .flags = O_WRONLY }, emptied = { .flags = O_TRUNC };
	int fd = open(path, O_RDONLY);
	char again[32];

	snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
	return fd < 0 || open(path, O_WRONLY) >= 0 || open(path, O_RDWR) >= 0 ||
	       open(path, O_RDONLY | O_TRUNC) >= 0 || open(again, O_WRONLY) >= 0 ||
	       syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)) >= 0 ||
	       syscall(SYS_openat2, AT_FDCWD, path, &emptied, sizeof(emptied)) >= 0 ||
	       !truncate(path, 0) || !ftruncate(fd, 0) || write(fd, "x", 1) >= 0 ||
	       !rename(path, name) || !link(path, name) || !unlink(path) || !chmod(path, 0777) ||
	       !chown(path, 1, 1) || !utimensat(AT_FDCWD, path, NULL, 0);
}

/* `path` is owned by whom these tests run as, and its directory is open to all. */
static bool writes(const char *path)
{
	char dir[64], name[80];

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	snprintf(name, sizeof(name), "%s/new", dir);
	return creates(dir, "new") || changes(path, name);
}

/* Where the other process is root, and where it is not. */
static int do_the_forbidden(struct reader_job *job)
{
	if (writes((const char *)job->question))
		return -EUCLEAN;
	if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || fork() >= 0 || !kill(getppid(), 0) ||
	    syscall(SYS_setfsuid, 0) >= 0 || syscall(SYS_setuid, 0) >= 0 ||
	    syscall(SYS_bpf, 0, NULL, 0) >= 0)
		return -EUCLEAN;
	return 0;
}

static void test_rights_of_files(void **state)
{
	char dir[] = "/tmp/pyperf-reader-XXXXXX", path[64];
	int fds[READER_FDS_MAX], fd;
	size_t cnt;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0777), 0);
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_int_equal(write(fd, "text", 4), 4);
	assert_int_equal(ask_files(do_the_forbidden, path, fds, &cnt), 0);
	assert_int_equal(ask_files(open_place, path, fds, &cnt), 0); /* mode 0600 */
	close(fds[0]);
	assert_int_equal(lseek(fd, 0, SEEK_END), 4);
	close(fd);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0); /* so there is nothing else in it */
}

/* The answer is not to be believed. */
static int answer_too_much(struct reader_job *job)
{
	job->out[job->out_cnt++] = openat(AT_FDCWD, "/proc/self/exe", O_RDONLY);
	return 65;
}

static int answer_beyond(struct reader_job *job)
{
	(void)job;
	return READER_ANSWER_MAX + 1;
}

static unsigned int open_fds(void)
{
	unsigned int cnt = 0;

	for (int fd = 0; fd < 256; fd++)
		cnt += fcntl(fd, F_GETFD) >= 0;
	return cnt;
}

static void test_answers(void **state)
{
	int fds[READER_FDS_MAX];
	unsigned int before;
	size_t cnt;

	(void)state;
	readers__start(rs);
	before = open_fds();
	assert_int_equal(ask_files(answer_too_much, "", fds, &cnt), -EBADMSG);
	assert_int_equal(cnt, 0);
	assert_int_equal(ask_files(answer_beyond, "", fds, &cnt), -EBADMSG);
	assert_int_equal(open_fds(), before);
}

static int wait_for_nobody(struct reader_job *job)
{
	char byte;

	(void)job;
	return (int)read(3, &byte, 1);
}

static void test_files_hang(void **state)
{
	int fds[READER_FDS_MAX];
	size_t cnt;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(ask_files(wait_for_nobody, "", fds, &cnt), -ETIMEDOUT);
	/* Neither its files nor its memory. */
	assert_int_equal(ask_files(open_place, "/proc/self/exe", fds, &cnt), -ETIMEDOUT);
}

/* Waits for nobody, for as long as the question says, in ms. */
static int wait_for_a_while(struct reader_job *job)
{
	int ms = atoi(job->question), nothing = 0;
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	syscall(SYS_futex, &nothing, FUTEX_WAIT, 0, &time, NULL, 0);
	return 0;
}

/* Waits with what a user's process has, or root's. */
static int wait_with(uint32_t uid, const char *ms)
{
	int fds[READER_FDS_MAX];
	size_t cnt;
	char answer[4];

	return reader__files(rs,
			     &(struct reader_call){ .whose = { .tgid = uid ? 0 : (uint32_t)getpid(),
							       .tenant = tenant__of_user(uid) },
						    .fn = wait_for_a_while,
						    .question = ms,
						    .size = strlen(ms) + 1,
						    .in = -1,
						    .answer = answer,
						    .answer_size = sizeof(answer),
						    .out = fds,
						    .out_cnt = &cnt });
}

/* What is slow for this machine's root is a disk. */
static void test_patience(void **state)
{
	(void)state;
	assert_int_equal(wait_with(0, "1000"), 0);
	assert_int_equal(wait_with(4711, "1000"), -ETIMEDOUT);
}

/* Stops `pid` for most of the time. */
static void stop_and_go(pid_t pid)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == pid) {
		kill(pid, SIGSTOP);
		usleep(200000);
		kill(pid, SIGCONT);
		usleep(5000);
	}
	_exit(0);
}

/* A machine without time for us says nothing about the one that we wait for. */
static void test_standstill(void **state)
{
	pid_t self = getpid(), stopper = fork();
	int result;

	(void)state;
	if (!stopper)
		stop_and_go(self);
	result = wait_with(4711, "900");
	kill(stopper, SIGKILL);
	waitpid(stopper, NULL, 0);
	assert_int_equal(result, 0);
}

static int die(struct reader_job *job)
{
	(void)job;
	_exit(7);
}

/* Whose files end the process that reads them ends it twice. */
static void test_files_kill(void **state)
{
	int fds[READER_FDS_MAX];
	size_t cnt;

	(void)state;
	assert_int_equal(ask_files(open_place, "/nowhere", fds, &cnt), -ENOENT);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ask_files(die, "", fds, &cnt), -EPIPE);
	assert_int_equal(ask_files(open_place, "/nowhere", fds, &cnt), -ETIMEDOUT);
}

static pid_t parent;

static int die_unless_here(const void *question, void *answer)
{
	(void)question;
	if (getpid() != parent)
		_exit(7);
	memset(answer, 7, 1);
	return 0;
}

/* Whose processes end each reader before it has answered anything: nobody reads instead. */
static void test_never_here(void **state)
{
	uint8_t byte = 0;

	(void)state;
	parent = getpid();
	for (int i = 0; i < 20; i++)
		assert_true(reader__call(rs, (uint32_t)(i % 2 ? getpid() : getppid()),
					 die_unless_here, "", 1, &byte, 1) < 0);
	assert_int_equal(byte, 0);
}

/* No reader can be had for a moment, or for long: nobody reads instead. */
static void test_no_descriptors(void **state)
{
	struct rlimit was, none;
	uint8_t byte = 0;

	(void)state;
	parent = getpid();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (int times = 2; times <= 20; times += 18) {
		none = (struct rlimit){ .rlim_max = was.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
		for (int i = 0; i < times; i++)
			assert_int_equal(reader__call(rs, (uint32_t)getpid(), die_unless_here, "",
						      1, &byte, 1),
					 -ETIMEDOUT);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		assert_int_equal(byte, 0);
		if (times == 2) {
			assert_int_not_equal(reader_pid(), parent);
			readers__free(rs);
			rs = readers__new();
		}
	}
	assert_int_equal(reader__call(rs, (uint32_t)getpid(), die_unless_here, "", 1, &byte, 1),
			 -ETIMEDOUT);
}

/* Of a process that ended before its user was read, no number of a user is shown. */
static void test_unknown_user(void **state)
{
	struct strbuf b = { 0 };

	(void)state;
	reader_refused__print(&(struct reader_refused){ .uid = UINT32_MAX, .why = "it hangs" }, &b);
	assert_string_equal(b.s, "a user of processes that have ended: it hangs");
	strbuf__free(&b);
	/* What an ended process has for a user. */
	assert_int_equal((uint32_t)tenant__of_process(UINT32_MAX), UINT32_MAX);
}

/* Without one, this process does it, by the same rules. */
static void test_without(void **state)
{
	struct readers *was = rs;
	int fds[READER_FDS_MAX];
	size_t cnt;

	(void)state;
	rs = NULL;
	assert_int_equal(ask_files(open_place, "/proc/self/exe", fds, &cnt), 0);
	assert_int_equal(cnt, 1);
	close(fds[0]);
	assert_int_equal(ask_files(answer_too_much, "", fds, &cnt), -EBADMSG);
	rs = was;
}

static int setup(void **state)
{
	(void)state;
	rs = readers__new();
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
		test(test_memory),
		test(test_rights),
		test(test_results),
		test(test_killed),
		test(test_signals),
		test(test_hangs),
		test(test_opens),
		test(test_rights_of_files),
		test(test_answers),
		test(test_files_hang),
		test(test_files_kill),
		test(test_without),
		test(test_unknown_user),
		test(test_patience),
		test(test_standstill),
		test(test_never_here),
		test(test_no_descriptors),
		test(test_one_user),
		test(test_hangs_are_said_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
