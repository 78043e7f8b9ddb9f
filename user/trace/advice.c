/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/advice.h"

#include <math.h>
#include <string.h>

#define FUNCTIONS      3
#define LEAST_SHARE    10 /* percent of the calls, of functions behind the first one */
#define NAME_MAX_SHOWN 80 /* characters */
#define FILTER_CHARS   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.<>"

static uint64_t entered(const struct traced *f)
{
	return f->calls + f->resumed;
}

static void add_share(struct strbuf *b, const struct traced *f, double percent, bool first,
		      bool filtered)
{
	strbuf__addf(b, first ? "; %.0f%% of the %scalls are of " : ", %.0f%%%s of ", percent,
		     first && filtered ? "wanted " : "");
	str_sanitise(b, f->function.name, f->function.name_len, NAME_MAX_SHOWN);
	if (!f->function.file_len)
		return;
	strbuf__addz(b, " (");
	str_sanitise(b, f->function.file, f->function.file_len, NAME_MAX_SHOWN);
	strbuf__addf(b, ":%u)", f->function.first_line);
}

/* It can stand in a line of a shell, and selects this name alone. */
static bool can_be_typed(const struct traced *f)
{
	return f->function.number != TRACER_UNKNOWN && f->function.name_len &&
	       f->function.name_len <= NAME_MAX_SHOWN &&
	       strspn(f->function.name, FILTER_CHARS) == f->function.name_len;
}

/* The wanted ones, most calls first, and all their calls. */
static uint64_t keep_wanted(struct tracer *tr, struct traced_list *l)
{
	uint64_t sum = 0;
	size_t kept = 0;

	for (size_t i = 0; i < l->cnt; i++) {
		if (!tracer__wants(tr, &l->all[i].function))
			continue;
		sum += entered(&l->all[i]);
		l->all[kept++] = l->all[i];
	}
	l->cnt = kept;
	return sum;
}

static void add_functions(struct strbuf *b, struct tracer *tr, pid_t pid, double slowdown,
			  bool filtered)
{
	struct traced_list l = { 0 };
	struct strbuf filters = { 0 };
	double share = 0;
	uint64_t sum = tracer__read_process(tr, pid, &l) ? 0 : keep_wanted(tr, &l);

	for (size_t i = 0; sum && i < l.cnt && i < FUNCTIONS; i++) {
		double percent = 100 * (double)entered(&l.all[i]) / (double)sum;

		if (i && percent < LEAST_SHARE)
			break;
		add_share(b, &l.all[i], percent, !i, filtered);
		if (!can_be_typed(&l.all[i]))
			continue;
		share += percent / 100;
		strbuf__addf(&filters, "%s-f '!%s'", filters.len ? " " : "",
			     l.all[i].function.name);
	}
	/* Which part of all calls these are is known only if all were counted. */
	if (sum && filtered)
		strbuf__addz(b, "; a call that is left out costs its trap, too");
	else if (filters.len)
		strbuf__addf(b, ": %s would leave %.0f%%, as each call still costs its trap",
			     filters.s, slowdown * (1 - share * (1 - tracer__trap_share(tr))));
	strbuf__free(&filters);
	traced_list__free(&l);
}

void advice__add(struct strbuf *b, struct tracer *tr, pid_t pid, const struct advice *a)
{
	strbuf__addf(b,
		     "%.0f %s/s at %.2f us each would slow it down by %.0f%% of its CPU time, more "
		     "than %g%% (--max-slowdown %.0f or --force allows that)",
		     a->price->rate, a->what, a->hit_ns / 1000, a->price->slowdown, a->max_slowdown,
		     ceil(a->price->slowdown * 1.2));
	add_functions(b, tr, pid, a->price->slowdown, a->filtered);
}
