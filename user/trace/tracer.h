/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACER_H
#define PYPERF_TRACER_H
/*
 * Counts the calls of Python functions in a process and in its children, in the kernel: loads
 * bpf/trace.bpf.c for its interpreter, sets the breakpoints, reads counts and names.
 *
 *	tr = tracer__open(&target);
 *	tracer__attach(tr);
 *	...
 *	tracer__read(tr, &list);
 *	tracer__close(tr);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/trace.h"
#include "symbolize/symbolize.h"
#include "trace/filter.h"
#include "trace/target.h"
#include "trace/traced_list.h"
#include "trace/values.h"

struct tracer;

/* The number of a function whose name was not read (yet): no filter selects it. */
#define TRACER_UNKNOWN UINT32_MAX

/* Reading events that wait takes so long at most when a user ends the trace. */
#define TRACER_END_MS  500
/* So many times tracer__drain(), and what had come before has been read. */
#define TRACER_DRAINS  17

/* The functions that tracer__drain() calls for each event, in order. Only one of them is set. */
struct tracer_events {
	void (*take)(void *ctx, const struct trace_event *e, const struct trace_raise *stack);
	/*
	 * `take` gets the CPU time and, for beginnings, the stack; otherwise that is NULL. Before
	 * it take_waits() gets what the thread has waited for.
	 */
	bool slow;
	void (*take_waits)(void *ctx, const struct trace_waits *w);
	bool cpu;     /* `take` gets the CPU time; not with `from` */
	bool callees; /* also functions that are not wanted, if wanted ones call them */
	/*
	 * ... so many arguments of each call, and what functions return, by take_valued(), with
	 * `cnt` values, in place of take(). Not with `slow`.
	 */
	uint32_t args;
	bool returns;
	/* Only inside of calls of this function (tracer__is_inside()); borrowed; not with `slow` */
	const struct trace_filter *from;
	void (*take_valued)(void *ctx, const struct trace_valued *e, uint32_t cnt);
	/* Exceptions, instead of calls. The fields are as BPF wrote them. */
	void (*take_raise)(void *ctx, const struct trace_raise *e);
	/* Calls of functions of importlib, likewise. */
	void (*take_import)(void *ctx, const struct trace_import *e);
	/* Audit events of these names, likewise: `type` is the name. */
	void (*take_audit)(void *ctx, const struct trace_raise *e);
	const struct trace_audit *audits; /* borrowed */
	size_t audit_cnt;		  /* up to TRACE_AUDITS */
	/* Collections of garbage, likewise. */
	void (*take_collection)(void *ctx, const struct trace_collection *e);
	void *ctx;
};

/*
 * All is borrowed, but `events`, which is copied; NULL: only counts calls. A call of a function
 * that no filter selects costs the process only the trap and a look-up; without filters all
 * functions are wanted. So is a hit in a thread that none of `threads` means (NULL: all are
 * wanted). NULL after a message.
 */
struct tracer *tracer__open(const struct target *t, const struct trace_filter *filters,
			    size_t filter_cnt, const struct thread_filters *threads,
			    const struct tracer_events *events);
void tracer__close(struct tracer *tr);

/*
 * The same for many processes that have mapped one interpreter, that of `t`: counts their calls
 * together, or passes their events on. tracer__follow() takes the place of tracer__attach(). Needs
 * Linux 6.6. `trap_ns`: what a hit costs beside the program; 0: it is assumed. NULL: `why_not` is a
 * sentence, or NULL after a message.
 */
struct tracer *tracer__open_many(const struct target *t, const struct trace_filter *filters,
				 size_t filter_cnt, const struct thread_filters *threads,
				 const struct tracer_events *events, int64_t trap_ns,
				 const char **why_not);
/*
 * Sets the breakpoints in a process, not in what it starts. A descriptor, whose close removes them,
 * or negative errno without a message.
 */
int tracer__follow(struct tracer *tr, pid_t pid);
/*
 * Removes some of what the kernel has of processes that are not followed any more; their counts
 * stay in tracer__read(). False: there was nothing to remove.
 */
