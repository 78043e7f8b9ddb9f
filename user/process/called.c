/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/called.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/opener.h"
#include "process/application.h"

#define ARGS_MAX_BYTES	4096 /* more is cut at a word's end */
#define PIDS_MAX	(1U << 22)
#define GENERATIONS_MAX 64

/* A file of /proc/PID, NUL-terminated: its length, or 0. */
static size_t read_entry(pid_t pid, const char *entry, char *buf, size_t size)
{
	char path[64];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, entry);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, buf, size - 1);
	if (fd >= 0)
		close(fd);
	buf[len > 0 ? len : 0] = '\0';
	return len > 0 ? (size_t)len : 0;
}

/* Its arguments, which lie in its memory. False: it has none, or is gone. */
static bool read_args(struct readers *rs, pid_t pid, struct strbuf *args)
{
	return !opener__text_of(rs, (uint32_t)pid, "cmdline", ARGS_MAX_BYTES, args) && args->len;
}

static bool title_of(const struct strbuf *args, struct strbuf *out)
{
	size_t len = args->len;

	while (len && args->s[len - 1])
		len--;
	return application__title(args->s, len, out);
}

bool called__title(struct readers *rs, pid_t pid, struct strbuf *out)
{
	struct strbuf args = { 0 };
	bool found = read_args(rs, pid, &args) && title_of(&args, out);

	strbuf__free(&args);
	return found;
}

pid_t called__parent(pid_t pid)
{
	char stat[256], *behind;
	int parent = 0;

	if (!read_entry(pid, "stat", stat, sizeof(stat)))
		return 0;
	behind = strrchr(stat, ')'); /* the name may hold anything */
	return behind && sscanf(behind + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

bool called__descends(pid_t pid, pid_t ancestor)
{
	for (int i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
		pid = called__parent(pid);
		if (pid == ancestor)
			return true;
	}
	return false;
}

static bool is_match(const regex_t *re, const char *name)
{
	return *name && !regexec(re, name, 0, NULL, 0);
}

bool called__program(pid_t pid, char path[PATH_MAX])
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	len = readlink(link, path, PATH_MAX - 1);
	if (len <= 0)
		return false;
	path[len] = '\0';
	return true;
}

static bool program_matches(pid_t pid, const regex_t *re)
{
	char exe[PATH_MAX];

	return called__program(pid, exe) &&
	       is_match(re, strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe);
}

bool called__matches(struct readers *rs, pid_t pid, const regex_t *re)
{
	struct strbuf title = { 0 }, args = { 0 };
	char comm[64];
	bool found = false;

	if (read_args(rs, pid, &args) && read_entry(pid, "comm", comm, sizeof(comm))) {
		comm[strcspn(comm, "\n")] = '\0';
		found = is_match(re, comm) || program_matches(pid, re) ||
			(title_of(&args, &title) && is_match(re, title.s));
	}
	strbuf__free(&args);
	strbuf__free(&title);
	return found;
}

int called__find(struct readers *rs, const regex_t *re, pid_t **pids, size_t *cnt)
{
	DIR *dir = opendir("/proc");
	struct dirent *de;
	size_t cap = 0;
	long long pid;
	int err = dir ? 0 : -errno;

	*pids = NULL;
	*cnt = 0;
	while (!err && (de = readdir(dir))) {
		if (parse_int(de->d_name, 1, INT32_MAX, &pid) || pid == getpid() ||
		    !called__matches(rs, (pid_t)pid, re))
			continue;
		err = ARRAY_GROW(*pids, cap, *cnt, PIDS_MAX);
		if (!err)
			(*pids)[(*cnt)++] = (pid_t)pid;
	}
	if (dir)
		closedir(dir);
	return err;
}
