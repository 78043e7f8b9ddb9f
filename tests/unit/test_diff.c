/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * diff.c and export_diff.c: sums, what is significant, the order of folded stacks; and with the Nth
 * allocation failing, for every N. The sources are compiled into this program with allocators of
 * its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/failing_alloc.h"
#include "../../user/base/hash.c"
#include "../../user/base/str.c"
#include "../../user/profile/export_stacks.c"
#include "../../user/profile/export_text.c"
#include "../../user/profile/diff.c"
#include "../../user/export/export_diff.c"
#undef calloc
#undef malloc
#undef realloc
#undef reallocarray

#include "unit/profiles.h"

/* main() calls slow(), fast() and one that only this side has; slow() calls itself. */
static struct profile *side(uint64_t slow_cnt, uint64_t fast_cnt, const char *only,
			    uint64_t only_cnt)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, (uint32_t)slow_cnt, "web", "/usr/bin/python3", "3.11.2", "", "");
	int main_ = py(p, "main", "/a.py", 1, 1), slow = py(p, "slow", "/a.py", 5, 4);
	int slow2 = py(p, "slow", "/a.py", 6, 4), fast = py(p, "fast", "/a.py", 9, 8);
	int other = py(p, only, "/b.py", 2, 1);

	STACK(p, proc, 0, slow_cnt, main_, slow, slow2, slow);
	STACK(p, proc, 0, fast_cnt, main_, fast);
	STACK(p, proc, 0, only_cnt, main_, other);
	symbolized(p);
	p->stats.values[0].frequency_hz = 100;
	return p;
}

static const struct diff_row *row(const struct diff *d, const char *name)
{
	for (size_t i = 0; i < d->cnt; i++)
		if (!strcmp(diff__text(d, d->rows[i].name), name))
			return &d->rows[i];
	fail_msg("no row %s", name);
	return NULL;
}

static void assert_near(double a, double b)
{
	assert_true(fabs(a - b) < 1e-9);
}

static void test_values(void **state)
{
	struct profile *before = side(100, 300, "old", 100), *after = side(400, 300, "new", 300);
	const struct diff_row *r;
	struct diff d;

	(void)state;
	assert_int_equal(diff__init(&d, before, after, false), 0);
	assert_int_equal(d.cnt, 5);
	r = row(&d, "slow");
	assert_int_equal(r->self.samples[DIFF_BEFORE], 100);
	assert_int_equal(r->total.samples[DIFF_BEFORE], 100); /* once, however deep */
	assert_int_equal(r->self.samples[DIFF_AFTER], 400);
	assert_near(diff__change(&r->self), 0.2);
	assert_true(r->self.significant);
	r = row(&d, "fast");
	assert_near(diff__change(&r->self), -0.3);
	r = row(&d, "main");
	assert_near(r->total.value[DIFF_BEFORE], 1);
	assert_near(diff__change(&r->total), 0);
	assert_false(r->total.significant);
	assert_string_equal(note(row(&d, "new")), "new");
	assert_string_equal(note(row(&d, "old")), "gone");
	assert_string_equal(note(row(&d, "slow")), "");
	diff__free(&d);

	assert_int_equal(diff__init(&d, before, after, true), 0);
	r = row(&d, "fast");
	assert_near(r->self.value[DIFF_BEFORE], 3);
	assert_near(diff__change(&r->self), 0);
	assert_near(diff__change(&row(&d, "main")->total), 5);
	diff__free(&d);
	profile__free(before);
	profile__free(after);
}

