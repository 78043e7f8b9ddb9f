/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACER_PARTS_H
#define PYPERF_TRACER_PARTS_H
/*
 * The parts of struct tracer, for the files that implement it:
 *
 *	tracer.c	processes, counts, breakpoints, events
 *	tracer_names.c	names of code objects, and whether their functions are wanted
 */
#include <bpf/libbpf.h>

#include "base/idmap.h"
#include "follow/uprobe.h"
#include "trace/family.h"
#include "trace/points.h"
#include "trace/price.h"
#include "trace/retired.h"
#include "trace/tracer.h"
#include "trace.skel.h" /* behind the types of its variables */

struct tracer {
	const struct target *t;
	struct trace_points points;
	struct trace_bpf *skel;
	struct ring_buffer *ring, *event_ring;
	struct bpf_link *switches; /* NULL: what threads wait for is not wanted */
	uint32_t left;		   /* events that tracer__drain() still takes */
	uint64_t until_ns;	   /* what it has not taken by then it drops; 0: nothing */
	bool drops;
	uint32_t dropped;	       /* events */
	struct tracer_events on_event; /* without take(): none are wanted */
	struct sym_python *names;
	struct values *values;
	const struct trace_filter *filters; /* borrowed; none: all functions are wanted */
	size_t filter_cnt;
	const struct thread_filters *threads; /* likewise; NULL: all */
	struct trace_values_cfg values_cfg;
	bool has_from;
	uint64_t from_code; /* the last code object that was found to be on_event.from; 0: none */
	struct family *family; /* the breakpoints; NULL: they are these, without children */
	struct uprobe_list breakpoints;
	bool by_cookie;
	bool many;	  /* processes */
	pid_t *processes; /* that were seen, by number; 0: it is free */
	size_t process_cnt, process_cap, last_process, free_cnt;
	struct price_sum used; /* by number as well */
	struct idmap numbers;  /* by process: one more than its number */
	struct idmap slots;    /* ... and than the slot of struct shares that its names are of */
	/* Of processes not followed any more: what the kernel still has, and had counted. */
	struct retired codes, frames;
	struct traced_list past;
	size_t past_max;  /* then equal functions become one */
	size_t codes_max; /* that have names; then those of former processes have none any more */
	int64_t trap_ns;  /* of a breakpoint whose program does nothing */
	int stats_fd;	  /* while the kernel measures run times; -1 */
	struct price_runs runs;
};

/* False: its name was not read (yet), and `out` is unknown. */
bool tracer_names__find(const struct tracer *tr, uint64_t code, struct py_function *out);
/* A callback of the ring buffer `news`: a code object, or the parameters of one. */
int tracer_names__take(void *ctx, void *data, size_t size);

#endif /* PYPERF_TRACER_PARTS_H */
