/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FILE_BATCH_H
#define PYPERF_FILE_BATCH_H
/*
 * Opens the files behind the mappings of a process: FILE_BATCH_MAX of them by one question to the
 * helper process that may hang (base/reader.h).
 *
 *	file_batch__add(&m, line, NULL);
 *	file_batch__ask(&m, rs, tgid, proc_fd);
 *	a = file_batch__find(&m, line);	the caller takes over a->file unless a->err
 *	file_batch__drop(&m);		closes the files that nobody has taken
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/opener.h"
#include "process/maps_parse.h"

#define FILE_BATCH_MAX READER_FDS_MAX

/* A file whose size and time are the same has the same contents. */
struct file_state {
	int64_t size, mtime_ns;
};

struct file_answer {
	uint64_t start, inode;
	uint32_t major, minor;
	int err; /* negative errno: `now` and `file` are not valid */
	struct file_state now;
	bool used;	    /* for the caller's notes */
	int open_err;	    /* the file is there, but cannot be read */
	struct opened file; /* fd -1: its state is the known one, or see `open_err` */
};

struct file_batch {
	const struct map_line *lines[FILE_BATCH_MAX]; /* borrowed until file_batch__ask() */
	struct file_state known[FILE_BATCH_MAX];
	bool is_known[FILE_BATCH_MAX];
	struct file_answer answers[FILE_BATCH_MAX];
	size_t cnt;
	bool answered;
	bool no_map_files; /* not permitted: do not try again */
};

/*
 * Adds a mapping. `known`: do not open the file if it is in that state; NULL: open it in any case.
 * False: the batch is full.
 */
bool file_batch__add(struct file_batch *m, const struct map_line *line,
		     const struct file_state *known);
/*
 * Asks for all files of the batch. Errors in the answers: -ESTALE (something else is mapped there
 * by now), -ENOEXEC (not a regular file), those of fstat(), foreign__reopen_mapped() and reader.h.
 */
void file_batch__ask(struct file_batch *m, struct readers *rs, uint32_t tgid, int proc_fd);
/* The answer about a mapping. NULL: it is not in the batch. */
struct file_answer *file_batch__find(struct file_batch *m, const struct map_line *line);
void file_batch__drop(struct file_batch *m);

/* The state of a file, in the form of the answers. */
struct file_state file_batch__state(const struct stat *st);

static inline bool file_batch__same(const struct file_state *a, const struct file_state *b)
{
	return a->size == b->size && a->mtime_ns == b->mtime_ns;
}

#endif /* PYPERF_FILE_BATCH_H */
