/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/waits.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/export_stacks.h"

#define PREFIX		 "[waits: "
#define ENDED_PREFIX	 "[ends a wait: "
#define REASON_MAX	 40
#define SHOWN_MAX	 8
#define THREAD_SHOWN_MAX 3
#define PLACE_MAX	 60
#define SHOWN_LEAST	 0.05 /* seconds */
#define FOR_CPU		 "CPU"

const char *wait_reason(const char *func, size_t *len)
{
	size_t size = strlen(func);

	if (size <= sizeof(PREFIX) || func[size - 1] != ']' ||
	    strncmp(func, PREFIX, strlen(PREFIX)) != 0)
		return NULL;
	if (len)
		*len = size - sizeof(PREFIX);
	return func + strlen(PREFIX);
}

bool wait_is_ended(const char *func)
{
	return !strncmp(func, ENDED_PREFIX, strlen(ENDED_PREFIX));
}

bool wait_is_for_cpu(const char *reason, size_t len)
{
	return len == strlen(FOR_CPU) && !memcmp(reason, FOR_CPU, len);
}

/* Time of one reason. */
struct reason {
	const char *name;
	size_t len;
	uint64_t count;
};

struct sums {
	struct reason *reasons;
	size_t cnt;
	uint64_t waiting, queued, running;
};

static const char *leaf_name(const struct profile *p, const struct profile_stack *st)
{
	uint32_t leaf = p->frame_syms[st->first + st->cnt - 1];

	return profile__str(p, export_sym(p, leaf)->func);
}

static void add_stack(struct sums *s, const struct profile *p, const struct profile_stack *st)
{
	const char *reason = NULL;
	size_t len = 0;

	if (st->cnt && p->frame_syms)
		reason = wait_reason(leaf_name(p, st), &len);
	if (!reason) {
		s->running += st->count;
	} else if (wait_is_for_cpu(reason, len)) {
		s->queued += st->count;
	} else {
		s->reasons[s->cnt++] =
			(struct reason){ .name = reason, .len = len, .count = st->count };
		s->waiting += st->count;
	}
}

static int cmp_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_name(const void *a, const void *b)
{
	const struct reason *ra = a, *rb = b;

	return cmp_names(ra->name, ra->len, rb->name, rb->len);
}

static int by_time(const void *a, const void *b)
{
	const struct reason *ra = a, *rb = b;

	if (ra->count != rb->count)
		return ra->count > rb->count ? -1 : 1;
	return by_name(a, b);
}

/* Merges equal names: a profile from a file may have as many as it has stacks. */
static void merge_reasons(struct sums *s)
{
	size_t cnt = 0;

	qsort(s->reasons, s->cnt, sizeof(*s->reasons), by_name);
	for (size_t i = 0; i < s->cnt; i++) {
		if (cnt && !by_name(&s->reasons[cnt - 1], &s->reasons[i]))
			s->reasons[cnt - 1].count += s->reasons[i].count;
		else
			s->reasons[cnt++] = s->reasons[i];
	}
	s->cnt = cnt;
	qsort(s->reasons, s->cnt, sizeof(*s->reasons), by_time);
}

/* The longest ones, `max` of them; beside others none that would read "0.0". */
static void add_reasons(struct strbuf *b, const struct sums *s, double hz, size_t max)
{
	for (size_t i = 0; i < s->cnt && i < max; i++) {
		if (i && (double)s->reasons[i].count / hz < SHOWN_LEAST)
			return;
		strbuf__addz(b, i ? ", " : "");
		str_sanitise(b, s->reasons[i].name, s->reasons[i].len, REASON_MAX);
		strbuf__addf(b, " %.1f", (double)s->reasons[i].count / hz);
	}
	if (s->cnt > max)
		strbuf__addz(b, ", ...");
}

bool waits_are_in(const struct profile *p)
{
	for (size_t i = 0; i < p->stack_cnt && p->frame_syms; i++)
		if (p->stacks[i].cnt && wait_reason(leaf_name(p, &p->stacks[i]), NULL))
			return true;
	return false;
}

/* From `from` to `to` of `all`, on a line of WAITS_BAR_TITLE's length. */
static void add_part(struct strbuf *b, char c, double from, double to, double all)
{
	double width = (double)strlen(WAITS_BAR_TITLE);
	long end = lround(to / all * width);

	for (long i = lround(from / all * width); i < end; i++)
		strbuf__addc(b, c);
}

