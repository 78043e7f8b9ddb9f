/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RATE_H
#define PYPERF_RATE_H
/*
 * How often may a CPU be sampled? Numbers only: nothing is read or changed here.
 *
 * The kernel allows the handlers of samples a share of a CPU (kernel.perf_cpu_time_max_percent, 25). When they take
 * more it lowers kernel.perf_event_max_sample_rate for the whole machine, and events that are faster
 * are stopped until the next tick (perf_sample_event_took() and __perf_event_account_interrupt() in
 * kernel/events/core.c): time is missing in the profile. So we stay well below: RATE_SHARE of it, for our program
 * alone. The rest is what the kernel itself needs for a sample, which it counts and we cannot see, and its
 * margin of a quarter.
 */
#include <stdint.h>

#define RATE_SHARE	     0.6
#define RATE_DEFAULT_PERCENT 25 /* where the sysctl is 0 or 100, the kernel does nothing; we do */
#define RATE_SLOWEST	     10000

/* The share of a CPU that our program may take, 0 to 1; `max_percent`: of the sysctl, negative: not known. */
double rate__budget(long max_percent);

/*
 * To what part of the full rate (1: to all of it) sampling has to be slowed down from 1 / `slowed`, when
 * the busiest CPU spends `share` of its time in it. Powers of two, so that it is done once or
 * twice, not at each second. Never faster than it is: what was too much will be again.
 */
uint32_t rate__slow_down(uint32_t slowed, double share, double budget);

#endif /* PYPERF_RATE_H */
