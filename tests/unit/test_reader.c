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
#include "base/worker.h"

static struct readers *rs;

static int answer_pid(const void *question, void *answer)
{
	pid_t pid = getpid();

	(void)question;
	memcpy(answer, &pid, sizeof(pid));
	return 0;
}

READER_OPERATION(answer_pid);

static pid_t reader_pid(void)
{
	pid_t pid = 0;

	assert_int_equal(
		reader__call(rs, (uint32_t)getpid(), &op_answer_pid, "", 1, &pid, sizeof(pid)), 0);
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

READER_OPERATION(try_the_forbidden);

static void test_rights(void **state)
{
	char byte;

	(void)state;
	assert_int_not_equal(reader_pid(), getpid());
	assert_int_equal(
		reader__call(rs, (uint32_t)getpid(), &op_try_the_forbidden, "", 1, &byte, 1), 0);
}

static int result_of(const void *question, void *answer)
{
	int result;

	memcpy(&result, question, sizeof(result));
	memset(answer, 7, 1);
	return result;
}

READER_OPERATION(result_of);

static void test_results(void **state)
{
	static const int results[] = { 0, 5, -ENOENT, -4095 };
	int beyond = -5000;
	uint8_t byte;

	(void)state;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		byte = 1;
		assert_int_equal(reader__call(rs, (uint32_t)getpid(), &op_result_of, &results[i],
					      sizeof(int), &byte, 1),
				 results[i]);
		assert_int_equal(byte, results[i] < 0 ? 1 : 7);
	}
	assert_int_equal(
		reader__call(rs, (uint32_t)getpid(), &op_result_of, &beyond, sizeof(int), &byte, 1),
		-EBADMSG);
	assert_int_equal(reader__call(rs, 1, &op_result_of, "", READER_MESSAGE_MAX + 1, &byte, 1),
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
	err = reader__call(rs, (uint32_t)getpid(), &op_answer_pid, "", 1, &other, sizeof(other));
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

READER_OPERATION(wait_for_ever);

static int computes(const void *question, void *answer)
{
	volatile uint64_t n = 0;

	(void)question;
	for (uint64_t i = 0; i < 200000000; i++)
		n += i;
	memset(answer, 1, 1);
	return 0;
}

READER_OPERATION(computes);

/*
 * One that works has time; one that waits for somebody is given up. The user's processes are left
 * alone then.
 */
static void test_hangs(void **state)
{
	pid_t pid = reader_pid();
	uint8_t byte;

	(void)state;
	assert_int_equal(reader__call(rs, (uint32_t)getpid(), &op_computes, "", 1, &byte, 1), 0);
	assert_int_equal(reader_pid(), pid);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			reader__call(rs, (uint32_t)getpid(), &op_wait_for_ever, "", 1, &byte, 1),
			-ETIMEDOUT);
	assert_int_equal(reader__call(rs, (uint32_t)getpid(), &op_computes, "", 1, &byte, 1),
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
			reader__call(rs, (uint32_t)pids[i], &op_wait_for_ever, "", 1, &byte, 1),
			-ETIMEDOUT);
	assert_int_equal(reader__call(rs, (uint32_t)pids[2], &op_computes, "", 1, &byte, 1),
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
			reader__call(rs, (uint32_t)pids[i], &op_wait_for_ever, "", 1, &byte, 1),
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

READER_JOB(open_place);

static int ask_files(const struct reader_operation *op, const char *question,
		     int fds[READER_FDS_MAX], size_t *cnt)
{
	static char answer[64];

	return reader__files(rs, &(struct reader_call){ .whose = { .tgid = (uint32_t)getpid() },
							.op = op,
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
	assert_int_equal(ask_files(&op_open_place, "/proc/self/exe", fds, &cnt), 0);
	assert_int_equal(cnt, 1);
	assert_int_equal(read(fds[0], text, 4), 4);
	assert_memory_equal(text, "\177ELF", 4);
	assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	close(fds[0]);
	assert_int_equal(ask_files(&op_open_place, "/nowhere", fds, &cnt), -ENOENT);
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

READER_JOB(do_the_forbidden);

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
	assert_int_equal(ask_files(&op_do_the_forbidden, path, fds, &cnt), 0);
	assert_int_equal(ask_files(&op_open_place, path, fds, &cnt), 0); /* mode 0600 */
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

READER_JOB(answer_too_much);

static int answer_beyond(struct reader_job *job)
{
	(void)job;
	return READER_ANSWER_MAX + 1;
}

READER_JOB(answer_beyond);

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
	assert_int_equal(ask_files(&op_answer_too_much, "", fds, &cnt), -EBADMSG);
	assert_int_equal(cnt, 0);
	assert_int_equal(ask_files(&op_answer_beyond, "", fds, &cnt), -EBADMSG);
	assert_int_equal(open_fds(), before);
}

/* Those of all processes of our user count together: too_many_unix_fds() in Linux. */
static void test_descriptors_on_their_way(void **state)
{
	enum { MOST = 253 }; /* of a message */
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int) * MOST)];
	} control = { 0 };
	char byte = 0;
	struct iovec part = { &byte, 1 };
	const struct msghdr msg = { .msg_iov = &part,
				    .msg_iovlen = 1,
				    .msg_control = &control,
				    .msg_controllen = sizeof(control.room) };
	int pair[2], fds[READER_FDS_MAX];
	size_t cnt;

	(void)state;
	control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int) * MOST),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS }; /* of descriptor 0, each */
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sendmsg(pair[0], &msg, 0), 1);
	assert_int_equal(ask_files(&op_open_place, "/proc/self/exe", fds, &cnt), 0);
	assert_int_equal(cnt, 1);
	close(fds[0]);
	close(pair[0]);
	close(pair[1]);
}

