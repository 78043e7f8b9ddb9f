/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WINDOW_H
#define PYPERF_WINDOW_H
/*
 * The last calls of each function, to tell which of them are the slowest 1%, and what these do that
 * the others do not: `trace --slow p99`.
 *
 *	w = window__new(all);
 *	window__add(w, &call, stack, called);
 *	...
 *	if (!window__compare(w, percentile, &c)) {
 *		c.slow, c.others: times on average; c.callees: the same by function called
 *		comparison__free(&c);
 *	}
 *
 * Calls stay until there are WINDOW_CALLS newer ones of the function, or until all windows together
 * need more than WINDOWS_BYTES: then windows with more than WINDOW_ENOUGH calls become shorter.
 * Stacks that are equal are kept once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/pairs.h"

#define WINDOW_CALLS  10000
#define WINDOW_ENOUGH 200	   /* calls, before any can be called slow */
#define WINDOWS_BYTES (128U << 20) /* of all windows */
#define CALLEES_MAX   32	   /* of one call; what else it called is CALLEE_OTHERS */
#define CALLEE_OTHERS UINT32_MAX

/* Sums of calls. */
struct spent {
	uint64_t cnt, total_ns, own_ns;
	uint64_t cpu_cnt, cpu_total_ns, cpu_ns; /* of those whose CPU time is known */
};

void spent__add(struct spent *s, const struct pairs_times *times);
void spent__sum(struct spent *sum, const struct spent *s);
/* Of one call. */
struct pairs_times spent__average(const struct spent *s);

/* What calls waited for, by enum trace_reason: sums. */
struct waits {
	uint64_t us[TRACE_REASON_CNT];
};

void waits__add(struct waits *w, const struct pairs_times *times);
void waits__sum(struct waits *sum, const struct waits *w);
/* spent__average() with what a call waited for. */
struct pairs_times calls__average(const struct spent *s, const struct waits *w);

/* A function that was called, by a number of the caller's choice. */
struct callee {
	uint32_t who;
	struct spent spent;
};

/* What one call has called, in one block of malloc(). */
struct called {
	uint32_t cnt, cap;
	struct callee all[];
};

/* Adds to `*c`, which may be NULL. 0 or -ENOMEM. */
int called__add(struct called **c, uint32_t who, const struct pairs_times *times);

/* A call of a window. Borrowed until the next one is added. */
struct window_call {
	uint64_t start_ns;
	uint32_t tgid, tid;
	struct pairs_times times;
	const struct pairs_stack *stack; /* NULL: it is not known */
};

struct windows;
struct window;

struct windows *windows__new(void); /* NULL: no memory */
void windows__free(struct windows *all);
size_t windows__bytes(const struct windows *all); /* that all of them need */
struct window *window__new(struct windows *all);  /* owned by `all`; NULL: no memory */
void window__free(struct window *w);		  /* before the others; NULL: nothing */

/* `call` and `called` (or NULL) are copied. 0 or -ENOMEM. */
int window__add(struct window *w, const struct window_call *call, const struct called *called);

/* Calls that it has had: more than it holds, if some have gone. */
size_t window__cnt(const struct window *w);
/* It is shorter than WINDOW_CALLS because of the others. */
bool window__is_cut(const struct window *w);

/*
 * How long a call takes at least to be one of the slowest, UINT64_MAX: there are too few to say.
 * `percentile`: from 50 to below 100, always the same. Known anew after each 1% of calls.
 */
uint64_t window__limit(struct window *w, double percentile);

#define SLOWEST 5

/* The slowest calls of a window against its others. */
struct comparison {
	size_t cnt;	   /* calls that were compared */
	uint64_t limit_ns; /* the slow ones took so long, or longer */
	struct spent slow, others;
	struct waits slow_waits, other_waits;
	struct window_call slowest[SLOWEST]; /* the slowest first */
	size_t slowest_cnt;
	struct callee_difference {
		uint32_t who;
		struct spent slow, others; /* cnt: calls of it, by all of the slow, or other ones */
		double more_ns;		   /* for each slow call than for each other one */
	} * callees;			   /* the greatest difference first */
	size_t callee_cnt;
};

/* 0; -EAGAIN: there are fewer calls than WINDOW_ENOUGH; -ENOMEM. */
int window__compare(const struct window *w, double percentile, struct comparison *out);
void comparison__free(struct comparison *c);

#endif /* PYPERF_WINDOW_H */
