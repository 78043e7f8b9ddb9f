/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/interpreter.h"

#include <errno.h>

#include "process/mapped.h"

#define FILES_MAX 1024 /* that are opened in search of one */

/* From 3.13 on the layout may have to come from the memory of the process. */
static int complete(struct interpreter *in, struct readers *readers, uint32_t pid)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX] = { 0 };
	size_t size = in->py.runtime_size < sizeof(bytes) ? in->py.runtime_size : sizeof(bytes);
	int err = reader__read(readers, pid, bytes, size, in->bias + in->py.runtime);

	return err ? err : py_binary__from_process(&in->py, bytes, size);
}

/* Its contents say that it is none, or it may be one. */
static int not_opened(int err)
{
	if (err == ENOMEM || err == ETIMEDOUT || err == ECHILD)
		return -err;
	return err == ENOEXEC ? -ENOENT : -ESTALE;
}

int interpreter__at(struct interpreter *in, struct readers *readers, uint32_t pid, int proc_fd,
		    const struct map_line *line)
{
	uint64_t addr;
	int err;

	in->ef = mapped__open(readers, pid, proc_fd, line);
	if (!in->ef)
		return not_opened(errno);
	in->mapping = *line;
	err = py_binary__analyse(in->ef, &in->py);
	if (err != -ENOENT && !elf_file__off_to_addr(in->ef, line->offset, &addr))
		err = -ESTALE;
	else if (err != -ENOENT)
		in->bias = line->start - addr;
	if (err == -EAGAIN)
		err = complete(in, readers, pid);
	if (err == -ENOENT || err == -ESTALE)
		interpreter__close(in);
	return err;
}

int interpreter__find(struct interpreter *out, struct readers *readers, uint32_t pid, int proc_fd,
		      const struct exec_maps *maps)
{
	uint64_t inode = 0;
	size_t file_cnt = 0;
	int err = -ENOENT;

	for (size_t i = 0; i < maps->cnt && err == -ENOENT && file_cnt < FILES_MAX; i++) {
		const struct map_line *line = &maps->lines[i];

		if (!line->inode || line->inode == inode)
			continue;
		inode = line->inode;
		file_cnt++;
		err = interpreter__at(out, readers, pid, proc_fd, line);
		if (err == -ESTALE)
			err = -ENOENT;
	}
	return err;
}

void interpreter__close(struct interpreter *in)
{
	elf_file__close(in->ef);
	in->ef = NULL;
}
