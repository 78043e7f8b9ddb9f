/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "top/topwords.h"

#include <string.h>

#include "base/clock.h"

void topwords__add_percent(struct strbuf *b, double percent)
{
	strbuf__addf(b, percent < 999.95 ? "%.1f" : "%.0f", percent);
}

/* As it is if it is below `limit`, else in thousands and so on: "1234k". */
static void add_number(struct strbuf *b, double n, double limit)
{
	const char *unit = "kMGTPE";

	if (n < limit - 0.5) {
		strbuf__addf(b, "%.0f", n);
		return;
	}
	for (n /= 1000; n >= 9999.5 && unit[1]; n /= 1000)
		unit++;
	strbuf__addf(b, "%.0f%c", n, *unit);
}

static double per_second(uint64_t count, uint64_t interval_ns)
{
	return interval_ns ? (double)count * NS_PER_S / (double)interval_ns : 0;
}

static double percent_of(const struct value_type *v, uint64_t count, uint64_t interval_ns)
{
	return per_second(count, interval_ns) * 100 * value_type__seconds(v, 1);
}

void topwords__add_rate(struct strbuf *b, const struct value_type *v, uint64_t count,
			uint64_t interval_ns)
{
	double n = per_second(count, interval_ns);

	if (value_type__per_second(v))
		topwords__add_percent(b, percent_of(v, count, interval_ns));
	else if (n < 999.95)
		strbuf__addf(b, "%.1f", n);
	else
		add_number(b, n, 1e5);
}

void topwords__add_amount(struct strbuf *b, const struct value_type *v, uint64_t count)
{
	double s = value_type__seconds(v, count);

	if (value_type__per_second(v))
		strbuf__addf(b, s < 9999.995 ? "%.2f" : "%.0f", s);
	else
		add_number(b, (double)count, 1e8);
}

void topwords__add_sum(struct strbuf *b, const struct value_type *v, uint64_t count,
		       uint64_t interval_ns)
{
	const char *column = value_type__rate_column(v); /* "CPU%" */

	topwords__add_rate(b, v, count, interval_ns);
	if (value_type__per_second(v))
		strbuf__addf(b, "%% %.*s", (int)strcspn(column, "%"), column);
	else
		strbuf__addf(b, " %s/s", value_type__noun(v, 2));
}

/* ---- Help ------------------------------------------------------------------------------------ */

static const char keys[] =
	"Keys\n"
	"  Enter, Right       open: a process, a thread, a function's lines\n"
	"  Escape, Left       back\n"
	"  Up Down, k j       move; also PageUp, PageDown, Home, End\n"
	"  p                  processes\n"
	"  t                  threads of the process (among processes: of the marked one)\n"
	"  f                  functions of the process or thread\n"
	"  a                  functions of all processes\n"
	"  e                  the next event, where -e names several\n"
	"  s                  sort by the next column; 1 to 9: by that column\n"
	"  r                  reverse the order\n"
	"  /                  show only rows that contain a text; then Escape: all rows\n"
	"  n                  show native and kernel functions, too\n"
	"  space              pause: what is sampled meanwhile is counted afterwards\n"
	"  q, Ctrl-C          quit\n"
	"\n"
	"Columns\n";

static const char columns[] =
	"  OWN                in the function or in native code that it called; with n only\n"
	"                     in itself\n"
	"  TOTAL              in the function and all that it called\n"
	"  HOTTEST LINE       of the function, since the start\n"
	"  THR                threads with any of it in the last interval\n"
	"  WAIT% QUEUE% GIL%  waiting, waiting for a CPU, waiting for the GIL, if waits are\n"
	"                     counted (-e wall or off-cpu); 100 is one thread all the time\n"
	"  GIL                who holds it, and who waits for it, at the last look\n"
	"\n";

/* "  CPU%               100 is one thread on a CPU" */
static void add_rate_help(struct strbuf *b, const struct value_type *v)
{
	strbuf__addf(b, "  %-18s ", value_type__rate_column(v));
	if (*value_type__doing(v))
		strbuf__addf(b, "100 is one thread %s all the time\n", value_type__doing(v));
	else if (value_type__per_second(v))
		strbuf__addf(b, "%s; 100 is as much as time passed\n", value_type__whole(v));
	else
		strbuf__addf(b, "%s per second\n", value_type__noun(v, 2));
}

void topwords__add_help(struct strbuf *b, const struct value_type *v)
{
	const char *s = value_type__per_second(v) ? " s" : "";

	strbuf__addz(b, keys);
	strbuf__addf(
		b, "  %s, OWN%%, TOTAL%%: the last interval; %s, OWN%s, TOTAL%s: since the start\n",
		value_type__rate_column(v), value_type__column(v), s, s);
	add_rate_help(b, v);
	strbuf__addf(b, "  OWN%%, TOTAL%%       share of the %s of what is shown\n",
		     value_type__shared(v));
	strbuf__addz(b, columns);
	if (value_type__is_clock(v))
		strbuf__addf(b, "Only %s is sampled: what waits, for a lock or for data, is 0%%.\n",
			     value_type__counts(v));
	else
		strbuf__addf(b, "What is counted: %s.\n", value_type__counts(v));
}
