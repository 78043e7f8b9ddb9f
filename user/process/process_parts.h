/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROCESS_PARTS_H
#define PYPERF_PROCESS_PARTS_H
/*
 * The parts of struct process_table, for the files that implement it:
 *
 *	process.c	processes by space and by tgid; events; a round of refresh()
 *	discover.c	finds processes in /proc
 *	look.c		reads /proc and the memory of a process into a struct fresh
 *	titles.c	titles for people
 *	trust.c		decides when its interpreters are checked
 *	images.c	makes a struct fresh the image of its process
 *	room.c		divides `mappings` among images when there is not enough for all
 */
#include "base/idmap.h"
#include "base/str.h"
#include "process/extent.h"
#include "process/maps_read.h"
#include "process/process.h"

/* One entry of `images`, and the processes that use it. */
struct image_ref {
	uint32_t key;
	struct image val;
	struct process *users; /* of key `key` itself, or children that share it */
	bool changing;	       /* in this refresh */
	uint32_t slot;	       /* slot of the user whose mappings these are: struct room */
};

/* The result of reading /proc/PID/maps. Holds its files until it is committed or dropped. */
struct fresh {
	struct process *p;
	struct image val;
	struct mapping *maps;
	uint32_t areas; /* of struct proc, before the reading */
	bool valid;
};

/* The processes whose self-check is not over. */
struct trust {
	uint32_t *spaces;
	size_t cnt, cap;
	uint64_t due_ns; /* when the first check is due; UINT64_MAX: it can wait */
	bool warned;
};

/* The ranges of `mappings`. */
struct room {
	struct extents extents;
	uint32_t of[SHARE_SLOTS]; /* slots that the images of a user take: struct shares */
	uint64_t took_ns;	  /* when an image was last cut to make room for another */
	/*
	 * When no image to cut was found, and for which user: the search goes through all
	 * processes.
	 */
	uint64_t sought_ns;
	uint32_t sought_for;
	bool warned;
};

struct process_table {
	struct process_maps maps;
	struct process_opts opts;
	struct file_table *files;
	struct file_sink sink;
	struct idmap by_space, by_tgid, images;
	struct room room;
	struct trust trust;
	struct process **dirty;
	size_t dirty_cnt, dirty_cap;
	struct fresh *fresh;
	size_t fresh_cap;
	uint32_t *early;	     /* tgids of mappings that came before their fork */
	size_t early_cnt, early_old; /* the first early_old are of the round before */
	uint32_t *untitled;	     /* spaces whose titles are to be read */
	size_t untitled_cnt, untitled_cap;
	struct exec_maps exec;	 /* of the process that look__enter() entered */
	struct strbuf text;	 /* of another file of that process */
	struct mapping *scratch; /* EXEC_MAPS_MAX of them */
	uint32_t next_space;
	bool live; /* sampling has begun: images must not wait for tables */
	bool warned_images, warned_permission, warned_interps;
	size_t restless;
	struct process_stats stats;
};

/* ---- process.c ---- */

/* `since_ns`: when this space began, or was found. NULL: no memory. */
struct process *process_table__add(struct process_table *pt, uint32_t space, uint32_t tgid,
				   const char *comm, uint64_t since_ns);
/* The slot of its user in struct shares; 0: not known. */
uint32_t process_table__slot(struct process_table *pt, struct process *p);
/* The process has ended, or has called exec. It stays known until its samples have been read. */
void process_table__retire(struct process_table *pt, struct process *p);
/*
 * Notes that it has Python after all: BPF then reports the next process of this executable at once.
 */
void process_table__note_not_plain(struct process_table *pt, struct process *p);
/* Has the next refresh read it. */
void process_table__mark_dirty(struct process_table *pt, struct process *p);
void process_table__mark_all_dirty(struct process_table *pt);

/* ---- titles.c ---- */

/* Queues the reading of its title. */
void titles__want(struct process_table *pt, const struct process *p);
/* Gives a forked child the title of its parent, also if that is read later. */
void titles__inherit(struct process *child, const struct process *parent);

/* ---- discover.c ---- */

/*
 * The process that forked `p`, which has not called exec since, or NULL: not known. For what was
 * forked before it was seen.
 */
struct process *discover__origin(struct process_table *pt, const struct process *p, int proc_fd);

/* ---- look.c ---- */

/*
 * Reads the mappings of a process into pt->exec, where they stay until the next call. 0 or negative
 * errno. Call look__leave() in any case; it closes `proc_fd`.
 */
int look__enter(struct process_table *pt, uint32_t tgid, int proc_fd);
void look__leave(struct process_table *pt, int proc_fd);
/* Does the process that was entered map an interpreter? */
bool look__finds_python(struct process_table *pt);
/* Fills in `f`, but for the tables of its files. */
void look__at(struct process_table *pt, struct fresh *f);
/* `comm` has room for TASK_COMM_LEN + 1. */
void look__comm(int proc_fd, char *comm);
/* Reads its executable and its container, for the report. */
void look__describe(struct process *p, int proc_fd, struct strbuf *text);
/* Reads its user, group and root directory, with whose rights its source is read (source.h). */
void look__rights(struct process *p, int proc_fd, struct strbuf *text);

/* ---- trust.c ---- */

/* Checks an interpreter of a process. NULL: it is trusted; else why not. */
const char *trust__why_not(struct process_table *pt, struct process *p, struct selfcheck *sc,
			   const struct mapped_file *file, uint64_t bias);
/* Checks a process again, later, if one of its checks is not over. */
void trust__want(struct process_table *pt, struct process *p);
/* Repeats the checks that are due, as time permits. */
void trust__check_due(struct process_table *pt);
/* When the first of the urgent checks is due; UINT64_MAX: there is none. */
uint64_t trust__next_ns(const struct process_table *pt);

/* ---- images.c ---- */

void image__use(struct process *p, struct image_ref *image);
/* The last user frees the image. */
void image__leave(struct process_table *pt, struct process *p);
bool image__same(const struct process_table *pt, const struct image *old, const struct fresh *f);
/* The process gets an image of its own, which holds the files of `f`. 0 or negative errno. */
int image__publish(struct process_table *pt, struct fresh *f);
void image__log_published(const struct process *p, const char *how);
/* Publishes `f`, unless the process has this image already. */
void image__commit(struct process_table *pt, struct fresh *f);
void image__put_files(struct process_table *pt, const struct mapping *maps, uint32_t cnt);
/* How many address ranges the kernel has given to a process. */
uint32_t image__areas_given(const struct process_table *pt, const struct process *p);
void fresh__drop(struct process_table *pt, struct fresh *f);

/* ---- room.c ---- */

/* Cuts `f` to what its process may have of `mappings`. 0 or negative errno. */
int room__keep_share(struct process_table *pt, struct fresh *f);
/* Writes the mappings of `f` to a free range; cuts them if there is none. 0 or negative errno. */
int room__write(struct process_table *pt, struct fresh *f);

#endif /* PYPERF_PROCESS_PARTS_H */
