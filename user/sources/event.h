/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EVENT_H
#define PYPERF_EVENT_H
/*
 * What samples are taken of (-e): a clock, or something that happens.
 *
 * A clock is sampled so many times a second, and a sample stands for the time between two. Of other events a sample
 * stands for a number of them: the kernel chooses it so that there are -F samples a second, or -c says it. The
 * kernel tells the program with each sample (its period), so sums are right whatever the rate was. With -F it tells
 * the number of those until the next sample: docs/internals/sample.md, "Events".
 */
#include <stdbool.h>
#include <stdint.h>

#include "profile/value.h"

struct event {
	uint32_t type; /* of struct perf_event_attr */
	uint64_t config;
	bool hardware; /* counted by the CPU, and its samples are taken in NMI */
};

/* Never NULL: a number that is not known is the default. */
const struct event *event__get(uint32_t id);

#endif /* PYPERF_EVENT_H */
