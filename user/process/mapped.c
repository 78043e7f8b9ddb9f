/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/mapped.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "process/file_batch.h"

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
