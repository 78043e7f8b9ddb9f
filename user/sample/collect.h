/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COLLECT_H
#define PYPERF_COLLECT_H
/*
 * The BPF object: configure, load, attach, stop. Owns the skeleton, the perf events and the rings.
 *
 * Order of a run (each step prints its own error):
 *
 *	c = collect__open(&opts);	   configured, with its maps; programs are being loaded, see loader.h
 *	collect__attach_lifecycle(c);	   fork, exec, exit
 *	... scan the processes that run, while the kernel verifies the sampler ...
 *	collect__attach_sampler(c, hz);	   last: from here on samples arrive
 *	... collect__consume(), collect__flip() ...
 *	collect__detach_sampler(c);	   no program runs any more when it returns
 *	collect__close(c);
 *
 * Nothing is pinned: all of it ends with the process, also when it is killed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "process/process.h"
#include "sources/sources.h"

struct collect;

/* A perf event that samples are taken of. */
struct sampled {
	const struct source *source;
	uint64_t period; /* events per sample; 0: as many as the frequency needs. Not of a clock */
};

struct collect_opts {
	uint32_t flags;		 /* enum cfg_flags, without CFG_PIDNS, CFG_COMM, CFG_CGROUP */
	const char *comm_glob;	 /* NULL: all */
	const char *cgroup_path; /* NULL: all */
	struct sampled by[SAMPLED_MAX]; /* one that is `nmi` sets CFG_NMI */
	uint32_t by_cnt;		/* 0: the CPU clock */
	uint32_t
		frequency_hz; /* at most; the tables are sized by it. 0: not known, see sampled.period */
	uint32_t max_frames;  /* Python, and native ones, of a stack; 0: STACK_DEPTH_DEFAULT */
	uint32_t map_entries; /* of each map that samples insert into, for tests; 0: as needed */
	bool bpf_stats;	      /* have the kernel time the programs (a few ns per sample) */
	struct perf_events
		*events; /* see follow/perf.h; borrowed until the sampler is attached; NULL: none */
};

typedef void (*collect_proc_fn)(void *ctx, const struct ev_proc *ev);
typedef void (*collect_code_fn)(void *ctx, const struct ev_code *ev, size_t size);
typedef void (*collect_blob_fn)(void *ctx, const struct ev_blob *ev, size_t size);
typedef void (*collect_stack_fn)(void *ctx, unsigned window, const struct ev_stack *ev,
				 size_t size);

/* Whom events go to. `proc` gets EV_DRAIN as well: ask collect__wants_flip(). */
struct collect_sink {
	void *ctx;
	collect_proc_fn proc;
	collect_code_fn code; /* NULL: names are not wanted */
	collect_blob_fn blob; /* likewise */
	/*
	 * With CFG_NMI: a sample that BPF has counted, with its stack, to be added to `window`. Whatever
	 * the counts of the window say of the same key comes on top of it.
	 */
	collect_stack_fn stack;
};

/* NULL after one message that names what is missing and the remedy. */
struct collect *collect__open(const struct collect_opts *opts, const struct collect_sink *sink);
void collect__close(struct collect *c);
/*
 * When the sampler is detached and all was read: gives back the memory that is shared with the kernel, half of what
 * the program has, and so what collect__process_maps() gave. Of `c`, only collect__close() may be called then.
 */
void collect__unmap(struct collect *c);

/* The maps that process_table fills in. Borrowed until close. */
void collect__process_maps(const struct collect *c, struct process_maps *maps);

/* 0 or negative errno, printed. */
int collect__attach_lifecycle(struct collect *c);
/* Until the sampler is loaded, too. 0 or negative errno, printed. */
int collect__wait_loaded(struct collect *c);
/*
 * What the kernel says of the sampler's event on a CPU (PERF_RECORD_THROTTLE) goes to the ring of the event that `fn`
 * names; -1: nowhere. Before collect__attach_sampler().
 */
