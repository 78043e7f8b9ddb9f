/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/file_batch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/tenant.h"
#include "process/maps_read.h"

#define NAME_LEN_MAX (PATH_MAX + 64) /* "/memfd:" and " (deleted)" come on top */

/* The question: this, then the names of the lines one behind the other. */
struct question {
	uint32_t cnt;
	bool no_map_files;
	struct {
		struct map_line line; /* its name is set anew */
		struct file_state known;
		bool is_known;
	} of[FILE_BATCH_MAX];
	char names[FILE_BATCH_MAX * NAME_LEN_MAX];
};

/* No bool: the answer may have any byte there. */
struct result {
	int32_t err, open_err;
	struct file_state now;
	uint8_t has_file, may_wait;
};

struct reply {
	uint8_t no_map_files;
	struct result of[FILE_BATCH_MAX];
};

struct file_state file_batch__state(const struct stat *st)
{
	return (struct file_state){ .size = st->st_size,
				    .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 +
						st->st_mtim.tv_nsec };
}

/* ---- in the other process -------------------------------------------------------------------- */

/* O_PATH: whether it is safe to open for reading shows first. */
static int open_map_file(bool *no_map_files, int proc_fd, const struct map_line *line)
{
	int fd = *no_map_files ? -EPERM : foreign__find_mapped(proc_fd, line->start, line->end);

	if (fd == -EPERM)
		*no_map_files = true;
	return fd;
}

/* Below /proc/PID: its name, as the process sees it. 0 or negative errno. */
static int path_in_root(const struct map_line *line, char *path, size_t size)
{
	int n = map_line__path(line, path + 4, size - 4);

	memcpy(path, "root", 4);
	return n < 0 ? n : 0;
}

/*
 * After chroot() the kernel names a file as we see it, or as the first process of the mount
 * namespace does, and the root directory likewise: what the names have in common goes.
 */
static bool leave_root_out(int proc_fd, char *path)
{
	char root[PATH_MAX], *name = path + 4;
	ssize_t len = readlinkat(proc_fd, "root", root, sizeof(root));

	if (len <= 1 || (size_t)len == sizeof(root) || strncmp(name, root, (size_t)len) ||
	    name[len] != '/')
		return false;
	memmove(name, name + len, strlen(name + len) + 1);
	return true;
}

