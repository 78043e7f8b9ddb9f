/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PRICE_H
#define PYPERF_PRICE_H
/*
 * What breakpoints cost a process: a share of the CPU time that it would use without them, and of
 * one CPU. The rate of the first 100 ms is judged.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PRICE_MEASURE_MS 100 /* before the rate is judged */
/* percent of a CPU: nobody notices so little, however idle the process is */
#define PRICE_NO_LOAD	 1

/*
 * The slowdown in percent: breakpoints took `cost_ns` of `used_ns` of CPU time. At most
 * PRICE_SLOWDOWN_MAX, which means that or more; -1: not known.
 */
double price__slowdown(double cost_ns, double used_ns);
#define PRICE_SLOWDOWN_MAX 2000
/* Too high for who allows `max_slowdown` percent? `load`: the cost in percent of one CPU. */
bool price__is_high(double slowdown, double load, double max_slowdown);

/* The CPU time of a process since it began. false: there is no such process. */
bool price__cpu_ns(pid_t pid, uint64_t *ns);
/* The CPU time of the children that it has waited for. */
uint64_t price__reaped_ns(pid_t pid);

#endif /* PYPERF_PRICE_H */
