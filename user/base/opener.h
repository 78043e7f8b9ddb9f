/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OPENER_H
#define PYPERF_OPENER_H
/*
 * Opens and reads files of processes under observation by the rules of foreign.h, in the helper
 * process that may hang (reader.h).
 *
 *	err = opener__find(rs, tgid, proc_fd, "etc/hostname", &file);
 *	n = opened__read(&file, buf, size, 0);
 *	opened__close(&file);
 *
 * A file on this machine's disks or in its memory is read by the process that holds the descriptor.
 * Any other file, such as one of an overlay or of a server, is opened again for each read, by the
 * process that opened it, because the file system may not answer: not even when it is closed. This
 * process has an O_PATH descriptor of it (foreign__hand_over()).
 *
 * Without `rs` everything happens in this process. Errors are those of foreign.h, and -ETIMEDOUT:
 * the file does not answer, or the files of its user are not opened any more.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/reader.h"
#include "base/str.h"

/* An open file; plain data. */
struct opened {
	int fd;		    /* -1: none; may be O_PATH with `may_wait` */
	bool may_wait;	    /* only `by` may read it, or open it again for that */
	struct readers *by; /* the helper; NULL: there is none, this process */
	uint64_t tenant;    /* its owner, with `may_wait` */
};

#define OPENED_NONE ((struct opened){ .fd = -1 })

/* Wraps a descriptor of this process whose reads do not wait. */
static inline struct opened opened__of(int fd)
{
	return (struct opened){ .fd = fd };
}

void opened__close(struct opened *f);
/* Duplicates the descriptor. On failure fd is -1, and errno is set. */
struct opened opened__dup(const struct opened *f);
/* As pread(), but reads until it has `size` bytes or the file ends. Negative errno. */
ssize_t opened__read(const struct opened *f, void *buf, size_t size, uint64_t off);
/* As fstat(); negative errno. */
int opened__stat(const struct opened *f, struct stat *st);

/* A regular file below the root directory of a process: foreign__find(). 0 or negative errno. */
int opener__find(struct readers *rs, uint32_t tgid, int proc_fd, const char *path,
		 struct opened *f);
/* The same by foreign__find_followed(). */
int opener__find_followed(struct readers *rs, uint32_t tgid, int proc_fd, const char *path,
			  struct opened *f);
/*
 * foreign__find_plain(); -EPERM if the file does not belong to user `uid`. `tenant`: that of the
 * process.
 */
int opener__find_plain(struct readers *rs, uint64_t tenant, int proc_fd, const char *dir,
		       const char *name, uid_t uid, struct opened *f);
/* Opens a path of this mount namespace that the tenant has named: foreign__open(). */
int opener__path(struct readers *rs, uint64_t tenant, const char *path, struct opened *f);
/*
 * Takes over `fd`, which the helper for files has opened. Decides which process has to read it.
 * `may_wait`: as the helper found it.
 */
struct opened opener__take(struct readers *rs, uint64_t tenant, int fd, bool may_wait);

/*
 * Opens the directory of a process in /proc. Files opened below it belong to that process, even if
 * its number is used again. `root`: where the machine's files are. A descriptor or negative errno.
 */
int opener__proc_dir_below(const char *root, uint32_t tgid);
int opener__proc_dir(uint32_t tgid);
/*
 * Appends at most `max` bytes of a file of /proc/PID. The kernel may have to read the memory of the
 * process for it (environ, cmdline). 0 or negative errno.
 */
int opener__proc_text(struct readers *rs, uint32_t tgid, int proc_fd, const char *name, size_t max,
		      struct strbuf *text);
/* The same for a process whose directory is not open. */
int opener__text_of(struct readers *rs, uint32_t tgid, const char *name, size_t max,
		    struct strbuf *text);
/* Opens the same file for reading; the process that opened it reads it. */
int opener__proc_file(struct readers *rs, uint32_t tgid, int proc_fd, const char *name,
		      struct opened *f);

#endif /* PYPERF_OPENER_H */
