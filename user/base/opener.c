/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/tenant.h"

#define READ_MAX (256U << 10) /* of one message: a slow disk must not look like one that hangs */

enum what { FIND, FIND_FOLLOWED, FIND_PLAIN, OPEN_PATH, OPEN_OF_PROC };

struct question {
	uint32_t what; /* enum what */
	uid_t uid;
	char dir[NAME_MAX + 1];
	char path[PATH_MAX]; /* last: what is behind its end is not sent */
};

struct answer {
	uint8_t may_wait; /* no bool: the answer may have any byte there */
};

/* ---- in the other process -------------------------------------------------------------------- */

/* An O_PATH descriptor. */
static int find(const struct question *q, int proc_fd)
{
	int fd;

	switch (q->what) {
	case FIND:
		return foreign__find(proc_fd, q->path);
	case FIND_FOLLOWED:
		return foreign__find_followed(proc_fd, q->path);
	case FIND_PLAIN:
		return foreign__find_plain(proc_fd, q->dir, q->path);
	default:
		fd = open(q->path, O_PATH | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
}

static int hand_over(struct reader_job *job, int fd, const struct answer *a)
{
	memcpy(job->answer, a, sizeof(*a));
	job->out[job->out_cnt++] = fd;
	return sizeof(*a);
}

static int open_it(struct reader_job *job)
{
	const struct question *q = job->question;
	struct answer a = { .may_wait = true };
	bool may_wait;
	int place, fd = -EPERM;
	struct stat st;

	if (q->what == OPEN_OF_PROC) {
		fd = openat(job->in, q->path, O_RDONLY | O_CLOEXEC);
		return fd < 0 ? -errno : hand_over(job, fd, &a);
	}
	place = find(q, job->in);
	if (place < 0)
		return place;
	if (q->what != FIND_PLAIN || (!foreign__stat(place, &st) && st.st_uid == q->uid))
		fd = foreign__reopen(place);
	if (fd < 0) {
		close(place);
		return fd;
	}
	fd = foreign__hand_over(place, fd, &may_wait);
	a.may_wait = may_wait;
	return hand_over(job, fd, &a);
}

READER_JOB(open_it);

struct range {
	uint64_t off;
	uint32_t size;
};

static int read_range(int fd, const struct range *r, uint8_t *to)
{
	size_t done = 0;
	ssize_t n = 1;

	while (n > 0 && done < r->size) {
		n = pread(fd, to + done, r->size - done, (off_t)(r->off + done));
		done += n > 0 ? (size_t)n : 0;
	}
	return n < 0 && !done ? -errno : (int)done;
}

static int read_it(struct reader_job *job)
{
	const struct range *r = job->question;
	int n = read_range(job->in, r, job->answer), fd;

	if (n != -EBADF) /* it is open, as a file of /proc */
		return n;
	fd = foreign__open_again(job->in);
	if (fd < 0)
		return fd;
	n = read_range(fd, r, job->answer);
	close(fd);
	return n;
}

READER_JOB(read_it);

static int stat_it(struct reader_job *job)
{
	struct stat st;

	if (fstat(job->in, &st))
		return -errno;
	memcpy(job->answer, &st, sizeof(st));
	return sizeof(st);
}

READER_JOB(stat_it);

struct proc_text {
	size_t max;
	char name[32];
};

static int read_proc_text(struct reader_job *job)
{
	const struct proc_text *q = job->question;
	size_t max = q->max < job->answer_max ? q->max : job->answer_max;
	int fd = openat(job->in, q->name, O_RDONLY | O_CLOEXEC);
	size_t done = 0;
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	while (n > 0 && done < max) {
		n = read(fd, job->answer + done, max - done);
		done += n > 0 ? (size_t)n : 0;
	}
	n = n < 0 && !done ? -errno : (ssize_t)done;
	close(fd);
	return (int)n;
}

READER_JOB(read_proc_text);

/* ---- here ------------------------------------------------------------------------------------ */

struct opened opener__take(struct readers *rs, uint64_t tenant, int fd, bool may_wait)
{
	return (struct opened){ .fd = fd, .may_wait = may_wait, .by = rs, .tenant = tenant };
}

static int open_by(struct readers *rs, struct reader_whose whose, int proc_fd,
		   const struct question *q, struct opened *f)
{
	int fds[READER_FDS_MAX], err;
	struct answer a = { 0 };
	size_t cnt;
	const struct reader_call c = { .whose = whose,
				       .op = &op_open_it,
				       .question = q,
				       .size = offsetof(struct question, path) + strlen(q->path) +
					       1,
				       .in = proc_fd,
				       .answer = &a,
				       .answer_size = sizeof(a),
				       .out = fds,
				       .out_cnt = &cnt };

	*f = OPENED_NONE;
	err = reader__files(rs, &c);
	if (err >= 0 && (err != sizeof(a) || cnt != 1)) {
		while (cnt)
			close(fds[--cnt]);
		err = -EBADMSG;
	}
	if (err < 0)
		return err;
	*f = opener__take(rs,
			  whose.tgid && a.may_wait ? tenant__of_process(whose.tgid) : whose.tenant,
			  fds[0], a.may_wait);
	return 0;
}

static int set_path(char *to, size_t size, const char *path)
{
	if (strlen(path) >= size)
		return -ENAMETOOLONG;
	strcpy(to, path);
	return 0;
}

static int find_by(struct readers *rs, enum what what, uint32_t tgid, int proc_fd, const char *path,
		   struct opened *f)
{
	struct question q = { .what = what };

	*f = OPENED_NONE;
	if (set_path(q.path, sizeof(q.path), path))
		return -ENAMETOOLONG;
	return open_by(rs, (struct reader_whose){ .tgid = tgid }, proc_fd, &q, f);
}

int opener__find(struct readers *rs, uint32_t tgid, int proc_fd, const char *path, struct opened *f)
{
	return find_by(rs, FIND, tgid, proc_fd, path, f);
}

int opener__find_followed(struct readers *rs, uint32_t tgid, int proc_fd, const char *path,
			  struct opened *f)
{
	return find_by(rs, FIND_FOLLOWED, tgid, proc_fd, path, f);
}

int opener__find_plain(struct readers *rs, uint64_t tenant, int proc_fd, const char *dir,
		       const char *name, uid_t uid, struct opened *f)
{
	struct question q = { .what = FIND_PLAIN, .uid = uid };

	*f = OPENED_NONE;
	if (set_path(q.path, sizeof(q.path), name) || set_path(q.dir, sizeof(q.dir), dir))
		return -ENAMETOOLONG;
	return open_by(rs, (struct reader_whose){ .tenant = tenant }, proc_fd, &q, f);
}

int opener__path(struct readers *rs, uint64_t tenant, const char *path, struct opened *f)
{
	struct question q = { .what = OPEN_PATH };

	*f = OPENED_NONE;
	if (set_path(q.path, sizeof(q.path), path))
		return -ENAMETOOLONG;
	return open_by(rs, (struct reader_whose){ .tenant = tenant }, -1, &q, f);
}

int opener__proc_dir_below(const char *root, uint32_t tgid)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/proc/%" PRIu32, root, tgid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int opener__proc_dir(uint32_t tgid)
{
	return opener__proc_dir_below("", tgid);
}

int opener__proc_file(struct readers *rs, uint32_t tgid, int proc_fd, const char *name,
		      struct opened *f)
{
	return find_by(rs, OPEN_OF_PROC, tgid, proc_fd, name, f);
}

int opener__proc_text(struct readers *rs, uint32_t tgid, int proc_fd, const char *name, size_t max,
		      struct strbuf *text)
{
	struct proc_text q = { .max = max };
	const struct reader_call c = { .whose = { .tgid = tgid },
				       .op = &op_read_proc_text,
				       .question = &q,
				       .size = sizeof(q),
				       .in = proc_fd,
				       .text = text };
	int n;

	if (set_path(q.name, sizeof(q.name), name))
		return -ENAMETOOLONG;
	n = reader__files(rs, &c);
	return n < 0 ? n : 0;
}

int opener__text_of(struct readers *rs, uint32_t tgid, const char *name, size_t max,
		    struct strbuf *text)
{
	int proc_fd = opener__proc_dir(tgid);
	int err = proc_fd < 0 ? proc_fd : opener__proc_text(rs, tgid, proc_fd, name, max, text);

	if (proc_fd >= 0)
		close(proc_fd);
	return err;
}

/* ---- open files ------------------------------------------------------------------------------ */

void opened__close(struct opened *f)
{
	if (f->fd >= 0)
		close(f->fd);
	*f = OPENED_NONE;
}

struct opened opened__dup(const struct opened *f)
{
	struct opened other = *f;

	other.fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	return other;
}

static ssize_t ask_for(const struct opened *f, void *buf, size_t size, uint64_t off)
{
	const struct range r = { .off = off,
				 .size = (uint32_t)(size < READ_MAX ? size : READ_MAX) };
	const struct reader_call c = { .whose = { .tenant = f->tenant },
				       .op = &op_read_it,
				       .question = &r,
				       .size = sizeof(r),
				       .in = f->fd,
				       .answer = buf,
				       .answer_size = r.size };

	return reader__files(f->by, &c);
}

static ssize_t read_here(const struct opened *f, void *buf, size_t size, uint64_t off)
{
	ssize_t n;

	do
		n = pread(f->fd, buf, size, (off_t)off);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t opened__read(const struct opened *f, void *buf, size_t size, uint64_t off)
{
	size_t done = 0;
	ssize_t n = 1;

	while (n > 0 && done < size) {
		n = (f->may_wait ? ask_for : read_here)(f, (char *)buf + done, size - done,
							off + done);
		done += n > 0 ? (size_t)n : 0;
	}
	return n < 0 && !done ? n : (ssize_t)done;
}

int opened__stat(const struct opened *f, struct stat *st)
{
	const struct reader_call c = { .whose = { .tenant = f->tenant },
				       .op = &op_stat_it,
				       .question = "",
				       .size = 1,
				       .in = f->fd,
				       .answer = st,
				       .answer_size = sizeof(*st) };
	int n;

	if (!f->may_wait)
		return fstat(f->fd, st) ? -errno : 0;
	n = reader__files(f->by, &c);
	return n < 0 ? n : n == sizeof(*st) ? 0 : -EBADMSG;
}