void waits_add_thread(struct strbuf *bar, struct strbuf *reasons, const struct profile *p,
		      uint32_t proc, uint32_t tid)
{
	double hz = (double)value_type__per_second(&p->stats.values[0]), ran, away, all;
	struct sums s = { 0 };

	s.reasons = calloc(p->stack_cnt + 1, sizeof(*s.reasons));
	if (!s.reasons) {
		bar->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < p->stack_cnt; i++)
		if (p->stacks[i].proc == proc && p->stacks[i].tid == tid)
			add_stack(&s, p, &p->stacks[i]);
	merge_reasons(&s);
	ran = (double)s.running;
	away = ran + (double)s.queued;
	all = away + (double)s.waiting;
	if (hz > 0 && all > 0) {
		add_part(bar, '#', 0, ran, all);
		add_part(bar, '=', ran, away, all);
		add_part(bar, '.', away, all, all);
		add_reasons(reasons, &s, hz, THREAD_SHOWN_MAX);
	}
	free(s.reasons);
}

void waits_add_line(struct strbuf *b, const struct profile *p)
{
	double hz = (double)value_type__per_second(&p->stats.values[0]);
	struct sums s = { 0 };

	s.reasons = calloc(p->stack_cnt + 1, sizeof(*s.reasons));
	if (!s.reasons) {
		b->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < p->stack_cnt; i++)
		add_stack(&s, p, &p->stacks[i]);
	if (hz > 0 && s.waiting + s.queued) {
		merge_reasons(&s);
		strbuf__addf(b, "WAITING %.1f s", (double)s.waiting / hz);
		strbuf__addz(b, s.cnt ? ": " : "");
		add_reasons(b, &s, hz, SHOWN_MAX);
		strbuf__addf(b, "; RUN QUEUE %.1f s", (double)s.queued / hz);
		if (s.running)
			strbuf__addf(b, "; ON CPU %.1f s", (double)s.running / hz);
	}
	free(s.reasons);
}

/* ---- the GIL --------------------------------------------------------------------------------- */

#define HOLDERS_SHOWN 3
#define HOLDER_LEAST  0.01 /* share of the waited time: holders with less are not named */

/* The activity of a thread that held the GIL, by its place in Python. */
struct holder {
	uint32_t sym;	    /* of its innermost Python frame; UINT32_MAX: it has none */
	const char *reason; /* of its wait; NULL: it ran */
	size_t len;
	uint64_t count;
};

struct gil_sums {
	struct holder *holders;
	size_t cnt;
	uint64_t waited, held;
	uint64_t *threads; /* process and thread of each that waited */
	size_t thread_cnt;
	bool threads_known;
};

static uint32_t innermost_python(const struct profile *p, const struct profile_stack *st)
{
	for (uint32_t i = st->cnt; p->frame_syms && i--;) {
		uint32_t at = p->frame_syms[st->first + i];

		if (export_sym(p, at)->kind == SYM_PYTHON)
			return at;
	}
	return UINT32_MAX;
}

static int cmp_places(const struct profile *p, uint32_t a, uint32_t b)
{
	const struct sym *sa, *sb;

	if (a == b || a == UINT32_MAX || b == UINT32_MAX)
		return (a > b) - (a < b);
	sa = export_sym(p, a);
	sb = export_sym(p, b);
	if (sa->line != sb->line)
		return sa->line < sb->line ? -1 : 1;
	return export_function_cmp(p, sa, sb);
}

static int by_place(const void *a, const void *b, void *profile)
{
	const struct holder *ha = a, *hb = b;
	int order = cmp_places(profile, ha->sym, hb->sym);

	if (order || !ha->reason || !hb->reason)
		return order ? order : !!ha->reason - !!hb->reason;
	return cmp_names(ha->reason, ha->len, hb->reason, hb->len);
}

static void add_holder(struct gil_sums *s, const struct profile *p, const struct profile_stack *st)
{
	struct holder *h = &s->holders[s->cnt++];

	*h = (struct holder){ .sym = innermost_python(p, st), .count = st->count };
	if (st->cnt && p->frame_syms)
		h->reason = wait_reason(leaf_name(p, st), &h->len);
	s->held += h->count;
}

static void add_waiter(struct gil_sums *s, const struct profile_stack *st)
{
	s->threads[s->thread_cnt++] = (uint64_t)st->proc << 32 | THREAD_TID(st->tid);
	s->waited += st->count;
	s->threads_known = s->threads_known && THREAD_TID(st->tid);
}

static int cmp_threads(const void *a, const void *b)
{
	const uint64_t *ta = a, *tb = b;

	return (*ta > *tb) - (*ta < *tb);
}

