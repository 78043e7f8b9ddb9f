/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/budget.h"

#include <inttypes.h>

#include "log.h"

void budget__init(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz)
{
	*b = (struct budget){ 0 };
	budget__set(b, limits, frequency_hz);
}

void budget__set(struct budget *b, const struct budget_config *limits, uint32_t frequency_hz)
{
	b->limits = *limits;
	b->frequency_cfg = b->frequency_hz = frequency_hz;
	b->stacks = limits->stacks;
	b->calm_cpu = b->calm_memory = 0;
	b->give_back = false;
}

/* ---- processor ---------------------------------------------------------------------------------------- */

static uint32_t lower(uint32_t hz)
{
	return hz * 2 / 3 > 1 ? hz * 2 / 3 : 1;
}

static uint32_t higher(const struct budget *b)
{
	uint32_t hz = b->frequency_hz * 3 / 2;

	if (hz == b->frequency_hz)
		hz++;
	return hz < b->frequency_cfg ? hz : b->frequency_cfg;
}

static void slow_down(struct budget *b, double percent)
{
	uint32_t hz = lower(b->frequency_hz);

	if (hz == b->frequency_hz) {
		if (!b->said_cpu)
			log_warn(
				"%.2f%% of a CPU is more than the budget of %g%%, and the frequency cannot be lower "
				"than %" PRIu32 " Hz",
				percent, b->limits.cpu_percent, hz);
		b->said_cpu = true;
		return;
	}
	b->said_cpu = false;
	log_warn("%.2f%% of a CPU is more than the budget of %g%%: from %" PRIu32
		 " down to %" PRIu32 " Hz",
		 percent, b->limits.cpu_percent, b->frequency_hz, hz);
	b->frequency_hz = hz;
}

static void speed_up(struct budget *b)
{
	uint32_t hz = higher(b);

	b->calm_cpu = 0;
	log_info("the CPU budget of %g%% has room: from %" PRIu32 " up to %" PRIu32 " Hz",
		 b->limits.cpu_percent, b->frequency_hz, hz);
	b->frequency_hz = hz;
}

static void say_no_help(struct budget *b, double percent)
{
	if (!b->said_cpu)
		log_warn(
			"%.2f%% of a CPU is more than the budget of %g%%, most of it to follow processes that start "
			"and end: a lower frequency would not help",
			percent, b->limits.cpu_percent);
	b->said_cpu = true;
}

void budget__cpu(struct budget *b, uint64_t used_ns, uint64_t samples_ns, uint64_t duration_ns)
{
	double percent = duration_ns ? 100.0 * (double)used_ns / (double)duration_ns : 0;

	if (b->periods++ < BUDGET_GRACE)
		return;
	if (percent > b->limits.cpu_percent) {
		b->calm_cpu = 0;
		if (samples_ns < used_ns / 4)
			say_no_help(b, percent);
		else
			slow_down(b, percent);
		return;
	}
	b->said_cpu = false;
	if (b->frequency_hz == b->frequency_cfg)
		return;
	if (percent * higher(b) / b->frequency_hz > 0.8 * b->limits.cpu_percent)
		b->calm_cpu = 0;
	else if (++b->calm_cpu == BUDGET_CALM)
		speed_up(b);
}

/* ---- memory --------------------------------------------------------------------------------------------- */

static void take_less(struct budget *b, uint64_t mib)
{
	uint32_t stacks = b->stacks / 2 > BUDGET_STACKS_MIN ? b->stacks / 2 : BUDGET_STACKS_MIN;

	b->calm_memory = 0;
	if (!b->give_back) {
		log_warn("%" PRIu64 " MiB of memory are more than the budget of %" PRIu32
			 ": symbols are not kept",
			 mib, b->limits.memory_mib);
		b->give_back = true;
	} else if (stacks < b->stacks) {
		log_warn("%" PRIu64 " MiB of memory are more than the budget of %" PRIu32
			 ": from %" PRIu32 " down to %" PRIu32 " stacks in a period",
			 mib, b->limits.memory_mib, b->stacks, stacks);
		b->stacks = stacks;
	} else {
		if (!b->said_memory)
			log_warn("%" PRIu64 " MiB of memory are more than the budget of %" PRIu32
				 ", and there is nothing to give back",
				 mib, b->limits.memory_mib);
		b->said_memory = true;
	}
}

static void take_more(struct budget *b)
{
	b->calm_memory = 0;
	if (b->stacks < b->limits.stacks) {
		b->stacks = b->stacks < b->limits.stacks / 2 ? b->stacks * 2 : b->limits.stacks;
		log_info("the memory budget has room: up to %" PRIu32 " stacks in a period",
			 b->stacks);
	} else {
		log_info("the memory budget has room: symbols are kept");
		b->give_back = false;
	}
}

void budget__memory(struct budget *b, uint64_t bytes)
{
	uint64_t limit = (uint64_t)b->limits.memory_mib << 20;

	b->said_memory &= bytes > limit;
	if (bytes > limit)
		take_less(b, bytes >> 20);
	else if (!b->give_back || bytes > limit / 4 * 3)
		b->calm_memory = 0;
	else if (++b->calm_memory == BUDGET_CALM)
		take_more(b);
}
