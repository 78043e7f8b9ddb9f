/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/draft.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define MARK	    ".pyperf-"
#define RANDOM_LEN  6
#define ATTEMPTS    100
#define ENTRIES_MAX 65536 /* of a directory in which drafts of dead runs are looked for */

static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";

/* ".NAME.pyperf-", shortened so that the random part has room in a file name. */
static int name_prefix(char *out, size_t size, const char *target)
{
	int max = (int)(size - sizeof("." MARK) - RANDOM_LEN);

	return snprintf(out, size, ".%.*s" MARK, max, target);
}

static void choose_name(struct draft *d)
{
	int len = name_prefix(d->name, sizeof(d->name), d->target);
	unsigned char random[RANDOM_LEN];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		memset(random, 0, sizeof(random)); /* a clash is found */
	for (int i = 0; i < RANDOM_LEN; i++)
		d->name[len + i] = letters[random[i] % (sizeof(letters) - 1)];
	d->name[len + RANDOM_LEN] = '\0';
}

static void fd_path(char path[32], int fd)
{
	snprintf(path, 32, "/proc/self/fd/%d", fd);
}

/* ---- what dead runs have left ---------------------------------------------------------------- */

/* prefix, and then what choose_name() adds */
static bool is_draft(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);

	return !strncmp(name, prefix, len) && strlen(name) == len + RANDOM_LEN &&
	       strspn(name + len, letters) == RANDOM_LEN;
}

static bool is_any_draft(const char *name)
{
	const char *mark = *name == '.' ? strstr(name, MARK) : NULL;

	/* The name of the target may have the mark in it, too. */
	while (mark && strlen(mark) > sizeof(MARK) - 1 + RANDOM_LEN)
		mark = strstr(mark + 1, MARK);
	return mark && mark > name && is_draft(mark, MARK);
}

/* A file of ours that nobody has locked: the name still stands for it when it is removed. */
static void remove_if_dead(int dir, const char *name)
{
	int place = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1;
	struct stat st, now;
	char path[32];

	if (place < 0)
		return;
	fd_path(path, place);
	if (!fstat(place, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1)
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) &&
	    !fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) && now.st_dev == st.st_dev &&
	    now.st_ino == st.st_ino && !unlinkat(dir, name, 0))
		log_debug("%s: removed, its run was killed", name);
	if (fd >= 0)
		close(fd);
	close(place);
}

/* Of `prefix`; NULL: of any target. */
static void remove_dead(int dir, const char *prefix)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	for (int i = 0; list && i < ENTRIES_MAX && (e = readdir(list)); i++)
		if (prefix ? is_draft(e->d_name, prefix) : is_any_draft(e->d_name))
			remove_if_dead(dir, e->d_name);
	if (list)
		closedir(list);
	else if (fd >= 0)
		close(fd);
}

/* ---- making one ------------------------------------------------------------------------------ */

/* It can be given a name later only where /proc is. */
static int make_nameless(const struct draft *d)
{
	int fd = access("/proc/self/fd", X_OK)
			 ? -1
			 : openat(d->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);

	if (fd >= 0)
		flock(fd, LOCK_EX | LOCK_NB); /* for the moment in which it has a name of ours */
	return fd;
}

/* No signal comes between the file and the note that it is there: see export__abandon(). */
static int make_named(struct draft *d)
{
	sigset_t all, old;
	int fd;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	fd = openat(d->dir, d->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	d->is_there = fd >= 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return fd;
}

/* Another run, which takes it for a dead one's, is about to remove it, or has. */
static bool was_taken(int fd)
{
	struct stat st;

	return (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) || fstat(fd, &st) ||
	       !st.st_nlink;
}

static int try_named(struct draft *d)
{
	int fd = make_named(d);

	if (fd < 0 || !was_taken(fd))
		return fd;
	draft__remove(d);
	close(fd);
	errno = EEXIST;
	return -1;
}

static int make(struct draft *d, int dir, const char *target)
{
	*d = (struct draft){ .dir = dir, .target = target };
	d->fd = make_nameless(d);
	for (int i = 0; i < ATTEMPTS && d->fd < 0; i++) {
		choose_name(d);
		d->fd = try_named(d);
		if (d->fd < 0 && errno != EEXIST)
			break;
	}
	return d->fd < 0 ? -errno : 0;
}

int draft__open(struct draft *d, int dir, const char *target)
{
	char prefix[NAME_MAX + 1];

	name_prefix(prefix, sizeof(prefix), target);
	remove_dead(dir, prefix);
	return make(d, dir, target);
}

/* ---- publishing ------------------------------------------------------------------------------ */

static int link_once(struct draft *d, const char *path)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = linkat(AT_FDCWD, path, d->dir, d->name, AT_SYMLINK_FOLLOW);
	d->is_there = !err;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

/* linkat() replaces nothing, so the name is another one first. */
static int give_name(struct draft *d, int fd)
{
	char path[32];
	int err = -1;

	fd_path(path, fd);
	for (int i = 0; i < ATTEMPTS && err; i++) {
		choose_name(d);
		err = link_once(d, path);
		if (err && errno != EEXIST)
			break;
	}
	return err ? -errno : 0;
}

int draft__publish(struct draft *d, int fd)
{
	int err = d->is_there ? 0 : give_name(d, fd);

	if (err)
		return err;
	if (!renameat(d->dir, d->name, d->dir, d->target)) {
		d->is_there = false;
		return 0;
	}
	err = -errno;
	draft__remove(d); /* we may be a child, whose parent knows of no name */
	return err;
}

void draft__remove(struct draft *d)
{
	if (d->is_there)
		unlinkat(d->dir, d->name, 0);
	d->is_there = false;
}

/* ---- files that are written once ------------------------------------------------------------- */

void draft__clean(const char *dir)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	remove_dead(fd, NULL);
	close(fd);
}

static int write_all(int fd, const char *s, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, s + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

static int put(int dir, const char *name, mode_t mode, const void *content, size_t size)
{
	struct draft d;
	int err = make(&d, dir, name);

	if (err)
		return err;
	if (fchmod(d.fd, mode))
		err = -errno;
	if (!err)
		err = write_all(d.fd, content, size);
	if (!err)
		err = draft__publish(&d, d.fd);
	if (close(d.fd) && !err)
		err = -errno;
	draft__remove(&d);
	return err;
}

int draft__put(const char *dir, const char *name, mode_t mode, const void *content, size_t size)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = put(fd, name, mode, content, size);
	close(fd);
	return err;
}
