/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_DUMP_H
#define PYPERF_DUMP_H
/*
 * Stage 5: maps -> struct profile (ids and addresses, no names).
 *
 * A window is read and emptied in batches while BPF adds to the other one, so no count is lost and
 * none is read twice. Counts of processes that were sampled before they were analysed, and turned
 * out to have no Python or to be gone, are moved from "counted" to "filtered": see struct
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
#include "sample/handed.h"
#include "symbolize/sym_jit.h"

/* What was counted in the kernel but does not belong in the profile. */
struct dump_late {
	uint64_t python;  /* samples of processes without Python, sampled before that was known */
	uint64_t unknown; /* ... of processes that ended before it was known */
	uint64_t lost;	  /* samples that are in no profile: memory is short, or there is a bug */
};

/*
 * Of a window: count_key -> count_val, u64 -> chunk. Each key tells its value type: COUNT_TYPE().
 */
struct dump_tables {
	int counts_fd, chunks_fd;
};

struct dump_opts {
	bool python_only;
	bool threads;
	struct sym_jit *jit;   /* borrowed; names generated code */
	struct handed *handed; /* of the window; borrowed, and emptied. NULL: none */
	/* Of each event, that a stack's count stands for; 0: one sample */
	uint64_t units[SAMPLED_MAX];
};

/*
 * Adds a window that was flipped away to `p` and empties it. 0 or negative errno, printed: part of
 * it is in `p` then, what was taken out and is not is in late->lost, and the rest comes with the
 * next but one window.
 */
int dump__window(const struct dump_tables *tables, const struct process_table *pt,
		 const struct dump_opts *o, struct profile *p, struct dump_late *late);

/*
 * Addresses of generated code become names while it is known whose they are: of a stack, outermost
 * first. CPython's perf trampolines are part of the activation of the eval loop that they call, so
 * its Python frames replace them too. Returns the number of words that are left. sym_jit__begin()
 * comes first.
 */
int dump__name_generated(struct sym_jit *jit, uint32_t space, uint64_t *words, int cnt);

/* Corrects the kernel's counters by `late`, so that delivered = counted + filtered + lost. */
void dump__correct(const struct dump_late *late, uint64_t counters[CTR_CNT]);

#endif /* PYPERF_DUMP_H */
