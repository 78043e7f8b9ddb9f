/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From drains to windows: budgets of a period, services, the queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/deliver.h"
#include "agent/labels.h"
#include "agent/period.h"
#include "agent/split.h"
#include "base/log.h"

#include "unit/stepped_clock.h"

#define S 1000000000ULL

static const struct period_limits wide = { .stacks = 1000, .processes = 100 };
static const char *const by_service[] = { "service_name", NULL };

static void be_quiet(enum log_level level, const char *fmt, const char *text)
{
	(void)level, (void)fmt, (void)text;
}

/* ---- made by hand ---------------------------------------------------------------------------- */

static void add_sample(struct profile *p, uint32_t space, const char *comm, uint64_t word,
		       uint64_t count)
{
	const struct profile_proc proc = {
		.space = space,
		.tgid = 100 + space,
		.comm = profile__intern_z(p, comm),
		.exe = profile__intern_z(p, space % 2 ? "/odd" : "/even"),
	};
	const uint64_t words[] = { PYTHON_WORD(1, 0), word };
	int i = profile__add_proc(p, &proc);

	assert_true(i >= 0);
	assert_true(profile__add_stack(p, (uint32_t)i, 0, words, 2, count) >= 0);
}

static struct label_set *label(void *ctx, const struct profile *p, const struct profile_proc *proc)
{
	struct labelled_process l = {
		.tgid = proc->tgid,
		.comm = profile__str(p, proc->comm),
		.exe = profile__str(p, proc->exe),
		.python = "",
		.container = "",
	};

	return labels__of_gone(ctx, &l);
}

static struct period *finished(struct period *p, uint64_t start)
{
	struct labels_config c;

	assert_int_equal(labels_config__init(&c), 0);
	p->span = (struct span){ .start_unix_ns = start, .duration_ns = 60 * S };
	p->frequency_hz = 19;
	assert_int_equal(period__label(p, label, &c), 0);
	labels_config__free(&c);
	return p;
}

/* ---- a period -------------------------------------------------------------------------------- */

static void drains_add_up(void **state)
{
	struct period *p = period__new();

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct profile *d = profile__new();

		add_sample(d, 1, "a", PYTHON_WORD(2, 0), 5);
		add_sample(d, 10 + (uint32_t)i, "b", PYTHON_WORD(3, 0), 1);
		assert_int_equal(period__add(p, d, &wide), 0);
		profile__free(d);
	}
	assert_int_equal(p->samples, 18);
	assert_int_equal(profile__total(p->profile), 18);
	assert_int_equal(p->profile->stack_cnt, 4);
	assert_int_equal(p->profile->proc_cnt, 4);
	assert_int_equal(p->over_stacks + p->over_processes, 0);
	period__free(p);
}

static void budgets_lose_no_sample(void **state)
{
	const struct period_limits narrow = { .stacks = 10, .processes = 3 };
	struct period *p = period__new();
	struct profile *d = profile__new();

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		add_sample(d, 1 + i % 5, "x", PYTHON_WORD(i, 0), 2);
	assert_int_equal(period__add(p, d, &narrow), 0);
	assert_int_equal(period__add(p, d, &narrow), 0); /* the same again: what is in stays in */
	assert_int_equal(p->samples, 400);
	assert_int_equal(profile__total(p->profile), 400);
	assert_int_equal(p->profile->proc_cnt, 4);
	assert_in_range(p->profile->stack_cnt, 10, 14);
	assert_int_equal(p->over_processes, 160); /* two of five */
	assert_int_equal(p->over_stacks % 2, 0);
	assert_in_range(p->over_stacks, 200, 240);
	profile__free(d);
	period__free(p);
}

/* ---- windows --------------------------------------------------------------------------------- */

struct seen {
	unsigned windows;
	uint64_t samples;
	char services[256], labels[512], ids[512];
	size_t bytes;
};

static int look(void *ctx, const struct window *w)
{
	struct seen *seen = ctx;

	seen->windows++;
	seen->samples += w->samples;
	seen->bytes += w->pprof_size;
	assert_memory_equal(w->pprof, "\x1f\x8b", 2);
	assert_int_equal(strlen(w->id), WINDOW_ID_LEN);
	assert_int_equal(w->duration_ns, 60 * S);
	strcat(strcat(seen->services, window__label(w, "service_name")), " ");
	strcat(strcat(seen->ids, w->id), " ");
	for (size_t i = 0; i < w->label_cnt; i++) {
		assert_true(!i || strcmp(w->labels[i - 1].name, w->labels[i].name) < 0);
		strcat(strcat(seen->labels, w->labels[i].name), " ");
	}
	strcat(seen->labels, ". ");
	return 0;
}

