// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Queues of services: whose turn it is, what is held, what that costs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/push/push_services.h"
#include "base/clock.h"

#define ANY (PUSH_TURN_WELL | PUSH_TURN_TROUBLED)

static uint64_t last_number;

static void add(struct push_services *s, const char *service)
{
	struct push_window *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->number = ++last_number;
	assert_int_equal(push_services__add(s, service, w), 0);
}

static struct push_window *take(struct push_services *s, uint64_t now, unsigned which)
{
	bool probe;
	struct push_window *w = push_services__next(s, now, which, &probe);

	if (w)
		push_services__set_taken(s, w, true);
	return w;
}

static struct push_window *take_of(struct push_services *s, uint64_t now, unsigned which,
				   const char *service)
{
	struct push_window *w = take(s, now, which);

	assert_non_null(w);
	assert_string_equal(w->service->name, service);
	return w;
}

static void give_back(struct push_services *s, struct push_window *w, enum push_service_verdict v,
		      uint64_t until)
{
	push_services__judge(s, w->service, v, until, 429);
	push_services__set_taken(s, w, false);
}

static void send(struct push_services *s, struct push_window *w)
{
	push_services__judge(s, w->service, PUSH_SERVICE_TAKES, 0, 0);
	push_services__remove(s, w);
}

static void hold_keeps_only_one_service_back(void **state)
{
	struct push_services s = { 0 };
	uint64_t well, other;

	(void)state;
	for (int i = 0; i < 3; i++) {
		add(&s, "limited");
		add(&s, "good");
	}
	give_back(&s, take_of(&s, 0, ANY, "limited"), PUSH_SERVICE_HOLD, 100);
	for (uint64_t i = 0; i < 3; i++)
		send(&s, take_of(&s, 99, ANY, "good"));
	assert_null(take(&s, 99, ANY));
	push_services__due(&s, &well, &other);
	assert_int_equal(well, PUSH_NEVER);
	assert_int_equal(other, 100);
	assert_null(take(&s, 100, PUSH_TURN_WELL)); /* its time is over, but it is not well */
	for (uint64_t i = 0, number = 0; i < 3; i++) {
		struct push_window *w = take_of(&s, 100, i ? PUSH_TURN_WELL : ANY, "limited");

		assert_true(w->number > number);
		number = w->number;
		send(&s, w);
	}
	assert_int_equal(s.cnt, 0);
	push_services__free(&s);
}

static void troubled_ones_take_turns(void **state)
{
	struct push_services s = { 0 };
	char name[16];

	(void)state;
	for (int i = 0; i < 50; i++) {
		sprintf(name, "s%d", i);
		add(&s, name);
		add(&s, name);
	}
	for (uint64_t round = 0; round < 4; round++) {
		for (int i = 0; i < 50; i++) {
			sprintf(name, "s%d", i);
			/* Even if the first ones are due again before the last has had its turn. */
			give_back(&s, take_of(&s, 1000 * round + 60, ANY, name), PUSH_SERVICE_HOLD,
				  1000 * round + 61 + (uint64_t)i);
		}
	}
	add(&s, "new");
	take_of(&s, 4000, PUSH_TURN_WELL, "new");
	push_services__free(&s);
}

static void who_fails_lets_others_go_first(void **state)
{
	struct push_services s = { 0 };
	struct push_window *w;

	(void)state;
	add(&s, "a");
	add(&s, "b");
	w = take_of(&s, 0, ANY, "a");
	assert_false(push_services__is_alone(&s, w->service));
	give_back(&s, w, PUSH_SERVICE_BEHIND, 0);
	assert_false(push_services__is_alone(&s, w->service));
	send(&s, take_of(&s, 0, ANY, "b"));
	assert_true(push_services__is_alone(&s, w->service));
	take_of(&s, 0, ANY, "a");
	push_services__free(&s);
}

static void what_waits_is_said(void **state)
{
	struct push_services s = { 0 };
	struct strbuf text = { 0 };
	char name[16];

	(void)state;
	for (int i = 0; i < 9; i++)
		for (int k = 0; k <= i; k++) {
			sprintf(name, "s%d", i);
			add(&s, name);
		}
	give_back(&s, take_of(&s, 0, ANY, "s0"), PUSH_SERVICE_HOLD, 100);
	give_back(&s, take_of(&s, 0, ANY, "s1"), PUSH_SERVICE_HOLD, 100);
	for (int k = 0; k < 20; k++)
		add(&s, "s1");
	push_services__print(&s, 65, &text);
	assert_string_equal(text.s, "65 windows of 9 services: s1 22 (status 429), s8 9, s7 8, "
				    "s6 7, s5 6 and 4 other services");
	strbuf__free(&text);
	push_services__free(&s);
}

