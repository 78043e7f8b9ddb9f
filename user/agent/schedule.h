/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SCHEDULE_H
#define PYPERF_AGENT_SCHEDULE_H
/*
 * When a period ends: at the multiples of its length since the epoch, as the wall clock shows them,
 * and at once when that clock was set or the machine slept. Time is passed in, so nothing here asks
 * a clock.
 *
 * What is promised of a period: its duration is the time that was sampled, measured by a clock that
 * nobody can set; its start is what the wall clock showed then; where its end by the wall clock
 * would be another than start plus duration (by more than SCHEDULE_SLACK_NS), the period has ended
 * and another one has begun.
 *
 *	schedule__begin(&s, length_ns, &now);
 *	...
 *	why = schedule__check(&s, &now);	at least once a second
 *	if (why != SCHEDULE_RUNS) {
 *		schedule__take(&s, &now, &span);	this one, and the next one begins
 *		... drain ...
 *	}
 */
#include <stdint.h>

/* A second of steps is what time daemons slew; what they set at once is more. */
#define SCHEDULE_SLACK_NS 1000000000ULL

/* The clocks at one instant. */
struct clocks {
	uint64_t real_ns; /* CLOCK_REALTIME: can be set */
	uint64_t mono_ns; /* CLOCK_MONOTONIC: stands still while the machine sleeps */
	uint64_t boot_ns; /* CLOCK_BOOTTIME: does not */
};

enum schedule_why {
	SCHEDULE_RUNS = 0,
	SCHEDULE_DUE = 1,
	SCHEDULE_CLOCK_SET = 2, /* forwards or backwards */
	SCHEDULE_SLEPT = 3,	/* suspend and resume */
};

struct schedule {
	uint64_t length_ns;
	struct clocks begin;
	uint64_t due_ns; /* by real_ns; in the middle of a period it is a multiple of the length */
};

/* What a period covered. */
struct span {
	uint64_t start_unix_ns, duration_ns;
	int64_t jump_ns; /* how far the wall clock was set; or how long the machine slept */
};

void clocks__read(struct clocks *out);

/*
 * The first period ends at the first multiple, or the one after it if that is less than a quarter
 * of the length away: no period is tiny.
 */
void schedule__begin(struct schedule *s, uint64_t length_ns, const struct clocks *now);
enum schedule_why schedule__check(const struct schedule *s, const struct clocks *now);
/* The monotonic time until which nothing is due, if no clock is set. */
uint64_t schedule__wake_ns(const struct schedule *s, const struct clocks *now);
/* Ends the period and begins the next one, whatever check() said. */
void schedule__take(struct schedule *s, const struct clocks *now, struct span *out);

#endif /* PYPERF_AGENT_SCHEDULE_H */
