/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LOST_H
#define PYPERF_LOST_H
/*
 * Events that found no room: how many more than was known, by what the latest event says, and the
 * line that says so where they are missing.
 */
#include <stdint.h>

#include "base/str.h"

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

enum lost_form {
	LOST_LINE,   /* among the lines of events, whose times stand in its first column */
	LOST_REMARK, /* with a mark: lines as another tool has them */
	LOST_JSON,
};

/*
 * Appends the line. `what` says what they are, as "events"; `version` is that of the CPython that
 * they came from, NULL: there is only one.
 */
void lost__add(struct strbuf *b, enum lost_form form, const char *what, const char *version,
	       uint32_t cnt);

#endif /* PYPERF_LOST_H */
