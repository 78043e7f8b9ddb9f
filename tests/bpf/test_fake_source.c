/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A source that nobody but this file knows, beside the clock in one session: sources.h is all that
 * it takes. It counts into tables of its own, and its stacks are in the profile as those of any
 * other.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "sample/session.h"
#include "sources/sources.h"

#define FAKE_STACK 0x7700UL /* its hash: without the bits of a type */
#define FAKE_VALUE 1000

/* What was done to it. */
static struct {
	int opened, started, slowed, windows, stopped, closed;
	int counts_fd[2], chunks_fd[2];
	unsigned active;
	int fail; /* what the next function returns */
} fake;

static int new_map(size_t value_size, size_t key_size)
{
	return bpf_map_create(BPF_MAP_TYPE_HASH, "fake", (uint32_t)key_size, (uint32_t)value_size,
			      64, NULL);
}

static int fake_open(struct source_use *u, const struct world *w)
{
	assert_true(bpf_object__find_map_fd_by_name(w->object, "procs") >= 0);
	assert_int_equal(u->type, 1);
	fake.opened++;
	for (int i = 0; i < 2; i++) {
		fake.counts_fd[i] = new_map(sizeof(struct count_val), sizeof(struct count_key));
		fake.chunks_fd[i] = new_map(sizeof(struct chunk), sizeof(uint64_t));
		if (fake.counts_fd[i] < 0 || fake.chunks_fd[i] < 0)
			return -errno;
	}
	return 0;
}

static int fake_start(struct source_use *u)
{
	(void)u;
	fake.started++;
	return fake.fail;
}

static int fake_set_rate(struct source_use *u)
{
	fake.slowed = (int)u->slowed;
	return 0;
}

/* Something happened in this process: once in each window. */
static int count(uint32_t space)
{
	const struct count_key key = { .space = space, .stack = COUNT_WORD(FAKE_STACK, 1) };
	const struct count_val val = { .samples = 1, .value = FAKE_VALUE };
	const uint64_t hash = FAKE_STACK;
	struct chunk c = { .cnt = 1, .frames = { FRAME_WORD(FRAME_KERNEL, 0x1234) } };
	unsigned w = fake.active;

	return bpf_map_update_elem(fake.chunks_fd[w], &hash, &c, BPF_ANY) ||
	       bpf_map_update_elem(fake.counts_fd[w], &key, &val, BPF_ANY);
}

static int fake_window(struct source_use *u, struct source_tables *out)
{
	(void)u;
	*out = (struct source_tables){ fake.counts_fd[fake.active], fake.chunks_fd[fake.active] };
	fake.active = !fake.active;
	fake.windows++;
	return 0;
}

static void fake_stop(struct source_use *u)
{
	(void)u;
	fake.stopped++;
}

static void fake_close(struct source_use *u)
{
	(void)u;
	for (int i = 0; i < 2; i++) {
		close(fake.counts_fd[i]);
		close(fake.chunks_fd[i]);
	}
	fake.closed++;
}

static const char *fake_check(const struct source *s)
{
	(void)s;
	return NULL;
}

static const struct source fake_source = {
	.type = { .event = VALUE_FOREIGN, .name = "fakes", .unit = "count" },
	.open = fake_open,
	.start = fake_start,
	.set_rate = fake_set_rate,
	.window = fake_window,
	.stop = fake_stop,
	.close = fake_close,
	.check = fake_check,
};

static struct session *open_session(struct sample_spec *spec)
{
	struct session_opts o = { .spec = spec };

	fake.opened = fake.started = fake.windows = fake.stopped = fake.closed = 0;
	*spec = (struct sample_spec){
		.sources = { { .source = source__of_event(EVENT_CPU_CLOCK) },
			     { .source = &fake_source } },
		.source_cnt = 2,
		.frequency_hz = 999,
		.all = true,
	};
	return session__open(&o);
}

/* Samples until the clock has some, too. */
static void sample(struct session *s, struct profile *p)
{
	const struct process *self =
		process_table__find_tgid(session__procs(s), (uint32_t)getpid());
	uint64_t counters[CTR_CNT] = { 0 };

	assert_non_null(self);
	assert_int_equal(session__start(s), 0);
	assert_int_equal(count(self->space), 0);
	assert_int_equal(session__drain(s, p), 0);
	assert_int_equal(count(self->space), 0);
	while (counters[CTR_counted] < 10) {
		assert_int_equal(session__wait(s, now_ns() + NS_PER_MS), 0);
		session__counters(s, counters);
	}
	assert_int_equal(session__set_frequency(s, 499), 0);
	session__stop(s);
	assert_int_equal(session__drain(s, p), 0);
}

/* Sums of the stacks of a type. */
static uint64_t sum_of(const struct profile *p, uint32_t type)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->stack_cnt; i++)
		if (p->stacks[i].type == type)
			sum += p->stacks[i].count;
	return sum;
}

static void its_stacks_are_in_the_profile(void **state)
{
	const struct symbolize_opts so = { .lines = false };
	struct profile *p = profile__new();
	struct sample_spec spec;
	struct session *s = open_session(&spec);

	(void)state;
	assert_non_null(s);
	sample(s, p);
	session__stats(s, &p->stats);
	assert_int_equal(session__name(s, p, &so), 0);
	assert_int_equal(fake.opened, 1);
	assert_int_equal(fake.started, 1);
	assert_int_equal(fake.slowed, 1);
	assert_int_equal(fake.windows, 2);
	assert_int_equal(sum_of(p, 1), 2 * FAKE_VALUE);
	assert_true(sum_of(p, 0) >= 10);
	assert_int_equal(p->stats.value_cnt, 2);
	assert_string_equal(value_type__name(&p->stats.values[1]), "fakes");
	session__close(s);
	assert_true(fake.stopped >= 1);
	assert_int_equal(fake.closed, 1);
	profile__free(p);
}

/* A session that cannot start one of its sources starts none, and closes all. */
static void one_that_fails_ends_the_session(void **state)
{
	struct sample_spec spec;
	struct session *s = open_session(&spec);

	(void)state;
	assert_non_null(s);
	fake.fail = -EIO;
	assert_int_equal(session__start(s), -EIO);
	fake.fail = 0;
	session__close(s);
	assert_true(fake.stopped >= 1);
	assert_int_equal(fake.closed, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_stacks_are_in_the_profile),
		cmocka_unit_test(one_that_fails_ends_the_session),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
