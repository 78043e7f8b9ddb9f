/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SOURCE_H
#define PYPERF_SOURCE_H
/*
 * The source text of a sampled process, for people to read beside its numbers.
 *
 * The name comes from the process: a code object may call its file anything, "/etc/shadow" or a
 * FIFO or a link out of a container. So a file is opened as the process could open it, and no
 * further:
 *
 *	name	ends like Python source: .py .pyw .pyx .pxd .pxi .pyi
 *	where	in the process's root directory while it lives; links cannot lead out of it, nor
 *		through /proc. After its end in ours, if that was its root directory.
 *	rights	those of the process's user, without ours: the file system's user and group of this
 *		thread are the process's, there are no supplementary groups and no capabilities that
 *		override permissions. Root's, if the process is root's. Nobody's, if its user is not
 *		known any more.
 *	what	a regular file of at most SOURCE_MAX bytes, not on FUSE, which could keep us waiting
 *
 * Of a profile that was read from a file the owner is whoever reads it: see export_lines.c.
 *
 * Other threads of this program are not affected: all of that is per thread in the kernel.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/str.h"

#define SOURCE_MAX (2 << 20)

/* Whose file it is, see struct profile_proc. */
struct source_owner {
	uint32_t tgid; /* 0: ended */
	bool ids_known;
	uint32_t uid, gid;
	bool own_root; /* its root directory was ours */
};

/* The "Uid:" and "Gid:" of a /proc/PID/status: the real ones. False: not in the text. */
bool source__parse_ids(const char *status, uint32_t *uid, uint32_t *gid);
/* The file name looks like Python source. */
bool source__is_name(const char *path);
/*
 * Appends the text of a file; `st` may be NULL. 0, or -EINVAL (not such a name), -EPERM (the
 * rights cannot be taken: needs CAP_SETUID and CAP_SETGID), -EFBIG, -ENOTSUP (not a regular file,
 * FUSE), -ESRCH (ended, and its root directory is not known), or what open() says.
 */
int source__read(const struct source_owner *who, const char *path, struct strbuf *text,
		 struct stat *st);

#endif /* PYPERF_SOURCE_H */