bool tracer__tidy(struct tracer *tr);
/*
 * Hits in this process so far, also those that no filter means. Of 16,384 processes the kernel may
 * forget some, which then begin again at 0. The process is not followed any more, and all its
 * events have been drained: it makes room.
 */
uint64_t tracer__hits(const struct tracer *tr, pid_t pid);
void tracer__forget(struct tracer *tr, pid_t pid);

/* Sets the breakpoints: calls are counted from now on. 0 or negative errno after a message. */
int tracer__attach(struct tracer *tr);
/*
 * Stops counting. The breakpoints stay. Events that have come are still to be read, until
 * tracer__drain() returns false. Those that it has not read at `until_ns` are lost, so that whoever
 * ends us need not wait for them; 0: none is.
 */
void tracer__stop(struct tracer *tr, uint64_t until_ns);
/* Removes the breakpoints; the counts stay. Takes up to some seconds if there are many threads. */
void tracer__detach(struct tracer *tr);

/*
 * Reads new names, and some events. Call it often enough for a ring buffer of 16 MiB ... True:
 * there are more.
 */
bool tracer__drain(struct tracer *tr);
/* ... after so many ms at most: it also looks at what hits cost, as long as that is measured. */
int tracer__look_ms(const struct tracer *tr);
/* ... and when this descriptor is readable: many names have come. */
int tracer__news_fd(const struct tracer *tr);
/* Events that found no room so far. */
uint32_t tracer__lost(const struct tracer *tr);
/* Reads the counts since the beginning. 0 or negative errno. */
int tracer__read(struct tracer *tr, struct traced_list *list);
/* The same of one process: code objects that the kernel still has; pid 0: as tracer__read(). */
int tracer__read_process(struct tracer *tr, pid_t pid, struct traced_list *list);

/* A filter selects this function, or there is none. */
bool tracer__wants(const struct tracer *tr, const struct py_function *f);

/*
 * Without a filter `from` all is. False: as far as names tell, the event is not inside of that
 * function.
 */
bool tracer__is_inside(struct tracer *tr, const struct trace_event *e);
/* That function was called, or is running. */
bool tracer__has_from(const struct tracer *tr);

/*
 * A number for a process, below 65,536; the first one is the target. 0 if there are too many.
 * tracer__forget() makes it free.
 */
size_t tracer__process(struct tracer *tr, pid_t pid);
size_t tracer__process_cnt(const struct tracer *tr);
/* CPU time of the seen processes that still run, and of children that they waited for. */
uint64_t tracer__cpu_ns(struct tracer *tr);
/*
 * A sum that grows, between two calls, by no less than what they all have used: it never falls when
 * a process ends, and what a child used may be added a second time when its parent has waited.
 */
uint64_t tracer__used_ns(struct tracer *tr);

/*
 * The name of a code object of an event; false: it is not known, and its number is TRACER_UNKNOWN.
 * Borrowed as in struct traced.
 */
bool tracer__find(struct tracer *tr, uint64_t code, struct py_function *out);

/* Texts of values, and the parameters of this code object, as far as they came. Borrowed. */
struct values *tracer__values(struct tracer *tr, uint64_t code);

/* The line at an offset in the bytecode of a code object that was found; 0: it is not known. */
uint32_t tracer__line(const struct tracer *tr, uint64_t code, uint32_t offset);

/* By enum trace_counter. 0 or negative errno. */
int tracer__counters(const struct tracer *tr, uint64_t out[TRACE_CTR_CNT]);
/*
 * Nanoseconds that a hit costs the process: the trap, as measured when the tracer was opened, and
 * the program, which the kernel measures from tracer__attach() to tracer__end_measuring().
 */
double tracer__hit_ns(const struct tracer *tr);
/* The part of it that is the trap, which also calls cost that no filter selects. */
double tracer__trap_share(const struct tracer *tr);
/* No more of it, if enough hits were measured: on two reads of the clock each. */
void tracer__end_measuring(struct tracer *tr);

#endif /* PYPERF_TRACER_H */
