/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CROWD_H
#define PYPERF_CROWD_H
/*
 * All Python processes of the machine, or of the PID namespace: finds them, sets breakpoints in
 * each, and takes them away from those that they slow down too much.
 *
 *	/proc --> interpreters, by file: a tracer each
 *	      --> processes: a link (uprobe.multi) each to the tracer of their interpreter
 *
 *	crowd__scan(c);		which processes are there; nothing is attached yet
 *	crowd__attach(c);
 *	each 50 ms: crowd__scan(c) finds new ones and attaches them; crowd__judge(c)
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
#include "trace/target.h"
#include "trace/tracer.h"

#define CROWD_NAME_MAX 40

/* An interpreter. */
struct crowd_file {
	uint32_t major, minor; /* of the file; with `inode` */
	uint64_t inode;
	bool is_python;
	struct target target;
	struct tracer *tracer; /* NULL: it cannot be traced */
	struct traced_list now, before;
};

/* A process. Its costs are those since it was judged last. */
struct crowd_process {
	pid_t pid;
	struct crowd_file *file; /* borrowed */
	int link;		 /* -1: no breakpoints */
	bool judged, refused, gone;
	char name[CROWD_NAME_MAX + 1]; /* sanitised */
	uint64_t found_ns;	       /* what it executed before is another program */
	uint64_t last_ns, last_cpu_ns, last_hits;
	uint64_t first_hits;   /* when it was followed */
	uint64_t shown_hits;   /* ... at the last table */
	uint64_t hits;	       /* since it was followed */
	double slowdown, load; /* percent; slowdown below 0: not known */
};

struct crowd_opts {
	const struct trace_filter *filters; /* borrowed */
	size_t filter_cnt;
	double max_slowdown; /* percent */
	bool force;	     /* nobody is refused */
};

struct crowd {
	struct crowd_opts o;
	struct crowd_file **files; /* also those that are no Python */
	size_t file_cnt, file_cap;
	struct crowd_process **all;
	size_t cnt, cap;

	/* private to crowd.c */
	struct crowd_state *state;
};

/* NULL after a message. */
struct crowd *crowd__new(const struct crowd_opts *o);
void crowd__free(struct crowd *c);
/* Finds processes, and forgets those that have ended. 0 or negative errno after a message. */
int crowd__scan(struct crowd *c);
/* Sets breakpoints in all that were found. 0 or negative errno after a message. */
int crowd__attach(struct crowd *c);
/*
 * Computes the costs of those that were not looked at for so long; those that are too high end
 * with a message.
 */
void crowd__judge(struct crowd *c, uint64_t interval_ns);
/* Reads names that have come. */
void crowd__drain(struct crowd *c);
/* Sets `hits` of those with breakpoints; of others it stays as it was. */
void crowd__count(struct crowd *c);
/* No hit counts from now on. */
void crowd__stop(struct crowd *c);
/* Processes with breakpoints. */
size_t crowd__followed_cnt(const struct crowd *c);

#endif /* PYPERF_CROWD_H */
