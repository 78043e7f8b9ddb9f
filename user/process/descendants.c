/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/opener.h"
#include "base/str.h"
#include "process/maps_read.h"

#define FAMILY_MAX (1 << 20)

/* The requested processes and their descendants, each once. */
struct family {
	uint32_t *tgids;
	size_t cnt, cap;
	struct idmap known; /* by number */
	struct strbuf text;
};

static int add(struct family *f, uint32_t tgid)
{
	int err;

	if (idmap__get(&f->known, tgid))
		return 0;
	err = ARRAY_GROW(f->tgids, f->cap, f->cnt, FAMILY_MAX);
	if (!err)
		err = idmap__set(&f->known, tgid, f);
	if (!err)
		f->tgids[f->cnt++] = tgid;
	return err;
}

/* The children that one thread has started, or that were handed to it. */
static int add_children_of(struct family *f, int proc_fd, const char *tid)
{
	char path[NAME_MAX + 16], *at, *end;
	int err = 0;

	snprintf(path, sizeof(path), "task/%s/children", tid);
	if (read_proc(proc_fd, path, &f->text) || !f->text.len)
		return 0; /* the thread has ended, or has none */
	for (at = f->text.s; !err; at = end) {
		unsigned long tgid = strtoul(at, &end, 10);

		if (end == at)
			break;
		err = add(f, (uint32_t)tgid);
	}
	return err;
}

static int add_children(struct family *f, uint32_t tgid)
{
	int proc_fd = opener__proc_dir(tgid), task_fd, err = 0;
	struct dirent *de;
	DIR *dir;

	if (proc_fd < 0)
		return 0;
	task_fd = openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = task_fd < 0 ? NULL : fdopendir(task_fd);
	while (dir && !err && (de = readdir(dir)))
		if (de->d_name[0] != '.')
			err = add_children_of(f, proc_fd, de->d_name);
	if (dir)
		closedir(dir);
	else if (task_fd >= 0)
		close(task_fd);
	close(proc_fd);
	return err;
}

bool descendants__are_listed(void)
{
	return !access("/proc/thread-self/children", R_OK);
}

int descendants__visit(const pid_t *pids, size_t cnt, descendants_fn visit, void *ctx)
{
	struct family f = { 0 };
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i++)
		if (pids[i] > 0)
			err = add(&f, (uint32_t)pids[i]);
	for (size_t i = 0; i < f.cnt && !err; i++) {
		int deeper = visit(ctx, f.tgids[i]);

		if (deeper < 0)
			err = deeper;
		else if (deeper)
			err = add_children(&f, f.tgids[i]);
	}
	free(f.tgids);
	idmap__free(&f.known);
	strbuf__free(&f.text);
	return err;
}