void collect__set_output(struct collect *c, int (*fn)(void *ctx, int cpu), void *ctx);
/* As collect__wait_loaded(), and then every possible CPU that is online. 0 or negative errno, printed. */
int collect__attach_sampler(struct collect *c, uint32_t frequency_hz);
void collect__detach_sampler(struct collect *c);
/*
 * An attached sampler goes on, without a gap, at 1 / `slowed` of this frequency (0: of its period). What a sample is
 * worth is right all the time, but for the first of each CPU. A clock needs no rights for it. 0 or negative errno,
 * printed: then it goes on as it did, but for CPUs that were changed before the one that failed.
 */
int collect__set_rate(struct collect *c, uint32_t frequency_hz, uint32_t slowed);
/*
 * What samples took of the busiest CPU, 0 to 1, since it was last told: the run time of one in 16 is measured.
 * Negative: there were fewer than COLLECT_SHARE_SAMPLES on each CPU since then.
 */
#define COLLECT_SHARE_SAMPLES (64 * TIMED_EVERY)
double collect__busiest_share(struct collect *c);
/*
 * Samples CPUs that came online since the last call and forgets those that went. Calls `fn` for each new
 * one. Cheap: reads one file.
 */
void collect__follow_cpus(struct collect *c, void (*fn)(void *ctx, int cpu), void *ctx);
/*
 * Whether BPF runs where the kernel gives out address ranges: it empties mappings, and sends EV_AREA with AREA_COMING.
 * That costs each mmap() of the machine 0.1 us. It does from collect__attach_lifecycle() on. Before Linux 5.7 it never
 * does.
 */
void collect__follow_areas(struct collect *c, bool on);
uint32_t collect__cpu_cnt(const struct collect *c); /* CPUs sampled at some time */

/* Readable when there are events. Borrowed. */
int collect__fd(const struct collect *c);
/*
 * Hands waiting records to the sink, at least those that wait now. 0: all of them, and collect__fd() tells of what comes;
 * 1: there may be more of which it does not tell, call this again before you wait; or negative errno.
 */
int collect__consume(struct collect *c);

/*
 * Makes the other window the active one and waits until no program uses the old one. Its index, to be
 * read and emptied through the fds below.
 */
unsigned collect__flip(struct collect *c);
/* The active window is getting full. */
bool collect__wants_flip(const struct collect *c);
/* How full a table in the kernel is, in entries. */
struct table_fill {
	const char *name; /* for ever */
	uint64_t used, room;
};
#define COLLECT_FILLS 3
/* Counts and frames of the active window (approximate), and processes, of which the caller knows the number. */
void collect__fill(const struct collect *c, uint64_t processes,
		   struct table_fill out[COLLECT_FILLS]);
int collect__counts_fd(const struct collect *c, unsigned window);
int collect__chunks_fd(const struct collect *c, unsigned window);

/*
 * BPF forgets the code objects that are not to be kept: with the next sample they are new ones. *ids are those that it
 * remembers: a sample that begins now takes one of these or one that is yet to be given. To be freed, also on
 * failure. 0 or negative errno. Waits for the programs that run.
 */
int collect__code_ids(struct collect *c, bool (*keep)(void *ctx, uint64_t id), void *ctx,
		      uint64_t **ids, size_t *cnt);

/* As note_event_lost + note_proc_busy, without a system call. */
uint64_t collect__events_lost(const struct collect *c);
/* Sums over all CPUs. */
void collect__counters(const struct collect *c, uint64_t counters[CTR_CNT]);
/* Run time and runs of the sampler since load; 0 without bpf_stats. */
void collect__run_time(const struct collect *c, uint64_t *ns, uint64_t *runs);
/* The same of all programs that follow processes, ns. */
uint64_t collect__follow_time(const struct collect *c);
/*
 * Kernel memory of the maps, as the kernel accounts it, and what of it is in our own address space. Not before the
 * sampler is loaded: then all are there.
 */
uint64_t collect__map_bytes(struct collect *c);
uint64_t collect__mapped_bytes(const struct collect *c);

#endif /* PYPERF_COLLECT_H */
