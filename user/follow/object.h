/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OBJECT_H
#define PYPERF_OBJECT_H
/*
 * The BPF object: the sampler, the programs that follow processes, and the maps that all share.
 * Configure, load, attach, read. Owns the skeleton.
 *
 * Order of a run (each step prints its own error):
 *
 *	o = object__open(&opts);	configured, with its maps; programs are being loaded, see
 *					loader.h
 *	object__attach_lifecycle(o);	   fork, exec, exit
 *	... scan the processes that run, while the kernel verifies the sampler ...
 *	object__wait_loaded(o);		   then sources attach their events to it
 *	... object__flip() ...
 *	object__close(o);
 *
 * Nothing is pinned: all of it ends with the process, also when it is killed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "follow/world.h"
#include "process/process.h"

struct object;

struct object_opts {
	uint32_t flags;		 /* enum cfg_flags, without CFG_PIDNS, CFG_COMM, CFG_CGROUP */
	const char *comm_glob;	 /* NULL: all */
	const char *cgroup_path; /* NULL: all */
	uint32_t sampler_cnt;	 /* value types that samples may be of; 0: one */
	/* Samples per second and CPU, at most; the tables are sized by it. 0: nobody knows. */
	uint32_t frequency_hz;
	uint32_t max_frames;  /* Python, and native ones, of a stack; 0: STACK_DEPTH_DEFAULT */
	uint32_t map_entries; /* of each map that samples insert into, for tests; 0: as needed */
	bool bpf_stats;	      /* have the kernel time the programs (a few ns per sample) */
};

/* NULL after one message that names what is missing and the remedy. */
struct object *object__open(const struct object_opts *opts);
void object__close(struct object *o);
/*
 * When no source samples and all was read: gives back the memory that is shared with the kernel,
 * half of what the program has, and so what object__process_maps() gave. Of `o`, only
 * object__close() may be called then.
 */
void object__unmap(struct object *o);

/* The maps that process_table fills in. Borrowed until close. */
void object__process_maps(const struct object *o, struct process_maps *maps);

/* 0 or negative errno, printed. */
int object__attach_lifecycle(struct object *o);
/* Until the sampler is loaded, too. 0 or negative errno, printed. */
int object__wait_loaded(struct object *o);
/*
 * Whether BPF runs where the kernel gives out address ranges: it empties mappings, and sends
 * EV_AREA with AREA_COMING. That costs each mmap() of the machine 0.1 us. It does from
 * object__attach_lifecycle() on. Before Linux 5.7 it never does.
 */
void object__follow_areas(struct object *o, bool on);
/* What sources have of it; the rest of *w is left. */
void object__world(const struct object *o, struct world *w);
int object__cpu_cap(const struct object *o); /* possible CPUs */

/* Returns when every program that was running has ended (an RCU grace period). */
void wait_for_programs(void);
/*
 * Makes the other window the active one and waits until no program uses the old one. Its index, to
 * be read and emptied through the fds below.
 */
unsigned object__flip(struct object *o);
/* The active window is getting full. */
bool object__wants_flip(const struct object *o);
/* How full a table in the kernel is, in entries. */
struct table_fill {
	const char *name; /* for ever */
	uint64_t used, room;
};
#define OBJECT_FILLS 3
/*
 * Counts and frames of the active window (approximate), and processes, of which the caller knows
 * the number.
 */
void object__fill(const struct object *o, uint64_t processes, struct table_fill out[OBJECT_FILLS]);
int object__counts_fd(const struct object *o, unsigned window);
int object__chunks_fd(const struct object *o, unsigned window);

/*
 * BPF forgets the code objects that are not to be kept: with the next sample they are new ones.
 * *ids are those that it remembers: a sample that begins now takes one of these or one that is yet
 * to be given. To be freed, also on failure. 0 or negative errno. Waits for the programs that run.
 */
int object__code_ids(struct object *o, bool (*keep)(void *ctx, uint64_t id), void *ctx,
		     uint64_t **ids, size_t *cnt);

/* As note_event_lost + note_proc_busy, without a system call. */
uint64_t object__events_lost(const struct object *o);
/* By CPU, to be freed; NULL: no memory. */
struct counters *object__cpu_counters(const struct object *o);
/* Sums over all CPUs. */
void object__counters(const struct object *o, uint64_t counters[CTR_CNT]);
/* Run time and runs of the sampler since load; 0 without bpf_stats. */
void object__run_time(const struct object *o, uint64_t *ns, uint64_t *runs);
/* The same of all programs that follow processes, ns. */
uint64_t object__follow_time(const struct object *o);
/*
 * Kernel memory of the maps, as the kernel accounts it, and what of it is in our own address space.
 * Not before the sampler is loaded: then all are there.
 */
uint64_t object__map_bytes(struct object *o);
uint64_t object__mapped_bytes(const struct object *o);

#endif /* PYPERF_OBJECT_H */
