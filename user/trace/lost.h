/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LOST_H
#define PYPERF_LOST_H
/* Events that found no room: how many more than was known, by what the latest event says. */
#include <stdint.h>

/*
 * `*known`: so many were lost by now, modulo 2^32; it becomes `lost`. Returns how many that is
 * more. 0 also if `lost` is older: programs on two CPUs may read the number in another order than
 * they took their room.
 */
static inline uint32_t lost_since(uint32_t *known, uint32_t lost)
{
	uint32_t more = lost - *known;

	if ((int32_t)more <= 0)
		return 0;
	*known = lost;
	return more;
}

#endif /* PYPERF_LOST_H */
