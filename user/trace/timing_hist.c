/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How the times of a function are distributed: histograms by powers of two, of what calls took in
 * all, without what they called, on a CPU, and waiting.
 */
#include <inttypes.h>

#include "trace/timing_parts.h"

static const struct {
	const char *name, *key;
} columns[HIST_CNT] = {
	[HIST_TOTAL] = { "TOTAL", "total_log2_ns" },
	[HIST_OWN] = { "OWN", "own_log2_ns" },
	[HIST_CPU] = { "ON CPU", "cpu_log2_ns" },
	[HIST_WAITING] = { "WAITING", "waiting_log2_ns" },
};

/* The lines of a function's histograms. */
struct shape {
	int column_cnt, digits, bar; /* digits of a number; places of a bar */
	int first, last;	     /* buckets */
	uint64_t most[HIST_CNT];     /* of a line */
};

static unsigned bucket_of(uint64_t ns)
{
	unsigned i = 0;

	while (ns > 1 && i < TIMING_BUCKETS - 1) {
		ns >>= 1;
		i++;
	}
	return i;
}

void timing_hist__take(struct timed *f, const struct pairs_times *times)
{
	f->hists[HIST_TOTAL][bucket_of(times->total_ns)]++;
	f->hists[HIST_OWN][bucket_of(times->own_ns)]++;
	if (times->cpu_ns == PAIRS_CPU_UNKNOWN)
		return;
	f->hists[HIST_CPU][bucket_of(times->cpu_ns)]++;
	f->hists[HIST_WAITING][bucket_of(timing__waiting_ns(times))]++;
}

void timing_hist__sum(struct timed *sum, const struct timed *f)
{
	for (int h = 0; h < HIST_CNT; h++)
		for (int i = 0; i < TIMING_BUCKETS; i++)
			sum->hists[h][i] += f->hists[h][i];
}

/* Of calls that hardly waited, it says little how long: less than all else is one line. */
static uint64_t below(const struct timed *f, int h, int first)
{
	uint64_t n = 0;

	for (int i = 0; i < first; i++)
		n += f->hists[h][i];
	return n;
}

static bool is_used(const struct timed *f, int i)
{
	return f->hists[HIST_TOTAL][i] || f->hists[HIST_OWN][i] || f->hists[HIST_CPU][i];
}

static struct shape shape_of(const struct timing *t, const struct timed *f)
{
	struct shape s = { .column_cnt = t->events.cpu ? HIST_CNT : HIST_CPU,
			   .digits = t->events.cpu ? 7 : 10,
			   .bar = t->events.cpu ? 8 : 24,
			   .last = TIMING_BUCKETS - 1 };

	while (s.first < TIMING_BUCKETS && !is_used(f, s.first))
		s.first++;
	while (s.last >= 0 && !is_used(f, s.last))
		s.last--;
	for (int h = 0; h < s.column_cnt; h++) {
		s.most[h] = below(f, h, s.first);
		for (int i = s.first; i <= s.last; i++)
			if (f->hists[h][i] > s.most[h])
				s.most[h] = f->hists[h][i];
	}
	return s;
}

static void add_bar(struct strbuf *b, const struct shape *s, uint64_t n, uint64_t most)
{
	int width = most ? (int)((n * (unsigned)s->bar + most - 1) / most) : 0;

	strbuf__addf(b, "%*" PRIu64 " |", s->digits, n);
	for (int i = 0; i < s->bar; i++)
		strbuf__addc(b, i < width ? '@' : ' ');
	strbuf__addc(b, '|');
}

static void add_range(struct strbuf *b, uint64_t from, uint64_t to)
{
	timing__add_time(b, from, 11);
	strbuf__addc(b, ' ');
	timing__add_time(b, to, 11);
	strbuf__addz(b, "  ");
}

static void add_below(struct strbuf *b, const struct shape *s, const struct timed *f)
{
	uint64_t any = 0;

	for (int h = 0; h < s->column_cnt; h++)
		any |= below(f, h, s->first);
	if (!any)
		return;
	add_range(b, 0, 1ULL << s->first);
	for (int h = 0; h < s->column_cnt; h++)
		add_bar(b, s, below(f, h, s->first), s->most[h]);
	strbuf__addc(b, '\n');
}

static void add_heads(struct strbuf *b, const struct shape *s)
{
	strbuf__addf(b, "%23s  ", "FROM - TO");
	for (int h = 0; h < s->column_cnt; h++)
		strbuf__addf(b, "%*s%*s", s->digits, columns[h].name,
			     h < s->column_cnt - 1 ? s->bar + 3 : 0, "");
	strbuf__addc(b, '\n');
}

void timing_hist__write(struct timing *t, const struct timed *f)
{
	struct shape s = shape_of(t, f);
	struct strbuf *b = &t->line;

	if (s.last >= 0) {
		add_heads(b, &s);
		add_below(b, &s, f);
	}
	for (int i = s.first; i <= s.last; i++) {
		add_range(b, i ? 1ULL << i : 0, 2ULL << i);
		for (int h = 0; h < s.column_cnt; h++)
			add_bar(b, &s, f->hists[h][i], s.most[h]);
		strbuf__addc(b, '\n');
	}
	strbuf__addc(b, '\n');
	timing__flush_line(t);
}

void timing_hist__json(const struct timing *t, struct json *j, const struct timed *f)
{
	for (int h = 0; h < (t->events.cpu ? HIST_CNT : HIST_CPU); h++) {
		int cnt = TIMING_BUCKETS;

		while (cnt && !f->hists[h][cnt - 1])
			cnt--;
		json__array(j, columns[h].key);
		for (int i = 0; i < cnt; i++)
			json__uint(j, NULL, f->hists[h][i]);
		json__end(j, ']');
	}
}