static int wait_for_nobody(struct reader_job *job)
{
	char byte;

	(void)job;
	return (int)read(3, &byte, 1);
}

READER_JOB(wait_for_nobody);

static void test_files_hang(void **state)
{
	int fds[READER_FDS_MAX];
	size_t cnt;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(ask_files(&op_wait_for_nobody, "", fds, &cnt), -ETIMEDOUT);
	/* Neither its files nor its memory. */
	assert_int_equal(ask_files(&op_open_place, "/proc/self/exe", fds, &cnt), -ETIMEDOUT);
}

/* Waits for nobody, for as long as the question says, in ms. */
static int wait_for_a_while(struct reader_job *job)
{
	int ms = atoi(job->question), nothing = 0;
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	syscall(SYS_futex, &nothing, FUTEX_WAIT, 0, &time, NULL, 0);
	return 0;
}

READER_JOB(wait_for_a_while);

/* Waits with what a user's process has, or root's. */
static int wait_with(uint32_t uid, const char *ms)
{
	int fds[READER_FDS_MAX];
	size_t cnt;
	char answer[4];

	return reader__files(rs,
			     &(struct reader_call){ .whose = { .tgid = uid ? 0 : (uint32_t)getpid(),
							       .tenant = tenant__of_user(uid) },
						    .op = &op_wait_for_a_while,
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
	assert_int_equal(wait_with(0, "2000"), 0);
	assert_int_equal(wait_with(4711, "1000"), -ETIMEDOUT);
}

/* Behind a hang the next one is shorter, and who answers is read. */
static void test_shortened(void **state)
{
	(void)state;
	readers__shorten(rs, 60000);
	assert_int_equal(wait_with(4711, "250"), 0);
	assert_int_equal(wait_with(4711, "1000"), -ETIMEDOUT);
	assert_int_equal(wait_with(4711, "20"), 0);
	assert_int_equal(wait_with(4712, "250"), 0);
	assert_int_equal(wait_with(4711, "250"), -ETIMEDOUT);
	assert_int_equal(wait_with(4711, "0"), -ETIMEDOUT);
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

READER_JOB(die);

/* Whose files end the process that reads them ends it twice. */
static void test_files_kill(void **state)
{
	int fds[READER_FDS_MAX];
	size_t cnt;

	(void)state;
	assert_int_equal(ask_files(&op_open_place, "/nowhere", fds, &cnt), -ENOENT);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ask_files(&op_die, "", fds, &cnt), -EPIPE);
	assert_int_equal(ask_files(&op_open_place, "/nowhere", fds, &cnt), -ETIMEDOUT);
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

READER_OPERATION(die_unless_here);

/* Whose processes end each reader before it has answered anything: nobody reads instead. */
static void test_never_here(void **state)
{
	uint8_t byte = 0;

	(void)state;
	parent = getpid();
	for (int i = 0; i < 20; i++)
		assert_true(reader__call(rs, (uint32_t)(i % 2 ? getpid() : getppid()),
					 &op_die_unless_here, "", 1, &byte, 1) < 0);
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
			assert_int_equal(reader__call(rs, (uint32_t)getpid(), &op_die_unless_here,
						      "", 1, &byte, 1),
					 -ECHILD);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		assert_int_equal(byte, 0);
		if (times == 2) {
			assert_int_not_equal(reader_pid(), parent);
			readers__free(rs);
			rs = readers__new();
		}
	}
	assert_int_equal(reader__call(rs, (uint32_t)getpid(), &op_die_unless_here, "", 1, &byte, 1),
			 -ECHILD);
}

static int is_cut_off(struct reader_job *job)
{
	(void)job;
	_exit(WORKER_CUT_OFF);
}

READER_JOB(is_cut_off);

/* A helper that cannot send its answer, and one whose answer we cannot take: no user is blamed. */
static void test_our_fault(void **state)
{
	struct reader_refused hung[READER_REFUSED_MAX];
	int fds[READER_FDS_MAX], next;
	struct rlimit was, full;
	size_t cnt;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask_files(&op_is_cut_off, "", fds, &cnt), -ECHILD);
	assert_int_equal(ask_files(&op_open_place, "/nowhere", fds, &cnt), -ENOENT);
	next = dup(0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	full = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &full), 0);
	assert_int_equal(ask_files(&op_open_place, "/proc/self/exe", fds, &cnt), -ECHILD);
	assert_int_equal(cnt, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(ask_files(&op_open_place, "/proc/self/exe", fds, &cnt), 0);
	close(fds[0]);
	assert_int_equal(readers__hung(rs, false, hung), 0);
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
	assert_int_equal(ask_files(&op_open_place, "/proc/self/exe", fds, &cnt), 0);
	assert_int_equal(cnt, 1);
	close(fds[0]);
	assert_int_equal(ask_files(&op_answer_too_much, "", fds, &cnt), -EBADMSG);
	rs = was;
}

/* ---- what they begin with -------------------------------------------------------------------- */

static int job_pid(struct reader_job *job)
{
	pid_t pid = getpid();

	memcpy(job->answer, &pid, sizeof(pid));
	return sizeof(pid);
}

READER_JOB(job_pid);

static pid_t opener_pid(void)
{
	pid_t pid = 0;
	const struct reader_call c = { .whose = { .tgid = (uint32_t)getpid() },
				       .op = &op_job_pid,
				       .question = "",
				       .size = 1,
				       .in = -1,
				       .answer = &pid,
				       .answer_size = sizeof(pid) };

	assert_int_equal(reader__files(rs, &c), sizeof(pid));
	return pid;
}

static FILE *open_of(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fopen(path, "re");
}

#define PART 65536

/* Is the text anywhere in the memory of the process? */
static bool has_in_memory(pid_t pid, const char *text, size_t len)
{
	FILE *maps = open_of(pid, "maps"), *mem = open_of(pid, "mem");
	char line[4096], *part = malloc(PART + len);
	unsigned long start, end;
	bool found = false;

	assert_true(maps && mem && part);
	while (!found && fgets(line, sizeof(line), maps)) {
		/* A sanitizer's shadow of terabytes is left out. */
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || end - start > 256UL << 20)
			continue;
		for (; !found && start < end; start += PART) {
			ssize_t n = pread(fileno(mem), part, PART + len, (off_t)start);

			found = n > 0 && memmem(part, (size_t)n, text, len);
		}
	}
	fclose(maps);
	fclose(mem);
	free(part);
	return found;
}

