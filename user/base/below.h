/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_BELOW_H
#define PYPERF_BELOW_H
/*
 * Finds a file below a directory whose owner may change what is there meanwhile, and out of which
 * nothing leads: what openat2() does with RESOLVE_IN_ROOT or RESOLVE_BENEATH and
 * RESOLVE_NO_MAGICLINKS. openat() takes one name at a time, and links are followed here, by their
 * text. So the flags of all calls are in registers, and the seccomp filter of the process that
 * opens can refuse those that create or write (see reader.c); those of openat2() are in memory.
 */

enum {
	/*
	 * The directory is a root: links that begin with "/", and "..", stay in it. Without it they
	 * fail with -EXDEV.
	 */
	BELOW_ROOT = 1,
	BELOW_FOLLOW = 2, /* a link at the end, as well */
};

/*
 * An O_PATH descriptor, close-on-exec, or negative errno. -ELOOP: more than 40 links, or one of
 * procfs; -ENAMETOOLONG: more than 128 directories deep.
 */
int below__find(int dir_fd, const char *path, unsigned int how);

/* The same for one name, which is no link (-ELOOP) and no mount point (-EXDEV). */
int below__find_plain(int dir_fd, const char *name);

#endif /* PYPERF_BELOW_H */
