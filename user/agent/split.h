/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SPLIT_H
#define PYPERF_AGENT_SPLIT_H
/*
 * A period -> one window per service.
 *
 * Processes with the same values of the grouping labels ("service_name", or
 * "k8s_namespace,service_name") form one service. Its window has the grouping labels, "host", and
 * every other label on which all its processes agree. If they ever differed in a label, the service
 * omits it from then on, so that a series does not come and go with the processes that happened to
 * run.
 *
 * The id of a window is a hash of host, grouping labels and start: the same window has it whenever
 * it is made.
 */
#include <stddef.h>
#include <stdint.h>

#include "agent/period.h"
#include "store/window.h"

#define SPLIT_SMALL "(small)" /* the service of processes whose services are small */

struct splitter;

/* `group`: names of labels, NULL-terminated; copied. NULL: out of memory. */
struct splitter *splitter__new(const char *const *group);
void splitter__free(struct splitter *s);

/*
 * From now on services with fewer samples in a period are one, SPLIT_SMALL, if there are several;
 * 0, as at the start: none is. One that had as many in a period that is remembered stays on its
 * own.
 */
void splitter__set_small(struct splitter *s, uint32_t samples);
/* Samples of the last period that rules dropped. */
uint64_t splitter__left_out(const struct splitter *s);

/* One window; borrowed during the call. An error does not affect the others. */
typedef int (*split_fn)(void *ctx, const struct window *w);
/*
 * Makes the windows of a period, ordered by their grouping labels, and calls `fn` for each.
 * `services` gets how many services there are, `unmade` how many of their windows could not be made
 * (all, if that is not even known, are 1). 0 or the first error of making one or of `fn`.
 */
int splitter__run(struct splitter *s, const struct period *p, split_fn fn, void *ctx,
		  uint32_t *services, uint32_t *unmade);

#endif /* PYPERF_AGENT_SPLIT_H */
