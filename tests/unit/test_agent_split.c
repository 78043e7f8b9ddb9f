/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Windows when memory is short: each allocation fails once, and no sample is neither in a window nor counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/deliver.h"
#include "agent/labels.h"
#include "log.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_differed_is_bounded),
		cmocka_unit_test(no_sample_is_lost_in_silence),
	};

	log_set_writer(hear);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
