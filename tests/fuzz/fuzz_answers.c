/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any answer of a helper process (reader.h), which a tenant may have taken over: the message that
 * says that it has begun, the one that says that an answer is there, their descriptors, and what
 * lies in the shared memory. No call may believe it beyond its bounds, or keep a descriptor.
 *
 * The helper is played by this process: what it would send lies in the socket before it is asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/opener.h"
#include "base/worker.h"

static pid_t play_start(const struct worker_kind *kind, int socket, int memory);
static pid_t play_wait(pid_t pid, int *status);

/* The helper has no process: nothing is started, killed or waited for. */
#define worker__start		    play_start
#define kill(pid, sig)		    ((void)(pid), (void)(sig))
#define waitpid(pid, status, flags) ((void)(flags), play_wait(pid, status))
#include "base/reader.c"
#undef worker__start
#undef kill
#undef waitpid
#include "process/file_batch.c"
#include "process/maps_read.h"
#include "python/selfcheck.h"
#include "python/threadnames.h"

#define SENT_FDS_MAX (READER_FDS_MAX + 8) /* more than are taken */
#define FD_END	     256		  /* the descriptors that are counted */
#define ANSWER_SIZE  64

enum call {
	CALL_MEMORY,
	CALL_FILES,
	CALL_TEXT,
	CALL_OPEN,
	CALL_MAPS,
	CALL_BATCH,
	CALL_NAMES,
	CALL_CHECK,
	CALLS,
};

/* An input begins with it; what follows is the answer in the shared memory. */
struct script {
	uint8_t call;			   /* enum call */
	uint8_t begin_size, begin_fds;	   /* of the first message */
	uint8_t message_size, message_fds; /* of the second */
	uint8_t other_build;
	uint8_t room[2];
	uint64_t number;
	int64_t result;
	uint64_t retires;
};

static struct {
	struct script script;
	const uint8_t *answer;
	size_t answer_size;
	int socket; /* the helper's end; -1: not started */
} play = { .socket = -1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

static void check(bool ok)
{
	if (!ok)
		abort();
}

/* ---- the helper ------------------------------------------------------------------------------ */

static pid_t play_wait(pid_t pid, int *status)
{
	if (status)
		*status = 0;
	return pid;
}

static void send_message(uint64_t number, size_t size, size_t fd_cnt)
{
	uint8_t text[2 * sizeof(number)] = { 0 };
	struct iovec part = { text, size % (sizeof(text) + 1) };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
	int fds[SENT_FDS_MAX];
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(fds))];
	} c = { 0 };

	memcpy(text, &number, sizeof(number));
	fd_cnt %= SENT_FDS_MAX + 1;
	for (size_t i = 0; i < fd_cnt; i++)
		fds[i] = play.socket;
	if (fd_cnt) {
		msg.msg_control = &c;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_cnt);
		c.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int) * fd_cnt),
					   .cmsg_level = SOL_SOCKET,
					   .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.head), fds, sizeof(int) * fd_cnt);
	}
	check(sendmsg(play.socket, &msg, MSG_NOSIGNAL) == (ssize_t)part.iov_len);
}

