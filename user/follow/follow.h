/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FOLLOW_H
#define PYPERF_FOLLOW_H
/*
 * Follows the processes of the machine: their files and mappings, unwind tables, the events that
 * BPF sends, and names. Does not sample.
 *
 *	f = follow__open(&opts);	loads BPF in a thread; from here on fork, exec, exit and new
 *					mappings are reported
 *	follow__scan(f);		the processes that run already
 *	while (...) {
 *		poll(follow__fd(f), ...)
 *		follow__look(f);	handles the events since the last look
 *	}
 *	follow__names(f, p, &so);	modules and names of a profile
 *	follow__close(f);
 *
 * Times are those of now_ns() (clock.h). Every error is printed once, where it happens.
 */
#include <stdbool.h>
#include <stdint.h>

#include "follow/object.h"
#include "follow/perf.h"
#include "follow/rings.h"
#include "process/mmapwatch.h"
#include "process/process.h"
#include "profile/profile.h"
#include "symbolize/symbolize.h"

struct follow;

enum follow_watch {
	FOLLOW_NO_WATCH,   /* mappings are not watched: the processes are read at once */
	FOLLOW_WATCH_EACH, /* each new mapping wakes user space */
	FOLLOW_WATCH_HALF, /* see mmapwatch.h */
};

struct follow_opts {
	struct object_opts object;
	struct process_opts processes; /* its lists are borrowed as process.h says; not `readers` */
	enum follow_watch watch;
	struct perf_events *events; /* opened before; borrowed until close. NULL: none */
	bool prepare;		    /* analyse files while programs are being loaded */
	bool names;		    /* BPF sends the names of code objects */
	ring_stack_fn stack;	    /* see struct ring_sink; NULL: none */
	void *stack_ctx;
};

/* NULL after a message. */
struct follow *follow__open(const struct follow_opts *o);
void follow__close(struct follow *f);
/* Hands the readers over to the caller. After that only follow__close() may be called. */
struct readers *follow__take_readers(struct follow *f);
/* 0 or negative errno, printed. */
int follow__scan(struct follow *f);

/*
 * Descriptors to poll, borrowed. The first is readable when BPF has sent a record, the second (with
 * a watch) when there may be new mappings.
 */
int follow__fd(const struct follow *f);
int follow__watch_fd(const struct follow *f);
/* Reads the records, and queues what they report for the next look. */
void follow__read(struct follow *f);
/* Reads the records and looks at the processes that they are about. */
void follow__look(struct follow *f);
/*
 * Waits for events that follow the last look, to handle them together: see wake.h. Returns when it
 * is time to look.
 */
void follow__gather(struct follow *f, uint32_t frequency_hz);
/* When to look next, even if no event comes; 0: at once. */
uint64_t follow__due_ns(const struct follow *f);
/* In how many ns to read the rings for a mapping that is about to be made; 0: none is expected. */
uint64_t follow__await_ns(struct follow *f);
/* Says that a process of interest may begin soon. */
void follow__stir(struct follow *f);
/*
 * If process events were lost, or BPF could not note one in its table, reads the present state from
 * the kernel and /proc.
 */
void follow__make_good(struct follow *f);
/*
 * Begins to watch CPUs that came online. If the set of online CPUs has changed since the last call,
 * returns it by number, borrowed; else NULL.
 */
const bool *follow__cpus(struct follow *f);
/* Makes the next follow__cpus() return the set even if it has not changed. */
void follow__cpus_again(struct follow *f);
uint32_t follow__cpu_cnt(const struct follow *f); /* CPUs that were online at any time */

/* Has any process ended since the last call? Has any begun, ended or executed another program? */
bool follow__take_exits(struct follow *f);
bool follow__take_changes(struct follow *f);
bool follow__changed(const struct follow *f); /* ... asked without resetting the answer */
/* How often the kernel has throttled an event of the watch: see mmapwatch__ring(). */
uint64_t follow__throttled(const struct follow *f);

/* Adds modules and names to the profile. 0 or negative errno, printed. */
int follow__names(struct follow *f, struct profile *p, const struct symbolize_opts *so);
/*
 * Call when all profiles have their names. Releases what only they needed: files that no process
 * maps, names of code objects that BPF has forgotten, and names of generated code. Keeps at most
 * `budget` bytes of Python names; 0: the default.
 */
void follow__forget_names(struct follow *f, size_t budget);
/* Half of the numbers that are never given twice are used up: see session__worn(). */
bool follow__worn(const struct follow *f);
/*
 * Call when no more events come: gives back the memory that is shared with the kernel. After that
 * only follow__names() and follow__close() may be called.
 */
void follow__end(struct follow *f);

/* Borrowed until close. */
struct object *follow__object(const struct follow *f);
struct process_table *follow__procs(const struct follow *f);
struct symbolizer *follow__symbolizer(const struct follow *f);
/* See rings__add_blobs(). */
int follow__add_blobs(struct follow *f, int fd);
/* Fills in what sources may use, see world.h. */
void follow__world(const struct follow *f, struct world *w);
/* Fills in a sink that takes names of code objects as those from BPF are taken. */
void follow__sink(struct follow *f, struct ring_sink *sink);

#endif /* PYPERF_FOLLOW_H */
