/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "rate.h"

double rate__budget(long max_percent)
{
	long percent = max_percent > 0 && max_percent < 100 ? max_percent : RATE_DEFAULT_PERCENT;

	return RATE_SHARE * (double)percent / 100;
}

uint32_t rate__slow_down(uint32_t slowed, double share, double budget)
{
	while (share > budget && slowed < RATE_SLOWEST) {
		slowed *= 2;
		share /= 2;
	}
	return slowed;
}
