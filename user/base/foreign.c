/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/below.h"

/* Not in linux/magic.h of every distribution; from the file systems' own sources. */
#define AUFS_MAGIC     0x61756673
#define BCACHEFS_MAGIC 0xca451a4e
#define BEEGFS_MAGIC   0x19830326
#define GFS2_MAGIC     0x01161970
#define GPFS_MAGIC     0x47504653
#define HFSPLUS_MAGIC  0x482b
#define JFS_MAGIC      0x3153464a
#define LUSTRE_MAGIC   0x0bd00bd0
#define NTFS3_MAGIC    0x7366746e
#define UBIFS_MAGIC    0x24051905
#define VBOXSF_MAGIC   0x786f4256
#define VMHGFS_MAGIC   0xbacbacbc
#define XFS_MAGIC      0x58465342
#define ZFS_MAGIC      0x2fc12fc1

static bool is_among(uint32_t type, const uint32_t *types, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (types[i] == type)
			return true;
	return false;
}

/* A disk or memory of this machine answers a read, and nothing else. */
static bool is_local(uint32_t type)
{
	static const uint32_t types[] = {
		EXT4_SUPER_MAGIC,
		XFS_MAGIC,
		BTRFS_SUPER_MAGIC,
		TMPFS_MAGIC,
		RAMFS_MAGIC,
		SQUASHFS_MAGIC,
		EROFS_SUPER_MAGIC_V1,
		F2FS_SUPER_MAGIC,
		ZFS_MAGIC,
		BCACHEFS_MAGIC,
		ISOFS_SUPER_MAGIC,
		UDF_SUPER_MAGIC,
		NILFS_SUPER_MAGIC,
		REISERFS_SUPER_MAGIC,
		JFS_MAGIC,
		JFFS2_SUPER_MAGIC,
		UBIFS_MAGIC,
		CRAMFS_MAGIC,
		MINIX_SUPER_MAGIC,
		MSDOS_SUPER_MAGIC,
		EXFAT_SUPER_MAGIC,
		NTFS3_MAGIC,
		HFSPLUS_MAGIC,
		HUGETLBFS_MAGIC,
	};

	return is_among(type, types, sizeof(types) / sizeof(types[0]));
}

/*
 * Regular files of these file systems are data, and an unprivileged user cannot delay a read of
 * them. (An overlay may lie over anything: a read of it may have to wait.) Files of other file
 * systems are not opened: those of the kernel may do something when they are read, or never end,
 * and an unknown file system may do anything.
 */
static bool holds_data(uint32_t type)
{
	static const uint32_t types[] = {
		OVERLAYFS_SUPER_MAGIC,
		ECRYPTFS_SUPER_MAGIC,
		AUFS_MAGIC,
		/* of a server that an administrator has mounted */
		NFS_SUPER_MAGIC,
		SMB_SUPER_MAGIC,
		CIFS_SUPER_MAGIC,
		SMB2_SUPER_MAGIC,
		V9FS_MAGIC,
		CEPH_SUPER_MAGIC,
		AFS_SUPER_MAGIC,
		AFS_FS_MAGIC,
		OCFS2_SUPER_MAGIC,
		GFS2_MAGIC,
		LUSTRE_MAGIC,
		GPFS_MAGIC,
		BEEGFS_MAGIC,
		VBOXSF_MAGIC,
		VMHGFS_MAGIC,
	};

	return is_local(type) || is_among(type, types, sizeof(types) / sizeof(types[0]));
}

/* Of the type and options of a mount: "fuse.mergerfs name rw,user_id=0,...". */
typedef bool mount_fn(const char *type);

/* Has a device such a mount? Parses lines "... 0:52 / /mnt rw - fuse.mergerfs name rw,...". */
static int find_mount(const char *mountinfo, dev_t dev, mount_fn *is_such)
{
	FILE *f = fopen(mountinfo, "re");
	unsigned int at_major, at_minor;
	char *line = NULL, *type;
	size_t cap = 0;
	bool found = false;

	if (!f)
		return -errno;
	while (!found && getline(&line, &cap, f) > 0) {
		type = strstr(line, " - ");
		found = type && sscanf(line, "%*u %*u %u:%u", &at_major, &at_minor) == 2 &&
			at_major == major(dev) && at_minor == minor(dev) && is_such(type + 3);
	}
	free(line);
	fclose(f);
	return found;
}

