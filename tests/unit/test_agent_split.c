/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Windows when memory is short: each allocation fails once, and no sample is neither in a window
 * nor counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/deliver.h"
#include "agent/labels.h"
#include "base/log.h"
#include "import/import.h"

#include "unit/failing_alloc.h"
#include "../../user/agent/split.c"
#undef calloc
#undef malloc
#undef realloc
#undef reallocarray

#define SERVICES 3
#define SAMPLES	 (1 + 2 + 3)

static const char *const by_service[] = { "service_name", NULL };
static unsigned said;

static void hear(enum log_level level, const char *fmt, const char *text)
{
	(void)level, (void)fmt;
	said += strstr(text, "could not be made") != NULL;
}

static struct label_set *label(void *ctx, const struct profile *p, const struct profile_proc *proc)
{
	const struct labelled_process l = {
		.comm = profile__str(p, proc->comm), .exe = "", .python = "", .container = ""
	};

	return labels__of_gone(ctx, &l);
}

static struct period *three_services(void)
{
	const struct period_limits limits = { .stacks = 100, .processes = 100 };
	static const char *const names[SERVICES] = { "a", "b", "c" };
	struct period *p = period__new();
	struct profile *d = profile__new();
	struct labels_config c;

	for (uint32_t i = 0; i < SERVICES; i++) {
		const struct profile_proc proc = { .space = i + 1,
						   .comm = profile__intern_z(d, names[i]) };
		const uint64_t word = PYTHON_WORD(i, 0);

		assert_int_equal(profile__add_proc(d, &proc), i);
		assert_true(profile__add_stack(d, i, 0, &word, 1, i + 1) >= 0);
	}
	assert_int_equal(period__add(p, d, &limits), 0);
	profile__free(d);
	assert_int_equal(labels_config__init(&c), 0);
	assert_int_equal(period__label(p, label, &c), 0);
	labels_config__free(&c);
	return p;
}

static int take_window(void *ctx, const struct window *w)
{
	(void)ctx, (void)w;
	return 0;
}

static struct deliver_stats deliver(void)
{
	struct deliver *d = deliver__new(by_service, take_window, NULL);
	struct deliver_stats st;

	assert_int_equal(deliver__start(d), 0);
	said = 0;
	deliver__put(d, three_services());
	deliver__close(d, &st);
	return st;
}

static void no_sample_is_lost_in_silence(void **state)
{
	struct deliver_stats st;
	bool some = false, all = false;
	size_t total;

	(void)state;
	fail_at = 0;
	st = deliver();
	assert_int_equal(st.windows, SERVICES);
	assert_int_equal(st.samples, SAMPLES);
	total = alloc_cnt;
	for (size_t n = 1; n <= total; n++) {
		struct splitter *s;

		alloc_cnt = 0;
		fail_at = n;
		s = splitter__new(by_service); /* the first is its */
		splitter__free(s);
		if (!s)
			continue;
		alloc_cnt = 0;
		st = deliver();
		assert_int_equal(st.samples + st.dropped_samples, SAMPLES);
		assert_int_equal(st.failed > 0, st.dropped_samples > 0);
		assert_int_equal(said, st.dropped_samples > 0);
		some |= st.failed == 1 && st.windows == SERVICES - 1;
		all |= st.failed == 1 && !st.windows;
	}
	assert_true(some && all);
}

static struct label_set *set_of(struct label *labels, size_t cnt)
{
	struct label_set *set = calloc(1, sizeof(*set) + cnt * sizeof(*labels));

	set->refs = 1;
	set->cnt = cnt;
	memcpy(set->labels, labels, cnt * sizeof(*labels));
	return set;
}

