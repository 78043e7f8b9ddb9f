/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FOREIGN_H
#define PYPERF_FOREIGN_H
/*
 * Opens files that processes under observation own, choose or can replace.
 *
 * To open a file is an action: a device may start a watchdog, a FIFO waits for its writer, a file
 * of procfs may take from a queue (/proc/kmsg), and a lease holds open() up for 45 seconds
 * (fs.lease-break-time). So these functions first get an O_PATH descriptor, which opens nothing.
 * They open the file for reading only if it is a regular file of a file system that is known to
 * hold data. Such an open never waits for a lease: it fails with -EAGAIN, and the kernel breaks the
 * lease meanwhile, so a later try succeeds. A file of FUSE is read only if a process maps it and
 * root has mounted the file system, because its server, which may be a process under observation,
 * decides how long a read takes.
 *
 * Every call may wait, because a directory on the way to a file may be of FUSE: see opener.h. The
 * caller owns the returned descriptors; all are close-on-exec.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* fstat() from cached attributes: does not ask the server of a FUSE. 0 or negative errno. */
int foreign__stat(int fd, struct stat *st);
/* The same for the target of a link of /proc/PID: "exe", "root". */
int foreign__stat_at(int proc_fd, const char *link, struct stat *st);
/*
 * Does `link` ("/proc/PID/exe") of the process lead to a file of a FUSE, or can that not be told?
 * Asks no server, so it does not wait for one.
 */
bool foreign__may_be_on_fuse(pid_t pid, const char *link);

/*
 * Opens the regular file behind an O_PATH descriptor for reading. -ENOTSUP: another kind of file,
 * or one of FUSE, of a file system of the kernel (proc, sysfs, cgroup, debugfs ...) or of an
 * unknown one; -EAGAIN: there is a lease on it; else the errno of open().
 */
int foreign__reopen(int path_fd);

/*
 * The same for a file that a process maps. It may lie in a FUSE that root has mounted, or in
 * virtiofs.
 */
int foreign__reopen_mapped(int path_fd);

/*
 * To close an open file is an action, too: each close() of a descriptor, and the end of a process
 * that has one, tells a FUSE below an overlay (FUSE_FLUSH), and waits for its server, whatever
 * signal comes. To close an O_PATH descriptor never waits. So of a file that may wait only such a
 * place goes to other processes, and who reads it opens it for that and closes it again.
 *
 * Takes over a place and the open file of it, closes one of them, and returns the other one, which
 * any process may hold and close. Sets *may_wait if that is the place: a read may have to wait for
 * something other than this machine's disks and memory.
 */
int foreign__hand_over(int place, int fd, bool *may_wait);
/* Opens such a place for reading. A descriptor or negative errno. */
int foreign__open_again(int place);

/* As foreign__reopen(), for a path of ours, following links. */
int foreign__open(const char *path);

/*
 * An O_PATH descriptor of `path` (relative) below the root directory of a process, as the process
 * sees it; links cannot lead out of it. `proc_fd` is the process's directory in /proc. Negative
 * errno.
 */
int foreign__find(int proc_fd, const char *path);
/* The same. If the path ends in a link, follows it below that root. */
int foreign__find_followed(int proc_fd, const char *path);

/*
 * The same for the file `name` in the directory `dir` of that process. Fails if the file is a link
 * (-ELOOP) or a mount point (-EXDEV).
 */
int foreign__find_plain(int proc_fd, const char *dir, const char *name);

/*
 * An O_PATH descriptor of the file that a process maps at [start, end) (/proc/PID/map_files): the
 * file itself, whatever became of its name: deleted, a memfd, in another mount namespace, below an
 * overlay. -EPERM: CAP_CHECKPOINT_RESTORE (5.9+) or CAP_SYS_ADMIN is needed.
 */
int foreign__find_mapped(int proc_fd, uint64_t start, uint64_t end);

#endif /* PYPERF_FOREIGN_H */
