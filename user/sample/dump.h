/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_DUMP_H
#define PYPERF_DUMP_H
/*
 * Stage 5: maps -> struct profile (ids and addresses, no names).
 *
 * Reads and empties a window in batches while BPF adds to the other one, so no count is lost and
 * none is read twice. Moves counts from "counted" to "filtered" if they are of processes that were
 * sampled before they were analysed and turned out to have no Python or to be gone: see struct
 * dump_late.
 *
 *	old = object__flip(object);
 *	... all events up to now, so that every process in the window is known ...
 *	dump__window(&(struct dump_tables){ ... of `old` }, pt, &opts, p, &late);
 */
#include <stdbool.h>
#include <stdint.h>

#include "follow/object.h"
#include "process/process.h"
#include "profile/profile.h"
#include "sample/nmi_stacks.h"
#include "sample/loopbook.h"
#include "sample/threadbook.h"
#include "symbolize/sym_jit.h"

/* Samples that the kernel counted but that do not belong in the profile. */
struct dump_late {
	uint64_t python;  /* samples of processes without Python, sampled before that was known */
	uint64_t unknown; /* ... of processes that ended before it was known */
	uint64_t held;	  /* ... of the command, while it was held before its first instruction */
	uint64_t lost;	  /* samples that are in no profile: memory is short, or there is a bug */
	uint64_t added;	  /* ... that user space has added: dump__add() */
};

/*
 * The tables of a window: count_key -> count_val, u64 -> chunk. Each key has its value type:
 * COUNT_TYPE().
 */
struct dump_tables {
	int counts_fd, chunks_fd;
};

#define DUMP_EXACT UINT64_MAX /* samples may be worth less than one; what is 0 has no stack */

struct dump_opts {
	bool python_only;
	uint32_t held; /* space of the command before its first instruction; 0: there is none */
	struct threadbook *names; /* thread names; borrowed. NULL: threads are not kept apart */
	struct sym_jit *jit;	  /* borrowed; names generated code */
	struct loopbook *loops;	  /* borrowed; learns which stack has which key. NULL: none */
	struct nmi_stacks *nmi_stacks; /* of the window; borrowed, and emptied. NULL: none */
	/*
	 * By value type: what one in a stack's count is in BPF's units; 0: one sample; or
	 * DUMP_EXACT.
	 */
	uint64_t units[SAMPLED_MAX];
};

/*
 * Adds a window that was flipped away to `p` and empties it. 0 or negative errno, printed. On an
 * error `p` has a part of it, late->lost counts what was read and is not in `p`, and the rest comes
 * with the next window but one.
 */
int dump__window(const struct dump_tables *tables, const struct process_table *pt,
		 const struct dump_opts *o, struct profile *p, struct dump_late *late);

/* The index of a process in `p`, which gets it if it does not have it; or -ENOMEM. */
int dump__find_proc(const struct process_table *pt, struct profile *p, uint32_t space);

/* A stack that the kernel has not counted, because its thread still waits at the end. */
struct dump_stack {
	uint32_t space, tid, type;
	uint64_t value;	 /* in units of `type` */
	uint64_t *words; /* outermost first; changed */
	int cnt;
};

/* Adds each stack as one sample. 0 or negative errno, printed. */
int dump__add(const struct dump_stack *stacks, size_t cnt, const struct process_table *pt,
	      const struct dump_opts *o, struct profile *p, struct dump_late *late);

struct curves;

/*
 * Adds what was in use at the peak as value type `peak`, and the curves of value type `type` as
 * p->curves: see profile__part_curves(). After the last window. 0 or negative errno, printed.
 */
int dump__add_curves(const struct curves *c, uint32_t type, uint32_t peak,
		     const struct process_table *pt, const struct dump_opts *o, struct profile *p,
		     struct dump_late *late);

/*
 * Replaces addresses of generated code in a stack, outermost first, by names while their owner is
 * known. CPython's perf trampolines belong to the activation of the eval loop that they call, so
 * its Python frames replace them, too. Returns the number of words that are left. Call
 * sym_jit__begin() before.
 */
int dump__name_generated(struct sym_jit *jit, uint32_t space, uint64_t *words, int cnt);

/* Corrects the kernel's counters by `late`, so that delivered = counted + filtered + lost. */
void dump__correct(const struct dump_late *late, uint64_t counters[CTR_CNT]);

#endif /* PYPERF_DUMP_H */
