/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_LOOPSTATS_H
#define PYPERF_AGENT_LOOPSTATS_H
/*
 * Iterations of event loops by service, since the start: for /metrics.
 *
 * Services choose their names, so there is room for LOOP_SERVICES. When all are taken, a new
 * service gets the place of the one that has had no iteration for longest, if that is an hour or
 * more. Otherwise it counts as PERIOD_OTHERS, as do processes beyond the budget of processes.
 */
#include <stddef.h>
#include <stdint.h>

#include "agent/http/stats.h"
#include "agent/period.h"

struct loopstats;

/* NULL: out of memory. */
struct loopstats *loopstats__new(void);
void loopstats__free(struct loopstats *s);
/*
 * Adds what event loops did in a period that has names and labels, but for processes that rules
 * drop. `now_ns`: monotonic.
 */
void loopstats__add(struct loopstats *s, const struct period *p, uint64_t now_ns);
/* Copies up to `cap` services, and returns how many; from any thread. */
size_t loopstats__list(struct loopstats *s, struct loop_figures *out, size_t cap);

#endif /* PYPERF_AGENT_LOOPSTATS_H */