/* `cnt` stacks of their own, of a process of user `uid`. */
static uint32_t take_stacks(struct period *p, uint32_t uid, uint32_t cnt)
{
	const struct period_limits limits = { .stacks = 160, .processes = 100 };
	const struct profile_proc proc = {
		.space = uid, .ids_known = true, .uid = uid, .payer = uid
	};
	struct profile *d = profile__new();
	uint64_t over = p->over_stacks;

	assert_int_equal(profile__add_proc(d, &proc), 0);
	for (uint64_t i = 0; i < cnt; i++) {
		const uint64_t word = (uint64_t)uid << 20 | (i + 1);

		assert_true(profile__add_stack(d, 0, 0, &word, 1, 1) >= 0);
	}
	assert_int_equal(period__add(p, d, &limits), 0);
	profile__free(d);
	return cnt - (uint32_t)(p->over_stacks - over);
}

/* Who has filled the room for stacks has not taken that of others, and there is an end to it. */
static void one_users_stacks_leave_room(void **state)
{
	struct period *p = period__new();
	uint32_t taken = 0;

	(void)state;
	assert_int_equal(take_stacks(p, 1, 500), 160);
	assert_int_equal(take_stacks(p, 1, 160), 160); /* known ones */
	assert_int_equal(take_stacks(p, 2, 5), 5);
	assert_int_equal(take_stacks(p, 2, 20), 10);
	for (uint32_t uid = 3; uid < 30; uid++)
		taken += take_stacks(p, uid, 20);
	assert_in_range(taken, 10, 40);
	assert_true(p->profile->stack_cnt <= 200 + 30); /* and a marker for each process */
	period__free(p);
}

#define FAULTS 1000

/*
 * A window of a process that had samples in both types, and of one with page faults only; of the
 * first every 3rd counts.
 */
static struct period *two_values(void)
{
	const struct period_limits limits = { .stacks = 100, .processes = 100 };
	struct label first[] = { { "service_name", "x" } }, second[] = { { "service_name", "y" } };
	struct period *p = period__new();
	struct profile *d = profile__new();

	for (uint32_t i = 0; i < 2; i++) {
		const struct profile_proc proc = { .space = i + 1 };

		assert_int_equal(profile__add_proc(d, &proc), i);
	}
	for (uint64_t word = 1; word <= 7; word++) {
		assert_true(profile__add_value(d, 0, 0, 0, &word, 1, word, word) >= 0);
		assert_true(profile__add_value(d, 1, 0, 0, &word, 1, 1, word * FAULTS) >= 0);
		assert_true(profile__add_value(d, 1, 1, 0, &word, 1, 1, FAULTS) >= 0);
	}
	assert_int_equal(period__add(p, d, &limits), 0);
	profile__free(d);
	p->frequency_hz = 19;
	p->profile->stats.value_cnt = 2;
	p->profile->stats.values[1] =
		(struct value_type){ .event = EVENT_PAGE_FAULTS, .rate_hz = 19 };
	p->labels = calloc(2, sizeof(struct label_set *));
	p->labels[p->label_cnt++] = set_of(first, 1);
	p->labels[0]->one_in = 3;
	p->labels[p->label_cnt++] = set_of(second, 1);
	return p;
}

struct seen_windows {
	unsigned cnt;
	uint64_t samples[2], sums[2][2];
};

static int look_into(void *ctx, const struct window *w)
{
	struct import *im = import__new(&(struct import_opts){ 0 });
	struct seen_windows *seen = ctx;
	const struct profile *p;

	assert_int_equal(import__add_data(im, w->id, w->pprof, w->pprof_size), 0);
	assert_int_equal(import__finish(im), 0);
	p = import__profile(im);
	assert_int_equal(p->stats.value_cnt, 2);
	assert_int_equal(p->stats.values[0].frequency_hz, 19);
	assert_int_equal(p->stats.values[1].event, EVENT_PAGE_FAULTS);
	for (size_t i = 0; i < p->stack_cnt; i++)
		seen->sums[seen->cnt][p->stacks[i].type] += p->stacks[i].count;
	seen->samples[seen->cnt++] = w->samples;
	import__free(im);
	return 0;
}

