/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/when.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"

#define SECONDS_MAX 253402300799LL /* 9999-12-31T23:59:59Z */

/* Times are stored in 64 signed bits: later times than April 2262 are set to the end. */
static uint64_t to_ns(long long seconds, uint64_t ns)
{
	return seconds >= INT64_MAX / (long long)NS_PER_S ? INT64_MAX
							  : (uint64_t)seconds * NS_PER_S + ns;
}

/* `digits` digits and then `end` (0: anything), into *out; *s is behind them. */
static bool take(const char **s, int digits, char end, int *out)
{
	*out = 0;
	for (; digits; digits--, (*s)++) {
		if (**s < '0' || **s > '9')
			return false;
		*out = *out * 10 + (**s - '0');
	}
	if (!end)
		return true;
	return *(*s)++ == end;
}

/* ".5" and the like; digits beyond nanoseconds count for nothing. */
static bool take_fraction(const char **s, uint64_t *ns)
{
	uint64_t unit = NS_PER_S;

	*ns = 0;
	if (**s != '.')
		return true;
	if (*++*s < '0' || **s > '9')
		return false;
	for (; **s >= '0' && **s <= '9'; (*s)++) {
		unit /= 10;
		*ns += unit * (uint64_t)(**s - '0');
	}
	return true;
}

/* Takes "Z" or "+01:00" off the end. *local: there is neither. */
static bool take_zone(const char *s, bool *local, int *seconds)
{
	int sign = *s == '-' ? -1 : 1, hours, minutes;

	*local = !*s;
	*seconds = 0;
	if (!*s || !strcmp(s, "Z") || !strcmp(s, "z"))
		return true;
	if (*s != '+' && *s != '-')
		return false;
	s++;
	if (!take(&s, 2, ':', &hours) || !take(&s, 2, 0, &minutes) || *s || hours > 23 ||
	    minutes > 59)
		return false;
	*seconds = sign * (hours * 3600 + minutes * 60);
	return true;
}

/* mktime() takes the 31st of February for the 3rd of March. */
static bool to_seconds(const struct tm *tm, bool local, long long *out)
{
	struct tm copy = *tm;
	time_t t;

	copy.tm_isdst = -1;
	t = local ? mktime(&copy) : timegm(&copy);
	*out = t;
	return tm->tm_mon >= 0 && copy.tm_mday == tm->tm_mday && copy.tm_mon == tm->tm_mon &&
	       tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec <= 60;
}

static int parse_date(const char *s, uint64_t *out)
{
	struct tm tm = { 0 };
	long long seconds;
	uint64_t ns = 0;
	bool local;
	int zone;

	if (!take(&s, 4, '-', &tm.tm_year) || !take(&s, 2, '-', &tm.tm_mon) ||
	    !take(&s, 2, 0, &tm.tm_mday))
		return -EINVAL;
	if (*s && *s != 'T' && *s != 't' && *s != ' ')
		return -EINVAL;
	if (*s) {
		s++;
		if (!take(&s, 2, ':', &tm.tm_hour) || !take(&s, 2, 0, &tm.tm_min))
			return -EINVAL;
		if (*s == ':' && (s++, !take(&s, 2, 0, &tm.tm_sec) || !take_fraction(&s, &ns)))
			return -EINVAL;
	}
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	if (!take_zone(s, &local, &zone) || !to_seconds(&tm, local, &seconds))
		return -EINVAL;
	seconds -= zone;
	if (seconds < 0)
		return -EINVAL;
	*out = to_ns(seconds, ns);
	return 0;
}

int when_parse(const char *text, uint64_t now_ns, uint64_t *out)
{
	long long seconds;
	uint64_t period;

	if (!strcmp(text, "now")) {
		*out = now_ns;
		return 0;
	}
	if (*text == '-') {
		if (parse_period(text + 1, 0, now_ns / NS_PER_S, &period))
			return -EINVAL;
		*out = now_ns - period * NS_PER_S;
		return 0;
	}
	if (!parse_int(text, 0, SECONDS_MAX, &seconds)) {
		*out = to_ns(seconds, 0);
		return 0;
	}
	return parse_date(text, out);
}

void when_print(uint64_t unix_ns, char out[WHEN_LEN])
{
	time_t t = (time_t)(unix_ns / NS_PER_S);
	struct tm tm;

	if (t > SECONDS_MAX - 86400 || !localtime_r(&t, &tm) ||
	    !strftime(out, WHEN_LEN, "%Y-%m-%d %H:%M:%S", &tm))
		strcpy(out, "9999-12-31 23:59:59");
}
