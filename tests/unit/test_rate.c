/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which rate is too much (rate.h), what a wait counts for (bpf/pyperf_waits.h), events by name
 * (value.h), and stacks that were handed over (nmi_stacks.h).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sample/nmi_stacks.h"
#include "sample/rate.h"
#include "profile/value.h"

static void budget_is_below_the_kernels(void **state)
{
	(void)state;
	assert_true(rate__budget(25) < 0.25 && rate__budget(25) > 0.1);
	assert_true(rate__budget(1) < 0.01 && rate__budget(1) > 0);
	assert_true(rate__budget(0) == rate__budget(25)); /* the kernel does nothing: we do */
	assert_true(rate__budget(100) == rate__budget(25));
	assert_true(rate__budget(-2) == rate__budget(25));
}

/* A look each second, of which all but the share is as it should be. */
static uint32_t look(struct rate *r, uint64_t at_s, double share)
{
	const struct rate_look l = {
		.now_ns = at_s * NS_PER_S, .budget = 0.15, .share = share, .may_double = true
	};

	return rate__look(r, &l);
}

static void slows_down_as_far_as_needed(void **state)
{
	static const struct {
		double share;
		uint32_t from, to;
	} cases[] = { { 0.14, 1, 1 }, { 0.16, 1, 2 }, { 0.61, 1, 8 }, { 0.16, 4, 8 } };
	struct rate r;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rate__init(&r);
		rate__set(&r, cases[i].from);
		assert_int_equal(look(&r, 1, cases[i].share), cases[i].from);
		assert_int_equal(look(&r, 2, cases[i].share), cases[i].to);
	}
	rate__init(&r);
	look(&r, 1, 1e9);
	assert_int_equal(look(&r, 2, 1e9), RATE_SLOWEST);
}

/*
 * One measurement above the budget is no reason; one that is missing between two is none against
 * it.
 */
static void two_measurements_in_a_row_count(void **state)
{
	struct rate r;

	(void)state;
	rate__init(&r);
	assert_int_equal(look(&r, 1, 0.5), 1);
	assert_int_equal(look(&r, 2, 0.1), 1);
	assert_int_equal(look(&r, 3, 0.5), 1);
	assert_true(r.over);
	assert_int_equal(look(&r, 4, -1), 1);
	assert_true(r.over);
	assert_int_equal(look(&r, 5, 0.5), 4);
}

static void throttled_is_answered_at_once(void **state)
{
	struct rate_look l = { .now_ns = 1, .budget = 0.15, .share = -1, .throttled = true };
	struct rate r;

	(void)state;
	rate__init(&r);
	assert_int_equal(rate__look(&r, &l), 2);
	rate__set(&r, RATE_SLOWEST);
	assert_int_equal(rate__look(&r, &l), RATE_SLOWEST);
}

/* Looks from `at_s` on, until the rate goes up; it may not take more than a thousand. */
static uint64_t seconds_until_faster(struct rate *r, uint64_t at_s, double share)
{
	uint64_t begin_s = at_s;

	while (look(r, at_s, share) == r->slowed) {
		at_s++;
		assert_true(at_s - begin_s < 1000);
	}
	assert_int_equal(look(r, at_s, share), r->slowed / 2);
	return at_s - begin_s;
}

static void goes_on_faster_after_a_quiet_time(void **state)
{
	struct rate r;

	(void)state;
	rate__init(&r);
	rate__set(&r, 8);
	assert_int_equal(seconds_until_faster(&r, 1, 0.01), RATE_PATIENCE_S);
	rate__set(&r, 4);
	assert_int_equal(seconds_until_faster(&r, 100, 0.059), RATE_PATIENCE_S);
	/* What would be too much again is not tried. */
	for (uint64_t s = 200; s < 1200; s++)
		assert_int_equal(look(&r, s, 0.07), 4);
	/* Neither does what is not measured make it quiet, nor end it. */
	for (uint64_t s = 1200; s < 1300; s++)
		assert_int_equal(look(&r, s, -1), 4);
	assert_int_equal(look(&r, 1300, 0.01), 4);
	assert_int_equal(look(&r, 1300 + RATE_PATIENCE_S, -1), 2);
}

/* A rate that was wrong is tried less and less often. */
static void patience_grows(void **state)
{
	uint64_t s = 1, last = 0;
	struct rate r;

	(void)state;
	rate__init(&r);
	rate__set(&r, 2);
	for (int i = 0; i < 10; i++) {
		uint64_t took = seconds_until_faster(&r, s, 0.05);

		assert_true(took >= last && took <= RATE_PATIENCE_MAX_S);
		last = took;
		rate__set(&r, 1);
		rate__set(&r, 2);
		s += 1000;
	}
	assert_int_equal(last, RATE_PATIENCE_MAX_S);
}

