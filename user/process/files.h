/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FILES_H
#define PYPERF_FILES_H
/*
 * The files that processes map for execution: identifies each ELF file, says whether it is an
 * interpreter, and manages its unwind table in the kernel.
 *
 *	(device, inode) --> struct inode: a verdict ---> struct mapped_file: by build id and size
 *	as in maps          size, mtime                  file id, ELF, table, interpreter
 *
 * Several inodes may be one file, such as a library in many containers. A file that no stack needs
 * is judged and closed again. A file that stacks need stays open, so that its inode number cannot
 * be reused and its symbols can be read after the process has ended. File ids ascend and are never
 * reused.
 *
 * Build ids are taken on trust: a process that forges one is shown under a wrong name.
 *
 * Tables: file_table__build() builds them, file_table__publish() hands them to the kernel, and
 * file_table__index() is the number that an image may refer to (tables.h). When the budget is used
 * up, tables of files in no image are dropped first, the longest unused of them; then tables that
 * no stack came by in this window and the last one. A dropped table comes back when a stack comes
 * by its file. Spare tables are not in the budget. The table of a file with more than
 * BIG_FRAME_INFO of unwind information is built in a thread (builder.h): until then it is "coming".
 *
 * Release: a file that no image holds and no stack names is closed after two windows; an
 * interpreter after an hour, or when room for interpreters is scarce. The stacks of a window name
 * the files that they came by until file_table__forget_names().
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"
#include "process/file_sink.h"
#include "process/maps_parse.h"
#include "python/pyproc.h"

#define TABLE_BUDGET_DEFAULT (64ULL << 20)
#define BIG_FRAME_INFO	     (4ULL << 20)

struct file_maps {
	int tables_fd, interps_fd;
	uint32_t table_cap, interp_cap;
	/* Of all images, mapping_cap of them: `table` is set to 0 in place. */
	struct mapping *mappings;
	/* a stack came by, by file id modulo seen_cap; NULL: all files count as seen */
	__u64 *seen;
	uint32_t mapping_cap, seen_cap;
	struct readers *readers;	     /* the helpers that open them; borrowed, or NULL */
	uint64_t table_budget;		     /* bytes of unwind tables; 0: the default */
	uint64_t spare_bytes;		     /* bytes of spare tables; 0: the default, 1: none */
	void (*before_long_work)(void *ctx); /* work that takes milliseconds; or NULL */
	void *before_long_work_ctx;
};

enum table_state {
	TABLE_UNTRIED = 0,
	TABLE_READY = 1,    /* has an index; see file_table__index() */
	TABLE_NONE = 2,	    /* the file has no unwind information that we can use */
	TABLE_REFUSED = 3,  /* no room */
	TABLE_EVICTED = 4,  /* gave way to another; comes back when a stack comes by */
	TABLE_BUILDING = 5, /* in a thread of its own */
};

struct mapped_file {
	uint32_t id;
	struct elf_file *elf;
	int python;	      /* result of py_binary__analyse(); 0: an interpreter */
	struct py_binary *py; /* NULL when python is -ENOENT */
	int32_t interp;	      /* index in interps, -1: none yet */
	uint32_t interp_slot; /* of struct shares: who is charged for the entry */
	uint32_t table;	      /* index in tables, 0: none */
	enum table_state table_state;
	uint32_t users; /* images that hold it */
	/* private to files.c */
	uint64_t table_bytes, last_used, refused_at, refused_bytes;
	uint64_t last_seen, unused_since; /* ticks */
	uint64_t named_at; /* the last tick at which a stack may have held its id; or 0 */
	bool borrowed;	   /* file_table__borrow() was called since the last tick */
	bool leaving;	   /* is being released */
	bool asked_for_list;
	uint64_t list;	    /* see file_table__list() */
	bool debug_put_off; /* there was no time to look for its debug file */
	struct mapped_file *next_same;
};

struct file_stats {
	uint64_t opened;       /* files opened, each a few system calls */
	uint64_t unreadable;   /* mappings whose file could not be opened */
	uint64_t files;	       /* file ids given */
	uint64_t tables;       /* in the kernel now */
	uint64_t table_bytes;  /* of them */
	uint64_t tables_built; /* ever */
	uint64_t tables_evicted;
	uint64_t tables_refused;
	uint64_t released; /* files closed again */
	uint64_t interps;  /* interpreters with an entry now */
	uint64_t inodes;   /* whose file is known */
	/* the highest id so far, of FRAME_NATIVE_FILE: ids are not reused */
	uint64_t last_id;
	uint64_t table_ns;	/* spent building */
	uint64_t publish_ns;	/* spent waiting for the kernel to take over tables */
	uint64_t publish_waits; /* ... grace periods: none after the scan */
	uint64_t spare_bytes;	/* of spare tables */
	uint64_t spares, spares_used;
	uint64_t spares_missed; /* tables for which no spare was left: they come later */
};

