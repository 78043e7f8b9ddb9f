/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CROWD_H
#define PYPERF_CROWD_H
/*
 * All Python processes of the machine, or of the PID namespace, or some and their descendants:
 * finds them, sets breakpoints in each, and takes them away from those that they slow down too
 * much.
 *
 *	/proc --> interpreters, by file: a tracer each
 *	      --> processes: a link (uprobe.multi) each to the tracer of their interpreter
 *
 *	crowd__scan(c);		which processes are there; nothing is attached yet
 *	crowd__attach(c);
 *	each 50 ms: crowd__scan(c) finds new ones and attaches them; crowd__judge(c)
 *
 * Calls are counted, or timed (timing.h): a struct timing for each interpreter.
 *
 * Breakpoints come and go only while all processes answer (follow/held.h); else they are put off.
 * Whatever files processes map, a scan takes some 100 ms at most, and the next one goes on.
 *
 * A descendant whose parent ends is followed on if a scan has seen it as one.
 *
 * A process that starts later is found within a scan, and its first calls are not seen. A process
 * is identified by its number as long as each scan has seen it.
 *
 * Fails: a process that cannot be traced is said once for each reason, and the others go on.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/filter.h"
#include "trace/blocks.h"
#include "trace/price.h"
#include "trace/target.h"
#include "trace/timing.h"
#include "trace/tracer.h"

#define CROWD_NAME_MAX 40

enum crowd_file_kind {
	CROWD_UNKNOWN, /* as far as process `tried` tells: it may have ended just then */
	CROWD_OTHER,   /* no Python */
	CROWD_UNTRACEABLE,
	CROWD_PYTHON,
};

/* A file that may be an interpreter. */
struct crowd_file {
	uint32_t major, minor; /* of the file; with `inode` */
	uint64_t inode;
	enum crowd_file_kind kind;
	pid_t tried;
	size_t user_cnt; /* processes that have breakpoints, or are to have them */
	/* CROWD_PYTHON */
	struct target target;
	struct tracer *tracer;
	struct timing *timing; /* NULL: calls are only counted */
	struct traced_list now, before;
};

/* A process. */
struct crowd_process {
	pid_t pid;
	struct crowd_file *file; /* borrowed */
	int link;		 /* -1: no breakpoints */
	bool left;		 /* it is not to have any, and its hits count no more */
	bool judged, refused, gone;
	char name[CROWD_NAME_MAX + 1]; /* sanitised */
	uint64_t found_ns;	       /* what it executed before is another program */
	uint64_t seen_hits;	       /* that the kernel had counted when it was asked last */
	uint64_t shown_hits;	       /* `hits` at the last table */
	uint64_t hits;		       /* since it was followed */
	struct price_look look;	       /* when it was judged last, or followed; ns 0: neither */
};

struct crowd_opts {
	const pid_t *roots; /* borrowed: only these processes and their descendants */
	size_t root_cnt;    /* 0: all */
	const struct trace_filter *filters; /* borrowed */
	size_t filter_cnt;
	const struct thread_filters *threads; /* borrowed; NULL: all */
	double max_slowdown;		      /* percent */
	bool force;			      /* nobody is refused */
	/* But for TIMING_NONE, calls are timed, and their lines go to `blocks` (borrowed). */
	enum timing_mode mode;
	enum timing_format format;
	struct blocks *blocks;
	bool json;
	struct call_picture *const *pictures; /* borrowed, [PICTURES]; NULL: not wanted */
	struct timing_slow slow;	      /* its windows are those of crowd.c */
	const struct trace_filter *from;      /* borrowed; NULL: all calls */
	/* As in timing__want_values(). */
	uint32_t args;
	bool returns;
	const struct condition *only;
};

struct crowd {
	struct crowd_opts o;
	struct crowd_file **files;
	size_t file_cnt, file_cap;
	struct crowd_process **all;
	size_t cnt, cap;
	/* Of interpreters that had to make room: wanted calls, lost events, and all counters. */
	uint64_t former_calls, former_resumed, former_lost, former[TRACE_CTR_CNT];
	uint64_t start_ns; /* when breakpoints were set first; 0: they were not yet */

	/* private to crowd.c */
	struct crowd_state *state;
};

/* NULL after a message. */
struct crowd *crowd__new(const struct crowd_opts *o);
void crowd__free(struct crowd *c);
/* All processes that were asked for have ended, and what they had started, too. */
bool crowd__is_over(const struct crowd *c);
/* Finds processes, and forgets those that have ended. 0 or negative errno after a message. */
int crowd__scan(struct crowd *c);
/*
 * Sets breakpoints in all that were found, and from now on in those that a scan finds. 0 or
 * negative errno after a message.
 */
int crowd__attach(struct crowd *c);
/* Nanoseconds that a hit costs a process of this interpreter: the more of them, the more. */
double crowd__hit_ns(const struct crowd *c, const struct crowd_file *f);
/* Only some functions or calls are wanted. */
bool crowd__is_filtered(const struct crowd *c);
/* By enum trace_counter, of all interpreters. */
void crowd__counters(const struct crowd *c, uint64_t out[TRACE_CTR_CNT]);
/*
 * Computes the costs of those that were not looked at for so long; those that are too high end
 * with a message.
 */
void crowd__judge(struct crowd *c, uint64_t interval_ns);
/* Reads names and events that have come. True: there are more, as tracer__drain() says. */
bool crowd__drain(struct crowd *c);
/* Sets `hits` of those with breakpoints; of others it stays as it was. */
void crowd__count(struct crowd *c);
/* No hit counts from now on. `until_ns`: as of tracer__stop(). */
void crowd__stop(struct crowd *c, uint64_t until_ns);
/*
 * What the process is called that had this number at that time; UINT64_MAX: the last one that had
 * it. "?": it is not known.
 */
const char *crowd__name(const struct crowd *c, pid_t pid, uint64_t ns);
/* That process among `cnt`, which stand in the order in which they were found. NULL: none. */
struct crowd_process *crowd__process_at(struct crowd_process *const *all, size_t cnt, pid_t pid,
					uint64_t ns);
/* Processes with breakpoints. */
size_t crowd__followed_cnt(const struct crowd *c);

#endif /* PYPERF_CROWD_H */
