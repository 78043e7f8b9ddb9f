/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACE_CONFIG_H
#define PYPERF_TRACE_CONFIG_H
/*
 * What bpf/trace.bpf.c has to know of an interpreter and of what is wanted: struct trace_cfg, but
 * for its values (values.h).
 */
#include <stdbool.h>

#include "bpf/trace.h"
#include "trace/points.h"
#include "trace/target.h"
#include "trace/tracer.h"

struct trace_config {
	const struct target *target;
	const struct trace_points *points;
	const struct tracer_events *events;
	const struct thread_filters *threads; /* NULL: all */
	bool filtered, by_cookie;
};

void trace_config__fill(struct trace_cfg *cfg, const struct trace_config *c);
/* By number of a system call: how a wait in it is told, and, of WAIT_CALL, enum trace_reason. */
void trace_config__fill_waits(struct wait_cfg *cfg, uint8_t reasons[WAIT_CALLS]);
/* The registers at those breakpoints where they are known before the first hit. */
void trace_config__set_ways(struct trace_way ways[TRACE_SPOTS], const struct tracer_events *e,
			    const struct trace_points *points);
/* Is there a breakpoint at this point? cfg.spots has the used ones, in their order. */
bool trace_config__is_used(const struct tracer_events *e, const struct trace_point *p);
/* Are any wanted, or are calls only counted? */
bool tracer_events__any(const struct tracer_events *e);

#endif /* PYPERF_TRACE_CONFIG_H */
