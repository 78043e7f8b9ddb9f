/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/below.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel */
#define DEPTH_MAX 128
#define PLACE	  (O_PATH | O_NOFOLLOW | O_CLOEXEC)

struct walk {
	int start; /* the caller's */
	unsigned int how;
	/* The way back: the kernel is not asked for "..", which a rename may lead out meanwhile. */
	int dirs[DEPTH_MAX];
	unsigned int depth, links;
	const char *rest; /* of the path, in text */
	char text[PATH_MAX];
};

static int here(const struct walk *w)
{
	return w->depth ? w->dirs[w->depth - 1] : w->start;
}

static int enter(struct walk *w, int fd)
{
	if (w->depth == DEPTH_MAX) {
		close(fd);
		return -ENAMETOOLONG;
	}
	w->dirs[w->depth++] = fd;
	return 0;
}

static int leave(struct walk *w)
{
	if (!w->depth)
		return w->how & BELOW_ROOT ? 0 : -EXDEV;
	close(w->dirs[--w->depth]);
	return 0;
}

static void leave_all(struct walk *w)
{
	while (w->depth)
		leave(w);
}

/* The next name of the path. 0: there is none; or negative errno. */
static int take_name(struct walk *w, char name[NAME_MAX + 1])
{
	size_t len;

	w->rest += strspn(w->rest, "/");
	len = strcspn(w->rest, "/");
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, w->rest, len);
	name[len] = '\0';
	w->rest += len;
	return len > 0;
}

/*
 * Puts the text of a link in front of the rest. 1: it is no link. A link of procfs may lead
 * elsewhere than its text says, and nothing that we open is behind one.
 */
static int follow(struct walk *w, int link)
{
	char text[PATH_MAX];
	struct statfs fs;
	ssize_t n = readlinkat(link, "", text, sizeof(text));

	if (n <= 0)
		return 1;
	if (++w->links > LINKS_MAX || fstatfs(link, &fs) || fs.f_type == PROC_SUPER_MAGIC)
		return -ELOOP;
	if ((size_t)n + strlen(w->rest) >= sizeof(text))
		return -ENAMETOOLONG;
	if (*text == '/' && !(w->how & BELOW_ROOT))
		return -EXDEV;
	if (*text == '/')
		leave_all(w);
	strcpy(text + n, w->rest);
	w->rest = strcpy(w->text, text);
	return 0;
}

/* Walks one name. Sets *found if the path ends there. 0 or negative errno. */
static int step(struct walk *w, const char *name, int *found)
{
	bool last = !*w->rest;
	int fd, err = 1;

	if (!strcmp(name, "."))
		return 0;
	if (!strcmp(name, ".."))
		return leave(w);
	/* Only who asks for a directory has an automounter mount it. */
	fd = last ? -1 : openat(here(w), name, PLACE | O_DIRECTORY);
	if (fd >= 0)
		return enter(w, fd);
	if (!last && errno != ENOTDIR)
		return -errno;
	fd = openat(here(w), name, PLACE);
	if (fd < 0)
		return -errno;
	if (!last || w->how & BELOW_FOLLOW)
		err = follow(w, fd);
	if (err == 1 && last) {
		*found = fd;
		return 0;
	}
	close(fd);
	return err == 1 ? -ENOTDIR : err;
}

int below__find(int dir_fd, const char *path, unsigned int how)
{
	struct walk w = { .start = dir_fd, .how = how };
	char name[NAME_MAX + 1];
	int found = -1, err = 0, more = 1;

	if (!*path)
		return -ENOENT;
	if (strlen(path) >= sizeof(w.text))
		return -ENAMETOOLONG;
	if (*path == '/' && !(how & BELOW_ROOT))
		return -EXDEV;
	w.rest = strcpy(w.text, path);
	while (!err && found < 0 && (more = take_name(&w, name)) > 0)
		err = step(&w, name, &found);
	if (more < 0)
		err = more;
	if (!err && found < 0) { /* it ends in "/", "." or ".." */
		found = fcntl(here(&w), F_DUPFD_CLOEXEC, 0);
		err = found < 0 ? -errno : 0;
	}
	leave_all(&w);
	return err ? err : found;
}

/* Of what it is mounted, where the kernel knows (5.8), else of its file system. */
static int same_mount(int a, int b)
{
	struct statx x, y;
	unsigned int mask = STATX_TYPE | STATX_MNT_ID;

	if (statx(a, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, mask, &x) ||
	    statx(b, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, mask, &y))
		return -errno;
	if (S_ISLNK(y.stx_mode))
		return -ELOOP;
	if (x.stx_dev_major != y.stx_dev_major || x.stx_dev_minor != y.stx_dev_minor)
		return -EXDEV;
	return x.stx_mask & STATX_MNT_ID && x.stx_mnt_id != y.stx_mnt_id ? -EXDEV : 0;
}

int below__find_plain(int dir_fd, const char *name)
{
	int fd, err;

	if (strchr(name, '/') || !strcmp(name, ".."))
		return -EINVAL;
	fd = openat(dir_fd, name, PLACE);
	if (fd < 0)
		return -errno;
	err = same_mount(dir_fd, fd);
	if (!err)
		return fd;
	close(fd);
	return err;
}