static void kernels_limit_is_not_exceeded(void **state)
{
	struct rate_look l = { .now_ns = 1, .budget = 0.15, .share = 0.01 };
	struct rate r;

	(void)state;
	rate__init(&r);
	rate__set(&r, 4);
	assert_int_equal(rate__look(&r, &l), 4);
	l.now_ns += 1000 * NS_PER_S;
	assert_int_equal(rate__look(&r, &l), 4);
	l.may_double = true;
	assert_int_equal(rate__look(&r, &l), 2);
}

static void events_have_names(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < EVENT_CNT; i++) {
		const char *name = event_name(i);

		assert_int_equal(value_type__find_event(name, strlen(name)), i);
		assert_string_not_equal(value_type__noun(&(struct value_type){ .event = i }, 1),
					value_type__noun(&(struct value_type){ .event = i }, 2));
	}
	assert_int_equal(value_type__find_event("cpu", 3), EVENT_CNT);
	assert_int_equal(value_type__find_event("", 0), EVENT_CNT);
}

struct record {
	struct ev_stack ev;
	uint64_t words[3];
};

static void each_sample_counts_and_words_are_kept_once(void **state)
{
	struct record r = {
		{ .type = EV_STACK, .cnt = 3, .key = { .space = 1, .stack = 81 }, .value = 5 },
		{ 30, 20, 10 }
	};
	struct nmi_stacks h = { 0 };
	const struct nmi_stack *s;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(nmi_stacks__add(&h, &r.ev, sizeof(r)), 0);
	assert_int_equal(h.cnt, 3);
	assert_int_equal(h.vals[2].samples, 1);
	assert_int_equal(h.vals[2].value, 5);
	assert_int_equal(h.stacks.cnt, 1);
	s = nmi_stacks__stack(&h, 81);
	assert_non_null(s);
	assert_int_equal(s->cnt, 3);
	assert_true(s->words[0] == 10 && s->words[2] == 30); /* outermost first */
	assert_null(nmi_stacks__stack(&h, 89));
	nmi_stacks__clear(&h);
	assert_int_equal(h.cnt, 0);
	assert_null(nmi_stacks__stack(&h, 81));
}

static void damaged_records_are_refused(void **state)
{
	struct record r = { { .cnt = 3, .key = { .stack = 1 } }, { 0 } };
	struct nmi_stacks h = { 0 };

	(void)state;
	assert_int_equal(nmi_stacks__add(&h, &r.ev, sizeof(r) - 1), -EBADMSG);
	assert_int_equal(nmi_stacks__add(&h, &r.ev, sizeof(r.ev) - 1), -EBADMSG);
	r.ev.cnt = 0;
	assert_int_equal(nmi_stacks__add(&h, &r.ev, sizeof(r)), -EBADMSG);
	r.ev.cnt = MAX_FRAMES + 1;
	assert_int_equal(nmi_stacks__add(&h, &r.ev, SIZE_MAX), -EBADMSG);
	assert_int_equal(h.cnt, 0);
	nmi_stacks__clear(&h);
}

#define DRAWS 100000

/* Drawn with all numbers alike, a wait counts for what it took: of a step of 10 ms, and of 82 s. */
static void waits_count_for_their_length(void **state)
{
	(void)state;
	for (uint64_t step = 10 * NS_PER_MS; step <= 8192 * 10 * NS_PER_MS; step *= 2) {
		for (uint64_t tenths = 0; tenths <= 20; tenths++) {
			uint64_t ns = step / 10 * tenths, sum = 0;

			for (uint64_t i = 0; i < DRAWS; i++)
				sum += wait_drawn((uint32_t)((i << 32) / DRAWS), ns, step) / DRAWS;
			assert_in_range(sum, ns - ns / 1000, ns + ns / 1000 + step / 1000);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(budget_is_below_the_kernels),
		cmocka_unit_test(slows_down_as_far_as_needed),
		cmocka_unit_test(two_measurements_in_a_row_count),
		cmocka_unit_test(throttled_is_answered_at_once),
		cmocka_unit_test(goes_on_faster_after_a_quiet_time),
		cmocka_unit_test(patience_grows),
		cmocka_unit_test(kernels_limit_is_not_exceeded),
		cmocka_unit_test(waits_count_for_their_length),
		cmocka_unit_test(events_have_names),
		cmocka_unit_test(each_sample_counts_and_words_are_kept_once),
		cmocka_unit_test(damaged_records_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
