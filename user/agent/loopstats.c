/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/loopstats.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/loops.h"

#define IDLE_NS (3600 * NS_PER_S) /* then a service may lose its place */

_Static_assert(LOOP_SERVICE_SIZE > 4 * LABEL_VALUE_MAX, "a label's value fits");

struct loopstats {
	pthread_mutex_t lock;			     /* of all below */
	struct loop_figures list[LOOP_SERVICES + 1]; /* one more: of all others */
	uint64_t used_ns[LOOP_SERVICES + 1];	     /* the last period with iterations */
	size_t cnt;
};

struct loopstats *loopstats__new(void)
{
	struct loopstats *s = calloc(1, sizeof(*s));

	if (s)
		pthread_mutex_init(&s->lock, NULL);
	return s;
}

void loopstats__free(struct loopstats *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* The index of the service, or s->cnt. */
static size_t find(const struct loopstats *s, const char *service)
{
	size_t i = 0;

	while (i < s->cnt && strcmp(s->list[i].service, service) != 0)
		i++;
	return i;
}

/* A place whose service has been idle for long; s->cnt: there is none. */
static size_t find_idle(const struct loopstats *s, uint64_t now_ns)
{
	size_t best = s->cnt;

	for (size_t i = 0; i < s->cnt; i++)
		if (strcmp(s->list[i].service, PERIOD_OTHERS) != 0 &&
		    now_ns - s->used_ns[i] >= IDLE_NS &&
		    (best == s->cnt || s->used_ns[i] < s->used_ns[best]))
			best = i;
	return best;
}

/* The last place is kept for PERIOD_OTHERS. */
static struct loop_figures *place_of(struct loopstats *s, const char *service, uint64_t now_ns)
{
	size_t at = find(s, service);

	if (at == s->cnt && at >= LOOP_SERVICES) {
		at = find_idle(s, now_ns);
		if (at == s->cnt)
			at = find(s, service = PERIOD_OTHERS);
		else
			s->list[at] = (struct loop_figures){ .cnt = 0 };
	}
	if (at == s->cnt)
		s->cnt++;
	if (!*s->list[at].service)
		snprintf(s->list[at].service, sizeof(s->list[at].service), "%s", service);
	s->used_ns[at] = now_ns;
	return &s->list[at];
}

static void add_loop(struct loopstats *s, const struct period *p, const struct profile_loop *l,
		     uint64_t now_ns)
{
	int proc = profile__find_proc(p->profile, l->space);
	const struct label_set *labels =
		proc >= 0 && (size_t)proc < p->label_cnt ? p->labels[proc] : NULL;
	const char *service = labels ? label_set__get(labels, "service_name") : NULL;
	struct loop_figures *to;

	if (labels && labels->drop)
		return;
	to = place_of(s, service && *service ? service : PERIOD_OTHERS, now_ns);
	to->cnt += l->cnt;
	to->busy_ns += l->busy_ns;
	to->slow_cnt += l->slow_cnt;
	to->slow_ns += l->slow_ns;
	for (size_t i = 0; i < LOOP_BUCKETS; i++)
		to->hist[i] += l->hist[i];
}

void loopstats__add(struct loopstats *s, const struct period *p, uint64_t now_ns)
{
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < p->profile->loop_cnt; i++)
		if (loops_is_event_loop(p->profile, &p->profile->loops[i]))
			add_loop(s, p, &p->profile->loops[i], now_ns);
	pthread_mutex_unlock(&s->lock);
}

size_t loopstats__list(struct loopstats *s, struct loop_figures *out, size_t cap)
{
	size_t cnt;

	pthread_mutex_lock(&s->lock);
	cnt = s->cnt < cap ? s->cnt : cap;
	memcpy(out, s->list, cnt * sizeof(*out));
	pthread_mutex_unlock(&s->lock);
	return cnt;
}
