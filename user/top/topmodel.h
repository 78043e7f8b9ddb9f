/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TOPMODEL_H
#define PYPERF_TOPMODEL_H
/*
 * The data of `top`: counts by process, thread, function and line, of the last interval and since
 * the start. Needs no terminal, no kernel and no living process.
 *
 *	topmodel__begin_processes(m);
 *	for each process:  topmodel__set_process(m, &info);
 *	topmodel__end_processes(m);
 *	topmodel__add(m, profile, duration_ns);		one interval, with names
 *	topmodel__rows(m, &query, &rows);
 *
 * A profile is folded in and not needed afterwards. Memory is bounded. Processes that have ended
 * are added up in one row after ten seconds, with their functions; so are threads that did not run
 * for a minute when the table gets large. When the table is full, samples still count for their
 * process and thread, and topmodel__unlisted() says how many have no function.
 *
 * Counts are those of profile_stack.count, kept apart by value type: `value` is its number in the
 * profiles, below SAMPLED_MAX. The `own` count of a function is that of samples in it or in native
 * code that it called, the `self` count only that of samples in itself. A stack without Python is
 * charged to its innermost frame. Totals count a stack once, however often the function is in it.
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

/* What a thread off its CPU did, for a value type that counts waits. */
enum top_wait {
	TOP_WAITING,
	TOP_QUEUED, /* for a CPU */
	TOP_FOR_GIL,
	TOP_WAIT_CNT,
};

struct top_count {
	uint64_t self, own, total;
};

/* The longest iteration, and the longest whose stack is known: mostly the same. */
struct top_longest {
	uint64_t ns, named_ns; /* 0: none */
	char *where;	       /* "price (app.py:31) -> get"; NULL: not known */
};

/* The event loops of a process: their iterations of LOOP_SLOW_NS and more, which have ended. */
struct top_loops {
	bool any;
	uint64_t last_cnt, all_cnt;   /* of the last interval, and since the start */
	struct top_longest last, all; /* likewise */
};

/*
 * A process, as the caller knows it; strings of any content, borrowed for the call, none is NULL.
 */
struct top_process_info {
	uint32_t space, tgid;
	const char *comm;
	const char *title;   /* title for people; "": not known */
	const char *command; /* its command line; "": not known */
	const char *python;  /* version */
	const char *why;     /* why it is not walked; "": it is walked */
};

struct top_process {
	uint32_t space, tgid;
	char *name; /* title, else command line, else comm; owned by the model, as are the others */
	char *command; /* command line; "": not known */
	char *python;
	char *why;
	bool ended;
	/* By value type. */
	uint64_t last[SAMPLED_MAX], all[SAMPLED_MAX];
	uint64_t broken[SAMPLED_MAX];	  /* of `all`: stacks that end early */
	uint32_t thread_cnt[SAMPLED_MAX]; /* threads that were seen in the last interval */
	uint64_t waits[TOP_WAIT_CNT];	  /* ns, of the last interval */
	struct top_loops loops;		  /* seen only if a value type counts waits */
	uint32_t ended_count;		  /* of TOP_ENDED: processes */
	bool seen;			  /* there is a stack of it */
	bool has_python;		  /* ... with a Python frame */

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

/* The present state of a thread. */
struct top_thread_info {
	uint32_t tid;
	const char *name; /* from Python if `named`, else the kernel's, which Python's replaces */
	bool named;
	const char *state; /* a constant, like "sleeps" */
	enum top_gil gil;
};

struct top_thread {
	uint32_t space, tid; /* tid 0: those that were added up */
	char *name;	     /* Python's, or the kernel's; "" when not known */
	uint64_t last[SAMPLED_MAX], all[SAMPLED_MAX]; /* by value type */
	uint64_t waits[TOP_WAIT_CNT];		      /* ns, of the last interval */
	const char *state;			      /* at the last look; "": not known */
	enum top_gil gil;

