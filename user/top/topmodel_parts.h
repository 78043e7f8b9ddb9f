/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TOPMODEL_PARTS_H
#define PYPERF_TOPMODEL_PARTS_H
/*
 * The parts of struct topmodel, for the files that implement it:
 *
 *	topmodel.c	processes, threads, functions; counts intervals; forgets what has ended
 *	toprows.c	the rows of a table, added up from the counts
 */
#include "base/hash.h"
#include "base/idmap.h"
#include "base/str.h"
#include "top/topmodel.h"

/* What is counted: process, thread, place and value type. Line 0 is the function as a whole. */
struct key {
	uint32_t space, tid, function, line, value;
};

struct cell {
	struct key key;
	uint32_t window; /* `last` is of it */
	uint32_t stack;	 /* that was counted last, + 1 */
	struct top_count last, all;
};

struct cells {
	struct cell *list;
	size_t cnt, cap;
	struct hash_index index;
};

struct function {
	uint32_t kind;
	uint32_t name, place; /* in m->strings */
};

struct topmodel {
	struct hash_key hash_key;
	struct strtab *strings; /* of functions */
	struct function *functions;
	size_t function_cnt, function_cap;
	struct hash_index function_index;
	struct cells cells;
	struct idmap procs;   /* space -> struct top_process */
	struct idmap threads; /* space, tid -> struct top_thread */
	uint32_t window;      /* number of the last interval; 0: none yet */
	uint32_t round;	      /* of the process list */
	uint32_t thread_round;
	uint32_t stack; /* number of the current stack */
	uint64_t interval_ns, elapsed_ns, compacted_ns;
	uint64_t last[SAMPLED_MAX], all[SAMPLED_MAX], unlisted;
	bool has_waits;
	struct strbuf name, place; /* scratch */
};

#endif /* PYPERF_TOPMODEL_PARTS_H */
