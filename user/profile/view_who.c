/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "profile/export_text.h"
#include "profile/view_speech.h"

#define NEXT_MAX      60 /* percent of the first: what the second has where one stands out */
#define BUSY_MAX      60 /* percent: who is on a CPU for more does not wait for much */
#define IDLE_MAX      20 /* percent: who is on a CPU for less waits in the main */
#define STARVED_MIN   5	 /* percent of the time */
#define STARVED_FIRST 20
#define ALL_MAX	      105 /* percent of the time: more is not how samples vary */

/* Samples of one process or one thread. */
struct runner {
	uint32_t proc, tid;
	uint64_t count;
};

static int runner_cmp(const void *a, const void *b)
{
	const struct runner *ra = a, *rb = b;

	if (ra->proc != rb->proc)
		return ra->proc < rb->proc ? -1 : 1;
	return ra->tid < rb->tid ? -1 : ra->tid > rb->tid;
}

/* Adds up equal ones; the new count. *top: the index of the largest. */
static size_t merge_runners(struct runner *r, size_t cnt, size_t *top)
{
	size_t kept = 0;

	*top = 0;
	if (cnt)
		qsort(r, cnt, sizeof(*r), runner_cmp);
	for (size_t i = 0; i < cnt; i++) {
		if (kept && !runner_cmp(&r[kept - 1], &r[i]))
			r[kept - 1].count += r[i].count;
		else
			r[kept++] = r[i];
	}
	for (size_t i = 0; i < kept; i++)
		*top = r[i].count > r[*top].count ? i : *top;
	return kept;
}

static size_t find_runners(const struct profile *p, struct runner *r, bool threads, size_t *top)
{
	size_t cnt = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];

		if (s->count && s->proc < p->proc_cnt)
			r[cnt++] = (struct runner){ s->proc, threads ? s->tid : 0, s->count };
	}
	return merge_runners(r, cnt, top);
}

static void say_runner(struct speech *s, const struct runner *r, const char *what)
{
	if (!speech__begin(s))
		return;
	strbuf__addf(s->b, "One %s, ", what);
	text_add_process(s->b, s->v->p, &s->v->p->procs[r->proc], r->tid);
	strbuf__addz(s->b, ", has ");
	speech__add_share(s, r->count);
	strbuf__addc(s->b, '.');
}

/* Who would have run but had no CPU did not wait. Parts are of the time, in percent. */
struct parts {
	double busy, throttled, ready; /* ready: while others had the CPUs */
	bool exceed; /* together they are more than the time: of several threads */
	bool known;  /* else it may have been ready, or not there, for all that nobody knows */
};

/* False: the profile does not tell. */
static bool find_parts(const struct speech *s, struct parts *p)
{
	const struct profile_stats *st = &s->v->p->stats;
	const struct value_type *t = &st->values[0];
	const double duration_ns = (double)st->duration_ns;
	/* Kernels differ in whether time in which a limit stops a thread counts as ready. */
	uint64_t ready = st->ready_ns > st->throttled_ns ? st->ready_ns - st->throttled_ns : 0;

	if (!value_type__is_clock(t) || !t->frequency_hz || !st->duration_ns)
		return false;
	p->busy = 100.0 * value_type__seconds(t, s->v->total) / (duration_ns / 1e9);
	p->throttled = 100.0 * (double)st->throttled_ns / duration_ns;
	p->ready = 100.0 * (double)ready / duration_ns;
	p->known = st->ready_ns || st->throttled_ns;
	p->exceed = p->busy + p->throttled + p->ready > ALL_MAX;
	/* Samples vary: a sum of 103% would only puzzle. The headline tells what was on a CPU. */
	if (!p->exceed)
		p->ready = fmin(p->ready, fmax(0, 100 - round(p->busy) - round(p->throttled)));
	return true;
}

/* "25%"; of threads whose parts are more than the time: "7.6 s" */
static void add_part_of_time(struct strbuf *b, const struct parts *p, double part, double seconds)
{
	if (p->exceed)
		strbuf__addf(b, "%.1f s", part / 100 * seconds);
	else
		strbuf__addf(b, "%.*f%%", part < 1 ? 1 : 0, part);
}

/*
 * About the only process: if it is seldom on a CPU, it waits. This profile does not show for what,
 * unless it had no CPU to run on.
 */
static void say_waiting(struct speech *s)
{
	const struct profile_stats *st = &s->v->p->stats;
	const struct value_type *t = &st->values[0];
	struct parts p;
	double seconds = (double)st->duration_ns / 1e9;
	bool stopped, starved;

	if (!find_parts(s, &p))
		return;
	stopped = p.throttled >= STARVED_MIN;
	starved = p.ready >= STARVED_MIN;
	if (!p.known || (p.busy >= BUSY_MAX && !stopped && !starved) || !speech__begin(s))
		return;
	strbuf__addf(s->b, "%s %s for ", p.exceed ? "Its threads together were" : "It was",
		     value_type__doing(t));
	add_part_of_time(s->b, &p, p.busy, seconds);
	strbuf__addz(s->b, p.exceed ? "" : " of the time");
	if (stopped) {
		strbuf__addz(s->b, ", throttled by its container's CPU limit for ");
		add_part_of_time(s->b, &p, p.throttled, seconds);
	}
	if (starved) {
		strbuf__addz(s->b, stopped ? " and" : ",");
		strbuf__addz(s->b, " ready to run but without a CPU for ");
		add_part_of_time(s->b, &p, p.ready, seconds);
	}
	strbuf__addz(s->b, 100 - p.busy - p.throttled - p.ready >= STARVED_MIN
				   ? "; the rest it waited."
				   : ".");
}

bool speech__was_idle(const struct speech *s)
{
	struct parts p;

	return find_parts(s, &p) && p.known && p.busy < IDLE_MAX &&
	       100 - p.busy - p.throttled - p.ready >= MOST_MIN;
}

bool speech__was_starved(const struct speech *s)
{
	struct parts p;

	return find_parts(s, &p) && p.throttled + p.ready >= STARVED_FIRST;
}

/* Does one stand out? Of two that share the work one has a little more than half. */
static bool is_most(const struct view *v, const struct runner *r, size_t cnt, size_t top)
{
	uint64_t next = 0;

	for (size_t i = 0; i < cnt; i++)
		if (i != top && r[i].count > next)
			next = r[i].count;
	return view_is_share(v, r[top].count, MOST_MIN) &&
	       text_percent(next, r[top].count) <= NEXT_MAX;
}

int speech__say_who(struct speech *s)
{
	const struct profile *p = s->v->p;
	struct runner *r = calloc(p->stack_cnt + 1, sizeof(*r));
	size_t top, procs, threads;

	if (!r)
		return -ENOMEM;
	procs = find_runners(p, r, false, &top);
	if (procs > 1 && is_most(s->v, r, procs, top))
		say_runner(s, &r[top], "process");
	threads = find_runners(p, r, true, &top);
	if (threads > procs && r[top].tid && is_most(s->v, r, threads, top))
		say_runner(s, &r[top], "thread");
	if (procs == 1)
		say_waiting(s);
	free(r);
	return 0;
}
