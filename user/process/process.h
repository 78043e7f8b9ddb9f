/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROCESS_H
#define PYPERF_PROCESS_H
/*
 * The known processes: address space, mappings, interpreter, container. Events keep it up to date,
 * and it keeps the BPF maps procs (at start), images, mappings, tables and interps up to date.
 *
 *	tgid ---> struct process <--- space            images[key] = { first, cnt, interps }
 *	               |                                        |
 *	               +--> image, shared since fork -----------+--> mappings[first .. first + cnt)
 *	                                                                 file id, table
 *
 * A child shares its parent's image (BPF looks under the key in its struct proc) until one of the
 * two changes. An image never changes in place: a new range of mappings is written, then one update
 * sets images[key], and the old range is buried until process_table__reclaim().
 *
 * One round of the caller's loop:
 *
 *	mmapwatch__read(w, process_table__on_mmap, pt);
 *	ring_buffer__consume(events) -> process_table__on_event(pt, ev);
 *	process_table__refresh(pt);
 *
 * The order matters: a mapping may belong to a process that a later event announces.
 *
 * After process_table__scan() no call waits for the kernel. An image with files that are seen for
 * the first time is published at once, without their unwind tables, and again with them.
 *
 * A struct process outlives its process, for the report: see process_table__forget_exited().
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/pyperf.h"
#include "process/files.h"
#include "process/mmapwatch.h"
#include "python/selfcheck.h"

struct process_maps {
	int procs_fd, images_fd, tables_fd, interps_fd;
	int plain_exes_fd;	  /* 0: none */
	struct mapping *mappings; /* the mmapped map; borrowed */
	__u64 *draft;		  /* DRAFT_WORD; borrowed */
	__u64 *seen;		  /* mapped, like mappings; NULL: all files are needed */
	/* mapped, like mappings; NULL: entries of `procs` are not counted by user */
	struct shares *proc_shares;
	uint32_t mapping_cap, table_cap, interp_cap, seen_cap;
};

struct process;

struct process_opts {
	bool all;	   /* also processes without Python: all are walked */
	const pid_t *pids; /* only these (PROC_TARGET); borrowed until the scan is over */
	size_t pid_cnt;	   /* 0: all processes */
	bool children;	   /* descendants of `pids` as well */
	/* the helpers that read what processes own; borrowed, or NULL: this process reads */
	struct readers *readers;
	/* program that one of them will execute; borrowed until the scan is over; or NULL */
	const char *program;
	uint64_t table_budget; /* bytes of unwind tables; 0: TABLE_BUDGET_DEFAULT */
	/* bytes of spare tables besides; 0: SPARE_BYTES_DEFAULT, 1: none */
	uint64_t spare_bytes;
	/*
	 * Called when a process with Python (or, with `all`, any process) becomes known: it was
	 * described for the first time, or `parent`, a known process, forked it. Both are borrowed
	 * during the call. May be NULL.
	 */
	void (*known)(void *ctx, const struct process *p, const struct process *parent);
	void *known_ctx;
	bool titles;			     /* read the titles of processes */
	void (*before_long_work)(void *ctx); /* see struct file_maps */
	void *before_long_work_ctx;
};

#define PYTHON_LEN 64 /* versions of IMAGE_INTERPS interpreters, and a remark on each */

struct process {
	uint32_t space;
	uint32_t tgid;
	char comm[TASK_COMM_LEN];
	const char *title;	 /* title for people, see called.h; "" when not known */
	const char *exe;	 /* "" when not known */
	const char *container;	 /* id, "" when in none */
	const char *native_only; /* why no interpreter of it is walked, or NULL */
	uint32_t python_file;	 /* file id of the first interpreter; 0: none */
	char python[PYTHON_LEN]; /* "3.11.2", "3.11.2, 3.13.0"; "" when there is no interpreter */
	/* For reading its source, see source.h. Not inherited: a child may change its user. */
	bool ids_known;
	uint32_t uid, gid;
	uint32_t payer; /* see payer.h */
	bool own_root;	/* its root directory is ours */
	bool is_python;
	bool exited;   /* or it called exec, and its successor is another space */
	bool analysed; /* its mappings were read, or are its parent's */