/* By name; the inode number tells whether it is still the same file. */
static int open_by_name(int proc_fd, const struct map_line *line)
{
	char path[PATH_MAX];
	struct stat st;
	int err = path_in_root(line, path, sizeof(path)), fd;

	if (err)
		return err;
	fd = openat(proc_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && leave_root_out(proc_fd, path))
		fd = openat(proc_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_ino != line->inode) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

/*
 * /proc/PID/exe is the executable itself, whatever became of its name, as map_files, but needs no
 * other right than to look into the process.
 */
static int open_executable(int proc_fd, const struct map_line *line)
{
	struct stat st;
	int fd = openat(proc_fd, "exe", O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_ino != line->inode) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

/* stat() of a file on an overlay gives a number of the overlay's, maps that of the file below. */
static bool is_on_overlay(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/*
 * Opens an O_PATH descriptor of the mapped file, which is a regular file, and gets its stat().
 * -ESTALE: something else is mapped there by now.
 */
static int open_path(bool *no_map_files, int proc_fd, const struct map_line *line, struct stat *st)
{
	int fd = open_map_file(no_map_files, proc_fd, line);

	if (fd < 0)
		fd = open_by_name(proc_fd, line);
	if (fd < 0) {
		int exe = open_executable(proc_fd, line);

		if (exe < 0)
			return fd;
		fd = exe;
	}
	/* A FUSE answers nobody but the user who mounted it: what is in the file is not known. */
	if (fstat(fd, st)) {
		int err = -errno;

		close(fd);
		return err;
	}
	/* Opening a device or a fifo for reading could do something. */
	if (!S_ISREG(st->st_mode)) {
		close(fd);
		return -ENOEXEC;
	}
	if (st->st_ino != line->inode && !is_on_overlay(fd)) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

/*
 * Is the file in its known state? One system call, instead of the many that most starts of
 * processes would cost.
 */
static bool is_as_known(int proc_fd, const struct map_line *line, const struct file_state *known)
{
	struct file_state now;
	char path[PATH_MAX];
	struct stat st;

	/* On an overlay the number is another one, and open_path() has more to ask. */
	if (path_in_root(line, path, sizeof(path)) ||
	    fstatat(proc_fd, path, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
	    st.st_ino != line->inode)
		return false;
	now = file_batch__state(&st);
	return file_batch__same(&now, known);
}

/* The file, for who asks: a descriptor, or negative, as it was known, or for r->err. */
static int open_mapped(bool *no_map_files, int proc_fd, const struct map_line *line,
		       const struct file_state *known, struct result *r)
{
	struct stat st;
	bool may_wait;
	int place, fd = -1;

	if (known && is_as_known(proc_fd, line, known)) {
		r->now = *known;
		return -1;
	}
	place = open_path(no_map_files, proc_fd, line, &st);
	if (place < 0) {
		r->err = place;
		return -1;
	}
	r->now = file_batch__state(&st);
	if (known && file_batch__same(&r->now, known)) {
		close(place);
		return -1;
	}
	/* Was that the mapped file which open_path() gave? */
	if (st.st_ino != line->inode && !maps_have(proc_fd, line)) {
		r->err = -ESTALE;
	} else {
		fd = foreign__reopen_mapped(place);
		r->open_err = fd < 0 ? fd : 0;
	}
	if (fd < 0) {
		close(place);
		return -1;
	}
	fd = foreign__hand_over(place, fd, &may_wait);
	r->may_wait = may_wait;
	return fd;
}

static int open_all(struct reader_job *job)
{
	const struct question *q = job->question;
	struct reply reply = { 0 };
	bool no_map_files = q->no_map_files;
	const char *name = q->names;

	for (uint32_t i = 0; i < q->cnt; i++) {
		struct result *r = &reply.of[i];
		struct map_line line = q->of[i].line;
		int fd;

		line.name = name;
		name += line.name_len;
		fd = open_mapped(&no_map_files, job->in, &line,
				 q->of[i].is_known ? &q->of[i].known : NULL, r);
		if (fd < 0)
			continue;
		r->has_file = true;
		job->out[job->out_cnt++] = fd;
	}
	reply.no_map_files = no_map_files;
	memcpy(job->answer, &reply, sizeof(reply));
	return sizeof(reply);
}

READER_JOB(open_all);

/* ---- here ------------------------------------------------------------------------------------ */

bool file_batch__add(struct file_batch *m, const struct map_line *line,
		     const struct file_state *known)
{
	if (m->cnt == FILE_BATCH_MAX)
		return false;
	m->lines[m->cnt] = line;
	m->is_known[m->cnt] = known != NULL;
	if (known)
		m->known[m->cnt] = *known;
	m->cnt++;
	return true;
}

/* The bytes of the question. */
static size_t put_question(const struct file_batch *m, struct question *q)
{
	char *name = q->names;

	q->cnt = (uint32_t)m->cnt;
	q->no_map_files = m->no_map_files;
	for (size_t i = 0; i < m->cnt; i++) {
		const struct map_line *line = m->lines[i];

		q->of[i].line = *line;
		q->of[i].line.name = NULL; /* an address of ours */
		q->of[i].is_known = m->is_known[i];
		q->of[i].known = m->known[i];
		if (line->name_len > NAME_LEN_MAX) /* that no path has */
			q->of[i].line.name_len = 0;
		memcpy(name, line->name, q->of[i].line.name_len);
		name += q->of[i].line.name_len;
	}
	return (size_t)(name - (char *)q);
}

static void take_reply(struct file_batch *m, const struct reply *reply, int err, struct readers *rs,
		       uint32_t tgid, const int *fds, size_t fd_cnt)
{
	uint64_t tenant = fd_cnt ? tenant__of_process(tgid) : 0;
	size_t at = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		const struct map_line *line = m->lines[i];
		const struct result *r = &reply->of[i];
		struct file_answer *a = &m->answers[i];

		*a = (struct file_answer){ .start = line->start,
					   .inode = line->inode,
					   .major = line->major,
					   .minor = line->minor,
					   .err = err ? err : reader__claimed(r->err),
					   .now = r->now,
					   .open_err = reader__claimed(r->open_err),
					   .file = OPENED_NONE };
		if (!a->err && r->has_file && at < fd_cnt)
			a->file = opener__take(rs, tenant, fds[at++], r->may_wait);
	}
	while (at < fd_cnt)
		close(fds[at++]);
}

void file_batch__ask(struct file_batch *m, struct readers *rs, uint32_t tgid, int proc_fd)
{
	struct question *q = calloc(1, sizeof(*q)); /* nothing of our memory goes with it */
	struct reply reply = { 0 };
	int fds[READER_FDS_MAX], n = -ENOMEM;
	size_t fd_cnt = 0;
	struct reader_call c = { .whose = { .tgid = tgid },
				 .op = &op_open_all,
				 .question = q,
				 .in = proc_fd,
				 .answer = &reply,
				 .answer_size = sizeof(reply),
				 .out = fds,
				 .out_cnt = &fd_cnt };

	if (q) {
		c.size = put_question(m, q);
		n = reader__files(rs, &c);
	}
	free(q);
	if (n >= 0 && n != sizeof(reply))
		n = -EBADMSG;
	m->no_map_files |= n >= 0 && reply.no_map_files;
	take_reply(m, &reply, n < 0 ? n : 0, rs, tgid, fds, fd_cnt);
	m->answered = true;
}

struct file_answer *file_batch__find(struct file_batch *m, const struct map_line *line)
{
	for (size_t i = 0; m->answered && i < m->cnt; i++) {
		struct file_answer *a = &m->answers[i];

		if (a->start == line->start && a->inode == line->inode && a->major == line->major &&
		    a->minor == line->minor)
			return a;
	}
	return NULL;
}

void file_batch__drop(struct file_batch *m)
{
	for (size_t i = 0; m->answered && i < m->cnt; i++)
		opened__close(&m->answers[i].file);
	m->answered = false;
	m->cnt = 0;
}