static bool is_of_root(const char *type)
{
	return !strncmp(type, "virtiofs ", 9) || strstr(type, ",user_id=0,");
}

/* fuse, fuseblk, fuse.squashfuse ... */
static bool is_fuse(const char *type)
{
	return !strncmp(type, "fuse", 4);
}

/*
 * A FUSE that root has mounted in our own mount namespace, or the machine's host (virtiofs). One
 * that fusermount has mounted for a user has the user's number, and one in a mount namespace of the
 * user's is not in ours.
 */
static bool is_fuse_of_root(dev_t dev)
{
	return find_mount("/proc/self/mountinfo", dev, is_of_root) > 0;
}

int foreign__stat_at(int dir_fd, const char *path, struct stat *st)
{
	struct statx sx;

	if (statx(dir_fd, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &sx))
		return -errno;
	*st = (struct stat){ .st_dev = makedev(sx.stx_dev_major, sx.stx_dev_minor),
			     .st_ino = sx.stx_ino,
			     .st_mode = sx.stx_mode,
			     .st_nlink = sx.stx_nlink,
			     .st_uid = sx.stx_uid,
			     .st_gid = sx.stx_gid,
			     .st_size = (off_t)sx.stx_size,
			     .st_blksize = sx.stx_blksize,
			     .st_blocks = (blkcnt_t)sx.stx_blocks,
			     .st_mtim = { sx.stx_mtime.tv_sec, sx.stx_mtime.tv_nsec },
			     .st_ctim = { sx.stx_ctime.tv_sec, sx.stx_ctime.tv_nsec } };
	return 0;
}

int foreign__stat(int fd, struct stat *st)
{
	return foreign__stat_at(fd, "", st);
}

bool foreign__may_be_on_fuse(pid_t pid, const char *link)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
	return foreign__stat_at(AT_FDCWD, link, &st) || find_mount(path, st.st_dev, is_fuse);
}

int foreign__open_again(int place)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int reopen(int path_fd, bool mapped)
{
	struct statfs fs;
	struct stat st;
	int err = foreign__stat(path_fd, &st);

	if (err)
		return err;
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	if (fstatfs(path_fd, &fs))
		return -errno;
	if (!holds_data((uint32_t)fs.f_type) &&
	    !(mapped && (uint32_t)fs.f_type == FUSE_SUPER_MAGIC && is_fuse_of_root(st.st_dev)))
		return -ENOTSUP;
	return foreign__open_again(path_fd);
}

int foreign__reopen(int path_fd)
{
	return reopen(path_fd, false);
}

int foreign__reopen_mapped(int path_fd)
{
	return reopen(path_fd, true);
}

static bool may_wait_for_others(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) || !is_local((uint32_t)fs.f_type);
}

int foreign__hand_over(int place, int fd, bool *may_wait)
{
	*may_wait = may_wait_for_others(fd);
	close(*may_wait ? fd : place);
	return *may_wait ? place : fd;
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

static int find_in_root(int proc_fd, const char *path, unsigned int how)
{
	int root = openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

	if (root < 0)
		return -errno;
	fd = below__find(root, path, BELOW_ROOT | how);
	close(root);
	return fd;
}

int foreign__find(int proc_fd, const char *path)
{
	return find_in_root(proc_fd, path, 0);
}

int foreign__find_followed(int proc_fd, const char *path)
{
	return find_in_root(proc_fd, path, BELOW_FOLLOW);
}

int foreign__find_plain(int proc_fd, const char *dir, const char *name)
{
	int place = find_in_root(proc_fd, dir, BELOW_FOLLOW), fd;

	if (place < 0)
		return place;
	fd = below__find_plain(place, name);
	close(place);
	return fd;
}

int foreign__find_mapped(int proc_fd, uint64_t start, uint64_t end)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "map_files/%llx-%llx", (unsigned long long)start,
		 (unsigned long long)end);
	fd = openat(proc_fd, path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
