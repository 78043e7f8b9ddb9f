/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The perf events of the kernel, one row each. Each CPU has one event of a source, with a program
 * of the sampler; they count into the tables of the sampler.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/setting.h"
#include "follow/perf.h"
#include "process/mmapwatch.h"
#include "sources/sources.h"

struct cpu_event {
	int fd; /* -1: not sampled */
	struct bpf_link *link;
	bool reported; /* the message that the CPU is online and cannot be sampled */
};

struct perf_use {
	struct world world;
	bool by_period; /* a clock whose rate was changed */
	struct cpu_event cpus[];
};

/* ---- one CPU --------------------------------------------------------------------------------- */

static bool is_clock(const struct source_use *u)
{
	return value_type__is_clock(&u->spec.source->type);
}

/* The period of a clock in ns. */
static uint64_t clock_period(const struct source_use *u)
{
	return (uint64_t)(NS_PER_S / u->frequency_hz) * u->slowed;
}

/*
 * A clock that is slowed down gets the period that it has at full rate, times `slowed`: so counts
 * of both rates are multiples of one number. At first the kernel makes the period
 * (perf_swevent_init_hrtimer()), after it has compared the frequency with what it allows; that may
 * be less by the time that the rate is changed.
 */
static int open_event(const struct source_use *u, int cpu)
{
	const struct perf_use *p = u->state;
	const struct source *s = u->spec.source;
	uint32_t hz = u->frequency_hz / u->slowed;
	uint64_t period = p->by_period ? clock_period(u) : u->period * u->slowed;

	return perf__open(s->kind, s->config, cpu, hz ? hz : 1, period);
}

/* No counter: where the kernel has none of this kind, or a hypervisor keeps it. */
static bool is_missing(int err)
{
	return err == -ENOENT || err == -EOPNOTSUPP || err == -ENXIO;
}

static void explain(const struct source_use *u, int cpu, int err)
{
	const struct source *s = u->spec.source;
	long max = rights__sysctl("kernel/perf_event_max_sample_rate");
	char what[64];

	if (err == -EINVAL && max >= 0 && !u->period && (long)u->frequency_hz > max)
		log_err("sampling at %" PRIu32
			" Hz: the kernel allows %ld (lower %s, or raise sysctl "
			"kernel.perf_event_max_sample_rate)",
			u->frequency_hz, max, setting_name("-F", "'frequency ='"));
	else if (s->nmi && is_missing(err))
		log_err("%s %s: this machine has no counter for it: %s (virtual machines often "
			"have none; %s cpu-clock works everywhere)",
			SETTING_EVENT, source__name(s), strerror(-err), SETTING_EVENT);
	else {
		snprintf(what, sizeof(what), "sampling %s on CPU %d", source__name(s), cpu);
		perf__explain(what, err);
	}
}

static void stop_cpu(struct cpu_event *c)
{
	if (c->fd < 0)
		return;
	bpf_link__destroy(c->link); /* closes the perf event as well */
	c->link = NULL;
	c->fd = -1;
}

/*
 * Sends the kernel's records about the event (PERF_RECORD_THROTTLE) to the ring of the mapping
 * watch. Without it throttling goes unnoticed, which is no reason not to sample.
 */
static void set_output(const struct perf_use *p, int fd, int cpu)
{
	int to = p->world.watch ? mmapwatch__ring(p->world.watch, cpu) : -1;

	if (to >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, to))
		log_debug("CPU %d: throttling will not be seen: %s", cpu, strerror(errno));
}

static bool is_wanted(const struct perf_use *p, int cpu)
{
	return !p->world.cpus || p->world.cpus[cpu];
}

/* A CPU that is sampled goes over to a new event. -ENODEV: the CPU is offline. */
static int sample_cpu(const struct source_use *u, int cpu)
{
	struct perf_use *p = u->state;
	struct cpu_event *c = &p->cpus[cpu];
	const struct source *source = u->spec.source;
	int fd = perf_events__take(p->world.events, source->kind, source->config, cpu);
	/* BPF counts by the differences of one counter: two at a time would be taken for one. */
	bool one_counter = c->fd >= 0 && !is_clock(u);
	struct bpf_link *link;

	if (fd < 0)
		fd = open_event(u, cpu);
	if (fd < 0)
		return fd;
	if (one_counter)
		ioctl(c->fd, PERF_EVENT_IOC_DISABLE, 0);
	link = bpf_program__attach_perf_event(p->world.samplers[u->type], fd);
	if (!link) {
		int err = -errno;

		if (one_counter)
			ioctl(c->fd, PERF_EVENT_IOC_ENABLE, 0);
		close(fd);
		return err;
	}
	set_output(p, fd, cpu);
	stop_cpu(c);
	*c = (struct cpu_event){ .fd = fd, .link = link };
	return 0;
}

/*
 * What a sample of a clock is worth: its period. Neither what the kernel says with it, which stays
 * as it was at the start (hw.last_period: perf_swevent_hrtimer(), kernel/events/core.c), nor what
 * the counter adds: that is also the time of ticks that never came, on an idle CPU or while a
 * hypervisor used it, which is nobody's.
 */
static void tell_worth(const struct perf_use *p, const struct source_use *u, uint64_t period)
{
	__atomic_store_n(&p->world.clock_ns[u->type], period, __ATOMIC_RELAXED);
}

/*
 * The kernel has made a period of a clock's frequency (perf_swevent_init_hrtimer()), so that is
 * what the call changes.
 */
static int set_period(const struct source_use *u, int cpu)
{
	const struct perf_use *p = u->state;
	uint64_t period = clock_period(u);

	return ioctl(p->cpus[cpu].fd, PERF_EVENT_IOC_PERIOD, &period) ? -errno : 0;
}

