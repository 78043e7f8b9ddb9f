/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* profile.c: what is equal is added up, and nothing is lost when it grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"

static int add_proc(struct profile *p, uint32_t space)
{
	return profile__add_proc(p, &(struct profile_proc){ .space = space, .tgid = space + 1 });
}

static void test_strings(void **state)
{
	struct profile *p = profile__new();
	str_id a = profile__intern_z(p, "abc"), b = profile__intern(p, "x\0y", 3);

	(void)state;
	assert_int_equal(profile__intern(p, "abcdef", 3), a);
	assert_int_equal(profile__intern_z(p, ""), 0);
	assert_string_equal(profile__str(p, a), "abc");
	assert_int_equal(profile__str_len(p, a), 3);
	assert_memory_equal(profile__str(p, b), "x\0y", 4);
	assert_int_equal(profile__str_len(p, b), 3);
	assert_string_equal(profile__str(p, 99), "");
	profile__free(p);
	profile__free(NULL);
}

static void test_procs(void **state)
{
	struct profile *p = profile__new();
	int n = 5000;

	(void)state;
	assert_int_equal(profile__find_proc(p, 0), -1);
	for (int i = 0; i < n; i++)
		assert_int_equal(add_proc(p, (uint32_t)i * 7), i);
	for (int i = 0; i < n; i++) {
		assert_int_equal(profile__find_proc(p, (uint32_t)i * 7), i);
		assert_int_equal(p->procs[i].tgid, (uint32_t)i * 7 + 1);
	}
	assert_int_equal(profile__find_proc(p, 1), -1);
	/* a space is there once */
	assert_int_equal(profile__add_proc(p, &(struct profile_proc){ .space = 14, .tgid = 3 }), 2);
	assert_int_equal(p->proc_cnt, n);
	assert_int_equal(p->procs[2].tgid, 3);
	profile__free(p);
}

static void test_threads(void **state)
{
	struct profile *p = profile__new();
	struct profile_thread t = { .space = 1, .tid = 10, .name = profile__intern_z(p, "main") };

	(void)state;
	assert_string_equal(profile__thread_name(p, 1, 10), "");
	assert_int_equal(profile__add_thread(p, &t), 0);
	t.tid = 11;
	t.name = profile__intern_z(p, "worker");
	assert_int_equal(profile__add_thread(p, &t), 1);
	assert_string_equal(profile__thread_name(p, 1, 10), "main");
	assert_string_equal(profile__thread_name(p, 1, 11), "worker");
	assert_string_equal(profile__thread_name(p, 2, 10), "");
	assert_string_equal(profile__thread_name(p, 10, 1), "");
	t.name = profile__intern_z(p, "renamed");
	assert_int_equal(profile__add_thread(p, &t), 1);
	assert_string_equal(profile__thread_name(p, 1, 11), "renamed");
	profile__free(p);
}

static void test_stacks(void **state)
{
	struct profile *p = profile__new();
	uint64_t words[] = { 1, 2, 3 }, other[] = { 1, 2, 4 };

	(void)state;
	assert_int_equal(profile__add_stack(p, 0, 0, words, 3, 1), -EINVAL);
	assert_int_equal(add_proc(p, 1), 0);
	assert_int_equal(add_proc(p, 2), 1);
	assert_int_equal(profile__add_stack(p, 0, 0, words, 3, 5), 0);
	assert_int_equal(profile__add_stack(p, 0, 0, other, 3, 1), 1);
	assert_int_equal(profile__add_stack(p, 0, 0, words, 2, 1), 2);
	assert_int_equal(profile__add_stack(p, 1, 0, words, 3, 1), 3);
	assert_int_equal(profile__add_stack(p, 0, 9, words, 3, 1), 4);
	assert_int_equal(profile__add_stack(p, 0, 0, NULL, 0, 1), 5);
	assert_int_equal(profile__add_stack(p, 0, 0, NULL, 0, 1), 5);
	assert_int_equal(profile__add_stack(p, 0, 0, words, 3, 2), 0);
	assert_int_equal(p->stack_cnt, 6);
	assert_int_equal(p->frame_cnt, 3 + 3 + 2 + 3 + 3);
	assert_int_equal(p->stacks[0].count, 7);
	assert_int_equal(p->stacks[5].count, 2);
	assert_memory_equal(&p->frames[p->stacks[1].first], other, sizeof(other));
	assert_int_equal(profile__total(p), 7 + 1 + 1 + 1 + 1 + 2);
	profile__free(p);
}

/* Many stacks that differ in one word only, twice. */
static void test_many_stacks(void **state)
{
	struct profile *p = profile__new();
	uint64_t words[100] = { 0 };
	int n = 20000;

	(void)state;
	add_proc(p, 1);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < n; i++) {
			size_t cnt = (size_t)(i % 100) + 1;

			words[i % 100] = (uint64_t)i << 40;
			assert_int_equal(profile__add_stack(p, 0, 0, words, cnt, 1), i);
			words[i % 100] = ~0ULL;
		}
	assert_int_equal(p->stack_cnt, n);
	for (int i = 0; i < n; i++)
		assert_int_equal(p->stacks[i].count, 2);
	profile__free(p);
}

