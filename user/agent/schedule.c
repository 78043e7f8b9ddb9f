/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/schedule.h"

#include <time.h>

#include "base/clock.h"

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return timespec_ns(t);
}

void clocks__read(struct clocks *out)
{
	out->real_ns = clock_ns(CLOCK_REALTIME);
	out->mono_ns = clock_ns(CLOCK_MONOTONIC);
	out->boot_ns = clock_ns(CLOCK_BOOTTIME);
}

void schedule__begin(struct schedule *s, uint64_t length_ns, const struct clocks *now)
{
	s->length_ns = length_ns;
	s->begin = *now;
	s->due_ns = (now->real_ns / length_ns + 1) * length_ns;
	if (s->due_ns - now->real_ns < length_ns / 4)
		s->due_ns += length_ns;
}

static uint64_t sampled_ns(const struct schedule *s, const struct clocks *now)
{
	return now->mono_ns > s->begin.mono_ns ? now->mono_ns - s->begin.mono_ns : 0;
}

static uint64_t slept_ns(const struct schedule *s, const struct clocks *now)
{
	uint64_t sampled = sampled_ns(s, now);
	uint64_t passed = now->boot_ns > s->begin.boot_ns ? now->boot_ns - s->begin.boot_ns : 0;

	return passed > sampled ? passed - sampled : 0;
}

/* How much further the wall clock advanced than time passed. */
static int64_t set_by_ns(const struct schedule *s, const struct clocks *now)
{
	return (int64_t)(now->real_ns - s->begin.real_ns) -
	       (int64_t)(now->boot_ns - s->begin.boot_ns);
}

enum schedule_why schedule__check(const struct schedule *s, const struct clocks *now)
{
	int64_t set = set_by_ns(s, now);

	if (slept_ns(s, now) > SCHEDULE_SLACK_NS)
		return SCHEDULE_SLEPT;
	if (set > (int64_t)SCHEDULE_SLACK_NS || set < -(int64_t)SCHEDULE_SLACK_NS)
		return SCHEDULE_CLOCK_SET;
	return now->real_ns >= s->due_ns ? SCHEDULE_DUE : SCHEDULE_RUNS;
}

uint64_t schedule__wake_ns(const struct schedule *s, const struct clocks *now)
{
	return now->mono_ns + (s->due_ns > now->real_ns ? s->due_ns - now->real_ns : 0);
}

void schedule__take(struct schedule *s, const struct clocks *now, struct span *out)
{
	uint64_t slept = slept_ns(s, now);

	out->start_unix_ns = s->begin.real_ns;
	out->duration_ns = sampled_ns(s, now);
	out->jump_ns = slept > SCHEDULE_SLACK_NS ? (int64_t)slept : set_by_ns(s, now);
	schedule__begin(s, s->length_ns, now);
}
