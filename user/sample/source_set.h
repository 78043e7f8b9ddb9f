/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SOURCE_SET_H
#define PYPERF_SOURCE_SET_H
/*
 * The sources of a session, in the order given. Each call is passed to all of them, see sources.h.
 *
 *	struct source_set set = { 0 };
 *
 *	source_set__open(&set, spec, &world);
 *	source_set__start(&set);		the BPF object is loaded
 *	...
 *	source_set__stop(&set);
 *	source_set__close(&set);
 */
#include <stdbool.h>
#include <stdint.h>

#include "sample/spec.h"
#include "sources/side_object.h"
#include "sources/sources.h"

struct source_set {
	struct source_use by[SAMPLED_MAX]; /* by number of the value type */
	uint32_t cnt;
	bool started;
	struct side_shared probes, tracepoints; /* see struct world */
};

/* 0 or negative errno, printed. Call source_set__close() in any case. */
int source_set__open(struct source_set *set, const struct sample_spec *spec, const struct world *w);
void source_set__close(struct source_set *set);
/* Starts all of them. 0 or negative errno, printed: then none runs. */
int source_set__start(struct source_set *set);
/* The rings of names to read besides the sampler's, while the sources run. Returns their number. */
uint32_t source_set__blobs(const struct source_set *set, int fds[SAMPLED_MAX]);
/* Adds the counters of their objects. */
void source_set__counters(const struct source_set *set, uint64_t counters[CTR_CNT]);
/* Stops all sources: no program begins any more. */
void source_set__stop(struct source_set *set);
/*
 * Changes the rate without a gap. 0 or negative errno, printed: then the old rate stays, as far as
 * possible.
 */
int source_set__set_rate(struct source_set *set, uint32_t frequency_hz, uint32_t slowed);
/* Passes on which CPUs are online. 0; negative errno: call again soon. */
int source_set__cpus(struct source_set *set, const bool *online);

#endif /* PYPERF_SOURCE_SET_H */