static void test_frame_syms_dropped(void **state)
{
	struct profile *p = profile__new();
	uint64_t word = 1;

	(void)state;
	add_proc(p, 1);
	profile__add_stack(p, 0, 0, &word, 1, 1);
	p->frame_syms = calloc(1, sizeof(*p->frame_syms));
	profile__add_stack(p, 0, 0, &word, 1, 1);
	assert_non_null(p->frame_syms);
	word = 2;
	profile__add_stack(p, 0, 0, &word, 1, 1);
	assert_null(p->frame_syms);
	profile__free(p);
}

static void test_sums(void **state)
{
	struct profile_stats s = { 0 };

	(void)state;
	for (size_t i = 0; i < CTR_CNT; i++)
		s.counters[i] = 1ULL << i;
	assert_true(profile__filtered(&s) ==
		    (1ULL << CTR_filtered_idle | 1ULL << CTR_filtered_target |
		     1ULL << CTR_filtered_comm | 1ULL << CTR_filtered_cgroup |
		     1ULL << CTR_filtered_user | 1ULL << CTR_filtered_thread |
		     1ULL << CTR_filtered_python | 1ULL << CTR_filtered_exited |
		     1ULL << CTR_filtered_pidns | 1ULL << CTR_filtered_unknown |
		     1ULL << CTR_filtered_released | 1ULL << CTR_filtered_share |
		     1ULL << CTR_filtered_nmi | 1ULL << CTR_filtered_condition));
	assert_true(profile__lost(&s) == (1ULL << CTR_lost_no_proc | 1ULL << CTR_lost_counts_full |
					  1ULL << CTR_lost_chunks_full | 1ULL << CTR_lost_nmi_miss |
					  1ULL << CTR_lost_internal | 1ULL << CTR_lost_busy |
					  1ULL << CTR_lost_argument));
}

/* One sample of so many was timed; none was, where nothing was sampled. */
static void test_sampler_time(void **state)
{
	struct profile_stats s = { 0 };

	(void)state;
	s.counters[CTR_delivered] = 160;
	assert_int_equal(profile__sampler_ns(&s), 0);
	s.counters[CTR_timed_samples] = 10;
	s.counters[CTR_timed_ns] = 30000;
	assert_int_equal(profile__sampler_ns(&s), 480000);
	s.counters[CTR_timed_ns] = 1ULL << 50; /* of months: the product is more than 64 bits */
	s.counters[CTR_delivered] = 1ULL << 40;
	s.counters[CTR_timed_samples] = 1ULL << 36;
	assert_true(profile__sampler_ns(&s) == 1ULL << 54);
}

/* Nothing was sampled while the curves were drawn. The sanitizer looks at the copy of no stack. */
static void test_curves_of_nothing(void **state)
{
	struct profile *p = profile__new();

	(void)state;
	assert_non_null(p);
	p->curves = calloc(1, sizeof(*p->curves));
	assert_non_null(p->curves);
	profile__part_curves(p);
	assert_non_null(p->curves->stacks);
	assert_int_equal(p->curves->stack_cnt + p->stack_cnt, 0);
	profile__free(p);
}

/* A sample of what is counted one by one has its name; else it stands for many. */
static void test_words_for_samples(void **state)
{
	const struct value_type types[] = {
		{ .event = EVENT_CPU_CLOCK, .frequency_hz = 99 },
		{ .event = EVENT_OFF_CPU, .rate_hz = 99 },
		{ .event = EVENT_PAGE_FAULTS, .rate_hz = 99 },
		{ .event = EVENT_PAGE_FAULTS, .period = 1 },
		{ .event = EVENT_GROWTH, .period = 1 },
		{ .event = EVENT_REFS_TAKEN },
		{ .event = VALUE_FOREIGN, .name = "uprobe:x:f", .unit = UNIT_COUNT },
		{ .event = VALUE_FOREIGN, .name = "uprobe:x:f sum arg1", .unit = UNIT_COUNT },
		{ .event = VALUE_FOREIGN, .name = VALUE_CALL_TIME, .unit = UNIT_NS },
	};
	static const char *const words[] = { "samples",	    "samples", "samples",
					     "page faults", "samples", "references",
					     "hits",	    "hits",    "calls" };

	(void)state;
	for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		assert_string_equal(value_types__sample(&types[i], 1, 3), words[i]);
	assert_string_equal(value_types__sample(&types[6], 1, 1), "hit");
	assert_string_equal(value_types__sample(&types[6], 2, 3), "hits");
	assert_string_equal(value_types__sample(&types[5], 2, 1), "sample");
	assert_string_equal(value_types__sample(&types[5], 2, 3), "samples");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_procs),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_many_stacks),
		cmocka_unit_test(test_frame_syms_dropped),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_sampler_time),
		cmocka_unit_test(test_curves_of_nothing),
		cmocka_unit_test(test_words_for_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
