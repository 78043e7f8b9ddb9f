/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COMPARISON_H
#define PYPERF_COMPARISON_H
/*
 * The slow calls of a function against its others: `trace --slow`. The time of each call is added
 * up by its stack, by the function that it called (or itself), and by what that was spent on: a
 * CPU, or a wait with its reason.
 *
 *	comparison__init(&c, &room);
 *	comparison__add(&c, SIDE_SLOW, &call, called);		a call has ended
 *	...
 *	all = comparison__callees(&c, &cnt);			the greatest difference first
 *	comparison__free(&c);
 *
 * Always: the parts of a side add up to its total time. Stacks and parts take their bytes from
 * `room`; without it a stack is one that is not known, and a function CALLEE_OTHERS.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "trace/pairs.h"

#define CALLEES_MAX   48 /* entries of one call; what else it called is CALLEE_OTHERS */
#define CALLEE_OTHERS UINT32_MAX
#define CALLEE_ITSELF (UINT32_MAX - 1)
#define SLOWEST	      5

/* What time is spent on: an enum trace_reason, or */
enum spent_on {
	SPENT_CPU = TRACE_REASON_CNT,
	SPENT_WAITING, /* for an unknown reason */
	SPENT_SOMEHOW, /* its CPU time is not known */
	SPENT_ON_CNT
};

/* Sums of calls. */
struct spent {
	uint64_t cnt, total_ns, own_ns;
	uint64_t cpu_cnt, cpu_total_ns, cpu_ns; /* of those whose CPU time is known */
};

/* What calls waited for, by enum trace_reason: sums. */
struct waits {
	uint64_t us[TRACE_REASON_CNT];
};

/* A call that has ended. */
struct ended_call {
	uint64_t start_ns;
	uint32_t tgid, tid;
	struct pairs_times times;
	const struct pairs_stack *stack; /* borrowed; NULL: it is not known */
	uint64_t stack_hash;		 /* pairs_stack__hash(), of a known one */
};

/* A function that was called, by a number of the caller's choice, and what its time was for. */
struct callee {
	uint64_t ns, cnt; /* calls are counted in one of the entries of a function */
	uint32_t who;
	uint32_t on; /* enum spent_on */
};

/* What one call has called, in one block of malloc(). */
struct called {
	uint32_t cnt, cap;
	struct callee all[];
};

/* Adds to `*c`, which may be NULL. 0 or -ENOMEM. */
int called__add(struct called **c, uint32_t who, const struct pairs_times *times);

enum comparison_side { SIDE_OTHERS, SIDE_SLOW, SIDES };

struct compared_stack {
	struct pairs_stack stack; /* the first one, of none: it is not known */
	uint64_t cnt[SIDES];	  /* calls */
};

/* Of the calls with one stack. */
struct compared_part {
	uint32_t stack; /* in `stacks` */
	uint32_t who;	/* CALLEE_ITSELF, CALLEE_OTHERS, or as in struct callee */
	uint32_t on;	/* enum spent_on */
	uint64_t cnt[SIDES], ns[SIDES];
};

struct comparison {
	struct spent spent[SIDES];
	struct waits waits[SIDES];
	struct compared_stack *stacks;
	size_t stack_cnt, stack_cap;
	struct compared_part *parts;
	size_t part_cnt, part_cap;
	struct slow_call {
		struct ended_call call; /* its stack is the next one, or NULL */
		struct pairs_stack stack;
	} slowest[SLOWEST]; /* the slowest first */
	size_t slowest_cnt;
	struct hash_index by_stack, by_part; /* and what follows: private */
	size_t *room, taken;
};

/* Cannot fail. `room`: bytes that are left; borrowed, and shared with other ones. */
void comparison__init(struct comparison *c, size_t *room);
void comparison__free(struct comparison *c); /* also of one that is all 0 */
/* `called` may be NULL. 0 or -ENOMEM. */
int comparison__add(struct comparison *c, enum comparison_side side, const struct ended_call *call,
		    const struct called *called);
/* An average call. */
struct pairs_times comparison__average(const struct comparison *c, enum comparison_side side);

struct callee_difference {
	uint32_t who;
	uint64_t cnt[SIDES], ns[SIDES];
	double more_ns;		      /* for each slow call than for each other one */
	double more_on[SPENT_ON_CNT]; /* ... of that */
};

/*
 * By function, CALLEE_ITSELF first, then the greatest difference. To be freed. NULL: no memory.
 */
struct callee_difference *comparison__callees(const struct comparison *c, size_t *cnt);

/* Which part of the calls of a side has a stack, 0 to 1. */
double comparison__share(const struct comparison *c, const struct compared_stack *s,
			 enum comparison_side side);
/*
 * The stacks that are known, first those that slow calls have oftener than others. To be freed,
 * its elements are borrowed. NULL: no memory.
 */
const struct compared_stack **comparison__stacks(const struct comparison *c, size_t *cnt);

#endif /* PYPERF_COMPARISON_H */