static void need_root(void)
{
	if (!geteuid())
		return;
	print_message("skipped: needs root, to look into the processes\n");
	skip();
}

/* None of our memory is theirs. */
static void test_no_memory_of_ours(void **state)
{
	const size_t len = 32;
	char *secret = malloc(len);
	pid_t child;
	int status;

	(void)state;
	need_root();
	for (size_t i = 0; i < len; i++)
		secret[i] = (char)(0x80 | rand());
	child = fork(); /* as they were once started */
	if (!child)
		pause();
	assert_true(has_in_memory(child, secret, len));
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	assert_false(has_in_memory(reader_pid(), secret, len));
	assert_false(has_in_memory(opener_pid(), secret, len));
	free(secret);
}

/* The number behind a name in a file of a process; UINT64_MAX: "unlimited". */
static uint64_t number_of(pid_t pid, const char *file, const char *name, int base)
{
	FILE *f = open_of(pid, file);
	uint64_t number = 0;
	bool found = false;
	char line[256], *at;

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f)) {
		found = !strncmp(line, name, strlen(name));
		at = line + strlen(name) + strspn(line + strlen(name), ": \t");
		number = *at == 'u' ? UINT64_MAX : strtoull(at, NULL, base);
	}
	fclose(f);
	if (!found)
		fail_msg("%s has no %s", file, name);
	return number;
}

