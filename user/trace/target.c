/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/foreign.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/reader.h"
#include "process/interpreter.h"
#include "process/maps_read.h"
#include "process/unsupported.h"

/* /lib/ld-musl-x86_64.so.1 is the C library, too. */
static bool is_musl(const struct map_line *line)
{
	static const char name[] = "/ld-musl-";

	return memmem(line->name, line->name_len, name, sizeof(name) - 1) != NULL;
}

static void note_mappings(struct target *t, const struct exec_maps *m)
{
	for (size_t i = 0; i < m->cnt; i++) {
		t->generates |= !m->lines[i].inode && !m->lines[i].name_len;
		t->musl |= is_musl(&m->lines[i]);
	}
}

static void take(struct target *t, const struct interpreter *in)
{
	t->ef = in->ef;
	t->py = in->py;
	t->bias = in->bias;
	t->mapping = in->mapping;
	snprintf(t->path, sizeof(t->path), "%.*s", (int)in->mapping.name_len,
		 in->mapping.name ? in->mapping.name : "");
	t->mapping.name = "";
	t->mapping.name_len = 0;
}

static int search_mappings(struct target *t, const struct exec_maps *m)
{
	struct interpreter in = { 0 };
	int err;

	note_mappings(t, m);
	err = interpreter__find(&in, t->readers, (uint32_t)t->pid, t->proc_fd, m);
	take(t, &in);
	return err;
}

static void refuse(const struct target *t, int err)
{
	char why[UNSUPPORTED_LEN];

	if (err == -ENOTSUP && t->py.why_not)
		log_err("process %d: %s: %s", t->pid, t->path, t->py.why_not);
	else if (err == -ENOENT && unsupported__explain(t->readers, t->pid, why))
		log_err("process %d is %s", t->pid, why);
	else if (err == -ENOENT && unsupported__unread(t->readers, t->pid, why))
		log_err("process %d: %s", t->pid, why);
	else if (err == -ENOENT)
		log_err("process %d is not Python", t->pid);
	else if (err == -ESRCH)
		log_err("process %d: there is no such process", t->pid);
	else if (err == -ETIMEDOUT)
		log_err("process %d: its files or its memory do not answer", t->pid);
	else
		log_err("process %d: it cannot be read: %s (needs CAP_SYS_PTRACE)", t->pid,
			reader__why(err));
}

int target__open_process(struct target *t, pid_t pid)
{
	struct exec_maps maps = { 0 };
	int err;

	*t = (struct target){ .pid = pid, .readers = readers__new() };
	readers__start(t->readers);
	t->proc_fd = opener__proc_dir((uint32_t)pid);
	err = t->proc_fd < 0 ? t->proc_fd
			     : exec_maps__ask(&maps, t->readers, (uint32_t)pid, t->proc_fd);
	if (err == -ENOENT)
		err = -ESRCH;
	if (!err)
		err = search_mappings(t, &maps);
	exec_maps__free(&maps);
	if (err)
		refuse(t, err);
	return err;
}

int target__open_mapped(struct target *t, struct readers *rs, pid_t pid, int proc_fd,
			const struct exec_maps *maps, const struct map_line *line)
{
	struct interpreter in = { 0 };
	int err;

	*t = (struct target){ .pid = pid, .readers = rs, .borrowed = true };
	t->proc_fd = fcntl(proc_fd, F_DUPFD_CLOEXEC, 0);
	if (t->proc_fd < 0)
		return -errno;
	note_mappings(t, maps);
	err = interpreter__at(&in, rs, (uint32_t)pid, proc_fd, line);
	take(t, &in);
	return err;
}

int target__open_file(struct target *t, const char *path)
{
	int fd = foreign__open(path), err;

	*t = (struct target){ .proc_fd = -1, .readers = readers__new() };
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

static bool is_interpreter(const char *path)
{
	struct py_binary py = { 0 };
	int fd = foreign__open(path), err = -ENOENT;
	struct elf_file *ef = fd < 0 ? NULL : elf_file__open(fd, path);

	if (ef)
		err = py_binary__analyse(ef, &py);
	elf_file__close(ef);
	return ef && err != -ENOENT;
}

int target__find_interpreter(const char *program, char path[TARGET_PATH_MAX])
{
	static const char *const dirs[] = { "/../lib", "", "/usr/local/lib", "/usr/lib64",
					    "/usr/lib/x86_64-linux-gnu" };
	static const char *const abis[] = { "", "m", "d", "t", "td" };
	char *real = realpath(program, NULL), *slash = real ? strrchr(real, '/') : NULL;
	int err = -ENOENT;

	if (slash && is_interpreter(real)) {
		snprintf(path, TARGET_PATH_MAX, "%s", real);
		err = 0;
	}
	if (slash)
		*slash = '\0';
	for (size_t i = 0; slash && err && !strncmp(slash + 1, "python", 6) &&
			   i < sizeof(dirs) / sizeof(*dirs) * (sizeof(abis) / sizeof(*abis));
	     i++) {
		const char *dir = dirs[i / (sizeof(abis) / sizeof(*abis))];

		/* As far as it is not relative to the program. */
		snprintf(path, TARGET_PATH_MAX, "%s%s/lib%s%s.so.1.0",
			 *dir == '/' && strncmp(dir, "/..", 3) ? "" : real, dir, slash + 1,
			 abis[i % (sizeof(abis) / sizeof(*abis))]);
		if (!access(path, R_OK) && is_interpreter(path))
			err = 0;
	}
	free(real);
	return err;
}

void target__close(struct target *t)
{
	elf_file__close(t->ef);
	t->ef = NULL;
	if (t->pid && t->proc_fd >= 0)
		close(t->proc_fd);
	t->proc_fd = -1;
	if (!t->borrowed)
		readers__free(t->readers);
	t->readers = NULL;
}

bool target__is_there(const struct target *t)
{
	return maps_still_have(t->readers, (uint32_t)t->pid, t->proc_fd, &t->mapping);
}
