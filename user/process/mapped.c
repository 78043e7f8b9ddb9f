/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/mapped.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/opener.h"
#include "process/file_batch.h"
#include "process/maps_read.h"

/* 0 or negative errno. */
static int open_file(struct readers *rs, uint32_t tgid, int proc_fd, const struct map_line *line,
		     struct opened *file)
{
	struct file_batch *m = calloc(1, sizeof(*m));
	struct file_answer *a;
	int err = -ENOENT;

	*file = OPENED_NONE;
	if (!m)
		return -ENOMEM;
	file_batch__add(m, line, NULL);
	file_batch__ask(m, rs, tgid, proc_fd);
	a = file_batch__find(m, line);
	if (a) {
		*file = a->file;
		a->file = OPENED_NONE;
		err = a->err ? a->err : a->open_err;
	}
	file_batch__drop(m);
	free(m);
	return err;
}

struct elf_file *mapped__open(struct readers *rs, uint32_t tgid, int proc_fd,
			      const struct map_line *line)
{
	char path[PATH_MAX];
	struct opened file;
	int err = map_line__path(line, path, sizeof(path));

	err = err < 0 ? err : open_file(rs, tgid, proc_fd, line, &file);
	if (!err)
		return elf_file__open_opened(&file, path);
	errno = -err;
	return NULL;
}

/* Where it is, or was, as the kernel says it of mappings. False: not known. */
static bool path_of(const struct elf_file *ef, char path[PATH_MAX])
{
	char link[64], now[PATH_MAX];
	struct map_line line = { .name = now };
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", elf_file__fd(ef));
	len = readlink(link, now, sizeof(now));
	if (len <= 0 || len == sizeof(now))
		return false;
	line.name_len = (size_t)len;
	return map_line__path(&line, path, PATH_MAX) > 0;
}

/* Not by the device: in overlayfs a mapping and its path may have different ones. */
static bool is_same(const struct elf_file *a, const struct elf_file *b)
{
	struct stat sa, sb;

	return !fstat(elf_file__fd(a), &sa) && !fstat(elf_file__fd(b), &sb) &&
	       sa.st_ino == sb.st_ino && sa.st_size == sb.st_size;
}

static bool is_other(struct readers *rs, uint32_t tgid, int proc_fd, const struct map_line *line,
		     const struct elf_file *ef, const char *path)
{
	struct elf_file *mapped;
	char name[PATH_MAX];
	bool other;

	if (!line->inode || map_line__path(line, name, sizeof(name)) < 0 || strcmp(name, path))
		return false;
	mapped = mapped__open(rs, tgid, proc_fd, line);
	other = mapped && !is_same(mapped, ef);
	elf_file__close(mapped);
	return other;
}

bool mapped__has_other(struct readers *rs, pid_t pid, const struct elf_file *ef)
{
	int proc_fd = opener__proc_dir((uint32_t)pid);
	struct exec_maps maps = { 0 };
	bool found = false;
	char path[PATH_MAX];

	if (proc_fd >= 0 && path_of(ef, path) && !exec_maps__ask(&maps, rs, (uint32_t)pid, proc_fd))
		for (size_t i = 0; i < maps.cnt && !found; i++)
			found = is_other(rs, (uint32_t)pid, proc_fd, &maps.lines[i], ef, path);
	exec_maps__free(&maps);
	if (proc_fd >= 0)
		close(proc_fd);
	return found;
}
