/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/price.h"

#include <math.h>
#include <time.h>

#include "base/clock.h"

/* If the cost is almost all that was used, what is left is noise: then it is a lower bound. */
double price__slowdown(double cost_ns, double used_ns)
{
	if (cost_ns <= 0)
		return 0;
	if (used_ns <= 0)
		return -1;
	return 100 * cost_ns / fmax(used_ns - cost_ns, 100 * cost_ns / PRICE_SLOWDOWN_MAX);
}

bool price__is_high(double slowdown, double load, double max_slowdown)
{
	return slowdown > max_slowdown && load >= PRICE_NO_LOAD;
}

bool price__cpu_ns(pid_t pid, uint64_t *ns)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return false;
	*ns = timespec_ns(t);
	return true;
}
