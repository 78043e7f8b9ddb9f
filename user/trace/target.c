/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/log.h"
#include "base/readmem.h"
#include "process/maps_read.h"
#include "process/unsupported.h"

/*
 * A second look at files of a process where the first one said -EAGAIN: its debug offsets are in
 * its memory.
 */
static int complete(struct target *t)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX] = { 0 };
	size_t size = t->py.runtime_size < sizeof(bytes) ? t->py.runtime_size : sizeof(bytes);
	int err = read_process((uint32_t)t->pid, bytes, size, t->bias + t->py.runtime);

	return err ? err : py_binary__from_process(&t->py, bytes, size);
}

/*
 * The file of a mapping, open for reading: by its inode (map_files), which a name may not lead to
 * any more, or by its name where that is not allowed (CAP_CHECKPOINT_RESTORE) or not there.
 */
static int open_mapping(int proc_fd, const struct map_line *line)
{
	char name[64], path[TARGET_PATH_MAX];
	int fd = -1, path_fd;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, line->start, line->end);
	path_fd = openat(proc_fd, name, O_PATH | O_CLOEXEC);
	if (path_fd < 0 && map_line__path(line, path, sizeof(path)) > 0)
		path_fd = foreign__find(proc_fd, path + 1);
	if (path_fd < 0)
		return path_fd;
	fd = foreign__reopen_mapped(path_fd);
	close(path_fd);
	return fd;
}

/*
 * Is the file behind the mapping an interpreter? Then it is taken over: 0, or what
 * py_binary__analyse() says.
 */
static int try_mapping(struct target *t, int proc_fd, const struct map_line *line)
{
	int fd = open_mapping(proc_fd, line), err;
	uint64_t addr;

	if (fd < 0)
		return -ENOENT;
	snprintf(t->path, sizeof(t->path), "%.*s", (int)line->name_len, line->name);
	t->ef = elf_file__open(fd, t->path);
	if (!t->ef)
		return errno == ENOMEM ? -ENOMEM : -ENOENT;
	err = py_binary__analyse(t->ef, &t->py);
	if (err != -ENOENT && elf_file__off_to_addr(t->ef, line->offset, &addr))
		t->bias = line->start - addr;
	t->mapping = *line;
	t->mapping.name = "";
	t->mapping.name_len = 0;
	if (err == -EAGAIN)
		err = complete(t);
	if (err == -ENOENT) {
		elf_file__close(t->ef);
		t->ef = NULL;
	}
	return err;
}

static int search_mappings(struct target *t, int proc_fd, const struct exec_maps *m)
{
	uint64_t last_inode = 0;
	int err = -ENOENT;

	for (size_t i = 0; i < m->cnt; i++)
		t->generates |= !m->lines[i].inode && !m->lines[i].name_len;
	for (size_t i = 0; i < m->cnt && err == -ENOENT; i++) {
		const struct map_line *line = &m->lines[i];

		if (!line->inode || line->inode == last_inode)
			continue;
		last_inode = line->inode;
		err = try_mapping(t, proc_fd, line);
	}
	return err;
}

static void refuse(const struct target *t, int err)
{
	char why[UNSUPPORTED_LEN];

	if (err == -ENOTSUP && t->py.why_not)
		log_err("process %d: %s: %s", t->pid, t->path, t->py.why_not);
	else if (err == -ENOENT && unsupported__explain(t->pid, why))
		log_err("process %d is %s", t->pid, why);
	else if (err == -ENOENT)
		log_err("process %d is not Python", t->pid);
	else if (err == -ESRCH)
		log_err("process %d: there is no such process", t->pid);
	else
		log_err("process %d: it cannot be looked into: %s (needs CAP_SYS_PTRACE)", t->pid,
			strerror(-err));
}

int target__open_process(struct target *t, pid_t pid)
{
	struct exec_maps maps = { 0 };
	char dir[32];
	int err;

	*t = (struct target){ .pid = pid };
	snprintf(dir, sizeof(dir), "/proc/%d", pid);
	t->proc_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = t->proc_fd < 0 ? -errno : exec_maps__read(&maps, t->proc_fd);
	if (err == -ENOENT)
		err = -ESRCH;
	if (!err)
		err = search_mappings(t, t->proc_fd, &maps);
	exec_maps__free(&maps);
	if (err)
		refuse(t, err);
	return err;
}

int target__open_file(struct target *t, const char *path)
{
	int fd = foreign__open(path), err;

	*t = (struct target){ .proc_fd = -1 };
	snprintf(t->path, sizeof(t->path), "%s", path);
	if (fd < 0) {
		log_err("%s: %s", path, strerror(-fd));
		return fd;
	}
	t->ef = elf_file__open(fd, path);
	if (!t->ef) {
		err = -errno;
		log_err("%s: %s", path,
			err == -ENOEXEC ? "not a program of this machine" : strerror(-err));
		return err;
	}
	err = py_binary__analyse(t->ef, &t->py);
	if (err == -ENOTSUP)
		log_err("%s: %s", path, t->py.why_not);
	else if (err == -EAGAIN)
		log_err("%s: its layout is known only while it runs: give a process instead", path);
	return err;
}

void target__close(struct target *t)
{
	elf_file__close(t->ef);
	t->ef = NULL;
	if (t->pid && t->proc_fd >= 0)
		close(t->proc_fd);
	t->proc_fd = -1;
}

bool target__is_there(const struct target *t)
{
	return maps_have(t->proc_fd, &t->mapping);
}
