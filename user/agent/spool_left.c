/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/spool_left.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/push/spool.h"
#include "base/log.h"

/* The content of one spool. */
struct content {
	uint64_t windows, bytes;
};

static bool has_destination(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->push_cnt; i++)
		if (!strcmp(c->push[i].name, name))
			return true;
	return false;
}

/* Counts windows, and removes all that is of a spool if `remove`. 0 or negative errno. */
static int read_spool(DIR *d, bool remove, struct content *out)
{
	struct dirent *e;
	struct stat st;
	int err = 0;

	while (!err && (errno = 0, e = readdir(d))) {
		bool window;

		if (!spool__is_file(e->d_name, &window))
			continue;
		if (window && !fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
			out->windows++;
			out->bytes += (uint64_t)st.st_size;
		}
		if (remove && unlinkat(dirfd(d), e->d_name, 0) && errno != ENOENT)
			err = -errno;
	}
	return err ? err : -errno;
}

static int remove_one(int spools, const char *name, DIR *d)
{
	struct content in = { 0 };
	int err = 0;

	if (flock(dirfd(d), LOCK_EX | LOCK_NB))
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (!err)
		err = read_spool(d, true, &in);
	if (!err && unlinkat(spools, name, AT_REMOVEDIR))
		err = -errno;
	if (err)
		log_err("spool %s: %s", name,
			err == -EBUSY ? "another process uses it" : strerror(-err));
	else
		log_info("spool %s: removed, with %" PRIu64 " windows", name, in.windows);
	return err;
}

static int say_one(const char *name, DIR *d)
{
	struct content in = { 0 };

	read_spool(d, false, &in);
	log_warn("spool %s: %" PRIu64 " windows (%.1f MiB) wait for a destination that the "
		 "configuration does not have: configure [push.%s] again, or remove it with "
		 "'pyperf-bpf agent --remove-spools'",
		 name, in.windows, (double)in.bytes / (1 << 20), name);
	return 0;
}

static int look_at(const struct config *c, int spools, const char *name, bool remove)
{
	int fd, err;
	DIR *d;

	if (*name == '.' || has_destination(c, name))
		return 0;
	fd = openat(spools, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) { /* no directory is no spool */
		if (fd >= 0)
			close(fd);
		return 0;
	}
	err = remove ? remove_one(spools, name, d) : say_one(name, d);
	closedir(d);
	return err;
}

static int look_at_all(const struct config *c, bool remove)
{
	char path[PATH_MAX];
	struct dirent *e;
	int first = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/spool", c->agent.state_dir);
	d = opendir(path);
	if (!d && errno != ENOENT) {
		first = -errno;
		log_err("%s: %s", path, strerror(errno));
	}
	while (d && (e = readdir(d))) {
		int err = look_at(c, dirfd(d), e->d_name, remove);

		first = first ? first : err;
	}
	if (d)
		closedir(d);
	return first;
}

void spool_left__say(const struct config *c)
{
	look_at_all(c, false);
}

int spool_left__remove(const struct config *c)
{
	return look_at_all(c, true);
}
