/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* fs/configfs/mount.c, ipc/mqueue.c, fs/fuse/control.c: not in linux/magic.h. */
#define CONFIGFS_MAGIC 0x62656570
#define MQUEUE_MAGIC   0x19800202
#define FUSECTL_MAGIC  0x65735543

/* Their files are the kernel's, and reading one may do something or never end. */
static bool is_of_the_kernel(uint32_t type)
{
	static const uint32_t types[] = {
		PROC_SUPER_MAGIC,   SYSFS_MAGIC,	  CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
		DEBUGFS_MAGIC,	    TRACEFS_MAGIC,	  SECURITYFS_MAGIC,   SELINUX_MAGIC,
		SMACK_MAGIC,	    PSTOREFS_MAGIC,	  EFIVARFS_MAGIC,     BPF_FS_MAGIC,
		BINFMTFS_MAGIC,	    CONFIGFS_MAGIC,	  MQUEUE_MAGIC,	      FUSECTL_MAGIC,
		NSFS_MAGIC,	    RDTGROUP_SUPER_MAGIC, SOCKFS_MAGIC,	      PIPEFS_MAGIC,
		DEVPTS_SUPER_MAGIC, ANON_INODE_FS_MAGIC,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i] == type)
			return true;
	return false;
}

static int reopen(int path_fd, bool may_be_fuse)
{
	struct statfs fs;
	struct stat st;
	char path[32];
	int fd;

	if (fstat(path_fd, &st) || fstatfs(path_fd, &fs))
		return -errno;
	if (!S_ISREG(st.st_mode) || is_of_the_kernel((uint32_t)fs.f_type) ||
	    ((uint32_t)fs.f_type == FUSE_SUPER_MAGIC && !may_be_fuse))
		return -ENOTSUP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int foreign__reopen(int path_fd)
{
	return reopen(path_fd, false);
}

int foreign__reopen_mapped(int path_fd)
{
	return reopen(path_fd, true);
}

int foreign__open(const char *path)
{
	int place = open(path, O_PATH | O_CLOEXEC), fd;

	if (place < 0)
		return -errno;
	fd = foreign__reopen(place);
	close(place);
	return fd;
}

static int find(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC | flags,
				      .resolve = resolve | RESOLVE_NO_MAGICLINKS };
	long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

static int find_in_root(int proc_fd, const char *path, uint64_t flags)
{
	int root = openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

	if (root < 0)
		return -errno;
	fd = find(root, path, flags, RESOLVE_IN_ROOT);
	close(root);
	return fd;
}

int foreign__find(int proc_fd, const char *path)
{
	return find_in_root(proc_fd, path, O_NOFOLLOW);
}

int foreign__find_plain(int proc_fd, const char *dir, const char *name)
{
	int place = find_in_root(proc_fd, dir, O_DIRECTORY), fd;

	if (place < 0)
		return place;
	fd = find(place, name, 0, RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
	close(place);
	return fd;
}