	/* private to the files of process_parts.h */
	char *title_owned, *exe_owned, *container_owned;
	uint32_t parent;	 /* space of the process that forked it; 0: not known */
	uint64_t titled_ns;	 /* when its title was read; 0: it has its parent's, or none */
	struct image_ref *image; /* NULL: pending */
	struct selfcheck checks[IMAGE_INTERPS];
	struct process *next_user, *prev_user;
	uint64_t since_ns, looked_ns, exec_ns, unclean_ns, retry_since_ns;
	uint64_t unread_ns; /* when it, or a file of it, did not answer; 0: all did */
	bool introduce, described, dirty, retry, expiring, unchecked;
	bool pulled;   /* the image that it shares changes, so this round reads it, too */
	bool looked;   /* it was read in this round */
	uint32_t slot; /* slot of its user, see struct shares; SHARE_SLOTS: not asked yet */
	bool restless; /* has closed a library */
	bool plain;    /* BPF knows its executable */
	struct exe_key exe_key;
	uint8_t exec_wait;
	uint32_t share; /* mappings that its image may have; 0: all */
};

struct process_stats {
	uint64_t live, python, native_only; /* processes now */
	uint64_t pending;		    /* live, targets, without an image yet */
	uint64_t refreshed;		    /* /proc/PID/maps read */
	uint64_t early;			    /* images published before their tables were built */
	uint64_t late;			    /* ... before all their tables had arrived */
	uint64_t unchanged;		    /* ... and nothing was new */
	uint64_t overtaken;		    /* mappings gone before their image was there */
	uint64_t exec_plain;		    /* execs settled without reading anything */
	uint64_t unreadable;		    /* ... could not be read: not permitted */
	uint64_t mappings_full;	 /* images that found no room for all of theirs in `mappings` */
	uint64_t mappings_taken; /* ... that gave room to others */
	uint64_t images_full;	 /* ... in `images` */
	uint64_t procs_full;	 /* processes at start that found no room in `procs` */
	uint64_t maps_truncated; /* processes with too many mappings */
	uint64_t mappings_used;
	uint64_t last_space; /* the highest space so far: spaces are not reused */
	uint64_t refresh_ns;
};

struct process_table;

/* Copies `maps`. The owner of the sink must be freed before the table. NULL and errno. */
struct process_table *process_table__new(const struct process_maps *maps, struct file_sink sink,
					 const struct process_opts *opts);
void process_table__free(struct process_table *pt);

/*
 * Analyses files of the running processes and of opts.program, so that the scan finds that work
 * done. No process is known after it. Call while fork, exec and exit are not attached yet; the scan
 * has to wait for that.
 */
void process_table__prepare(struct process_table *pt);
/*
 * Adds the running processes to procs and analyses them. Call when fork, exec, exit and mmapwatch
 * are attached, before the sampler is. 0 or negative errno; failures for single processes are in
 * the statistics.
 */
int process_table__scan(struct process_table *pt);
/*
 * Call when events were lost (note_event_lost): takes over the present state of procs and /proc. 0
 * or negative errno.
 */
int process_table__resync(struct process_table *pt);

/*
 * Handles a record of `events`; call it for each one in order. 0, or -ENOMEM; -EINVAL: another
 * record.
 */
int process_table__on_event(struct process_table *pt, const struct ev_proc *ev);
/* A mmap_event_fn; `table` is the process table. */
void process_table__on_mmap(void *table, const struct mmap_event *ev);
/*
 * Reads every process again that an event was about. Returns how many processes have to be read
 * again without an event, because they are starting or their table is on its way: then call again
 * in some 10 ms. Self-checks are not counted.
 */
