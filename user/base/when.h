/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WHEN_H
#define PYPERF_WHEN_H
/*
 * Parses and prints points in time as people write them. Values are nanoseconds since 1970 (UTC),
 * at most INT64_MAX (the year 2262).
 *
 *	now
 *	-90s -30m -1h -1h30m -7d		before now, see parse_period()
 *	1795255200				seconds since 1970
 *	2026-11-21T10:00:00Z ...+01:00 ...05.5Z	RFC 3339
 *	2026-11-21T10:00 "2026-11-21 10:00:05"	in the time zone of this machine
 *	2026-11-21				midnight there
 */
#include <stddef.h>
#include <stdint.h>

/* The forms that when_parse() accepts, for a message. */
#define WHEN_FORMS "now, -1h, 2026-11-21T10:00:00Z, \"2026-11-21 10:00\" or seconds since 1970"

/* 0, or -EINVAL. */
int when_parse(const char *text, uint64_t now_ns, uint64_t *out);

#define WHEN_LEN 20 /* "2026-11-21 10:00:05" and a NUL */

/* Local time; years beyond 9999 are 9999. */
void when_print(uint64_t unix_ns, char out[WHEN_LEN]);

#endif /* PYPERF_WHEN_H */