static void check_limits(pid_t pid, uint64_t files)
{
	static const char *const none[] = { "Max core file size", "Max file size", "Max processes",
					    "Max locked memory" };

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(number_of(pid, "limits", none[i], 10), 0);
	assert_true(number_of(pid, "limits", "Max open files", 10) <= files);
	assert_true(number_of(pid, "limits", "Max cpu time", 10) <= 120);
#if !defined(__SANITIZE_ADDRESS__)
	assert_true(number_of(pid, "limits", "Max address space", 10) < 1ULL << 30);
#endif
	assert_int_equal(number_of(pid, "status", "NoNewPrivs", 10), 1);
	assert_int_equal(number_of(pid, "status", "Seccomp", 10), 2);
}

static void check_caps(pid_t pid, uint64_t most)
{
	static const char *const sets[] = { "CapPrm", "CapEff" };

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		assert_int_equal(number_of(pid, "status", sets[i], 16) & ~most, 0);
	assert_int_equal(number_of(pid, "status", "CapInh", 16), 0);
	assert_int_equal(number_of(pid, "status", "CapAmb", 16), 0);
}

/* Three of /dev/null and the socket; nothing of the environment. */
static void check_belongings(pid_t pid)
{
	FILE *f = open_of(pid, "environ");
	char path[64], target[64], env[4096];

	assert_non_null(f);
	env[fread(env, 1, sizeof(env) - 1, f)] = '\0';
	fclose(f);
	assert_true(!*env || !strncmp(env, "LD_LIBRARY_PATH=", 16));
	for (int fd = 0; fd < 256; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (fd > 3) {
			assert_int_equal(n, -1);
			continue;
		}
		assert_true(n > 0);
		target[n] = '\0';
		assert_non_null(strstr(target, fd < 3 ? "/dev/null" : "socket:"));
	}
}

static void test_what_they_have(void **state)
{
	const uint64_t ptrace = 1 << 19, files = ptrace | 1 << 2 | 1 << 6 | 1 << 7 | 1ULL << 40;
	int secret = open("/proc/self/status", O_RDONLY); /* not closed by an execution */
	pid_t reader = reader_pid(), opener = opener_pid();

	(void)state;
	need_root();
	setenv("TOKEN", "secret", 1);
	check_limits(reader, 0);
	check_limits(opener, 1U << 16);
	check_caps(reader, ptrace);
	check_caps(opener, files);
	check_belongings(reader);
	check_belongings(opener);
	close(secret);
}

/* In a process whose limit leaves a helper 1 s. */
static int outlive_one(void)
{
	const struct rlimit limit = { 2, 2 };
	pid_t first;
	uint8_t byte;

	if (setrlimit(RLIMIT_CPU, &limit))
		return 1;
	rs = readers__new();
	first = reader_pid();
	for (int i = 0; i < 100 && reader_pid() == first; i++)
		if (reader__call(rs, (uint32_t)getpid(), &op_computes, "", 1, &byte, 1))
			return 2;
	return reader_pid() == first ? 3 : 0;
}

/* One that has used its time makes room for another, and no question is lost by it. */
static void test_retires(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	readers__free(rs);
	rs = NULL;
	pid = fork();
	if (!pid)
		_exit(outlive_one());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Who calls this program by the name of a helper gets nothing by it. */
static void test_name_alone(void **state)
{
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		close(2);
		execl("/proc/self/exe", "pyperf-reader", NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EPERM);
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
		test(test_memory),	   test(test_rights),
		test(test_results),	   test(test_killed),
		test(test_signals),	   test(test_hangs),
		test(test_opens),	   test(test_rights_of_files),
		test(test_answers),	   test(test_descriptors_on_their_way),
		test(test_files_hang),	   test(test_files_kill),
		test(test_without),	   test(test_no_memory_of_ours),
		test(test_what_they_have), test(test_retires),
		test(test_name_alone),	   test(test_unknown_user),
		test(test_patience),	   test(test_standstill),
		test(test_never_here),	   test(test_no_descriptors),
		test(test_one_user),	   test(test_hangs_are_said_once),
		test(test_our_fault),	   test(test_shortened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
