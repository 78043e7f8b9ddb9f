/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TOPMODEL_H
#define PYPERF_TOPMODEL_H
/*
 * What `top` knows: samples by process, thread, function and line, of the last interval and since
 * the start. Needs no terminal, no kernel and no living process.
 *
 *	topmodel__begin_processes(m);
 *	for each process:  topmodel__set_process(m, &info);
 *	topmodel__end_processes(m);
 *	topmodel__add(m, profile, duration_ns);		one interval, with names
 *	topmodel__rows(m, &query, &rows);
 *
 * A profile is folded in and not needed afterwards. What is kept is bounded: processes that have
 * ended are added up in one row after ten seconds, with their functions; so are, when the table
 * gets large, threads that did not run for a minute. When it is full, samples still count for their
 * process and thread, and topmodel__unlisted() says how many have no function.
 *
 * Counts are samples. The `own` count of a function is those in it or in native code that it
 * called, the `self` count only those in itself. A stack without Python is charged to its innermost
 * frame. Totals count a stack once, however often the function is in it.
 *
 * All strings are safe for a terminal (str_sanitise()) and bounded.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

#define TOP_NAME_BYTES 1024 /* of one string; longer ones are cut */
#define TOP_ENDED      0    /* the space of processes that have ended, added up */

struct topmodel;

struct top_count {
	uint64_t self, own, total;
};

/*
 * A process, as the caller knows it; strings of any content, borrowed for the call, none is NULL.
 */
struct top_process_info {
	uint32_t space, tgid;
	const char *comm;
	const char *command; /* its command line; "": not known */
	const char *python;  /* version */
	const char *why;     /* it is not walked; "": it is */
};

struct top_process {
	uint32_t space, tgid;
	char *name; /* command line, or comm; owned by the model, as are the others */
	char *python;
	char *why;
	bool ended;
	uint64_t last, all;   /* samples */
	uint64_t broken;      /* of `all`: stacks that end early */
	uint32_t thread_cnt;  /* threads that were sampled in the last interval */
	uint32_t ended_count; /* of TOP_ENDED: processes */
	bool has_python;      /* a Python frame was seen */

	/* private */
	uint32_t round;
	uint64_t ended_ns;
};

enum top_gil {
	TOP_GIL_UNKNOWN,
	TOP_GIL_NONE, /* neither has it nor waits for it */
	TOP_GIL_WAITS,
	TOP_GIL_HOLDS,
};

/* A thread as it is now. */
struct top_thread_info {
	uint32_t tid;
	const char *name; /* Python's if `named`, else the kernel's, which gives way to it */
	bool named;
	const char *state; /* a constant, like "sleeps" */
	enum top_gil gil;
};

struct top_thread {
	uint32_t space, tid; /* tid 0: those that were added up */
	char *name;	     /* Python's, or the kernel's; "" when not known */
	uint64_t last, all;
	const char *state; /* at the last look; "": not known */
	enum top_gil gil;

	/* private */
	bool named; /* by a profile; else its name is only the kernel's */
	uint32_t round;
	uint64_t seen_ns;
};

struct top_function {
	uint8_t kind;	  /* enum sym_kind */
	const char *name; /* "loads" */
	const char
		*place; /* "/usr/lib/python3.11/json/__init__.py"; path of a library; "[kernel]" */
};

enum top_table {
	TOP_PROCESSES,
	TOP_THREADS,
	TOP_FUNCTIONS,
	TOP_LINES,
};

/* Rows of which table, and of whom: 0 is all. */
struct top_query {
	enum top_table table;
	uint32_t space;
	uint32_t tid;	   /* needs a space */
	uint32_t function; /* of TOP_LINES */
	bool native; /* functions of all kinds with their self counts; else Python with own ones */
};

struct top_row {
	uint32_t space, tid, function; /* who it is; what the table does not tell apart is 0 */
	uint32_t line; /* of TOP_LINES; of a function, the hottest one since the start; 0: none */
	uint64_t own, total; /* last interval; of processes and threads both are their samples */
	uint64_t own_all, total_all;
};

struct top_rows {
	struct top_row *rows; /* owned; reused by the next query */
	size_t cnt, cap;
};

/* NULL and errno on lack of memory. */
struct topmodel *topmodel__new(void);
void topmodel__free(struct topmodel *m);

/* The living processes; who is not among them has ended. 0 or -ENOMEM. */
void topmodel__begin_processes(struct topmodel *m);
/* Its command line is not needed: it was given before. */
bool topmodel__knows(const struct topmodel *m, uint32_t space);
int topmodel__set_process(struct topmodel *m, const struct top_process_info *info);
void topmodel__end_processes(struct topmodel *m);

/*
 * The threads of one process, also those that were never sampled; the others are not looked at, and
 * what was known of them is forgotten. 0 or -ENOMEM.
 */
void topmodel__begin_threads(struct topmodel *m);
int topmodel__set_thread(struct topmodel *m, uint32_t space, const struct top_thread_info *info);
/* Of `space` those that were not set have ended. */
void topmodel__end_threads(struct topmodel *m, uint32_t space);
/* Who holds the GIL of a process; NULL: nobody, or not known. Borrowed like the others. */
const struct top_thread *topmodel__gil_holder(const struct topmodel *m, uint32_t space);

/* One interval of samples, with names. It is the last interval then. 0 or -ENOMEM. */
int topmodel__add(struct topmodel *m, const struct profile *p, uint64_t duration_ns);
/* The names of threads that are known, for a new profile: they are read once. 0 or -ENOMEM. */
int topmodel__give_threads(const struct topmodel *m, struct profile *p);

/* Not sorted. 0 or -ENOMEM. */
int topmodel__rows(struct topmodel *m, const struct top_query *q, struct top_rows *out);
void top_rows__free(struct top_rows *r);

/* Borrowed until the next call that changes the model. NULL: not known. */
const struct top_process *topmodel__process(const struct topmodel *m, uint32_t space);
const struct top_thread *topmodel__thread(const struct topmodel *m, uint32_t space, uint32_t tid);
/* Its strings are borrowed until free. */
struct top_function topmodel__function(const struct topmodel *m, uint32_t function);

/* Samples of a process (0: all) and thread (0: all), in the last interval and since the start. */
void topmodel__samples(const struct topmodel *m, uint32_t space, uint32_t tid, uint64_t *last,
		       uint64_t *all);
uint64_t topmodel__interval_ns(const struct topmodel *m); /* length of the last interval */
uint64_t topmodel__elapsed_ns(const struct topmodel *m);  /* of all of them */
uint64_t topmodel__unlisted(const struct topmodel *m);	  /* samples that found no room */

#endif /* PYPERF_TOPMODEL_H */
