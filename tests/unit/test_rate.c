/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which rate is too much (rate.h), events by name (event.h), and stacks that were handed over (handed.h). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "event.h"
#include "handed.h"
#include "rate.h"

static void budget_is_below_the_kernels(void **state)
{
	(void)state;
	assert_true(rate__budget(25) < 0.25 && rate__budget(25) > 0.1);
	assert_true(rate__budget(1) < 0.01 && rate__budget(1) > 0);
	assert_true(rate__budget(0) == rate__budget(25)); /* the kernel does nothing: we do */
	assert_true(rate__budget(100) == rate__budget(25));
	assert_true(rate__budget(-2) == rate__budget(25));
}

static void slows_down_as_far_as_needed(void **state)
{
	(void)state;
	assert_int_equal(rate__slow_down(1, 0.10, 0.15), 1);
	assert_int_equal(rate__slow_down(1, 0.16, 0.15), 2);
	assert_int_equal(rate__slow_down(1, 0.61, 0.15), 8);
	assert_int_equal(rate__slow_down(4, 0.16, 0.15), 8);
	assert_int_equal(rate__slow_down(4, 0.01, 0.15), 4); /* never faster */
	assert_true(rate__slow_down(1, 1e9, 0.15) < 2 * RATE_SLOWEST);
}

static void events_have_names(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < EVENT_CNT; i++) {
		const struct event *ev = event__get(i);

		assert_int_equal(event__find(ev->name, (uint32_t)strlen(ev->name)), i);
		assert_non_null(strstr(event__names, ev->name));
		assert_true(ev->one && ev->many);
	}
	assert_int_equal(event__find("cpu", 3), EVENT_CNT);
	assert_int_equal(event__find("", 0), EVENT_CNT);
	assert_ptr_equal(event__get(EVENT_CNT), event__get(0));
}

struct record {
	struct ev_stack ev;
	uint64_t words[3];
};

static void each_sample_counts_and_words_are_kept_once(void **state)
{
	struct record r = {
		{ .type = EV_STACK, .cnt = 3, .key = { .space = 1, .stack = 77 }, .value = 5 },
		{ 30, 20, 10 }
	};
	struct handed h = { 0 };
	const struct handed_stack *s;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(handed__add(&h, &r.ev, sizeof(r)), 0);
	assert_int_equal(h.cnt, 3);
	assert_int_equal(h.vals[2].samples, 1);
	assert_int_equal(h.vals[2].value, 5);
	assert_int_equal(h.stacks.cnt, 1);
	s = handed__stack(&h, 77);
	assert_non_null(s);
	assert_int_equal(s->cnt, 3);
	assert_true(s->words[0] == 10 && s->words[2] == 30); /* outermost first */
	assert_null(handed__stack(&h, 78));
	handed__clear(&h);
	assert_int_equal(h.cnt, 0);
	assert_null(handed__stack(&h, 77));
}

static void damaged_records_are_refused(void **state)
{
	struct record r = { { .cnt = 3, .key = { .stack = 1 } }, { 0 } };
	struct handed h = { 0 };

	(void)state;
	assert_int_equal(handed__add(&h, &r.ev, sizeof(r) - 1), -EBADMSG);
	assert_int_equal(handed__add(&h, &r.ev, sizeof(r.ev) - 1), -EBADMSG);
	r.ev.cnt = 0;
	assert_int_equal(handed__add(&h, &r.ev, sizeof(r)), -EBADMSG);
	r.ev.cnt = MAX_FRAMES + 1;
	assert_int_equal(handed__add(&h, &r.ev, SIZE_MAX), -EBADMSG);
	assert_int_equal(h.cnt, 0);
	handed__clear(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(budget_is_below_the_kernels),
		cmocka_unit_test(slows_down_as_far_as_needed),
		cmocka_unit_test(events_have_names),
		cmocka_unit_test(each_sample_counts_and_words_are_kept_once),
		cmocka_unit_test(damaged_records_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
