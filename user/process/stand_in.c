/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/stand_in.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/opener.h"
#include "process/descendants.h"
#include "process/mapped.h"
#include "process/maps_read.h"
#include "python/pyproc.h"

#define FILES_MAX 64 /* of one process: the interpreter is among the first */

/* Also of a CPython that is not supported: the command says so. */
static bool holds_python(struct readers *rs, uint32_t tgid, int proc_fd,
			 const struct map_line *line)
{
	struct elf_file *ef = mapped__open(rs, tgid, proc_fd, line);
	struct py_binary py;
	int err;

	if (!ef)
		return false;
	err = py_binary__analyse(ef, &py);
	elf_file__close(ef);
	return !err || err == -EAGAIN || err == -ENOTSUP;
}

static bool maps_python(struct readers *rs, uint32_t tgid, int proc_fd)
{
	struct exec_maps maps = { 0 };
	uint64_t inode = 0;
	unsigned files = 0;
	bool found = false;

	if (!exec_maps__ask(&maps, rs, tgid, proc_fd)) {
		for (size_t i = 0; i < maps.cnt && files < FILES_MAX && !found; i++) {
			const struct map_line *line = &maps.lines[i];

			if (!line->inode || line->inode == inode)
				continue;
			inode = line->inode;
			files++;
			found = holds_python(rs, tgid, proc_fd, line);
		}
	}
	exec_maps__free(&maps);
	return found;
}

bool stand_ins__is_python(struct readers *rs, uint32_t tgid)
{
	int proc_fd = opener__proc_dir(tgid);
	bool found = proc_fd >= 0 && maps_python(rs, tgid, proc_fd);

	if (proc_fd >= 0)
		close(proc_fd);
	return found;
}

/* A descendants_fn. */
static int visit(void *ctx, uint32_t tgid)
{
	struct stand_ins *s = ctx;
	bool found = stand_ins__is_python(s->rs, tgid);

	if (found)
		s->pids[s->cnt++] = (pid_t)tgid;
	if (s->cnt == STAND_INS_MAX || ++s->searched == STAND_INS_SEARCHED)
		return -E2BIG;
	return !found;
}

void stand_ins__find(struct stand_ins *s, struct readers *rs, pid_t pid)
{
	*s = (struct stand_ins){ .rs = rs };
	descendants__visit(&pid, 1, visit, s);
}