static struct period *two_services(uint64_t start, bool both_exes)
{
	struct period *p = period__new();
	struct profile *d = profile__new();

	add_sample(d, 1, "web", PYTHON_WORD(2, 0), 5);
	add_sample(d, 3, "db", PYTHON_WORD(2, 0), 7);
	add_sample(d, both_exes ? 6 : 5, "web", PYTHON_WORD(4, 0), 1);
	assert_int_equal(period__add(p, d, &wide), 0);
	profile__free(d);
	return finished(p, start);
}

static void one_window_per_service(void **state)
{
	struct splitter *s = splitter__new(by_service);
	struct period *p = two_services(60 * S, false);
	struct seen seen = { 0 }, again = { 0 };
	uint32_t services, unmade;

	(void)state;
	assert_int_equal(splitter__run(s, p, look, &seen, &services, &unmade), 0);
	assert_int_equal(services, 2);
	assert_int_equal(seen.windows, 2);
	assert_int_equal(seen.samples, p->samples);
	assert_string_equal(seen.services, "db web ");
	assert_string_equal(seen.labels,
			    "comm exe host service_name . comm exe host service_name . ");
	/* The same period is the same windows; another one is not. */
	assert_int_equal(splitter__run(s, p, look, &again, &services, &unmade), 0);
	assert_string_equal(seen.ids, again.ids);
	assert_int_equal(seen.bytes, again.bytes);
	period__free(p);
	p = two_services(61 * S, false);
	memset(&again, 0, sizeof(again));
	assert_int_equal(splitter__run(s, p, look, &again, &services, &unmade), 0);
	assert_string_not_equal(seen.ids, again.ids);
	period__free(p);
	splitter__free(s);
}

static void labels_that_differ_stay_away(void **state)
{
	struct splitter *s = splitter__new(by_service);

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct period *p = two_services((uint64_t)i * 60 * S, i == 1);
		struct seen seen = { 0 };
		uint32_t services, unmade;

		assert_int_equal(splitter__run(s, p, look, &seen, &services, &unmade), 0);
		assert_string_equal(
			seen.labels,
			i ? "comm exe host service_name . comm host service_name . "
			  : "comm exe host service_name . comm exe host service_name . ");
		period__free(p);
	}
	splitter__free(s);
}

static void grouped_by_two_labels(void **state)
{
	static const char *const group[] = { "exe", "service_name", NULL };
	struct splitter *s = splitter__new(group);
	struct period *p = two_services(0, true);
	struct seen seen = { 0 };
	uint32_t services, unmade;

	(void)state;
	assert_int_equal(splitter__run(s, p, look, &seen, &services, &unmade), 0);
	assert_int_equal(services, 3);
	assert_string_equal(seen.services, "web db web ");
	assert_int_equal(seen.samples, 13);
	period__free(p);
	splitter__free(s);
}

static int refuse(void *ctx, const struct window *w)
{
	look(ctx, w);
	return -ENOSPC;
}

static void an_error_keeps_no_other_window_back(void **state)
{
	struct splitter *s = splitter__new(by_service);
	struct period *p = two_services(0, false);
	struct seen seen = { 0 };
	uint32_t services, unmade;

	(void)state;
	assert_int_equal(splitter__run(s, p, refuse, &seen, &services, &unmade), -ENOSPC);
	assert_int_equal(seen.windows, 2);
	period__free(p);
	splitter__free(s);
}

/* ---- the queue ------------------------------------------------------------------------------- */

static struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool open;
	unsigned waiting, called;
	uint64_t order[16];
	size_t cnt;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static int pass_gate(void *ctx, const struct window *w)
{
	(void)ctx;
	pthread_mutex_lock(&gate.lock);
	gate.waiting++;
	pthread_cond_broadcast(&gate.changed);
	while (!gate.open)
		pthread_cond_wait(&gate.changed, &gate.lock);
	gate.order[gate.cnt++] = w->start_unix_ns / S;
	pthread_mutex_unlock(&gate.lock);
	return 0;
}

