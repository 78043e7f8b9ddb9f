/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TESTS_CLOCK_FIXTURE_H
#define PYPERF_TESTS_CLOCK_FIXTURE_H
/* All CPUs sampled by the clock, as a run does it, into a loaded object. Behind cmocka.h. */
#include "follow/object.h"
#include "sample/source_set.h"

/* Samples all CPUs by the clock. */
static inline void start_clock(struct source_set *set, struct object *o, uint32_t frequency_hz)
{
	const struct sample_spec spec = {
		.sources = { { .source = source__of_event(EVENT_CPU_CLOCK) } },
		.source_cnt = 1,
		.frequency_hz = frequency_hz,
	};
	struct world world = { .events = NULL };

	assert_int_equal(object__wait_loaded(o), 0);
	object__world(o, &world);
	assert_int_equal(source_set__open(set, &spec, &world), 0);
	assert_int_equal(source_set__start(set), 0);
}

static inline void stop_clock(struct source_set *set)
{
	source_set__close(set);
	wait_for_programs();
}

#endif /* PYPERF_TESTS_CLOCK_FIXTURE_H */
