/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_USES_H
#define PYPERF_USES_H
/*
 * The sources of a session, in the order given. Each call is passed to all of them, see sources.h.
 *
 *	struct uses u = { 0 };
 *
 *	uses__open(&u, spec, &world);
 *	uses__start(&u);		the BPF object is loaded
 *	...
 *	uses__stop(&u);
 *	uses__close(&u);
 */
#include <stdbool.h>
#include <stdint.h>

#include "sample/spec.h"
#include "sources/side_object.h"
#include "sources/sources.h"

struct uses {
	struct source_use by[SAMPLED_MAX]; /* by number of the value type */
	uint32_t cnt;
	bool started;
	struct side_shared probes, tracepoints; /* see struct world */
};

/* 0 or negative errno, printed. Call uses__close() in any case. */
int uses__open(struct uses *u, const struct sample_spec *spec, const struct world *w);
void uses__close(struct uses *u);
/* Starts all of them. 0 or negative errno, printed: then none runs. */
int uses__start(struct uses *u);
/* The rings of names to read besides the sampler's, while the sources run. Returns their number. */
uint32_t uses__blobs(const struct uses *u, int fds[SAMPLED_MAX]);
/* Adds the counters of their objects. */
void uses__counters(const struct uses *u, uint64_t counters[CTR_CNT]);
/* Stops all sources: no program begins any more. */
void uses__stop(struct uses *u);
/*
 * Changes the rate without a gap. 0 or negative errno, printed: then the old rate stays, as far as
 * possible.
 */
int uses__set_rate(struct uses *u, uint32_t frequency_hz, uint32_t slowed);
/* Passes on which CPUs are online. 0; negative errno: call again soon. */
int uses__cpus(struct uses *u, const bool *online);

#endif /* PYPERF_USES_H */
