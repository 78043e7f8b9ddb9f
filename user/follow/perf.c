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
	struct perf_kind *kinds;
	int *fds; /* of each kind, of each possible CPU; -1: none */
	size_t kind_cnt;
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
		/*
		 * The clock of the mapping watch: otherwise its rings do not take this event's
		 * records (perf_event_set_output()).
		 */
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
		log_err("%s: %s (kernel.perf_event_paranoid is %ld, with which this kernel wants "
			"CAP_SYS_ADMIN: grant it, or: sysctl kernel.perf_event_paranoid=%d)",
			what, strerror(-err), paranoid, PARANOID_UPSTREAM);
	else
		log_err("%s: %s (needs CAP_PERFMON; kernel.perf_event_paranoid is %ld)", what,
			strerror(-err), paranoid);
}

static int open_kind(struct perf_events *e, size_t kind, uint32_t frequency_hz)
{
	int *fds = e->fds + kind * (size_t)e->cpu_cap;
	char what[64];

	for (int cpu = 0; cpu < e->cpu_cap; cpu++) {
		int fd = perf__open(e->kinds[kind].type, e->kinds[kind].config, cpu, frequency_hz,
				    0);

		if (fd >= 0) {
			fds[cpu] = fd;
		} else if (fd != -ENODEV) {
			snprintf(what, sizeof(what), "sampling %s on CPU %d", e->kinds[kind].name,
				 cpu);
			perf__explain(what, fd);
			return fd;
		}
	}
	return 0;
}

static int open_events(struct perf_events *e, uint32_t frequency_hz)
{
	int err = 0;

	e->watch = mmapwatch__new(0, MMAPWATCH_HALF);
	if (!e->watch) {
		err = -errno;
		perf__explain("watching for new mappings", err);
	}
	for (size_t i = 0; i < e->kind_cnt && !err; i++)
		err = open_kind(e, i, frequency_hz);
	return err;
}

struct perf_events *perf_events__open(const struct perf_kind *kinds, size_t cnt,
				      uint32_t frequency_hz)
{
	struct perf_events *e = calloc(1, sizeof(*e));
	int cpus = libbpf_num_possible_cpus();

	if (e && cpus > 0) {
		e->fds = malloc(cnt * (size_t)cpus * sizeof(*e->fds));
		e->kinds = malloc(cnt * sizeof(*kinds));
	}
	if (!e || !e->fds || !e->kinds) {
		log_no_memory();
		goto out;
	}
	memcpy(e->kinds, kinds, cnt * sizeof(*kinds));
	e->kind_cnt = cnt;
	e->cpu_cap = cpus;
	for (size_t i = 0; i < cnt * (size_t)cpus; i++)
		e->fds[i] = -1;
	if (!open_events(e, frequency_hz))
		return e;
out:
	perf_events__free(e);
	return NULL;
}

void perf_events__free(struct perf_events *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->kind_cnt * (size_t)e->cpu_cap; i++)
		if (e->fds[i] >= 0)
			close(e->fds[i]);
	mmapwatch__free(e->watch);
	free(e->fds);
	free(e->kinds);
	free(e);
}

int perf_events__take(struct perf_events *e, uint32_t type, uint64_t config, int cpu)
{
	int fd = -1;

	for (size_t i = 0; e && cpu < e->cpu_cap && i < e->kind_cnt; i++) {
		int *at = &e->fds[i * (size_t)e->cpu_cap + (size_t)cpu];

		/* Several sources with such an event take one each. */
		if (e->kinds[i].type != type || e->kinds[i].config != config || *at < 0)
			continue;
		fd = *at;
		*at = -1;
		break;
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