static void a_window_has_all_values(void **state)
{
	struct splitter *s = splitter__new(by_service);
	struct seen_windows seen = { 0 };
	struct period *p = two_values();
	uint32_t services, unmade;

	(void)state;
	fail_at = 0;
	assert_int_equal(splitter__run(s, p, look_into, &seen, &services, &unmade), 0);
	assert_int_equal(seen.cnt, 2);
	assert_int_equal(p->samples, 28);
	assert_int_equal(seen.samples[0], 28);
	assert_int_equal(seen.sums[0][0], 28);
	assert_int_equal(seen.sums[0][1], 28 * FAULTS);
	assert_int_equal(seen.samples[1], 0);
	assert_int_equal(seen.sums[1][1], 7 * FAULTS);
	period__free(p);
	splitter__free(s);
}

/* A service of two processes, one of which has a label that no other has. */
static void add_period(struct splitter *s, unsigned nr)
{
	char name[32];
	struct label labels[] = { { "service_name", "x" }, { name, "1" } };
	struct period *p = period__new();
	uint32_t services, unmade;

	snprintf(name, sizeof(name), "x_%u", nr);
	for (uint32_t i = 0; i < 2; i++) {
		const struct profile_proc proc = { .space = i + 1 };
		const uint64_t word = PYTHON_WORD(1, 0);

		assert_int_equal(profile__add_proc(p->profile, &proc), i);
		assert_true(profile__add_stack(p->profile, i, 0, &word, 1, 1) >= 0);
	}
	p->labels = calloc(2, sizeof(*p->labels));
	p->labels[p->label_cnt++] = set_of(labels, 2);
	p->labels[p->label_cnt++] = set_of(labels, 1);
	assert_int_equal(splitter__run(s, p, take_window, NULL, &services, &unmade), 0);
	period__free(p);
}

/* Processes choose the names of attributes. */
static void what_differed_is_bounded(void **state)
{
	struct splitter *s = splitter__new(by_service);

	(void)state;
	fail_at = 0;
	for (unsigned i = 0; i < 10 * DIFFERING_MAX; i++)
		add_period(s, i);
	assert_int_equal(s->cnt, 1);
	assert_true(has_differed(&s->services[0], "x_0"));
	assert_true(s->services[0].differing.len <= DIFFERING_MAX * 8);
	splitter__free(s);
}

/* ---- rules and small services ---------------------------------------------------------------- */

struct seen {
	char service[64];
	uint64_t samples;
	bool extra; /* has the label that not all have */
};

struct all_seen {
	struct seen at[64];
	size_t cnt;
	uint64_t samples;
};

static int see(void *ctx, const struct window *w)
{
	struct all_seen *all = ctx;
	struct seen *s = &all->at[all->cnt++];

	snprintf(s->service, sizeof(s->service), "%s", window__label(w, "service_name"));
	s->samples = w->samples;
	s->extra = window__label(w, "extra") != NULL;
	all->samples += w->samples;
	return 0;
}

struct made {
	const char *service;
	uint32_t stacks; /* each with one sample */
	bool drop;
	uint32_t one_in;
};

/* A process of each; every second has another label. */
static void run_with(struct splitter *s, const struct made *made, size_t cnt, struct all_seen *all)
{
	struct period *p = period__new();
	uint32_t services, unmade;

	p->span.start_unix_ns = 1700000000000000000;
	p->labels = calloc(cnt, sizeof(*p->labels));
	for (uint32_t i = 0; i < cnt; i++) {
		const struct profile_proc proc = { .space = i + 1 };
		struct label labels[] = { { "extra", i % 2 ? "a" : "b" },
					  { "service_name", made[i].service } };

		assert_int_equal(profile__add_proc(p->profile, &proc), i);
		for (uint32_t j = 0; j < made[i].stacks; j++) {
			const uint64_t word = PYTHON_WORD(j + 1, 0);

			assert_true(profile__add_stack(p->profile, i, 0, &word, 1, 1) >= 0);
			p->samples++;
		}
		p->labels[p->label_cnt] = set_of(labels, 2);
		p->labels[p->label_cnt]->drop = made[i].drop;
		p->labels[p->label_cnt++]->one_in = made[i].one_in;
	}
	*all = (struct all_seen){ 0 };
	assert_int_equal(splitter__run(s, p, see, all, &services, &unmade), 0);
	assert_int_equal(services, all->cnt);
	assert_int_equal(p->samples, all->samples + splitter__left_out(s));
	period__free(p);
}