/* Merges equal places and reasons, and equal threads. */
static void merge_gil_stacks(struct gil_sums *s, const struct profile *p)
{
	size_t cnt = 0, thread_cnt = 0;

	qsort_r(s->holders, s->cnt, sizeof(*s->holders), by_place, (void *)p);
	for (size_t i = 0; i < s->cnt; i++) {
		if (cnt && !by_place(&s->holders[cnt - 1], &s->holders[i], (void *)p))
			s->holders[cnt - 1].count += s->holders[i].count;
		else
			s->holders[cnt++] = s->holders[i];
	}
	s->cnt = cnt;
	qsort(s->threads, s->thread_cnt, sizeof(*s->threads), cmp_threads);
	for (size_t i = 0; i < s->thread_cnt; i++)
		if (!thread_cnt || s->threads[thread_cnt - 1] != s->threads[i])
			s->threads[thread_cnt++] = s->threads[i];
	s->thread_cnt = thread_cnt;
}

static void add_gil_stacks(struct gil_sums *s, const struct profile *p)
{
	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *st = &p->stacks[i];
		uint32_t event = p->stats.values[st->type].event;

		if (event == EVENT_GIL)
			add_waiter(s, st);
		else if (event == EVENT_GIL_HELD)
			add_holder(s, p, st);
	}
	merge_gil_stacks(s, p);
}

/* Who had the GIL although it did not run comes first: the reason is mostly a mistake. */
static bool sleeps(const struct holder *h)
{
	return h->reason && !wait_is_for_cpu(h->reason, h->len);
}

static int cmp_holders(const void *a, const void *b)
{
	const struct holder *ha = a, *hb = b;

	if (sleeps(ha) != sleeps(hb))
		return sleeps(ha) ? -1 : 1;
	if (ha->count != hb->count)
		return ha->count > hb->count ? -1 : 1;
	return ha->sym < hb->sym ? -1 : ha->sym > hb->sym;
}

static void add_place(struct strbuf *b, const struct profile *p, uint32_t at)
{
	const struct sym *sym = at == UINT32_MAX ? NULL : export_sym(p, at);
	const char *file, *base;

	if (!sym) {
		strbuf__addz(b, "a thread without Python frames");
		return;
	}
	str_sanitise(b, profile__str(p, sym->func), profile__str_len(p, sym->func), PLACE_MAX);
	file = profile__str(p, sym->file);
	base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	if (!*base)
		return;
	strbuf__addz(b, " (");
	str_sanitise(b, base, strlen(base), PLACE_MAX);
	strbuf__addf(b, ":%u)", sym->line);
}

static void add_doing(struct strbuf *b, const struct holder *h)
{
	if (!h->reason) {
		strbuf__addz(b, " ran");
	} else if (wait_is_for_cpu(h->reason, h->len)) {
		strbuf__addz(b, " had the GIL and no CPU");
	} else if (h->len == strlen("sleep") && !memcmp(h->reason, "sleep", h->len)) {
		strbuf__addz(b, " slept in C with the GIL held");
	} else {
		strbuf__addz(b, " waited in C with the GIL held (");
		str_sanitise(b, h->reason, h->len, REASON_MAX);
		strbuf__addz(b, ")");
	}
}

static void add_holders(struct strbuf *b, const struct profile *p, const struct gil_sums *s)
{
	for (size_t i = 0; i < s->cnt && i < HOLDERS_SHOWN; i++) {
		const struct holder *h = &s->holders[i];

		if ((double)h->count < HOLDER_LEAST * (double)s->held)
			continue;
		strbuf__addf(b, "; %.0f%% while ", 100.0 * (double)h->count / (double)s->held);
		add_place(b, p, h->sym);
		add_doing(b, h);
	}
}

void waits_add_gil_line(struct strbuf *b, const struct profile *p)
{
	struct gil_sums s = { .threads_known = true };

	s.holders = calloc(p->stack_cnt + 1, sizeof(*s.holders));
	s.threads = calloc(p->stack_cnt + 1, sizeof(*s.threads));
	if (!s.holders || !s.threads) {
		b->err = -ENOMEM;
	} else {
		add_gil_stacks(&s, p);
		qsort(s.holders, s.cnt, sizeof(*s.holders), cmp_holders);
	}
	if (s.waited && !b->err) {
		strbuf__addf(b, "GIL: %.1f s waited", (double)s.waited / NS_PER_S);
		if (s.threads_known)
			strbuf__addf(b, " by %zu thread%s", s.thread_cnt,
				     s.thread_cnt == 1 ? "" : "s");
		add_holders(b, p, &s);
	}
	free(s.holders);
	free(s.threads);
}
