/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FILES_H
#define PYPERF_FILES_H
/*
 * The files that processes have mapped for execution: which ELF file, is it an interpreter, its
 * unwind table in the kernel.
 *
 *	(device, inode) --> struct inode: a verdict ---> struct mapped_file: by build id and size
 *	as in maps          size, mtime                  file id, ELF, table, interpreter
 *
 * Many inodes may be one file (a library in many containers). A file that is not needed for stacks
 * is judged and closed again; one that is stays open, so its inode number cannot be reused and its
 * symbols can be read when the process is gone. File ids ascend and are never reused.
 *
 * Build ids are taken on trust: a process could forge one, and be shown for what it is not.
 *
 * Tables: built by file_table__build(), and handed to the kernel by file_table__publish(); what an
 * image may name is file_table__index(), see tables.h. When the budget is needed for others, tables
 * of files in no image are dropped, the longest unused first, then those that no stack came by in
 * this and the last window. These come back when a stack comes by. Spares are not in the budget.
 *
 * A file with more than BIG_FRAME_INFO of unwind information has its table built in a thread
 * (builder.h): until then it is "coming".
 *
 * Release: a file that no image holds any more and that no stack names is closed after two windows;
 * an interpreter after an hour, or when room for interpreters is scarce. What a stack of a window
 * came by is named by it until file_table__forget_names().
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
	struct mapping
		*mappings; /* mapping_cap of them, of all images: table is set to 0 in place */
	__u64 *seen;	   /* by file id modulo seen_cap: a stack came by; NULL: by all */
	uint32_t mapping_cap, seen_cap;
	uint64_t table_budget;	    /* bytes of unwind tables; 0: the default */
	uint64_t spare_bytes;	    /* of spare ones; 0: the default, 1: none */
	void (*lengthy)(void *ctx); /* called before work that takes milliseconds; or NULL */
	void *lengthy_ctx;
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
	int python;	      /* what py_binary__analyse() said; 0: an interpreter */
	struct py_binary *py; /* NULL when python is -ENOENT */
	int32_t interp;	      /* index in interps, -1: none yet */
	uint32_t table;	      /* index in tables, 0: none */
	enum table_state table_state;
	uint32_t users; /* images that hold it */
	/* private to files.c */
	uint64_t table_bytes, last_used, refused_at, refused_bytes;
	uint64_t last_seen, unused_since; /* ticks */
	uint64_t named_at; /* the last tick that said so: a stack may hold its id; or 0 */
	bool borrowed;	   /* see file_table__borrow(), since the last tick */
	bool leaving;	   /* is being released */
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
	uint64_t released;	/* files closed again */
	uint64_t interps;	/* interpreters with an entry now */
	uint64_t inodes;	/* whose file is known */
	uint64_t last_id;	/* of FRAME_NATIVE_FILE: they are not used again */
	uint64_t table_ns;	/* spent building */
	uint64_t publish_ns;	/* spent waiting for the kernel to take them */
	uint64_t publish_waits; /* ... grace periods: none after the scan */
	uint64_t spare_bytes;	/* of spare tables */
	uint64_t spares, spares_used;
	uint64_t spares_missed; /* tables for which there was none: these come later */
};

struct file_table;

/* What `sink` leads to has to be freed first. NULL and errno. */
struct file_table *file_table__new(const struct file_maps *maps, struct file_sink sink);
void file_table__free(struct file_table *ft);

/*
 * The file of a mapping, whatever it is, open for reading: a descriptor for the caller, or negative
 * errno.
 */
int file_table__open(struct file_table *ft, int proc_fd, const struct map_line *line);

/* Begins a round of look-ups: each inode is checked against its file once per round. */
void file_table__begin(struct file_table *ft);

/*
 * Is the file behind a mapping an interpreter? proc_fd is the process's directory in /proc. 1, 0,
 * or negative errno when it cannot be read.
 */
int file_table__is_python(struct file_table *ft, int proc_fd, const struct map_line *line);
/*
 * The file behind a mapping, with one more user; NULL: not a file we can use (anonymous, not ELF,
 * unreadable).
 */
struct mapped_file *file_table__get(struct file_table *ft, int proc_fd,
				    const struct map_line *line);
void file_table__hold(struct mapped_file *file); /* one more user */
/* By file id, or NULL. Borrowed while it is in use or named, see file_table__tick(). */
struct mapped_file *file_table__find(const struct file_table *ft, uint32_t id);
void file_table__put(struct file_table *ft, struct mapped_file *file);

/*
 * Once per window: takes over what stacks came by, and releases files. True: some that have lost
 * their table, or never got it, are of use again; file_table__wants_table() tells which.
 */
bool file_table__tick(struct file_table *ft);

/* Somebody refers to the file, or to what was found in it, until the next tick. 0: none. */
void file_table__borrow(struct file_table *ft, uint32_t id);
/*
 * The stacks of all windows that were read are needed no more. Files of the last tick stay named:
 * their flags may be of the window that is being filled.
 */
void file_table__forget_names(struct file_table *ft);

/* It has no table, and it is not known that it cannot have one. */
bool file_table__wants_table(const struct file_table *ft, const struct mapped_file *file);
/* Builds the table, some ms per MiB of unwind information, if it is wanted. */
void file_table__build(struct file_table *ft, struct mapped_file *file);
/* Hands the tables built since the last call to the kernel. 0 or negative errno. */
int file_table__publish(struct file_table *ft);
/* What an image may name as the file's table now; 0: none. `coming`: there will be one soon. */
uint32_t file_table__index(struct file_table *ft, struct mapped_file *file, bool *coming);
/* After the scan: from now on nothing waits for the kernel. 0, or negative errno: it does. */
int file_table__go_live(struct file_table *ft);

/* Gives an interpreter its entry in `interps`. 0, -ENOSPC, or negative errno. */
int file_table__add_interp(struct file_table *ft, struct mapped_file *file);
/* The self-check may have learned something of it. */
void file_table__update_interp(const struct file_table *ft, const struct mapped_file *file);
/* By its index there, or NULL. */
struct mapped_file *file_table__interp(const struct file_table *ft, uint32_t index);

/*
 * True when the file of a new mapping was looked at lately and is no interpreter, so that a process
 * without one stays without. `generation` is the inode's, see perf_event_open(2).
 */
bool file_table__is_plain(struct file_table *ft, uint32_t major, uint32_t minor, uint64_t inode,
			  uint64_t generation, uint64_t now_ns);

void file_table__stats(const struct file_table *ft, struct file_stats *out);

#endif /* PYPERF_FILES_H */
