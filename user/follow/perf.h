/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PERF_H
#define PYPERF_PERF_H
/*
 * The kernel's events that sampling lives on: those that are sampled, for each CPU, and the news of
 * mappings.
 *
 * Whoever gives up privileges opens them before: Debian and Ubuntu patch perf_event_open() so that
 * CAP_PERFMON does not do where kernel.perf_event_paranoid is above 2, as it is there by default;
 * they want CAP_SYS_ADMIN. What is open is used without it. An event stands still until a program
 * is attached to it.
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

/* Those of all CPUs that are online. NULL after a message. */
struct perf_events *perf_events__open(const struct perf_kind *kinds, size_t cnt,
				      uint32_t frequency_hz);
void perf_events__free(struct perf_events *e); /* with what nobody took */
/* Now the caller's. -1, NULL: there is none (any more). `e` may be NULL. */
int perf_events__take(struct perf_events *e, uint32_t type, uint64_t config, int cpu);
struct mmapwatch *perf_events__take_watch(struct perf_events *e);

/*
 * An event of `type` and `config` on a CPU: every `period` events, or, if that is 0, so many times
 * a second. It stands still until a program is attached to it. Its descriptor or negative errno.
 */
int perf__open(uint32_t type, uint64_t config, int cpu, uint32_t frequency_hz, uint64_t period);
/* Prints what could not be done, why, and what would help. */
void perf__explain(const char *what, int err);

#endif /* PYPERF_PERF_H */
