/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/log.h"
#include "base/rights.h"

#define PARANOID_UPSTREAM 2 /* the highest value that the kernel itself knows */

struct perf_events {
	struct mmapwatch *watch;
	int *clocks; /* of each possible CPU; -1: none */
	int cpu_cap;
};

int perf__open(uint32_t type, uint64_t config, int cpu, uint32_t frequency_hz, uint64_t period)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = type,
		.config = config,
		.freq = !period,
		.sample_period = period,
		/* That of the mapping watch: else its rings do not take this event's records (perf_event_set_output()). */
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.disabled = 1, /* bpf_program__attach_perf_event() enables it */
	};
	int fd;

	if (!period)
		attr.sample_freq = frequency_hz;
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void perf__explain(const char *what, int err)
{
	long paranoid = rights__sysctl("kernel/perf_event_paranoid");

	if (err != -EACCES && err != -EPERM)
		log_err("%s: %s", what, strerror(-err));
	else if (paranoid > PARANOID_UPSTREAM)
		log_err("%s: %s (kernel.perf_event_paranoid is %ld, with which this kernel wants CAP_SYS_ADMIN: "
			"grant it, or: sysctl kernel.perf_event_paranoid=%d)",
			what, strerror(-err), paranoid, PARANOID_UPSTREAM);
	else
		log_err("%s: %s (needs CAP_PERFMON; kernel.perf_event_paranoid is %ld)", what,
			strerror(-err), paranoid);
}

static int open_clocks(struct perf_events *e, uint32_t frequency_hz)
{
	char what[64];

	for (int cpu = 0; cpu < e->cpu_cap; cpu++) {
		int fd = perf__open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, cpu, frequency_hz,
				    0);

		if (fd >= 0) {
			e->clocks[cpu] = fd;
		} else if (fd != -ENODEV) {
			snprintf(what, sizeof(what), "sampling on CPU %d", cpu);
			perf__explain(what, fd);
			return fd;
		}
	}
	return 0;
}

struct perf_events *perf_events__open(uint32_t frequency_hz)
{
	struct perf_events *e = calloc(1, sizeof(*e));
	int cpus = libbpf_num_possible_cpus();

	if (e && cpus > 0)
		e->clocks = malloc((size_t)cpus * sizeof(*e->clocks));
	if (!e || !e->clocks) {
		log_no_memory();
		goto out;
	}
	e->cpu_cap = cpus;
	for (int cpu = 0; cpu < cpus; cpu++)
		e->clocks[cpu] = -1;
	e->watch = mmapwatch__new(0, MMAPWATCH_HALF);
	if (!e->watch) {
		perf__explain("watching for new mappings", -errno);
		goto out;
	}
	if (!open_clocks(e, frequency_hz))
		return e;
out:
	perf_events__free(e);
	return NULL;
}

void perf_events__free(struct perf_events *e)
{
	if (!e)
		return;
	for (int cpu = 0; cpu < e->cpu_cap; cpu++)
		if (e->clocks[cpu] >= 0)
			close(e->clocks[cpu]);
	mmapwatch__free(e->watch);
	free(e->clocks);
	free(e);
}

int perf_events__take_clock(struct perf_events *e, int cpu)
{
	int fd = -1;

	if (e && cpu < e->cpu_cap) {
		fd = e->clocks[cpu];
		e->clocks[cpu] = -1;
	}
	return fd;
}

struct mmapwatch *perf_events__take_watch(struct perf_events *e)
{
	struct mmapwatch *w = e ? e->watch : NULL;

	if (e)
		e->watch = NULL;
	return w;
}
