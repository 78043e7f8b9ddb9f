/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Iterations of event loops by service: what is added, and where the room ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/loopstats.h"
#include "base/clock.h"

#define HOUR_NS (3600 * NS_PER_S)

static struct label_set *labels_of(const char *service)
{
	struct label_set *set = calloc(1, sizeof(*set) + sizeof(struct label));

	set->refs = 1;
	set->cnt = service != NULL;
	set->labels[0] = (struct label){ "service_name", (char *)service };
	return set;
}

/* A period with a loop of `cnt` iterations of 150 ms, of a process of this service. */
static struct period *period_of(const char *service, uint32_t cnt, enum loop_kind kind)
{
	const struct profile_proc proc = { .space = 1 };
	const struct profile_loop l = {
		.space = 1,
		.tid = 1,
		.kind = kind,
		.cnt = cnt,
		.busy_ns = cnt * 150 * NS_PER_MS,
		.slow_cnt = cnt,
		.slow_ns = cnt * 150 * NS_PER_MS,
		.hist = { [17] = cnt },
		.poll.stack = UINT32_MAX,
	};
	struct period *p = period__new();

	assert_int_equal(profile__add_proc(p->profile, &proc), 0);
	assert_int_equal(profile__add_loop(p->profile, &l), 0);
	p->labels = calloc(1, sizeof(struct label_set *));
	p->labels[p->label_cnt++] = labels_of(service);
	return p;
}

static void add(struct loopstats *s, const char *service, uint32_t cnt, uint64_t now_ns)
{
	struct period *p = period_of(service, cnt, LOOP_EVENT);

	loopstats__add(s, p, now_ns);
	period__free(p);
}

static struct loop_figures list[LOOP_SERVICES + 1];

static const struct loop_figures *figures(struct loopstats *s, const char *service)
{
	size_t cnt = loopstats__list(s, list, LOOP_SERVICES + 1);

	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(list[i].service, service))
			return &list[i];
	return NULL;
}

static void services_add_up(void **state)
{
	struct loopstats *s = loopstats__new();
	const struct loop_figures *f;

	(void)state;
	add(s, "shop", 3, 1);
	add(s, "cart", 1, 1);
	add(s, "shop", 2, 2);
	f = figures(s, "shop");
	assert_int_equal(f->cnt, 5);
	assert_int_equal(f->slow_cnt, 5);
	assert_int_equal(f->busy_ns, 750 * NS_PER_MS);
	assert_int_equal(f->slow_ns, 750 * NS_PER_MS);
	assert_int_equal(f->hist[17], 5);
	assert_int_equal(figures(s, "cart")->cnt, 1);
	assert_int_equal(loopstats__list(s, list, 1), 1);
	loopstats__free(s);
}

/*
 * Threads that poll but run no event loop, and what rules drop. A process without a service has a
 * place.
 */
static void others_do_not_count(void **state)
{
	const enum loop_kind kinds[] = { LOOP_UNKNOWN, LOOP_OTHER };
	struct loopstats *s = loopstats__new();
	struct period *p;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		p = period_of("shop", 1, kinds[i]);
		loopstats__add(s, p, 1);
		period__free(p);
	}
	p = period_of("shop", 1, LOOP_EVENT);
	p->labels[0]->drop = true;
	loopstats__add(s, p, 1);
	period__free(p);
	assert_int_equal(loopstats__list(s, list, LOOP_SERVICES + 1), 0);
	add(s, NULL, 1, 1);
	assert_int_equal(figures(s, PERIOD_OTHERS)->cnt, 1);
	loopstats__free(s);
}

static void there_is_an_end_to_them(void **state)
{
	struct loopstats *s = loopstats__new();
	char name[32];

	(void)state;
	for (uint32_t i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "service-%u", i);
		add(s, name, 1, i);
	}
	assert_int_equal(loopstats__list(s, list, LOOP_SERVICES + 1), LOOP_SERVICES + 1);
	assert_int_equal(figures(s, PERIOD_OTHERS)->cnt, 500 - LOOP_SERVICES);
	/* Who has a place keeps it, unless it is idle for an hour; the longest idle goes first. */
	add(s, "service-0", 1, HOUR_NS - 1);
	add(s, "late", 1, HOUR_NS - 1);
	assert_null(figures(s, "late"));
	add(s, "late", 7, HOUR_NS + 1);
	assert_int_equal(figures(s, "late")->cnt, 7);
	assert_int_equal(figures(s, "service-0")->cnt, 2);
	assert_null(figures(s, "service-1"));
	assert_non_null(figures(s, PERIOD_OTHERS));
	loopstats__free(s);
}

/* What a period keeps of its drains: a thread once, and where its poll is known. */
static void drains_are_merged(void **state)
{
	const struct period_limits limits = { .stacks = 10, .processes = 10 };
	const struct profile_proc other = { .space = 9 }, proc = { .space = 1 };
	struct profile_loop l = { .space = 1, .tid = 5, .cnt = 2, .hist = { [3] = 2 } };
	struct period *p = period__new();
	struct profile *d = profile__new();
	const uint64_t words[] = { 77, 78 };

	(void)state;
	assert_int_equal(profile__add_proc(d, &other), 0);
	assert_int_equal(profile__add_stack(d, 0, 0, &words[0], 1, 1), 0);
	assert_int_equal(period__add(p, d, &limits), 0);
	profile__free(d);
	for (uint32_t i = 0; i < 2; i++) {
		d = profile__new();
		assert_int_equal(profile__add_proc(d, &proc), 0);
		l.poll.stack =
			i ? UINT32_MAX : (uint32_t)profile__add_stack(d, 0, 0, &words[1], 1, 1);
		l.kind = i ? LOOP_EVENT : LOOP_UNKNOWN;
		assert_int_equal(profile__merge_loop(d, &l), 0);
		assert_int_equal(period__add(p, d, &limits), 0);
		profile__free(d);
	}
	assert_int_equal(p->profile->loop_cnt, 1);
	assert_int_equal(p->profile->loops[0].cnt, 4);
	assert_int_equal(p->profile->loops[0].hist[3], 4);
	assert_int_equal(p->profile->loops[0].poll.stack, 1); /* behind that of the other process */
	assert_int_equal(p->profile->loops[0].kind, LOOP_EVENT);
	period__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services_add_up),
		cmocka_unit_test(others_do_not_count),
		cmocka_unit_test(there_is_an_end_to_them),
		cmocka_unit_test(drains_are_merged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
