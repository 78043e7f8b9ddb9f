/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SCHEDULE_H
#define PYPERF_AGENT_SCHEDULE_H
/*
 * Decides when a period ends: at multiples of its length since the epoch by the wall clock, and at
 * once when that clock was set or the machine slept. Callers pass the time, so nothing here reads a
 * clock.
 *
 * Invariants of a period: its duration is the time that was sampled, by a clock that nobody can
 * set; its start is what the wall clock showed then. If its end by the wall clock would differ from
 * start plus duration by more than SCHEDULE_SLACK_NS, the period has ended and another one has
 * begun.
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

/* Time daemons slew steps below a second, and set the clock for larger ones. */
#define SCHEDULE_SLACK_NS 1000000000ULL

/* The clocks at one instant. */
struct clocks {
	uint64_t real_ns; /* CLOCK_REALTIME: can be set */
	uint64_t mono_ns; /* CLOCK_MONOTONIC: stops while the machine sleeps */
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
/* The monotonic time of the next end, if nobody sets the clock. */
uint64_t schedule__wake_ns(const struct schedule *s, const struct clocks *now);
/* Ends the period and begins the next one, due or not. */
void schedule__take(struct schedule *s, const struct clocks *now, struct span *out);

#endif /* PYPERF_AGENT_SCHEDULE_H */
