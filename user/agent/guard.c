/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static long owner(int fd)
{
	char text[16] = "";

	return pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

static int lock(int fd, const char *dir)
{
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK) {
		log_err("%s/agent.lock: %s", dir, strerror(errno));
		return -errno;
	}
	log_err("%s: the agent with pid %ld uses it (another one needs a state-dir of its own)",
		dir, owner(fd));
	return -EBUSY;
}

/* A user who can rename files in the directory can make the agent read and write other files. */
static int check_directory(const char *dir)
{
	struct stat st;

	if (stat(dir, &st)) {
		log_err("%s: %s (state-dir)", dir, strerror(errno));
		return -errno;
	}
	if ((!st.st_uid || st.st_uid == geteuid()) && !(st.st_mode & S_IWOTH))
		return 0;
	log_err("%s: belongs to user %u with mode %04o: others can change its contents "
		"(state-dir)",
		dir, st.st_uid, st.st_mode & 07777);
	return -EPERM;
}

int guard__take(const char *dir)
{
	char path[PATH_MAX];
	int fd, err;

	if (mkdir(dir, 0700) && errno != EEXIST) {
		log_err("%s: %s (state-dir)", dir, strerror(errno));
		return -errno;
	}
	err = check_directory(dir);
	if (err)
		return err;
	snprintf(path, sizeof(path), "%s/agent.lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		log_err("%s: %s (state-dir)", path, strerror(errno));
		return -errno;
	}
	err = lock(fd, dir);
	if (err) {
		close(fd);
		return err;
	}
	if (ftruncate(fd, 0) || dprintf(fd, "%d\n", getpid()) < 0)
		log_warn("%s: %s", path, strerror(errno));
	return fd;
}
