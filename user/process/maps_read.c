/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/maps_read.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_MAPS_BYTES (64U << 20)

/* include/uapi/linux/fs.h of Linux 6.11 (ed5d583a88a9); older headers do not have it. */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};

#define PROCMAP_QUERY_IOCTL _IOWR('f', 17, struct procmap_query)
#define QUERY_READABLE	    0x01
#define QUERY_WRITABLE	    0x02
#define QUERY_EXECUTABLE    0x04
#define QUERY_SHARED	    0x08
#define QUERY_NEXT	    0x10 /* covering the address, or the next one */

void exec_maps__free(struct exec_maps *m)
{
	free(m->lines);
	strbuf__free(&m->text);
	*m = (struct exec_maps){ 0 };
}

static int add_line(struct exec_maps *m, const struct map_line *line)
{
	size_t cap = m->cap ? m->cap * 2 : 64;
	struct map_line *more;

	if (m->cnt == EXEC_MAPS_MAX) {
		m->truncated = true;
		return -E2BIG;
	}
	if (m->cnt == m->cap) {
		more = realloc(m->lines, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		m->lines = more;
		m->cap = cap;
	}
	m->lines[m->cnt++] = *line;
	return 0;
}

static bool same_place(const struct map_line *a, const struct map_line *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

/* ---- by query ------------------------------------------------------------------------------- */

static void from_query(struct map_line *line, const struct procmap_query *q)
{
	*line = (struct map_line){ .start = q->vma_start,
				   .end = q->vma_end,
				   .offset = q->vma_offset,
				   .inode = q->inode,
				   .major = q->dev_major,
				   .minor = q->dev_minor,
				   .read = q->vma_flags & QUERY_READABLE,
				   .write = q->vma_flags & QUERY_WRITABLE,
				   .exec = q->vma_flags & QUERY_EXECUTABLE,
				   .shared = q->vma_flags & QUERY_SHARED,
				   .name_len = q->vma_name_size ? q->vma_name_size - 1 : 0 };
}

/* The names lie one behind the other in the text, which does not move any more. */
static void place_names(struct exec_maps *m)
{
	size_t at = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		m->lines[i].name = m->text.len ? m->text.s + at : "";
		at += m->lines[i].name_len;
	}
}

static int query_all(struct exec_maps *m, int fd)
{
	char name[PATH_MAX + 64]; /* "/memfd:" and " (deleted)" come on top */
	struct procmap_query q = { 0 };
	struct map_line line;
	int err = 0;

	while (!err) {
		q = (struct procmap_query){ .size = sizeof(q),
					    .query_flags = QUERY_EXECUTABLE | QUERY_NEXT,
					    .query_addr = q.vma_end,
					    .vma_name_size = sizeof(name),
					    .vma_name_addr = (uintptr_t)name };
		if (ioctl(fd, PROCMAP_QUERY_IOCTL, &q))
			break;
		if (q.vma_end <= q.query_addr || q.vma_name_size > sizeof(name))
			return -EBADMSG;
		from_query(&line, &q);
		strbuf__add(&m->text, name, line.name_len);
		err = add_line(m, &line);
	}
	if (!err)
		err = errno == ENOENT ? 0 : -errno;
	place_names(m);
	return err ? err : m->text.err;
}

/* ---- by text -------------------------------------------------------------------------------- */

int read_proc(int proc_fd, const char *name, struct strbuf *b)
{
	int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC), err = 0;
	char buf[16384];
	ssize_t n;

	strbuf__clear(b);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, buf, sizeof(buf))) > 0 && b->len < MAX_MAPS_BYTES)
		strbuf__add(b, buf, (size_t)n);
	if (n < 0)
		err = -errno;
	close(fd);
	return err ? err : b->err;
}

static bool is_vsyscall(const struct map_line *line)
{
	return line->name_len == 10 && !memcmp(line->name, "[vsyscall]", 10);
}

static int parse_all(struct exec_maps *m, int proc_fd)
{
	int err = read_proc(proc_fd, "maps", &m->text);
	const char *text = m->text.s, *raw;
	size_t len = m->text.len, raw_len;
	struct map_line line;
	uint64_t floor = 0;

	if (!err && !len)
		err = -ESRCH; /* a zombie */
	while (!err && maps__next(&text, &len, &raw, &raw_len)) {
		if (map_line__parse(&line, raw, raw_len) || !line.exec || is_vsyscall(&line))
			continue;
		/* The text is made page by page while the process runs: a line may come twice. */
		if (line.start < floor)
			continue;
		floor = line.end;
		err = add_line(m, &line);
	}
	return err;
}

int exec_maps__read(struct exec_maps *m, int proc_fd)
{
	int fd = -1, err = -ENOTTY;

	m->cnt = 0;
	m->truncated = false;
	strbuf__clear(&m->text);
	if (!m->no_query) {
		fd = openat(proc_fd, "maps", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		err = query_all(m, fd);
		close(fd);
		m->no_query = err == -ENOTTY;
	}
	/* Whatever the query stumbled at, the text may still tell: a name too long for it. */
	if (err && err != -ESRCH && err != -E2BIG && err != -ENOMEM) {
		m->cnt = 0;
		err = parse_all(m, proc_fd);
	}
	return err == -E2BIG ? 0 : err;
}

bool maps_have(int proc_fd, const struct map_line *line)
{
	struct exec_maps now = { 0 };
	bool found = false;

	if (!exec_maps__read(&now, proc_fd)) {
		for (size_t i = 0; i < now.cnt && !found; i++)
			found = same_place(&now.lines[i], line);
	}
	exec_maps__free(&now);
	return found;
}