struct file_table;

/* The owner of the sink must be freed before the table. NULL and errno. */
struct file_table *file_table__new(const struct file_maps *maps, struct file_sink sink);
void file_table__free(struct file_table *ft);

/*
 * Selects the process whose mappings the next calls are about. proc_fd: its directory in /proc.
 * `lines`: all its mappings in order, so that one question can open several files; or NULL. Both
 * are borrowed until the next call.
 */
void file_table__enter(struct file_table *ft, uint32_t tgid, int proc_fd,
		       const struct map_line *lines, size_t cnt);
void file_table__leave(struct file_table *ft);

/* Opens the file of a mapping, of whatever kind, for reading. The caller owns it. */
struct opened file_table__open(struct file_table *ft, const struct map_line *line);

/* Begins a round of look-ups: each inode is checked against its file once per round. */
void file_table__begin(struct file_table *ft);

/*
 * Is the file behind a mapping an interpreter? 1, 0, or negative errno when it cannot be read.
 */
int file_table__is_python(struct file_table *ft, const struct map_line *line);
/*
 * The file behind a mapping, with one more user; NULL: not a file we can use (anonymous, not ELF,
 * unreadable).
 */
struct mapped_file *file_table__get(struct file_table *ft, const struct map_line *line);
void file_table__hold(struct mapped_file *file); /* one more user */
/* The link address of its variable JIT_LIST_SYMBOL; 0: it has none. */
uint64_t file_table__list(const struct file_table *ft, struct mapped_file *file);
/* Finds a file by its id, or NULL. Borrowed while it is in use or named, see file_table__tick(). */
struct mapped_file *file_table__find(const struct file_table *ft, uint32_t id);
void file_table__put(struct file_table *ft, struct mapped_file *file);

/*
 * Call once per window: notes the files that stacks came by, and releases files. True: some files
 * that have lost their table, or never got one, need it again; file_table__wants_table() tells
 * which.
 */
bool file_table__tick(struct file_table *ft);

/* Keeps the file, and what was found in it, until the next tick. Id 0: none. */
void file_table__borrow(struct file_table *ft, uint32_t id);
/*
 * Says that the stacks of all windows read so far are no longer needed. Files of the last tick stay
 * named, because their flags may belong to the window that is being filled.
 */
void file_table__forget_names(struct file_table *ft);

/* The file has no table, and may still get one. */
bool file_table__wants_table(const struct file_table *ft, const struct mapped_file *file);
/* Builds the table if it is wanted: some ms per MiB of unwind information. */
void file_table__build(struct file_table *ft, struct mapped_file *file);
/* Hands the tables built since the last call to the kernel. 0 or negative errno. */
int file_table__publish(struct file_table *ft);
/*
 * The number by which an image may refer to the file's table now; 0: none. `coming`: there will be
 * one soon.
 */
uint32_t file_table__index(struct file_table *ft, struct mapped_file *file, bool *coming);
/*
 * Call after the scan: from now on no call waits for the kernel. 0, or negative errno: calls still
 * wait.
 */
int file_table__go_live(struct file_table *ft);

/*
 * Gives an interpreter its entry in `interps`, in the share of the current process's user. 0,
 * -ENOSPC: that share is used up, or negative errno.
 */
int file_table__add_interp(struct file_table *ft, struct mapped_file *file);
/* Updates the entry of an interpreter after the self-check may have learned something about it. */
void file_table__update_interp(const struct file_table *ft, const struct mapped_file *file);
/* The interpreter with this index in `interps`, or NULL. */
struct mapped_file *file_table__interp(const struct file_table *ft, uint32_t index);

/*
 * True if the file of a new mapping was found lately not to be an interpreter, so that a process
 * without Python stays without. `generation`: of the inode, see perf_event_open(2).
 */
bool file_table__is_plain(struct file_table *ft, uint32_t major, uint32_t minor, uint64_t inode,
			  uint64_t generation, uint64_t now_ns);

void file_table__stats(const struct file_table *ft, struct file_stats *out);

#endif /* PYPERF_FILES_H */
