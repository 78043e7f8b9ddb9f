/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_DRAFT_H
#define PYPERF_DRAFT_H
/*
 * A file that gets its name when it is complete. Until then it has none, on file systems that can
 * create such files (O_TMPFILE): nobody sees it, and the kernel removes it whenever we end. On
 * others it is ".NAME.pyperf-XXXXXX" beside its target, which a run that is killed leaves behind. A
 * living run holds a lock on it; the next draft of the same target removes those without a lock.
 *
 *	err = draft__open(&d, dir, "cpu.html");	d.fd: to be written
 *	err = draft__publish(&d, fd);		d.fd, or another descriptor of that file
 *	draft__remove(&d);			in any case; signal-safe
 *
 * A file of another owner under a name that we choose is neither written to, followed nor removed.
 * The directory is borrowed; the caller closes d.fd.
 */
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct draft {
	int dir; /* borrowed; an O_PATH descriptor will do */
	int fd;	 /* for writing; the caller's */
	const char *target;
	char name[NAME_MAX + 1]; /* in dir; valid while is_there */
	volatile sig_atomic_t is_there;
};

/* 0 or negative errno. `target` is borrowed. */
int draft__open(struct draft *d, int dir, const char *target);
/* Gives it its name, and replaces an older file of that name. 0 or negative errno: it is gone. */
int draft__publish(struct draft *d, int fd);
/* Removes the draft. Does nothing if it was published or never had a name. */
void draft__remove(struct draft *d);

/*
 * A file in one call, for names that are new each time: looks for no drafts of dead runs, which
 * draft__clean() removes, whatever their targets are called. 0 or negative errno.
 */
int draft__put(const char *dir, const char *name, mode_t mode, const void *content, size_t size);
void draft__clean(const char *dir);

#endif /* PYPERF_DRAFT_H */