int process_table__refresh(struct process_table *pt);
/* The same number, after process_table__scan(), too. */
int process_table__to_read(const struct process_table *pt);
/*
 * Number of living processes that were seen to close a library: another library may get its
 * addresses.
 */
size_t process_table__restless(const struct process_table *pt);
/*
 * When a self-check needs the next call, even if no event comes (now_ns()); UINT64_MAX: none does.
 */
uint64_t process_table__check_ns(const struct process_table *pt);

/* Frees buried mappings. Call when all BPF programs have ended that ran at the last refresh. */
void process_table__reclaim(struct process_table *pt);
/* Buried mappings or tables without room wait for the end of the window. */
bool process_table__waits(const struct process_table *pt);
/*
 * Call once per window. Notes the files that the stacks of the window came by: brings back tables
 * that are needed and releases files that are not.
 */
void process_table__tick(struct process_table *pt);
/*
 * Says that the stacks of all windows read so far are no longer needed, see
 * file_table__forget_names().
 */
void process_table__forget_names(struct process_table *pt);
/*
 * Call after the counts of each window were drained and reported. Forgets the processes that exited
 * before the last call but one, because the last counts of a process may be in the window after
 * that of its exit.
 */
void process_table__forget_exited(struct process_table *pt);

/*
 * Reads the titles of processes with Python that became known since the last call. Only with
 * opts.titles. Asks a helper once for each process, so call it when there is time.
 */
void process_table__read_titles(struct process_table *pt);
/*
 * The present title of a process, or its last one; "": not known. A process may change its title,
 * mostly soon after its start, so it is read again when the age of the process has doubled.
 */
const char *process_table__title(const struct process_table *pt, struct process *p);

/*
 * Why a process with an interpreter showed no Python frame: the reason for native only, or that
 * none of its threads was in Python at any look. NULL: no reason is known. Borrowed like `p`.
 */
const char *process__why_no_python(const struct process *p);

/* When Python was found in it that had none before, by CLOCK_MONOTONIC; 0: at no such time. */
uint64_t process__python_ns(const struct process *p);

/* The interpreter of a process. Borrowed until process_table__free(). */
struct process_interp {
	const struct elf_file *file; /* the file that holds it */
	const struct py_binary *py;
	enum selfcheck_state check; /* NEW: it cannot be walked at all */
};
/* False: it has none. */
bool process_table__interp_of(const struct process_table *pt, const struct process *p,
			      struct process_interp *out);

/* The helpers of its options. */
struct readers *process_table__readers(const struct process_table *pt);

/* Find a process by its space or its number. Borrowed until it is forgotten. NULL: not known. */
struct process *process_table__find(const struct process_table *pt, uint32_t space);
struct process *process_table__find_tgid(const struct process_table *pt,
					 uint32_t tgid); /* living */
/* The slot of struct shares of a living process's user; 0: not known. */
uint32_t process_table__slot_of(struct process_table *pt, uint32_t tgid);
/* Iterates over all processes, exited ones included; *at is 0 at the first call. NULL: no more. */
struct process *process_table__next(const struct process_table *pt, size_t *at);
/* The ELF file of a file id, or NULL. Borrowed until process_table__free(). */
const struct elf_file *process_table__file(const struct process_table *pt, uint32_t file);
/* The interpreter with this index, for the layout; NULL: none. */
const struct py_binary *process_table__interp(const struct process_table *pt, uint32_t interp);

/*
 * The trusted interpreter of a process (the first of two) and its load bias; NULL: none. Borrowed
 * like the process.
 */
const struct py_binary *process_table__python(const struct process_table *pt,
					      const struct process *p, uint64_t *bias);

void process_table__stats(const struct process_table *pt, struct process_stats *out);
void process_table__file_stats(const struct process_table *pt, struct file_stats *out);

#endif /* PYPERF_PROCESS_H */
