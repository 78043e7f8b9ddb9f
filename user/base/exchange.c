/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* Linux 6.3 */
#endif

#define HEAD 64 /* of the shared memory: then the question follows, then the answer */

const struct worker_kind worker_of_memory = { .name = "pyperf-reader",
					      .what = "memory",
					      .question_max = READER_MESSAGE_MAX,
					      .answer_min = READER_MESSAGE_MAX,
					      .answer_max = READER_MESSAGE_MAX,
					      .memory_max = 64U << 20,
					      .fd_max = 0,
					      .hang_ms = 250 };
/*
 * A disk may be slower than that, too. What is due meanwhile does not wait so long: readers__due().
 * The kernel compares RLIMIT_NOFILE with the descriptors that are on their way through sockets of
 * all processes of our user, for which a tenant may be root.
 */
const struct worker_kind worker_of_files = { .name = "pyperf-opener",
					     .what = "files",
					     .question_max = 256U << 10,
					     .answer_min = 4U << 20,
					     .answer_max = READER_ANSWER_MAX,
					     .memory_max = 256U << 20,
					     .fd_max = 1U << 16,
					     .hang_ms = 300,
					     .files = true };

_Static_assert(sizeof(struct exchange_head) <= HEAD, "the question follows");

static size_t size_for(const struct worker_kind *kind, size_t answer_max)
{
	return HEAD + kind->question_max + answer_max;
}

static int map(const struct worker_kind *kind, int flags, int fd, size_t size, struct exchange *x)
{
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	*x = (struct exchange){ .head = (struct exchange_head *)at,
				.question = at + HEAD,
				.answer = at + HEAD + kind->question_max,
				.answer_max = size - HEAD - kind->question_max,
				.size = size };
	return 0;
}

/* 0: a file of the smallest size would be too large. */
static size_t permitted_size(const struct worker_kind *kind)
{
	size_t size = size_for(kind, kind->answer_max);
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= size)
		return size;
	return limit.rlim_cur < size_for(kind, kind->answer_min) ? 0 : limit.rlim_cur;
}

/*
 * If the other process could shorten it, an access beyond its end would end this one; and so would
 * one to a page that the kernel has no memory for. This process writes the first `written` bytes.
 */
static int fix_size(int fd, size_t size, size_t written)
{
	return ftruncate(fd, (off_t)size) || fallocate(fd, 0, 0, (off_t)written) ||
	       fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

int exchange__make(const struct worker_kind *kind, struct exchange *x)
{
	size_t size = permitted_size(kind);
	int fd, err;

	if (!size)
		return -EFBIG;
	fd = memfd_create(kind->name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(kind->name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	err = fix_size(fd, size, HEAD + kind->question_max) ? -errno
							    : map(kind, MAP_SHARED, fd, size, x);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int exchange__map(const struct worker_kind *kind, int fd, struct exchange *x)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)size_for(kind, kind->answer_min) ||
	    st.st_size > (off_t)size_for(kind, kind->answer_max))
		return -EINVAL;
	return map(kind, MAP_SHARED, fd, (size_t)st.st_size, x);
}

int exchange__alone(const struct worker_kind *kind, struct exchange *x)
{
	return map(kind, MAP_PRIVATE | MAP_ANONYMOUS, -1, size_for(kind, kind->answer_max), x);
}

void exchange__unmap(struct exchange *x)
{
	munmap(x->head, x->size);
	x->head = NULL;
}

/* ---- messages: the number of the question, and descriptors --------------------------------- */

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int) * READER_FDS_MAX)];
};

/* Of a call that failed now. A process that ends before it has read all leaves ECONNRESET. */
static int failure(void)
{
	return errno == ECONNRESET ? -EPIPE : -errno;
}

int exchange__send(int socket, uint64_t number, const int *fds, size_t fd_cnt)
{
	struct iovec part = { &number, sizeof(number) };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
	union control c = { 0 };
	ssize_t sent;

	if (fd_cnt) {
		msg.msg_control = &c;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_cnt);
		c.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int) * fd_cnt),
					    .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.align), fds, sizeof(int) * fd_cnt);
	}
	sent = sendmsg(socket, &msg, MSG_NOSIGNAL);
	return sent == sizeof(number) ? 0 : sent < 0 ? failure() : -EPIPE;
}

/* The descriptors of a message are the caller's, whatever else is wrong with it. */
static size_t take_fds(struct msghdr *msg, int fds[READER_FDS_MAX])
{
	size_t cnt = 0, n;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		n = n < READER_FDS_MAX - cnt ? n : READER_FDS_MAX - cnt;
		memcpy(fds + cnt, CMSG_DATA(c), n * sizeof(int));
		cnt += n;
	}
	return cnt;
}

int exchange__receive(int socket, uint64_t *number, int fds[READER_FDS_MAX], size_t *fd_cnt,
		      int flags)
{
	struct iovec part = { number, sizeof(*number) };
	union control c = { 0 };
	struct msghdr msg = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};
	ssize_t got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | flags);

	*fd_cnt = 0;
	if (got < 0)
		return failure();
	*fd_cnt = take_fds(&msg, fds);
	if (got == sizeof(*number) && msg.msg_flags & MSG_CTRUNC && *fd_cnt < READER_FDS_MAX)
		return -EMFILE; /* there was room for more of them than we may have */
	return got == sizeof(*number) && !(msg.msg_flags & MSG_CTRUNC) ? 0 : -EPIPE;
}

void exchange__close(const int *fds, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		close(fds[i]);
}
