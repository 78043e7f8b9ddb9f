/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PAIRS_H
#define PYPERF_PAIRS_H
/*
 * Pairs the beginnings and the ends of Python functions: turns struct trace_event, in the order of
 * time, into activations with their times.
 *
 * An activation is a function from a call or a resumption to its return, yield or exception. It is
 * identified by the address of its frame, not by its position on the stack of a thread, because
 * greenlets and coroutines change positions there and frames do not.
 *
 * An exception ends frames without an event of their own. But a frame runs only when the one that
 * it called has ended. So an event of a frame, or a call that it makes, ends the activation that it
 * had called. The end is the time at which the exception came to the caller, which is an event;
 * without such an event (C code has cleared the exception) it is the last time at which an
 * exception came to the activation itself.
 *
 * Each activation is reported when it begins and when it ends, innermost first; where events were
 * lost, in any order.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "bpf/trace.h"

enum pairs_how {
	PAIRS_CALL,
	PAIRS_RESUME,
	PAIRS_THROW, /* an exception was thrown into a waiting generator or coroutine */
	PAIRS_RETURN,
	PAIRS_YIELD,
	/* a return, a yield or an exception: up to CPython 3.10 the end does not tell which */
	PAIRS_LEFT,
	PAIRS_EXCEPTION, /* ended by an exception, at the time of an event */
	PAIRS_LOST,	 /* it ended at an unknown time: times are 0 */
};

#define PAIRS_FRAMES	  32 /* limit per stack */
#define PAIRS_CPU_UNKNOWN UINT64_MAX

/* CPU time of a thread at an event: as in struct trace_event. */
struct pairs_cpu {
	uint64_t ran_ns, lag;
};

/* What a thread has waited for, by enum trace_reason. */
struct pairs_waited {
	uint64_t ns[TRACE_REASON_CNT];
};

/* The same of one call, in microseconds (up to 71 minutes), as many calls are kept. */
struct pairs_waits {
	uint32_t us[TRACE_REASON_CNT];
};

/* The callers of a function, itself first: as in struct trace_raise. */
struct pairs_stack {
	uint64_t codes[PAIRS_FRAMES];
	uint32_t offsets[PAIRS_FRAMES];
	uint32_t cnt;
	bool cut;
};

struct activation {
	uint64_t frame, caller;
	/* As in the event that began it; of PAIRS_THROW as at the call; 0: unknown. */
	uint64_t code;
	uint64_t start_ns, inner_ns; /* inner: time of functions that it called, as far as known */
	uint64_t raised_ns;	     /* time of its last exception; 0: never */
	struct pairs_cpu start_cpu, raised_cpu;
	struct pairs_waited start_waited;
	struct pairs_stack *stack; /* owned; NULL: not given */
	void *note;		   /* of the handler, at first NULL; freed with free() */
	uint32_t mark;		   /* of the handler, at first 0 */
	uint32_t tgid, tid;
	uint32_t depth;		  /* activations below it */
	struct activation *below; /* NULL: not known, or none */
	struct activation *next;  /* for pairs.c */
	uint32_t above_cnt;	  /* number of activations above it; for pairs.c */
	bool nested;		  /* the same code is below it: recursion */
	enum pairs_how how;
};

struct pairs_times {
	uint64_t at_ns, total_ns;
	uint64_t own_ns;	  /* total without the functions that it called */
	uint64_t cpu_ns;	  /* part of total on a CPU; or PAIRS_CPU_UNKNOWN */
	struct pairs_waits waits; /* parts of total; 0 unless pairs__take_waits() is called */
};

struct pairs_handler {
	void (*begun)(void *ctx, struct activation *a);
	void (*ended)(void *ctx, const struct activation *a, enum pairs_how how,
		      const struct pairs_times *t);
	/* `cnt` events were lost here: all activations have just been ended as PAIRS_LOST. */
	void (*lost)(void *ctx, uint32_t cnt);
	void *ctx;
};

struct pairs;

struct pairs *pairs__new(const struct pairs_handler *h); /* copied; NULL: no memory */
void pairs__free(struct pairs *p);
/*
 * Takes an event. 0 or -ENOMEM: the new activation is forgotten. A call or resumption of code 0
 * begins no activation: it only ends those that its caller had called before. `stack`: of a
 * beginning, or NULL.
 */
int pairs__take(struct pairs *p, const struct trace_event *e, const struct trace_raise *stack);
/* What a thread waited for up to its next event. 0 or -ENOMEM. */
int pairs__take_waits(struct pairs *p, const struct trace_waits *w);
/* So many events found no room up to now, though no event behind them has said so yet. */
void pairs__lose(struct pairs *p, uint32_t lost);
/* A process has ended: so have all its activations, as PAIRS_LOST. */
void pairs__end_process(struct pairs *p, uint32_t tgid);
/* Are they of the same callers, at the same places? */
bool pairs_stack__is_same(const struct pairs_stack *a, const struct pairs_stack *b);
uint64_t pairs_stack__hash(const struct pairs_stack *s); /* with hash_key() */
/* Code that the activation of a frame runs; 0: none is open. */
uint64_t pairs__code(const struct pairs *p, uint64_t frame);
size_t pairs__open_cnt(const struct pairs *p); /* activations that have not ended */
/* ends of activations that began before the first event */
uint64_t pairs__unknown_cnt(const struct pairs *p);
/* From now on what goes on begins nothing either, unless its call, or what went on before, did. */
void pairs__only_called(struct pairs *p);

#endif /* PYPERF_PAIRS_H */
