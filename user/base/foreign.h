/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FOREIGN_H
#define PYPERF_FOREIGN_H
/*
 * Opens files that processes under observation own, choose or can replace.
 *
 * To open a file is an action: a device may start a watchdog, a FIFO waits for its writer, a file
 * of procfs may take from a queue (/proc/kmsg), and a lease holds open() up for 45 seconds
 * (fs.lease-break-time). So a file is found as an O_PATH descriptor first, which opens nothing, and
 * is opened for reading only if it is a regular file of a file system that is known to hold data.
 * Such an open never waits for a lease; it fails with -EAGAIN, and the kernel breaks the lease
 * meanwhile, so a later try succeeds. A file of FUSE is read only if it is mapped and root has
 * mounted the file system: its server, which may be a process under observation, decides how long a
 * read takes.
 *
 * The callers own the descriptors that these functions return. All are close-on-exec.
 */

#include <sys/stat.h>

/* fstat() by what is cached: the server of a FUSE is not asked. 0 or negative errno. */
int foreign__stat(int path_fd, struct stat *st);

/*
 * The regular file of an O_PATH descriptor, open for reading. -ENOTSUP: it is another kind of file,
 * or of FUSE, a file system of the kernel's (proc, sysfs, cgroup, debugfs ...) or an unknown one;
 * -EAGAIN: there is a lease on it; else the errno of open().
 */
int foreign__reopen(int path_fd);

/*
 * The same of a file that a process maps, which may be of a FUSE that root has mounted, or of
 * virtiofs.
 */
int foreign__reopen_mapped(int path_fd);

/* The same for a path of ours, following links. */
int foreign__open(const char *path);

/*
 * An O_PATH descriptor of `path` (relative) below the root directory of a process, as the process
 * sees it; links cannot lead out of it. `proc_fd` is the process's directory in /proc. Negative
 * errno.
 */
int foreign__find(int proc_fd, const char *path);

/*
 * The same of the file `name` in the directory `dir` of that process, where neither the file may be
 * a link nor something else be mounted on it (-ELOOP, -EXDEV).
 */
int foreign__find_plain(int proc_fd, const char *dir, const char *name);

#endif /* PYPERF_FOREIGN_H */
