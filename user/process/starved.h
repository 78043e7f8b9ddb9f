/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STARVED_H
#define PYPERF_STARVED_H
/*
 * The time in which a process could have run but had no CPU, because other processes had it or
 * because the CPU limit of its control group (mostly of a container) was used up.
 *
 *	starved__read(pid, &then);
 *	...
 *	starved__read(pid, &now);
 *	now.ready_ns - then.ready_ns is the time of its threads in run queues
 *
 * A thread that ends takes its time with it, so a difference is a lower bound.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct starved {
	uint64_t ready_ns; /* time of all threads together in run queues */
	/*
	 * Of the control groups above it, the one that was stopped longest. The kernel adds up the
	 * time of all CPUs; the group was stopped in `stopped` of `periods` periods, so for at most
	 * that part of the time.
	 */
	uint64_t throttled_ns, stopped, periods;
};

/* False: the process is gone. What cannot be read is 0. */
bool starved__read(pid_t pid, struct starved *out);
/* How many of the `ns` between two readings its limit stopped it; at most `ns`. */
uint64_t starved__throttled(const struct starved *then, const struct starved *now, uint64_t ns);

/* Parses the text of a cpu.stat, of v1 (nanoseconds) or v2 (microseconds). */
void starved__parse(const char *text, struct starved *out);

#endif /* PYPERF_STARVED_H */