static void rules_leave_out_and_thin_out(void **state)
{
	static const struct made made[] = {
		{ .service = "all", .stacks = 100 },
		{ .service = "gone", .stacks = 50, .drop = true },
		{ .service = "few", .stacks = 1, .one_in = 1000 },
		{ .service = "some", .stacks = 1000, .one_in = 10 },
	};
	struct splitter *s;
	struct all_seen all;

	(void)state;
	fail_at = 0;
	s = splitter__new(by_service);
	run_with(s, made, 4, &all);
	assert_int_equal(all.cnt, 3);
	assert_string_equal(all.at[0].service, "all");
	assert_string_equal(all.at[1].service, "few");
	assert_int_equal(all.at[1].samples, 1);
	assert_string_equal(all.at[2].service, "some");
	assert_int_equal(all.at[2].samples, 1000); /* of which a tenth is there */
	assert_int_equal(splitter__left_out(s), 50);
	for (uint32_t n = 1; n < 40; n++) {
		for (uint32_t one_in = 0; one_in < 30; one_in++) {
			const struct made m = { .service = "x", .stacks = n, .one_in = one_in };

			run_with(s, &m, 1, &all);
			assert_int_equal(all.samples, n);
		}
	}
	splitter__free(s);
}

static void small_services_are_one(void **state)
{
	static const struct made made[] = {
		{ .service = "a", .stacks = 4 }, { .service = "b", .stacks = 5 },
		{ .service = "c", .stacks = 1 }, { .service = "d", .stacks = 2 },
		{ .service = "d", .stacks = 3 },
	};
	static const struct made later[] = {
		{ .service = "a", .stacks = 1 },
		{ .service = "b", .stacks = 1 },
		{ .service = "e", .stacks = 1 },
		{ .service = "e", .stacks = 1 },
	};
	struct splitter *s;
	struct all_seen all;

	(void)state;
	fail_at = 0;
	s = splitter__new(by_service);
	run_with(s, made, 5, &all);
	assert_int_equal(all.cnt, 4); /* nobody asked for it */
	splitter__set_small(s, 5);
	run_with(s, made, 5, &all);
	assert_int_equal(all.cnt, 3);
	assert_string_equal(all.at[0].service, SPLIT_SMALL);
	assert_int_equal(all.at[0].samples, 5); /* a and c */
	assert_string_equal(all.at[1].service, "b");
	assert_string_equal(all.at[2].service, "d"); /* its processes together */
	/* b was large enough once. */
	run_with(s, later, 4, &all);
	assert_int_equal(all.cnt, 2);
	assert_string_equal(all.at[0].service, SPLIT_SMALL);
	assert_int_equal(all.at[0].samples, 3);
	assert_false(all.at[0].extra); /* they differ in it */
	assert_string_equal(all.at[1].service, "b");
	/* One alone has its name. */
	run_with(s, later, 1, &all);
	assert_int_equal(all.cnt, 1);
	assert_string_equal(all.at[0].service, "a");
	splitter__free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_users_stacks_leave_room),
		cmocka_unit_test(what_differed_is_bounded),
		cmocka_unit_test(no_sample_is_lost_in_silence),
		cmocka_unit_test(a_window_has_all_values),
		cmocka_unit_test(rules_leave_out_and_thin_out),
		cmocka_unit_test(small_services_are_one),
	};

	log_set_writer(hear);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