	/* private */
	bool named; /* by a profile; else its name is only the kernel's */
	uint32_t round;
	uint64_t seen_ns;
};

struct top_function {
	uint8_t kind;	   /* enum sym_kind */
	const char *name;  /* "loads" */
	const char *place; /* "/usr/lib/.../json/__init__.py"; path of a library; "[kernel]" */
};

enum top_table {
	TOP_PROCESSES,
	TOP_THREADS,
	TOP_FUNCTIONS,
	TOP_LINES,
};

/* The table, and the process, thread and function whose rows are wanted; 0: all. */
struct top_query {
	enum top_table table;
	uint32_t space;
	uint32_t tid;	   /* needs a space */
	uint32_t function; /* of TOP_LINES */
	uint32_t value;	   /* number of the value type */
	bool native; /* functions of all kinds with their self counts; else Python with own ones */
};

struct top_row {
	/* what the row is about; 0 where the table does not distinguish */
	uint32_t space, tid, function;
	uint32_t line; /* of TOP_LINES; of a function, the hottest one since the start; 0: none */
	uint64_t own, total; /* last interval; of processes and threads both are what they have */
	uint64_t own_all, total_all;
};

struct top_rows {
	struct top_row *rows; /* owned; reused by the next query */
	size_t cnt, cap;
};

/* NULL and errno on lack of memory. */
struct topmodel *topmodel__new(void);
void topmodel__free(struct topmodel *m);

/* Sets the living processes; any other has ended. 0 or -ENOMEM. */
void topmodel__begin_processes(struct topmodel *m);
/* The command line of this process was given before and is not needed again. */
bool topmodel__knows(const struct topmodel *m, uint32_t space);
int topmodel__set_process(struct topmodel *m, const struct top_process_info *info);
void topmodel__end_processes(struct topmodel *m);

/*
 * Sets the threads of one process, including those that were never sampled. Forgets the states of
 * all other threads. 0 or -ENOMEM.
 */
void topmodel__begin_threads(struct topmodel *m);
int topmodel__set_thread(struct topmodel *m, uint32_t space, const struct top_thread_info *info);
/* Threads of `space` that were not set have ended. */
void topmodel__end_threads(struct topmodel *m, uint32_t space);
/*
 * The thread that holds the GIL of a process; NULL: none, or not known. Borrowed like the others.
 */
const struct top_thread *topmodel__gil_holder(const struct topmodel *m, uint32_t space);

/* Adds an interval of samples, with names; it becomes the last interval. 0 or -ENOMEM. */
int topmodel__add(struct topmodel *m, const struct profile *p, uint64_t duration_ns);
/*
 * Gives the known names of threads to a new profile, so that they are read only once. 0 or -ENOMEM.
 */
int topmodel__give_threads(const struct topmodel *m, struct profile *p);

/* Fills in the rows, not sorted. 0 or -ENOMEM. */
int topmodel__rows(struct topmodel *m, const struct top_query *q, struct top_rows *out);
void top_rows__free(struct top_rows *r);

/* Borrowed until the next call that changes the model. NULL: not known. */
const struct top_process *topmodel__process(const struct topmodel *m, uint32_t space);
const struct top_thread *topmodel__thread(const struct topmodel *m, uint32_t space, uint32_t tid);
/* Its strings are borrowed until free. */
struct top_function topmodel__function(const struct topmodel *m, uint32_t function);

/* The counts of a process (0: all) and thread (0: all), in the last interval and in all. */
void topmodel__counts(const struct topmodel *m, uint32_t space, uint32_t tid, uint32_t value,
		      uint64_t *last, uint64_t *all);
/* The living process with the longest iteration of an event loop since the start; NULL: none. */
const struct top_process *topmodel__slowest_loop(const struct topmodel *m);
/* Has there been a wait? Then processes and threads have `waits`. */
bool topmodel__has_waits(const struct topmodel *m);
uint64_t topmodel__interval_ns(const struct topmodel *m); /* length of the last interval */
uint64_t topmodel__elapsed_ns(const struct topmodel *m);  /* of all of them */
uint64_t topmodel__unlisted(const struct topmodel *m); /* counts that found no room, of all types */

#endif /* PYPERF_TOPMODEL_H */
