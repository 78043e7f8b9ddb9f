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

#include "base/hash.h"

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
	if (m->cnt == EXEC_MAPS_MAX) {
		m->truncated = true;
		return -E2BIG;
	}
	if (ARRAY_GROW(m->lines, m->cap, m->cnt, EXEC_MAPS_MAX))
		return -ENOMEM;
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
	/*
	 * If the query fails, the text may still have the answer: for instance, a name was too long
	 * for it.
	 */
	if (err && err != -ESRCH && err != -E2BIG && err != -ENOMEM) {
		m->cnt = 0;
		err = parse_all(m, proc_fd);
	}
	return err == -E2BIG ? 0 : err;
}

/* ---- by another process --------------------------------------------------------------------- */

/*
 * Its answer: this, `cnt` lines, and the names one behind the other. A line's own name is an
 * address of the other process.
 */
struct maps_answer {
	uint32_t cnt;
	uint8_t truncated, no_query; /* no bool: the answer may have any byte there */
};

static void put_lines(struct reader_job *job, const struct exec_maps *m, struct maps_answer *a,
		      size_t *size)
{
	struct map_line *lines = (struct map_line *)(job->answer + sizeof(*a));
	uint8_t *names = (uint8_t *)(lines + m->cnt), *end = job->answer + job->answer_max;

	for (a->cnt = 0; a->cnt < m->cnt; a->cnt++) {
		const struct map_line *line = &m->lines[a->cnt];

		if (line->name_len > (size_t)(end - names))
			break;
		lines[a->cnt] = *line;
		memcpy(names, line->name, line->name_len);
		names += line->name_len;
	}
	a->truncated |= a->cnt < m->cnt;
	memset(lines + a->cnt, 0, (m->cnt - a->cnt) * sizeof(*lines));
	*size = (size_t)(names - job->answer);
}

static int read_maps(struct reader_job *job)
{
	static struct exec_maps m; /* of that process alone: it keeps its memory */
	struct maps_answer a;
	size_t size;
	int err;

	m.no_query = *(const bool *)job->question;
	err = exec_maps__read(&m, job->in);
	if (err)
		return err;
	a = (struct maps_answer){ .truncated = m.truncated, .no_query = m.no_query };
	put_lines(job, &m, &a, &size);
	memcpy(job->answer, &a, sizeof(a));
	return (int)size;
}

READER_JOB(read_maps);

/* To read a bool that is neither 0 nor 1 is undefined. */
static bool claimed(const bool *answer)
{
	uint8_t byte;

	memcpy(&byte, answer, sizeof(byte));
	return byte;
}

/* The order and the sizes are what others go by. */
static int take_lines(struct exec_maps *m)
{
	const size_t head = sizeof(struct maps_answer);
	struct maps_answer a;
	struct map_line line;
	uint64_t floor = 0;
	size_t at;
	int err = 0;

	if (m->text.len < head)
		return -EBADMSG;
	memcpy(&a, m->text.s, head);
	at = head + a.cnt * sizeof(line);
	if (a.cnt > EXEC_MAPS_MAX || at > m->text.len)
		return -EBADMSG;
	m->truncated = a.truncated;
	m->no_query = a.no_query;
	for (uint32_t i = 0; !err && i < a.cnt; i++) {
		memcpy(&line, m->text.s + head + i * sizeof(line), sizeof(line));
		if (line.start < floor || line.end <= line.start ||
		    line.name_len > m->text.len - at)
			return -EBADMSG;
		line.read = claimed(&line.read);
		line.write = claimed(&line.write);
		line.exec = claimed(&line.exec);
		line.shared = claimed(&line.shared);
		line.name = m->text.s + at;
		at += line.name_len;
		floor = line.end;
		err = add_line(m, &line);
	}
	return err;
}

int exec_maps__ask(struct exec_maps *m, struct readers *rs, uint32_t tgid, int proc_fd)
{
	const struct reader_call c = { .whose = { .tgid = tgid },
				       .op = &op_read_maps,
				       .question = &m->no_query,
				       .size = sizeof(m->no_query),
				       .in = proc_fd,
				       .text = &m->text };
	int err;

	if (!reader__has_opener(rs))
		return exec_maps__read(m, proc_fd);
	m->cnt = 0;
	m->truncated = false;
	strbuf__clear(&m->text);
	err = reader__files(rs, &c);
	err = err < 0 ? err : take_lines(m);
	if (err)
		m->cnt = 0;
	return err;
}

static bool have(const struct exec_maps *now, const struct map_line *line)
{
	for (size_t i = 0; i < now->cnt; i++)
		if (same_place(&now->lines[i], line))
			return true;
	return false;
}

bool maps_have(int proc_fd, const struct map_line *line)
{
	struct exec_maps now = { 0 };
	bool found = !exec_maps__read(&now, proc_fd) && have(&now, line);

	exec_maps__free(&now);
	return found;
}

bool maps_still_have(struct readers *rs, uint32_t tgid, int proc_fd, const struct map_line *line)
{
	struct exec_maps now = { 0 };
	bool found = !exec_maps__ask(&now, rs, tgid, proc_fd) && have(&now, line);

	exec_maps__free(&now);
	return found;
}