static void names(void **state)
{
	struct label labels[] = { { "k8s_namespace", "shop" }, { "service_name", "a\x1b[31mb" } };
	struct window w = { .labels = labels, .label_cnt = 2 };
	struct strbuf text = { 0 };
	char longer[1000];

	(void)state;
	push_service_name(&w, &text);
	assert_string_equal(text.s, "shop/a\xef\xbf\xbd[31mb");
	strbuf__clear(&text);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	labels[1].value = longer;
	push_service_name(&w, &text);
	assert_true(text.len < PUSH_SERVICE_NAME_MAX + 8);
	strbuf__clear(&text);
	w.label_cnt = 0;
	push_service_name(&w, &text);
	assert_string_equal(text.s, "(no name)");
	strbuf__free(&text);
}

/* ---- Against a model that looks at everything ----------------------------------------------- */

#define MODEL_SERVICES 12
#define STEPS	       20000

/* The window that must be next. */
static const struct push_window *expected(const struct push_services *s, uint64_t now)
{
	const struct push_window *well = NULL, *troubled = NULL;

	for (const struct push_window *w = s->first; w; w = w->after) {
		const struct push_service *x = w->service;
		uint64_t key = w->number > x->behind ? w->number : x->behind;
		bool first = true;

		for (const struct push_window *v = w->sooner; v; v = v->sooner)
			first = first && v->taken;
		if (w->taken || !first || x->hold_ms > now)
			continue;
		if (x->failures && (!troubled || x->held_ms < troubled->service->held_ms))
			troubled = w;
		if (!x->failures &&
		    (!well || key < (well->number > well->service->behind ? well->number
									  : well->service->behind)))
			well = w;
	}
	return troubled ? troubled : well;
}

/* Equal keys: either may be the next. */
static bool same_turn(const struct push_window *a, const struct push_window *b)
{
	return a == b || (a && b && !a->service->failures == !b->service->failures &&
			  a->service->key == b->service->key);
}

static void step(struct push_services *s, uint64_t now)
{
	static const enum push_service_verdict verdicts[] = { PUSH_SERVICE_TAKES, PUSH_SERVICE_HOLD,
							      PUSH_SERVICE_BEHIND,
							      PUSH_SERVICE_WELL };
	struct push_window *w;
	char name[16];
	bool probe;

	if (rand() % 2) {
		sprintf(name, "s%d", rand() % MODEL_SERVICES);
		add(s, name);
	}
	w = push_services__next(s, now, ANY, &probe);
	assert_true(same_turn(w, expected(s, now)));
	if (!w)
		return;
	push_services__set_taken(s, w, true);
	assert_true(w != push_services__next(s, now, ANY, &probe));
	push_services__judge(s, w->service, verdicts[rand() % 4], now + (uint64_t)(rand() % 20),
			     500);
	if (rand() % 2)
		push_services__remove(s, w);
	else
		push_services__set_taken(s, w, false);
}

static void turns_are_right_whatever_happens(void **state)
{
	struct push_services s = { 0 };
	size_t waiting = 0;

	(void)state;
	srand(7);
	for (uint64_t now = 1; now < STEPS; now++) {
		step(&s, now);
		if (now % 500 == 0)
			while (s.first)
				push_services__remove(&s, s.first);
	}
	for (const struct push_window *w = s.first; w; w = w->after)
		waiting++;
	for (size_t i = 0; i < s.cap; i++)
		for (const struct push_service *x = s.buckets[i]; x; x = x->next_same)
			waiting -= x->windows;
	assert_int_equal(waiting, 0);
	push_services__free(&s);
}

/* ---- What it costs --------------------------------------------------------------------------- */

#define HELD 20000
#define SENT 20000

static uint64_t time_of_sending(struct push_services *s)
{
	uint64_t begin = now_ns();

	for (int i = 0; i < SENT; i++) {
		add(s, "good");
		send(s, take_of(s, 0, ANY, "good"));
	}
	return now_ns() - begin;
}

static void sending_past_held_windows_is_cheap(void **state)
{
	struct push_services s = { 0 };
	uint64_t empty, full;
	char name[16];

	(void)state;
	empty = time_of_sending(&s);
	for (int i = 0; i < HELD; i++) {
		sprintf(name, "held%d", i % 1000);
		add(&s, name);
	}
	for (int i = 0; i < 1000; i++)
		give_back(&s, take(&s, 0, PUSH_TURN_WELL), PUSH_SERVICE_HOLD, 1000);
	full = time_of_sending(&s);
	print_message("%.2f us for each window, %.2f us with %d held\n", (double)empty / SENT / 1e3,
		      (double)full / SENT / 1e3, HELD);
	assert_true(full < 20 * empty);
	push_services__free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hold_keeps_only_one_service_back),
		cmocka_unit_test(troubled_ones_take_turns),
		cmocka_unit_test(who_fails_lets_others_go_first),
		cmocka_unit_test(what_waits_is_said),
		cmocka_unit_test(names),
		cmocka_unit_test(turns_are_right_whatever_happens),
		cmocka_unit_test(sending_past_held_windows_is_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