static pid_t play_start(const struct worker_kind *kind, int socket, int memory)
{
	const struct script *s = &play.script;
	struct exchange x;

	/* One that lacked something of ours is given up, and another one begins. */
	if (play.socket >= 0)
		close(play.socket);
	check(!exchange__map(kind, memory, &x));
	play.socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
	check(play.socket >= 0);
	x.head->result = s->result;
	x.head->retires = (uint32_t)s->retires;
	memcpy(x.answer, play.answer,
	       play.answer_size < x.answer_max ? play.answer_size : x.answer_max);
	exchange__unmap(&x);
	send_message(worker__build() ^ s->other_build, s->begin_size, s->begin_fds);
	send_message(s->number, s->message_size, s->message_fds);
	return getpid();
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int never_runs(const void *question, void *answer)
{
	(void)question, (void)answer;
	abort();
}

READER_OPERATION(never_runs);

static void call_memory(struct readers *rs)
{
	uint8_t answer[ANSWER_SIZE + 1];
	int result;

	memset(answer, 0xa5, sizeof(answer));
	result = reader__call(rs, (uint32_t)getpid(), &op_never_runs, "", 1, answer, ANSWER_SIZE);
	check(result >= -4095 && answer[ANSWER_SIZE] == 0xa5);
	if (result >= 0) /* what the input does not say is 0 */
		check(answer[0] == (play.answer_size ? play.answer[0] : 0));
}

static void call_files(struct readers *rs)
{
	uint8_t answer[ANSWER_SIZE + 1];
	int fds[READER_FDS_MAX], result;
	size_t cnt = 0;
	const struct reader_call c = { .op = &op_never_runs,
				       .whose = { .tenant = 1 },
				       .question = "",
				       .size = 1,
				       .in = -1,
				       .answer = answer,
				       .answer_size = ANSWER_SIZE,
				       .out = fds,
				       .out_cnt = &cnt };

	memset(answer, 0xa5, sizeof(answer));
	result = reader__files(rs, &c);
	check(result >= -4095 && result <= ANSWER_SIZE && answer[ANSWER_SIZE] == 0xa5);
	check(cnt <= READER_FDS_MAX && (result >= 0 || !cnt));
	for (size_t i = 0; i < cnt; i++)
		check(fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
	exchange__close(fds, cnt);
}

static void call_text(struct readers *rs)
{
	struct strbuf text = { 0 };
	const struct reader_call c = { .op = &op_never_runs,
				       .whose = { .tenant = 1 },
				       .question = "",
				       .size = 1,
				       .in = -1,
				       .text = &text };
	int result = reader__files(rs, &c);

	check(result >= -4095 && result <= (int)READER_ANSWER_MAX);
	check(result < 0 || text.len == (size_t)result);
	strbuf__free(&text);
}

static void call_open(struct readers *rs)
{
	struct opened f;
	int err = opener__path(rs, 1, "/", &f);

	check(err <= 0 && (err == 0) == (f.fd >= 0));
	opened__close(&f);
}

static void call_maps(struct readers *rs)
{
	struct exec_maps m = { 0 };
	int err = exec_maps__ask(&m, rs, (uint32_t)getpid(), -1);

	check(err >= -4095 && err <= 0 && (!err || !m.cnt) && m.cnt <= EXEC_MAPS_MAX);
	for (size_t i = 0; i < m.cnt; i++) {
		const struct map_line *line = &m.lines[i];

		check(line->start < line->end && (!i || line[-1].end <= line->start));
		check(line->read + line->write + line->exec + line->shared <= 4);
		check(line->name >= m.text.s &&
		      line->name_len <= (size_t)(m.text.s + m.text.len - line->name));
	}
	exec_maps__free(&m);
}

static void call_batch(struct readers *rs)
{
	const struct map_line line = { .start = 1, .end = 2, .name = "/", .name_len = 1 };
	struct file_batch *m = calloc(1, sizeof(*m));

	check(m);
	while (file_batch__add(m, &line, NULL))
		;
	file_batch__ask(m, rs, (uint32_t)getpid(), -1);
	for (size_t i = 0; i < m->cnt; i++)
		check(m->answers[i].err >= -4095 && m->answers[i].err <= 0 &&
		      m->answers[i].open_err >= -4095 && m->answers[i].open_err <= 0);
	file_batch__drop(m);
	free(m);
}

static void take_name(void *ctx, uint32_t tid, const char *name)
{
	(void)ctx, (void)tid;
	check(strlen(name) <= THREADNAMES_MAX_BYTES);
}

static void call_names(struct readers *rs)
{
	static const struct py_binary bin;

	check(threadnames__read(rs, &bin, (uint32_t)getpid(), 0, take_name, NULL) >= -4095);
}

static void call_check(struct readers *rs)
{
	struct py_binary bin = { 0 };
	char why[SELFCHECK_WHY_LEN];
	int err = selfcheck__walk(rs, &bin, (uint32_t)getpid(), 0, why);

	check(err >= -4095 && err <= 0 && memchr(why, 0, sizeof(why)));
}

static unsigned int count_open(void)
{
	unsigned int cnt = 0;

	for (int fd = 0; fd < FD_END; fd++)
		cnt += fcntl(fd, F_GETFD) >= 0;
	return cnt;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const calls[CALLS])(struct readers *) = {
		call_memory, call_files, call_text,  call_open,
		call_maps,   call_batch, call_names, call_check,
	};
	unsigned int open_before = count_open();
	struct readers *rs;

	if (size < sizeof(play.script))
		return 0;
	memcpy(&play.script, data, sizeof(play.script));
	play.answer = data + sizeof(play.script);
	play.answer_size = size - sizeof(play.script);
	rs = readers__new();
	check(rs);
	calls[play.script.call % CALLS](rs);
	readers__free(rs);
	if (play.socket >= 0)
		close(play.socket);
	play.socket = -1;
	check(count_open() == open_before);
	return 0;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The answer of a process with one mapping, of a batch without files, or any. */
static size_t put_answer(enum call call, uint8_t *buf)
{
	const struct map_line line = { .start = 1, .end = 2 };
	const uint64_t one = 1; /* line, without a name */
	const struct reply reply = { 0 };

	if (call == CALL_MAPS) {
		memcpy(buf, &one, sizeof(one));
		memcpy(buf + sizeof(one), &line, sizeof(line));
		return sizeof(one) + sizeof(line);
	}
	if (call == CALL_BATCH) {
		memcpy(buf, &reply, sizeof(reply));
		return sizeof(reply);
	}
	memset(buf, 1, ANSWER_SIZE);
	return ANSWER_SIZE;
}

/*
 * Of each call an answer that is right; then a failure, one of a helper that retires, and the
 * failure that no helper can be had, with descriptors.
 */
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	struct script s = { .call = (uint8_t)(i % CALLS),
			    .begin_size = sizeof(uint64_t),
			    .message_size = sizeof(uint64_t),
			    .number = 1 };
	size_t size;

	if (i >= CALLS + 3 || cap < sizeof(s) + sizeof(struct reply))
		return 0;
	size = put_answer(s.call, buf + sizeof(s));
	s.message_fds = s.call == CALL_OPEN || s.call == CALL_FILES || s.call == CALL_BATCH;
	s.result = s.call == CALL_OPEN ? 1 : s.call == CALL_CHECK ? 0 : (int64_t)size;
	if (i == CALLS)
		s.result = -ENOENT;
	s.retires = i == CALLS + 1;
	if (i == CALLS + 2) {
		s.result = -ECHILD;
		s.message_fds = 3;
	}
	memcpy(buf, &s, sizeof(s));
	return sizeof(s) + size;
}
