/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MMAPWATCH_H
#define PYPERF_MMAPWATCH_H
/*
 * Reports new executable mappings and command names of all processes as they happen.
 *
 * One dummy software event per CPU delivers PERF_RECORD_MMAP2 and PERF_RECORD_COMM; it samples
 * nothing. A record that wakes the reader costs 5 us where it is written and as much again here,
 * for each file that any program maps. So by default only a ring that is half full wakes, and a
 * caller that needs a record sooner has to know when to read. Records that a full ring drops are
 * reported as MMAP_EVENT_LOST: all processes have to be read again.
 *
 *	w = mmapwatch__new(0, MMAPWATCH_HALF);
 *	poll(mmapwatch__fd(w), POLLIN) ...
 *	mmapwatch__read(w, process_table__on_mmap, table);
 */
#include <stdbool.h>
#include <stdint.h>

#include "bpf/pyperf.h"

enum mmap_event_type {
	MMAP_EVENT_MMAP = 1,
	MMAP_EVENT_COMM = 2,
	/* A COMM that comes from exec: the mappings after it are the new program's. */
	MMAP_EVENT_EXEC = 3,
	MMAP_EVENT_LOST = 4,
	/* the kernel throttled an event that writes to this ring: mmapwatch__ring() */
	MMAP_EVENT_THROTTLE = 5,
};

struct mmap_event {
	enum mmap_event_type type;
	uint32_t tgid, tid; /* as the opener's pid namespace sees them; 0 for LOST */
	uint64_t time_ns;   /* CLOCK_MONOTONIC */
	/* MMAP */
	uint64_t start, size, offset;
	uint64_t inode, generation;
	uint32_t major, minor;
	/* COMM, EXEC */
	char comm[TASK_COMM_LEN];
	/* LOST */
	uint64_t lost;
};

typedef void (*mmap_event_fn)(void *ctx, const struct mmap_event *ev);

struct mmapwatch;

enum mmapwatch_wake {
	MMAPWATCH_EACH, /* each record wakes */
	MMAPWATCH_HALF, /* a ring that is half full wakes */
};

/*
 * `pages` of ring per CPU, a power of two; 0: the default, 64 KiB or about 400 records. NULL and
 * errno when no CPU could be watched (EACCES, EPERM: needs CAP_PERFMON).
 */
struct mmapwatch *mmapwatch__new(uint32_t pages, enum mmapwatch_wake wake);
void mmapwatch__free(struct mmapwatch *w);
/* One descriptor for poll() or epoll: readable when a ring has woken. Borrowed. */
int mmapwatch__fd(const struct mmapwatch *w);
/* Passes all records to `fn`, CPU by CPU, in order within a CPU. Returns the number of events. */
int mmapwatch__read(struct mmapwatch *w, mmap_event_fn fn, void *ctx);
/* Watches a CPU that came online (again). 0 or negative errno. */
int mmapwatch__cpu_online(struct mmapwatch *w, int cpu);
/*
 * The event that owns the ring of `cpu`, for PERF_EVENT_IOC_SET_OUTPUT: records of another event of
 * this CPU then come in the same ring. -1: there is none.
 */
int mmapwatch__ring(const struct mmapwatch *w, int cpu);
/* CPUs that are watched. */
int mmapwatch__cpu_cnt(const struct mmapwatch *w);
uint64_t mmapwatch__lost(const struct mmapwatch *w);
uint64_t mmapwatch__ring_bytes(const struct mmapwatch *w);

/*
 * Parses one record of a ring into an event. For tests and fuzzers. False: of no interest, or
 * damaged.
 */
bool mmap_event__parse(struct mmap_event *ev, const void *record, uint32_t size);

#endif /* PYPERF_MMAPWATCH_H */
