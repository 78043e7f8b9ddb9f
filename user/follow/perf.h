/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PERF_H
#define PYPERF_PERF_H
/*
 * Opens perf events: those that are sampled, on each CPU, and the one that reports new mappings.
 *
 * A program that gives up privileges opens them first. Debian and Ubuntu patch perf_event_open() so
 * that it asks for CAP_SYS_ADMIN, not CAP_PERFMON, where kernel.perf_event_paranoid is above 2, as
 * it is there by default. An open event needs no privilege. It does not count until a program is
 * attached to it.
 *
 *	events = perf_events__open(kinds, 1, 99);
 *	confine();
 *	session__open(&(struct session_opts){ .events = events, ... });
 */
#include <stddef.h>
#include <stdint.h>

#include "process/mmapwatch.h"

struct perf_events;

struct perf_kind {
	uint32_t type; /* of struct perf_event_attr */
	uint64_t config;
	const char *name; /* for messages; borrowed during open */
};

/* Opens the events of all CPUs that are online. NULL after a message. */
struct perf_events *perf_events__open(const struct perf_kind *kinds, size_t cnt,
				      uint32_t frequency_hz);
void perf_events__free(struct perf_events *e); /* closes the events that were not taken */
/* Hand an event over to the caller. -1 or NULL: there is none (any more). `e` may be NULL. */
int perf_events__take(struct perf_events *e, uint32_t type, uint64_t config, int cpu);
struct mmapwatch *perf_events__take_watch(struct perf_events *e);

/*
 * Opens an event of `type` and `config` on a CPU, with a sample every `period` events or, if that
 * is 0, `frequency_hz` times a second. It does not count until a program is attached to it. Returns
 * its descriptor or negative errno.
 */
int perf__open(uint32_t type, uint64_t config, int cpu, uint32_t frequency_hz, uint64_t period);
/* Prints what failed, why, and the remedy. */
void perf__explain(const char *what, int err);

#endif /* PYPERF_PERF_H */
