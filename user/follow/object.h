/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OBJECT_H
#define PYPERF_OBJECT_H
/*
 * The BPF object: the sampler, the programs that follow processes, and the maps that all objects
 * share. Configures, loads, attaches and reads it. Owns the skeleton.
 *
 * Order of a run (each step prints its own error):
 *
 *	o = object__open(&opts);	configured, with its maps; programs are being loaded, see
 *					loader.h
 *	object__attach_lifecycle(o);	fork, exec, exit
 *	... scan the running processes, while the kernel verifies the sampler ...
 *	object__wait_loaded(o);		then sources attach their events to it
 *	... object__flip() ...
 *	object__close(o);
 *
 * Nothing is pinned: programs and maps end with the process, also when it is killed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "follow/world.h"
#include "process/process.h"

struct object;

struct object_opts {
	uint32_t flags;	       /* enum cfg_flags, without CFG_PIDNS, CFG_COMM, CFG_CGROUP */
	const char *comm_glob; /* NULL: all */
	bool by_user;	       /* only processes of `uid` */
	uint32_t uid;
	const uint32_t *tids;	 /* only these threads; none: all */
	uint32_t tid_cnt;	 /* TIDS_MAX at most */
	const char *cgroup_path; /* NULL: all */
	uint32_t sampler_cnt;	 /* number of value types that are sampled; 0: one */
	/*
	 * The highest number of samples per second and CPU, which decides the size of the tables.
	 * 0: not known.
	 */
	uint32_t frequency_hz;
	/* limit of Python frames, and of native frames, per stack; 0: STACK_DEPTH_DEFAULT */
	uint32_t max_frames;
	uint32_t map_entries; /* of each map that samples insert into, for tests; 0: as needed */
	bool bpf_stats;	      /* have the kernel time the programs (a few ns per sample) */
	/* Bits of value types whose stacks are noted for event loops: cfg.loop_types; 0: none */
	uint32_t loop_types;
};

/* NULL after one message that names the missing right or feature and the remedy. */
struct object *object__open(const struct object_opts *opts);
/*
 * Logs why a map of it cannot be mapped. The thread that loads it closes its maps if it fails: then
 * that is the reason.
 */
void object__say_unmapped(struct object *o, int err);
void object__close(struct object *o);
/*
 * Gives back the memory that is shared with the kernel, half of the memory of the program, and with
 * it the maps of object__process_maps(). Call when no source samples and all was read. After that
 * only object__close() may be called.
 */
void object__unmap(struct object *o);

/* The maps that process_table fills in. Borrowed until close. */
void object__process_maps(const struct object *o, struct process_maps *maps);

/* 0 or negative errno, printed. */
int object__attach_lifecycle(struct object *o);
/* Waits until the sampler is loaded, too. 0 or negative errno, printed. */
int object__wait_loaded(struct object *o);
/*
 * Switches the BPF program at the allocation of address ranges on or off. It empties mappings and
 * sends EV_AREA with AREA_COMING, and costs each mmap() of the machine 0.1 us. It is on from
 * object__attach_lifecycle() on. Before Linux 5.7 it is never on.
 */
void object__follow_areas(struct object *o, bool on);
/* Fills in the members of *w that come from the object. */
void object__world(const struct object *o, struct world *w);
int object__cpu_cap(const struct object *o); /* possible CPUs */

/* Waits until every BPF program that runs now has ended (an RCU grace period). */
void wait_for_programs(void);
/*
 * Makes the other window the active one and waits until no program uses the old one. Returns the
 * index of the old window, whose tables the caller reads and empties through the descriptors below.
 */
unsigned object__flip(struct object *o);
/* The active window is getting full. */
bool object__wants_flip(const struct object *o);
/* The fill level of a table in the kernel, in entries. */
struct table_fill {
	const char *name; /* for ever */
	uint64_t used, room;
};
#define OBJECT_FILLS 3
/*
 * Fill levels of the counts and frames of the active window (approximate), and of the processes,
 * whose number the caller knows.
 */
void object__fill(const struct object *o, uint64_t processes, struct table_fill out[OBJECT_FILLS]);
int object__counts_fd(const struct object *o, unsigned window);
int object__chunks_fd(const struct object *o, unsigned window);
/* struct loop_thread by number of the thread, and whose they are. */
int object__loops_fd(const struct object *o);
struct shares *object__loop_shares(const struct object *o);

/*
 * Makes BPF forget the code objects that `keep` does not want: the next sample announces them
 * again. *ids are those that it still knows: a sample that begins now uses one of these or a new
 * one. The caller frees *ids, also on failure. 0 or negative errno. Waits for the programs that
 * run.
 */
int object__code_ids(struct object *o, bool (*keep)(void *ctx, uint64_t id), void *ctx,
		     uint64_t **ids, size_t *cnt);

/*
 * The cost of a user up to now: of the first user, or of the one after `after`, which may be `uid`
 * itself. False: there is none.
 */
bool object__next_user(const struct object *o, const uint32_t *after, uint32_t *uid,
		       struct user_cost *cost);
/*
 * Takes one of `one_of` samples of the user from now on, once object__cut_users() has told BPF that
 * there are such users. Keeps the cost of the user. 0 or negative errno.
 */
int object__set_user(struct object *o, uint32_t uid, uint32_t one_of);
void object__forget_user(struct object *o, uint32_t uid);
void object__cut_users(struct object *o, uint32_t cnt);

/* note_event_lost + note_proc_busy, read without a system call. */
uint64_t object__events_lost(const struct object *o);
/* Counters by CPU, which the caller frees; NULL: no memory. */
struct counters *object__cpu_counters(const struct object *o);
/* Sums over all CPUs. */
void object__counters(const struct object *o, uint64_t counters[CTR_CNT]);
/* Run time in ns and number of runs of the sampler since it was loaded; 0 without bpf_stats. */
void object__run_time(const struct object *o, uint64_t *ns, uint64_t *runs);
/* Run time in ns of all programs that follow processes. */
uint64_t object__follow_time(const struct object *o);
/*
 * Kernel memory of the maps in bytes, as the kernel accounts it, and the part of it that is mapped
 * in our own address space. Call after the sampler is loaded: before, some maps are missing.
 */
uint64_t object__map_bytes(struct object *o);
uint64_t object__mapped_bytes(const struct object *o);

#endif /* PYPERF_OBJECT_H */
