/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROCESS_H
#define PYPERF_PROCESS_H
/*
 * The processes we know: address space, mappings, interpreter, container. Fed by events, it keeps
 * the BPF maps procs (at start), images, mappings, tables and interps true.
 *
 *	tgid ---> struct process <--- space            images[key] = { first, cnt, interps }    
 *	               |                                        |
 *	               +--> image, shared since fork -----------+--> mappings[first .. first + cnt)
 *	                                                                 file id, table
 *
 * A child shares its parent's image (BPF looks under the key in its struct proc) until one of the
 * two changes. An image never changes in place: a new range of mappings is written, then
 * images[key] is set by one update, and the old range is buried until process_table__reclaim().
 *
 * One round of the caller's loop:
 *
 *	mmapwatch__read(w, process_table__on_mmap, pt);
 *	ring_buffer__consume(events) -> process_table__on_event(pt, ev);
 *	process_table__refresh(pt);
 *
 * in this order: what the first one speaks of, the second one may have to announce.
 *
 * Nothing of this waits for the kernel after process_table__scan(). An image that names files seen
 * for the first time is published at once, without their unwind tables, and again with them.
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
	__u64 *seen;		  /* as mappings; NULL: all files are of use */
	uint32_t mapping_cap, table_cap, interp_cap, seen_cap;
};

struct process;

struct process_opts {
	bool all;	       /* also processes without Python: all are walked */
	const pid_t *pids;     /* only these (PROC_TARGET); borrowed until the scan is over */
	size_t pid_cnt;	       /* 0: all processes */
	bool children;	       /* descendants of `pids` as well */
	const char *program;   /* that one of them will execute; borrowed as they are; or NULL */
	uint64_t table_budget; /* bytes of unwind tables; 0: TABLE_BUDGET_DEFAULT */
	uint64_t spare_bytes;  /* more, of spare ones; 0: SPARE_BYTES_DEFAULT, 1: none */
	/*
	 * A process with Python (or, with `all`, any) is known from now on: described for the first
	 * time, or forked by `parent`, which was. Both are borrowed during the call. NULL: nobody
	 * asks.
	 */
	void (*known)(void *ctx, const struct process *p, const struct process *parent);
	void *known_ctx;
	void (*lengthy)(void *ctx); /* see struct file_maps */
	void *lengthy_ctx;
};

#define PYTHON_LEN 64 /* versions of IMAGE_INTERPS interpreters, and a remark on each */

struct process {
	uint32_t space;
	uint32_t tgid;
	char comm[TASK_COMM_LEN];
	const char *exe;	 /* "" when not known */
	const char *container;	 /* id, "" when in none */
	const char *native_only; /* why no interpreter of it is walked, or NULL */
	uint32_t python_file;	 /* file id of what holds the interpreter, the first; 0: none */
	char python[PYTHON_LEN]; /* "3.11.2", "3.11.2, 3.13.0"; "" when there is no interpreter */
	/* For reading its source, see source.h. Not inherited: a child may change its user. */
	bool ids_known;
	uint32_t uid, gid;
	bool own_root; /* its root directory is ours */
	bool is_python;
	bool exited;   /* or called exec: its successor is another space */
	bool analysed; /* its mappings were looked at, or are its parent's */

	/* private to process.c */
	char *exe_owned, *container_owned;
	struct image_ref *image; /* NULL: pending */
	struct selfcheck checks[IMAGE_INTERPS];
	struct process *next_user, *prev_user;
	uint64_t since_ns, looked_ns, exec_ns, unclean_ns, retry_since_ns;
	bool introduce, described, dirty, retry, expiring, unchecked;
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
	uint64_t last_space; /* the highest so far: they are not used again */
	uint64_t refresh_ns;
};

struct process_table;

/* `maps` is copied. What `sink` leads to has to be freed first. NULL and errno. */
struct process_table *process_table__new(const struct process_maps *maps, struct file_sink sink,
					 const struct process_opts *opts);
void process_table__free(struct process_table *pt);

/*
 * Analyses files of the processes that run, and opts.program, and nothing else: none is known after
 * it. For the time in which fork, exec and exit are not attached yet; the scan, which has to wait
 * for that, finds them done.
 */
void process_table__prepare(struct process_table *pt);
/*
 * The processes that run already: into procs, and analysed. Call it when fork, exec, exit and
 * mmapwatch are attached, and before the sampler is. 0 or negative errno; what fails for one
 * process is in the statistics.
 */
int process_table__scan(struct process_table *pt);
/* Events were lost (note_event_lost): takes over what procs and /proc say. 0 or negative errno. */
int process_table__resync(struct process_table *pt);

/* What is in `events`, in order. 0, or -ENOMEM; -EINVAL: another. */
int process_table__on_event(struct process_table *pt, const struct ev_proc *ev);
/* A mmap_event_fn; `table` is the process table. */
void process_table__on_mmap(void *table, const struct mmap_event *ev);
/*
 * Looks again at every process that an event was about. The number of processes that must be asked
 * again without one (it starts, its table is on its way): then call again in some 10 ms.
 * Self-checks are not among them.
 */
int process_table__refresh(struct process_table *pt);
/* Living processes that were seen to close a library: another one may get its addresses. */
size_t process_table__restless(const struct process_table *pt);
/*
 * When a self-check wants the next call, whatever happens before (now_ns()); UINT64_MAX: none does.
 */
uint64_t process_table__check_ns(const struct process_table *pt);

/* Frees buried mappings. Call it when all BPF programs have ended that ran at the last refresh. */
void process_table__reclaim(struct process_table *pt);
/* Something waits for the end of the window: buried mappings, or tables without room. */
bool process_table__waits(const struct process_table *pt);
/*
 * Call it once per window. Learns which files the stacks of the window came by: tables that are of
 * use and have none come back, files that are of no use are released.
 */
void process_table__tick(struct process_table *pt);
/* The stacks of all windows that were read are needed no more, see file_table__forget_names(). */
void process_table__forget_names(struct process_table *pt);
/*
 * Call it after each window's counts were drained and reported. Forgets what exited before the last
 * call but one, because the last counts of a process may be in the window after its exit's.
 */
void process_table__forget_exited(struct process_table *pt);

/*
 * Why a process with an interpreter showed no Python frame: what makes it native only, or that none
 * of its threads was in Python whenever it was looked at. NULL: no reason is known. Borrowed like
 * `p`.
 */
const char *process__why_no_python(const struct process *p);

/* The interpreter of a process. Borrowed until process_table__free(). */
struct process_interp {
	const struct elf_file *file; /* that holds it */
	const struct py_binary *py;
	enum selfcheck_state check; /* NEW: it cannot be walked at all */
};
/* False: it has none. */
bool process_table__interp_of(const struct process_table *pt, const struct process *p,
			      struct process_interp *out);

/* Borrowed until they are forgotten. NULL: not known. */
struct process *process_table__find(const struct process_table *pt, uint32_t space);
struct process *process_table__find_tgid(const struct process_table *pt,
					 uint32_t tgid); /* living */
/* All, exited ones included; *at is 0 at the first call. NULL: no more. */
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
