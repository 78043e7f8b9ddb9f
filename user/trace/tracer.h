/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACER_H
#define PYPERF_TRACER_H
/*
 * Counts the calls of Python functions in one process, in the kernel: loads bpf/trace.bpf.c for its
 * interpreter, sets the breakpoints, reads counts and names.
 *
 *	tr = tracer__open(&target);
 *	tracer__attach(tr);
 *	...
 *	tracer__read(tr, &list);
 *	tracer__close(tr);
 */
#include <stddef.h>
#include <stdint.h>

#include "bpf/trace.h"
#include "symbolize/symbolize.h"
#include "trace/target.h"

struct tracer;

/* One function, and all code objects that are it. */
struct traced {
	struct py_function function; /* names are borrowed until the tracer is closed */
	uint64_t calls;
	uint64_t resumed; /* entered again behind yield or await */
};

struct traced_list {
	struct traced *all; /* most calls first */
	size_t cnt, cap;
	uint64_t calls, resumed;
};

/* `t` is borrowed. NULL after a message. */
struct tracer *tracer__open(const struct target *t);
void tracer__close(struct tracer *tr);

/* From now on calls are counted. 0 or negative errno after a message. */
int tracer__attach(struct tracer *tr);
/* No more. What was counted stays. */
void tracer__detach(struct tracer *tr);

/* Reads names that came. To be called often enough for a ring buffer of 1 MiB. */
void tracer__drain(struct tracer *tr);
/* What was counted since the beginning. 0 or negative errno. */
int tracer__read(struct tracer *tr, struct traced_list *list);
void traced_list__free(struct traced_list *list);

/* By enum trace_counter. 0 or negative errno. */
int tracer__counters(const struct tracer *tr, uint64_t out[TRACE_CTR_CNT]);
/*
 * Nanoseconds that a hit costs the process: the trap, as it was measured when the tracer was
 * opened, and the program, which the kernel measures from tracer__attach() on until it is told to
 * stop.
 */
double tracer__hit_ns(const struct tracer *tr);
void tracer__stop_measuring(struct tracer *tr);

#endif /* PYPERF_TRACER_H */
