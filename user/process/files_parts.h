/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FILES_PARTS_H
#define PYPERF_FILES_PARTS_H
/*
 * The parts of struct file_table, for the files that implement it:
 *
 *	files.c		finds the file of a mapping; which files are interpreters; closes idle ones
 *	file_tables.c	builds the files' unwind tables, and evicts them to keep to the budget
 */
#include "base/idmap.h"
#include "bpf/pyperf.h"
#include "elf/builder.h"
#include "process/file_batch.h"
#include "process/files.h"
#include "process/tables.h"

struct file_table {
	struct file_maps maps;
	struct file_sink sink;
	struct idmap inodes;
	struct idmap by_build_id;
	struct idmap files; /* by id; not an array, because ids are not used again */
	uint32_t next_id;
	struct tables *tables;
	struct table_builder *builder;
	struct mapped_file **interps; /* by index; NULL: free */
	struct shares interp_shares;  /* whose processes they were found in */
	uint8_t *seen;		      /* flags of `seen`, as this tick found them */
	uint64_t round, use_clock, room_made, tick;
	struct mapped_file *vdso;
	uint64_t vdso_size;
	bool vdso_tried;
	/* The current process: see file_table__enter(). */
	uint32_t tgid;
	int proc_fd;
	const struct map_line *lines;
	size_t line_cnt;
	bool unanswered; /* a file of it did not answer */
	bool counted_unanswered;
	uint32_t roots_unanswered; /* processes of root's, in this round */
	struct file_batch ahead;
	bool warned_budget;
	struct file_stats stats;
};

static inline void announce_long_work(const struct file_table *ft)
{
	if (ft->maps.before_long_work)
		ft->maps.before_long_work(ft->maps.before_long_work_ctx);
}

/* In use by a process, but no stack came by in this window and the last one. */
bool file_tables__is_cold(const struct file_table *ft, const struct mapped_file *file);
/* Removes the table of a file that has one; `state` is the file's from then on. */
void file_tables__drop(struct file_table *ft, struct mapped_file *file, enum table_state state);

#endif /* PYPERF_FILES_PARTS_H */