static void call(void *ctx)
{
	(void)ctx;
	pthread_mutex_lock(&gate.lock);
	gate.order[gate.cnt++] = 1000 + gate.called++;
	pthread_mutex_unlock(&gate.lock);
}

static struct period *small(uint64_t start)
{
	struct period *p = period__new();
	struct profile *d = profile__new();

	add_sample(d, 1, "a", PYTHON_WORD(2, 0), 3);
	assert_int_equal(period__add(p, d, &wide), 0);
	profile__free(d);
	return finished(p, start * S);
}

/* The first one stands at the gate, four wait, two find no room: the oldest that wait make it. */
static void a_slow_disk_costs_the_oldest(void **state)
{
	static const uint64_t order[] = { 1,	1000, 1001, 1002, 1003, 1004, 1005,
					  1006, 1007, 4,    5,	  6,	7 };
	struct deliver *d = deliver__new(by_service, pass_gate, NULL);
	struct deliver_stats st;

	(void)state;
	assert_int_equal(deliver__start(d), 0);
	deliver__put(d, small(1));
	pthread_mutex_lock(&gate.lock);
	while (!gate.waiting)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	for (uint64_t i = 2; i <= 7; i++)
		deliver__put(d, small(i));
	for (int i = 0; i < 8; i++)
		assert_int_equal(deliver__call(d, call, NULL), 0);
	assert_int_equal(deliver__call(d, call, NULL), -EBUSY); /* and does not wait */
	deliver__stats(d, &st);
	assert_int_equal(st.queued, DELIVER_QUEUE);
	assert_int_equal(st.dropped, 2);
	assert_int_equal(st.dropped_samples, 6);
	assert_true(st.moved_ns);
	pthread_mutex_lock(&gate.lock);
	gate.open = true;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
	deliver__close(d, &st);
	assert_int_equal(st.windows, 5);
	assert_int_equal(st.samples, 15);
	assert_int_equal(st.failed, 0);
	assert_int_equal(gate.cnt, sizeof(order) / sizeof(order[0]));
	assert_memory_equal(gate.order, order, sizeof(order));
}

struct slow {
	struct deliver *d;
	unsigned alive, hung; /* how it looked from outside */
};

/* Four minutes for each window; those of the last period take longer than anything does. */
static int put_slowly(void *ctx, const struct window *w)
{
	struct slow *slow = ctx;
	struct deliver_stats st;

	(void)w;
	clock_later_s += 240;
	deliver__stats(slow->d, &st);
	slow->alive += !deliver__hangs(&st, now_ns());
	if (!st.queued)
		clock_later_s += 90;
	slow->hung += deliver__hangs(&st, now_ns());
	return 0;
}

static void slow_is_not_hung(void **state)
{
	struct slow slow = { .d = deliver__new(by_service, put_slowly, &slow) };
	struct deliver_stats st;

	(void)state;
	deliver__put(slow.d, two_services(0, false));
	deliver__put(slow.d, two_services(60, false));
	assert_int_equal(deliver__start(slow.d), 0);
	deliver__close(slow.d, &st);
	assert_int_equal(st.windows, 4);
	assert_int_equal(slow.alive, 4);
	assert_int_equal(slow.hung, 2);
	assert_false(deliver__hangs(&st, now_ns()));
}

static void what_cannot_be_put_is_counted(void **state)
{
	struct seen seen = { 0 };
	struct deliver *d = deliver__new(by_service, refuse, &seen);
	struct deliver_stats st;

	(void)state;
	assert_int_equal(deliver__start(d), 0);
	deliver__put(d, two_services(0, false));
	deliver__close(d, &st);
	assert_int_equal(st.failed, 2);
	assert_int_equal(st.windows, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drains_add_up),
		cmocka_unit_test(budgets_lose_no_sample),
		cmocka_unit_test(one_window_per_service),
		cmocka_unit_test(labels_that_differ_stay_away),
		cmocka_unit_test(grouped_by_two_labels),
		cmocka_unit_test(an_error_keeps_no_other_window_back),
		cmocka_unit_test(a_slow_disk_costs_the_oldest),
		cmocka_unit_test(slow_is_not_hung),
		cmocka_unit_test(what_cannot_be_put_is_counted),
	};

	log_set_writer(be_quiet);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