/* The same share of few samples is chance, of many it is not; known values of the test. */
static void test_significance(void **state)
{
	static const struct {
		uint64_t before, before_rest, after, after_rest;
		bool share, absolute;
	} cases[] = {
		{ 10, 90, 15, 85, false, false },	/* z = 1.07 */
		{ 1000, 9000, 1500, 8500, true, true }, /* z = 10.7 */
		{ 100, 900, 135, 865, false, false },	/* z = 2.43; 2.28 */
		{ 100, 900, 139, 861, true, false },	/* z = 2.69; 2.52 */
		{ 100, 900, 200, 1800, false, true },	/* twice the load: z = 0; 5.8 */
		{ 0, 1000, 5, 995, false, false },	/* z = 2.24 */
		{ 0, 1000, 8, 992, true, true },	/* z = 2.84; 2.83 */
		{ 1, 0, 1, 0, false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile *before = side(cases[i].before, cases[i].before_rest, "x", 0);
		struct profile *after = side(cases[i].after, cases[i].after_rest, "x", 0);
		struct diff d;

		assert_int_equal(diff__init(&d, before, after, false), 0);
		assert_int_equal(row(&d, "slow")->self.significant, cases[i].share);
		diff__free(&d);
		assert_int_equal(diff__init(&d, before, after, true), 0);
		assert_int_equal(row(&d, "slow")->self.significant, cases[i].absolute);
		diff__free(&d);
		profile__free(before);
		profile__free(after);
	}
}

/*
 * Of 2,000 functions that did not change, some one in a hundred passes for changed; of those that
 * doubled, all.
 */
static void test_false_alarms(void **state)
{
	struct profile *p[2] = { profile__new(), profile__new() };
	uint64_t random = 88172645463325252ULL;
	size_t alarms = 0, found = 0;
	struct diff d;

	(void)state;
	for (int s = 0; s < 2; s++) {
		int proc = add_proc(p[s], 1, "x", "", "", "", "");

		for (int i = 0; i < 2000; i++) {
			uint64_t count = 0, tries = i < 100 && s ? 2000 : 1000;
			char name[16];

			/* A tenth of the tries: binomial, by xorshift64. */
			for (uint64_t k = 0; k < tries; k++) {
				random ^= random << 13;
				random ^= random >> 7;
				random ^= random << 17;
				count += random % 10 == 0;
			}
			snprintf(name, sizeof(name), "f%d", i);
			STACK(p[s], proc, 0, count, py(p[s], name, "/a.py", 1, 1));
		}
		symbolized(p[s]);
	}
	assert_int_equal(diff__init(&d, p[0], p[1], false), 0);
	for (size_t i = 0; i < d.cnt; i++) {
		bool doubled = atoi(diff__text(&d, d.rows[i].name) + 1) < 100;

		found += doubled && d.rows[i].self.significant;
		alarms += !doubled && d.rows[i].self.significant;
	}
	assert_int_equal(found, 100);
	/* The doubled ones take 5% from the others' shares, which adds alarms. */
	assert_in_range(alarms, 2, 80);
	diff__free(&d);
	profile__free(p[0]);
	profile__free(p[1]);
}

/*
 * A share of a third against one of a half: of so many events, in so many samples, is that chance?
 */
static bool event_change_is_significant(uint64_t events_per_sample, uint64_t samples)
{
	struct profile *p[2];
	bool significant;
	struct diff d;

	for (int s = 0; s < 2; s++) {
		uint64_t parts[] = { (uint64_t)s + 1, 2 };

		p[s] = profile__new();
		p[s]->stats.values[0].event = EVENT_PAGE_FAULTS;
		for (int i = 0; i < 2; i++) {
			uint64_t word_ = word(p[s], py(p[s], i ? "g" : "f", "/a.py", 1, 1));
			uint64_t n = samples * parts[i] / (parts[0] + parts[1]);
			int proc = i ? 0 : add_proc(p[s], 7, "web", "", "", "", "");

			profile__add_weighted(p[s], (uint32_t)proc, 0, &word_, 1, n,
					      n * events_per_sample);
		}
		symbolized(p[s]);
	}
	assert_int_equal(diff__init(&d, p[0], p[1], false), 0);
	significant = row(&d, "f")->self.significant;
	diff__free(&d);
	profile__free(p[0]);
	profile__free(p[1]);
	return significant;
}

static void test_weighted_events(void **state)
{
	(void)state;
	assert_true(event_change_is_significant(1, 1200));
	assert_true(event_change_is_significant(100, 1200));
	assert_false(event_change_is_significant(1, 60));
	assert_false(event_change_is_significant(100, 60)); /* 6,000 events, but 60 draws */
}

static char *written(int (*write)(const struct profile *, const struct profile *,
				  const struct export_opts *, FILE *),
		     const struct profile *a, const struct profile *b)
{
	static const struct export_opts o = { .lines = false };
	char *s = NULL;
	size_t len;
	FILE *f = open_memstream(&s, &len);

	assert_non_null(f);
	assert_int_equal(write(a, b, &o, f), 0);
	assert_int_equal(fclose(f), 0);
	return s;
}

static void test_folded(void **state)
{
	struct profile *before = side(1, 2, "f!", 3), *after = side(4, 5, "f", 6);
	char *s = written(export__diff_folded, before, after);

	(void)state;
	assert_string_equal(s, "web;main (/a.py);f (/b.py) 0 6\n"
			       "web;main (/a.py);f! (/b.py) 3 0\n"
			       "web;main (/a.py);fast (/a.py) 2 5\n"
			       "web;main (/a.py);slow (/a.py);slow (/a.py);slow (/a.py) 1 4\n");
	free(s);
	profile__free(before);
	profile__free(after);
}

static void test_report_of_events(void **state)
{
	static const char *const words[] = { "500 page faults\n", "shares of all page faults,",
					     "\nMore page faults: self\n",
					     "\nFewer page faults: total\n" };
	struct profile *before = side(100, 300, "old", 100), *after = side(400, 299, "new", 3);
	char *s;

	(void)state;
	before->stats.values[0] = after->stats.values[0] =
		(struct value_type){ .event = EVENT_PAGE_FAULTS };
	s = written(export__diff_report, before, after);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_non_null(strstr(s, words[i]));
	assert_null(strstr(s, " time"));
	free(s);
	profile__free(before);
	profile__free(after);
}

/* Of waits and bytes, no number of nanoseconds or somethings: what all of it is called. */
static void test_report_of_wholes(void **state)
{
	static const struct {
		uint32_t event;
		const char *says;
	} cases[] = {
		{ EVENT_OFF_CPU, "shares of all waiting time," },
		{ EVENT_GROWTH, "shares of all growth," },
		{ EVENT_INUSE_SPACE, "shares of all memory in use," },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile *before = side(100, 300, "old", 100);
		struct profile *after = side(400, 299, "new", 3);
		char *s;

		before->stats.values[0] = after->stats.values[0] =
			(struct value_type){ .event = cases[i].event };
		s = written(export__diff_report, before, after);
		assert_non_null(strstr(s, cases[i].says));
		free(s);
		profile__free(before);
		profile__free(after);
	}
}

static void test_report(void **state)
{
	struct profile *before = side(100, 300, "old", 100), *after = side(400, 299, "new", 3);
	char *s = written(export__diff_report, before, after);

	(void)state;
	assert_string_equal(s, "Before: 500 samples (5.00 CPU s) at 100 Hz\n"
			       "After: 702 samples (7.02 CPU s) at 100 Hz\n"
			       "Values are shares of all samples, changes are percentage points.\n"
			       "\n"
			       "More self time\n"
			       "  CHANGE  BEFORE  AFTER  TOTAL    FUNCTION  FILE\n"
			       "   +37.0   20.0%  57.0%  +37.0    slow      /a.py\n"
			       "  ... 1 whose change is within chance\n"
			       "\n"
			       "Less self time\n"
			       "  CHANGE  BEFORE  AFTER  TOTAL        FUNCTION  FILE\n"
			       "   -20.0   20.0%   0.0%  -20.0  gone  old       /b.py\n"
			       "   -17.4   60.0%  42.6%  -17.4        fast      /a.py\n"
			       "\n"
			       "More total time\n"
			       "  CHANGE  BEFORE  AFTER   SELF    FUNCTION  FILE\n"
			       "   +37.0   20.0%  57.0%  +37.0    slow      /a.py\n"
			       "  ... 1 whose change is within chance\n"
			       "\n"
			       "Less total time\n"
			       "  CHANGE  BEFORE  AFTER   SELF        FUNCTION  FILE\n"
			       "   -20.0   20.0%   0.0%  -20.0  gone  old       /b.py\n"
			       "   -17.4   60.0%  42.6%  -17.4        fast      /a.py\n");
	free(s);
	profile__free(before);
	profile__free(after);
}

static void test_no_memory(void **state)
{
	static const struct export_opts o = { .width = 80, .color = true };
	static const struct export_format formats[] = {
		{ .write_diff = export__diff_report },
		{ .write_diff = export__diff_json },
	};
	struct profile *before = side(100, 300, "old", 100), *after = side(400, 300, "new", 300);
	FILE *f = fopen("/dev/null", "w");

	(void)state;
	assert_non_null(f);
	for (size_t i = 0; i < 2; i++) {
		size_t allocs;

		alloc_cnt = fail_at = 0;
		assert_int_equal(formats[i].write_diff(before, after, &o, f), 0);
		allocs = alloc_cnt;
		for (size_t n = 1; n <= allocs; n++) {
			alloc_cnt = 0;
			fail_at = n;
			assert_int_equal(formats[i].write_diff(before, after, &o, f), -ENOMEM);
			assert_true(alloc_cnt >= n);
		}
		fail_at = 0;
	}
	fclose(f);
	profile__free(before);
	profile__free(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weighted_events),	 cmocka_unit_test(test_values),
		cmocka_unit_test(test_significance),	 cmocka_unit_test(test_false_alarms),
		cmocka_unit_test(test_folded),		 cmocka_unit_test(test_report),
		cmocka_unit_test(test_report_of_events), cmocka_unit_test(test_report_of_wholes),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
