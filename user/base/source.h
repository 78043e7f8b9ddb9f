/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SOURCE_H
#define PYPERF_SOURCE_H
/*
 * Reads the source text of a sampled process, which people read beside its numbers.
 *
 * The process chooses the name: a code object may name any file, such as "/etc/shadow", a FIFO or a
 * link out of a container. So a file is opened only as the process itself could open it:
 *
 *	name	must end like Python source: .py .pyw .pyx .pxd .pxi .pyi
 *	where	in the process's root directory while it lives; links cannot lead out of it,
 *		nor through /proc. After its end in ours, if that was its root directory.
 *	rights	those of the process's user: this thread takes the user and group of the process
 *		for files, no supplementary groups, and no capabilities that override
 *		permissions. Root's, if the process is root's. Nobody's, if its user is not
 *		known any more.
 *	what	a regular file of at most SOURCE_MAX bytes, not on FUSE, which could make us wait
 *
 * The owner of a profile that was read from a file is its reader: see export_lines.c. The kernel
 * keeps these rights per thread, so other threads of this program are not affected.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/reader.h"
#include "base/str.h"

#define SOURCE_MAX (2 << 20)

/* The process whose file it is, see struct profile_proc. */
struct source_owner {
	uint32_t tgid; /* 0: ended */
	bool ids_known;
	uint32_t uid, gid;
	bool own_root; /* it had our root directory */
};

/*
 * Parses the real ids of "Uid:" and "Gid:" in the text of /proc/PID/status. False: they are not
 * there.
 */
bool source__parse_ids(const char *status, uint32_t *uid, uint32_t *gid);
/* The file name looks like Python source. */
bool source__is_name(const char *path);
/*
 * Appends the text of a file; `st` may be NULL. 0, or -EINVAL (not such a name), -EPERM (the
 * rights cannot be taken: needs CAP_SETUID and CAP_SETGID), -EFBIG, -ENOTSUP (not a regular file,
 * FUSE), -ESRCH (ended, and its root directory is not known), or what open() says.
 */
int source__read(struct readers *rs, const struct source_owner *who, const char *path,
		 struct strbuf *text, struct stat *st);

#endif /* PYPERF_SOURCE_H */
