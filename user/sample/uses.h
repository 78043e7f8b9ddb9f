/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_USES_H
#define PYPERF_USES_H
/*
 * The sources of a session, in the order given: what one does, all do. See sources.h.
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
#include "sources/sources.h"

struct uses {
	struct source_use by[SAMPLED_MAX]; /* by number of the value type */
	uint32_t cnt;
	bool started;
	struct probe_object *probes; /* see struct world */
};

/* 0 or negative errno, printed; then, too, it is closed by uses__close(). */
int uses__open(struct uses *u, const struct sample_spec *spec, const struct world *w);
void uses__close(struct uses *u);
/* 0 or negative errno, printed: then none runs. */
int uses__start(struct uses *u);
/* Rings of names to be read besides the sampler's, while they run; their number. */
uint32_t uses__blobs(const struct uses *u, int fds[SAMPLED_MAX]);
/* Adds those of their objects. */
void uses__counters(const struct uses *u, uint64_t counters[CTR_CNT]);
/* No program begins any more. */
void uses__stop(struct uses *u);
/*
 * They go on, without a gap. 0 or negative errno, printed: then they go on as they did, as far as
 * that is possible.
 */
int uses__set_rate(struct uses *u, uint32_t frequency_hz, uint32_t slowed);
/* 0; negative errno: ask again soon. */
int uses__cpus(struct uses *u, const bool *online);

#endif /* PYPERF_USES_H */
