/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/budget.h"

#include <inttypes.h>

#include "base/log.h"

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
	b->stretch = 1;
	b->last_hz = 0;
	b->model_periods = 0;
	b->calm_cpu = b->calm_memory = 0;
	b->give_back = false;
}

/* ---- processor ------------------------------------------------------------------------------- */

/* What a period took, in percent of a CPU. */
struct cost {
	double all, samples, limit;
};

static uint32_t floor_hz(const struct budget *b)
{
	return b->frequency_cfg < BUDGET_HZ_MIN ? b->frequency_cfg : BUDGET_HZ_MIN;
}

/*
 * From this period and the last one, if they had different frequencies and nothing else that we
 * know of.
 */
static void learn(struct budget *b, const struct cost *c)
{
	double hz = b->frequency_hz, most = c->samples / hz;

	b->model_periods -= b->model_periods > 0;
	if (b->last_hz && b->last_hz != b->frequency_hz) {
		b->per_hz = (b->last_samples - c->samples) / ((double)b->last_hz - hz);
		b->model_periods = BUDGET_MODEL;
	}
	/* Whatever the load was then: not less than nothing, and not more than all there is now. */
	b->per_hz = b->per_hz < 0 ? 0 : b->per_hz > most ? most : b->per_hz;
	b->last_hz = b->frequency_hz;
	b->last_samples = c->samples;
}

/* b, or as much as it can be. */
static double per_hz(const struct budget *b, const struct cost *c)
{
	return b->model_periods ? b->per_hz : c->samples / b->frequency_hz;
}

static uint32_t higher(const struct budget *b)
{
	uint32_t hz = b->frequency_hz * 3 / 2;

	if (hz == b->frequency_hz)
		hz++;
	return hz < b->frequency_cfg ? hz : b->frequency_cfg;
}

/* Where it fits, by what was measured; before that, a third less. */
static uint32_t lower(const struct budget *b, const struct cost *c)
{
	double fits = b->frequency_hz * 2 / 3;

	if (b->model_periods && b->per_hz > 0)
		fits = b->frequency_hz - (c->all - 0.9 * c->limit) / b->per_hz;
	if (fits < floor_hz(b))
		return floor_hz(b);
	return fits < b->frequency_hz ? (uint32_t)fits : b->frequency_hz;
}

static void slow_down(struct budget *b, const struct cost *c)
{
	uint32_t hz = lower(b, c);

	b->said_cpu = false;
	log_warn("%.2f%% of a CPU is more than the budget of %g%%: from %" PRIu32
		 " down to %" PRIu32 " Hz",
		 c->all, c->limit, b->frequency_hz, hz);
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

static void set_stretch(struct budget *b, uint32_t stretch)
{
	b->stretch = stretch;
	b->calm_cpu = 0;
	b->last_hz = 0;
}

/* Lowering the frequency has not helped, and would not at the configured one. */
static bool was_in_vain(const struct budget *b, const struct cost *c)
{
	double at_cfg = c->all + b->per_hz * (b->frequency_cfg - b->frequency_hz);

	return b->model_periods && b->frequency_hz < b->frequency_cfg &&
	       b->per_hz * b->frequency_cfg < (at_cfg - c->limit) / 2;
}

static void say_no_help(struct budget *b, const struct cost *c)
{
	if (b->said_cpu)
		return;
	b->said_cpu = true;
	if (b->frequency_hz == floor_hz(b) && per_hz(b, c) * b->frequency_hz > c->all / 2)
		log_warn(
			"%.2f%% of a CPU is more than the budget of %g%%, and the frequency cannot "
			"be lower than %" PRIu32 " Hz",
			c->all, c->limit, b->frequency_hz);
	else
		log_warn("%.2f%% of a CPU is more than the budget of %g%%, most of it to follow "
			 "processes that start and end: neither a lower frequency nor longer "
			 "windows would help",
			 c->all, c->limit);
}

static void take_action(struct budget *b, const struct cost *c)
{
	double excess = c->all - c->limit, slope = per_hz(b, c);
	/* Paid for each window: names, encoding, storing. */
	double fixed = b->model_periods ? c->samples - slope * b->frequency_hz : c->samples;

	if (was_in_vain(b, c)) {
		log_warn("%.2f%% of a CPU is more than the budget of %g%%, of which sampling takes "
			 "%.2f%%: from %" PRIu32 " back up to %" PRIu32 " Hz",
			 c->all, c->limit, slope * b->frequency_hz, b->frequency_hz,
			 b->frequency_cfg);
		b->frequency_hz = b->frequency_cfg;
	} else if (b->frequency_hz > floor_hz(b) && slope * b->frequency_hz >= excess / 2) {
		slow_down(b, c);
	} else if (b->stretch < BUDGET_STRETCH_MAX && fixed >= excess / 4) {
		set_stretch(b, b->stretch * 2);
		log_warn(
			"%.2f%% of a CPU is more than the budget of %g%%, and sampling is not what "
			"takes it: windows are %" PRIu32 " times as long",
			c->all, c->limit, b->stretch);
	} else {
		say_no_help(b, c);
	}
}

/* With four fifths of the budget, as they were. */
static void take_back(struct budget *b, const struct cost *c)
{
	double then = c->all;

	if (b->stretch > 1)
		then += c->samples;
	else if (b->model_periods)
		then += b->per_hz * (higher(b) - b->frequency_hz);
	else
		then = then * higher(b) / b->frequency_hz;
	if (then > 0.8 * c->limit) {
		b->calm_cpu = 0;
	} else if (++b->calm_cpu == BUDGET_CALM && b->stretch > 1) {
		set_stretch(b, b->stretch / 2);
		log_info("the CPU budget of %g%% has room: windows are %" PRIu32
			 " times as long as configured",
			 c->limit, b->stretch);
	} else if (b->calm_cpu == BUDGET_CALM) {
		speed_up(b);
	}
}

void budget__cpu(struct budget *b, uint64_t used_ns, uint64_t samples_ns, uint64_t duration_ns)
{
	double duration = duration_ns ? (double)duration_ns : 1;
	struct cost c = { .all = 100.0 * (double)used_ns / duration,
			  .samples = 100.0 * (double)samples_ns / duration,
			  .limit = b->limits.cpu_percent };

	if (b->periods++ < BUDGET_GRACE)
		return;
	learn(b, &c);
	if (c.all > c.limit) {
		b->calm_cpu = 0;
		take_action(b, &c);
		return;
	}
	b->said_cpu = false;
	if (b->frequency_hz != b->frequency_cfg || b->stretch > 1)
		take_back(b, &c);
}

/* ---- memory ---------------------------------------------------------------------------------- */

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