/* ---- the source ------------------------------------------------------------------------------ */

static int perf_open(struct source_use *u, const struct world *w)
{
	struct perf_use *p = calloc(1, sizeof(*p) + (size_t)w->cpu_cap * sizeof(p->cpus[0]));

	if (!p)
		return log_no_memory();
	p->world = *w;
	for (int cpu = 0; cpu < w->cpu_cap; cpu++)
		p->cpus[cpu].fd = -1;
	u->state = p;
	return 0;
}

static void perf_stop(struct source_use *u)
{
	struct perf_use *p = u->state;

	for (int cpu = 0; p && cpu < p->world.cpu_cap; cpu++)
		stop_cpu(&p->cpus[cpu]);
}

static void perf_close(struct source_use *u)
{
	perf_stop(u);
	free(u->state);
	u->state = NULL;
}

static int perf_start(struct source_use *u)
{
	struct perf_use *p = u->state;
	int sampled = 0;

	if (is_clock(u))
		tell_worth(p, u, u->period ? u->period : clock_period(u));
	for (int cpu = 0; cpu < p->world.cpu_cap; cpu++) {
		int err = is_wanted(p, cpu) ? sample_cpu(u, cpu) : -ENODEV;

		sampled += !err;
		if (err && err != -ENODEV) {
			explain(u, cpu, err);
			perf_stop(u);
			return err;
		}
	}
	if (!sampled)
		log_err("sampling: no CPU%s is online", p->world.cpus ? " of --cpu" : "");
	return sampled ? 0 : -ENODEV;
}

static int set_rates(struct source_use *u)
{
	struct perf_use *p = u->state;

	for (int cpu = 0; cpu < p->world.cpu_cap; cpu++) {
		int err;

		if (p->cpus[cpu].fd < 0)
			continue;
		err = is_clock(u) ? set_period(u, cpu) : sample_cpu(u, cpu);
		if (err && err != -ENODEV) { /* or it has just gone offline */
			explain(u, cpu, err);
			return err;
		}
	}
	return 0;
}

/*
 * One CPU after the other changes its rate. Meanwhile a sample of a clock is worth the shorter of
 * both periods: a sample at the higher rate must never be worth one at the lower.
 */
static int perf_set_rate(struct source_use *u)
{
	struct perf_use *p = u->state;
	uint64_t old, period;
	int err;

	if (!is_clock(u))
		return set_rates(u);
	p->by_period = true;
	old = __atomic_load_n(&p->world.clock_ns[u->type], __ATOMIC_RELAXED);
	period = clock_period(u);
	if (period < old)
		tell_worth(p, u, period);
	err = set_rates(u);
	if (!err)
		tell_worth(p, u, period);
	return err;
}

/* A CPU that cannot be sampled is tried again, but reported once. */
static int start_cpu(struct source_use *u, int cpu)
{
	struct perf_use *p = u->state;
	int err = sample_cpu(u, cpu);

	if (err && err != -ENODEV && !p->cpus[cpu].reported) {
		explain(u, cpu, err);
		p->cpus[cpu].reported = true;
	}
	return err;
}

/* The kernel takes the events of a CPU that goes offline away for good. */
static int perf_cpus(struct source_use *u, const bool *online)
{
	struct perf_use *p = u->state;
	int first = 0;

	for (int cpu = 0; cpu < p->world.cpu_cap; cpu++) {
		int err = 0;

		if (!online[cpu])
			stop_cpu(&p->cpus[cpu]);
		else if (p->cpus[cpu].fd < 0 && is_wanted(p, cpu))
			err = start_cpu(u, cpu);
		first = first ? first : err;
	}
	return first;
}

/* Opened on one CPU. */
static const char *check(const struct source *s)
{
	int fd = perf__open(s->kind, s->config, sched_getcpu(), 1, 0);

	if (fd >= 0) {
		close(fd);
		return NULL;
	}
	if (fd == -EACCES || fd == -EPERM)
		return "not permitted: ask as root";
	return s->nmi ? "no counter here" : "not in this kernel";
}

#define EVENT(id)                                                                                  \
	.type = { .event = EVENT_##id }, .open = perf_open, .start = perf_start,                   \
	.set_rate = perf_set_rate, .cpus = perf_cpus, .stop = perf_stop, .close = perf_close,      \
	.check = check, .perf = true
#define SOFTWARE(what) .kind = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_##what
#define HARDWARE(what) .kind = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_##what, .nmi = true

const struct source perf_sources[] = {
	{ EVENT(CPU_CLOCK), SOFTWARE(CPU_CLOCK) },
	{ EVENT(TASK_CLOCK), SOFTWARE(TASK_CLOCK) },
	{ EVENT(CYCLES), HARDWARE(CPU_CYCLES) },
	{ EVENT(INSTRUCTIONS), HARDWARE(INSTRUCTIONS) },
	{ EVENT(CACHE_MISSES), HARDWARE(CACHE_MISSES) },
	{ EVENT(BRANCH_MISSES), HARDWARE(BRANCH_MISSES) },
	{ EVENT(PAGE_FAULTS), SOFTWARE(PAGE_FAULTS) },
	{ EVENT(MINOR_FAULTS), SOFTWARE(PAGE_FAULTS_MIN) },
	{ EVENT(MAJOR_FAULTS), SOFTWARE(PAGE_FAULTS_MAJ) },
	{ EVENT(CONTEXT_SWITCHES), SOFTWARE(CONTEXT_SWITCHES) },
	{ EVENT(CPU_MIGRATIONS), SOFTWARE(CPU_MIGRATIONS) },
	{ .check = NULL },
};
