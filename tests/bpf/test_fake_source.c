/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A source that nobody but this file knows, beside the clock in one session: sources.h is all that
 * it takes. It counts two values of each stack into tables of its own, and a stack ends in a leaf
 * word. Both are in the profile as those of any other source, in all formats, and in what `report`
 * reads from them.
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
#include "export/export.h"
#include "import/import.h"
#include "sample/session.h"
#include "sources/sources.h"

#define FAKE_STACK 0x7700UL /* its hash: without the bits of a type */
#define FAKE_VALUE 61721
#define FAKE_BYTES 654321
#define FAKE_LEAF  "[waits: CPU]"

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
	const struct count_key key2 = { .space = space, .stack = COUNT_WORD(FAKE_STACK, 2) };
	const struct count_val val = { .samples = 1, .value = FAKE_VALUE };
	const struct count_val val2 = { .samples = 1, .value = FAKE_BYTES };
	const uint64_t hash = FAKE_STACK;
	struct chunk c = {
		.cnt = 2,
		.frames = { FRAME_WORD(FRAME_KERNEL, 0x1234), WAIT_WORD(WAIT_CPU, WAIT_NO_CALL) },
	};
	unsigned w = fake.active;

	return bpf_map_update_elem(fake.chunks_fd[w], &hash, &c, BPF_ANY) ||
	       bpf_map_update_elem(fake.counts_fd[w], &key, &val, BPF_ANY) ||
	       bpf_map_update_elem(fake.counts_fd[w], &key2, &val2, BPF_ANY);
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

/* The second value of the same stacks: the programs of the first count it, too. */
static const struct source fake_bytes = {
	.type = { .event = VALUE_FOREIGN, .name = "fake-bytes", .unit = UNIT_BYTES },
	.of = EVENT_CNT,
	SOURCE_COMPANION,
	.check = fake_check,
};

static struct session *open_session(struct sample_spec *spec)
{
	struct session_opts o = { .spec = spec };

	fake.opened = fake.started = fake.windows = fake.stopped = fake.closed = 0;
	*spec = (struct sample_spec){
		.sources = { { .source = source__of_event(EVENT_CPU_CLOCK) },
			     { .source = &fake_source },
			     { .source = &fake_bytes } },
		.source_cnt = 3,
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

/* A profile with names, and the session that it is from. */
static struct session *sampled(struct sample_spec *spec, struct profile *p)
{
	const struct symbolize_opts so = { .lines = true };
	struct session *s = open_session(spec);

	assert_non_null(s);
	sample(s, p);
	session__stats(s, &p->stats);
	assert_int_equal(session__name(s, p, &so), 0);
	return s;
}

static void its_stacks_are_in_the_profile(void **state)
{
	struct profile *p = profile__new();
	struct sample_spec spec;
	struct session *s = sampled(&spec, p);

	(void)state;
	assert_int_equal(fake.opened, 1);
	assert_int_equal(fake.started, 1);
	assert_int_equal(fake.slowed, 1);
	assert_int_equal(fake.windows, 2);
	assert_int_equal(sum_of(p, 1), 2 * FAKE_VALUE);
	assert_true(sum_of(p, 0) >= 10);
	assert_int_equal(sum_of(p, 2), 2 * FAKE_BYTES);
	assert_int_equal(p->stats.value_cnt, 3);
	assert_string_equal(value_type__name(&p->stats.values[1]), "fakes");
	assert_string_equal(value_type__name(&p->stats.values[2]), "fake-bytes");
	session__close(s);
	assert_true(fake.stopped >= 1);
	assert_int_equal(fake.closed, 1);
	profile__free(p);
}

/* ---- formats --------------------------------------------------------------------------------- */

/* The values of all stacks, as files and people have them: digits that nothing else has. */
static const struct fake_value {
	const char *name, *digits, *text;
	uint64_t sum;
} fake_values[] = {
	{ "fakes", "123442", "123,442", 2ULL * FAKE_VALUE },
	{ "fake-bytes", "1308642", "1.2 MiB", 2ULL * FAKE_BYTES },
};

/* To be freed. `value` NULL: all value types. */
static char *written(const struct export_format *format, const struct profile *p, const char *value,
		     size_t *len)
{
	const struct export_opts o = { .lines = true, .ends = true, .value = value };
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	assert_non_null(f);
	assert_int_equal(export__write(format, NULL, p, &o, f), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* A table of lines has only what happened in lines of Python, and these stacks have none. */
static bool has_stacks(const struct export_format *format)
{
	return format->write != export__lines;
}

/* pprof is packed: what_is_written_is_read_again() looks at its contents. OTLP is made of it. */
static bool is_text(const struct export_format *format)
{
	return format->write != export__pprof;
}

/* Those for people say what the thread waits for; the others have the frame. */
static const char *leaf_in(const struct export_format *format)
{
	bool people = format->write == export__report || format->write == export__markdown;

	return people ? "run queue 100%" : "waits: CPU]";
}

static void has_fakes(const struct export_format *format, const struct profile *p,
		      const struct fake_value *v)
{
	size_t len;
	char *text = written(format, p, v->name, &len);

	if (!strstr(text, v->digits) && !strstr(text, v->text))
		fail_msg("%s: no %s of %s", format->name, v->digits, v->name);
	if (!strstr(text, leaf_in(format)))
		fail_msg("%s: no leaf with %s", format->name, v->name);
	free(text);
}

static void all_formats_have_both_values_and_the_leaf(void **state)
{
	struct profile *p = profile__new();
	struct sample_spec spec;
	struct session *s = sampled(&spec, p);

	(void)state;
	for (const struct export_format *f = export__formats(); f->suffix; f++)
		for (size_t i = 0; i < 2 && is_text(f) && has_stacks(f); i++)
			has_fakes(f, p, &fake_values[i]);
	session__close(s);
	profile__free(p);
}

/* The sum of the stacks of this value type that end in the leaf. */
static uint64_t sum_with_leaf(const struct profile *p, uint32_t type)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *st = &p->stacks[i];
		const struct sym *leaf =
			st->cnt ? &p->syms[p->frame_syms[st->first + st->cnt - 1]] : NULL;

		if (st->type == type && leaf && !strcmp(profile__str(p, leaf->func), FAKE_LEAF))
			sum += st->count;
	}
	return sum;
}

/* Of a file with one value type, that is the first. */
static uint32_t type_of(const struct profile *p, const struct fake_value *v)
{
	int type = profile__find_value(p, v->name);

	if (profile__value_cnt(p) == 1)
		return 0;
	assert_true(type >= 0);
	return (uint32_t)type;
}

/* As `report` reads and shows a file. */
static void reads_again(const struct export_format *format, const struct profile *p,
			const struct fake_value *v)
{
	struct import *im = import__new(&(struct import_opts){ 0 });
	size_t len;
	char *file = written(format, p, format->all_values ? NULL : v->name, &len);
	const struct profile *back;

	assert_non_null(im);
	assert_int_equal(import__add_data(im, format->name, file, len), 0);
	assert_int_equal(import__finish(im), 0);
	back = import__profile(im);
	assert_int_equal(sum_with_leaf(back, type_of(back, v)), v->sum);
	if (format->all_values) {
		has_fakes(export__find("report.txt"), back, v);
		has_fakes(export__find("stacks.folded"), back, v);
	}
	import__free(im);
	free(file);
}

static void what_is_written_is_read_again(void **state)
{
	static const char *const files[] = { "a.pb.gz", "a.pprof", "a.folded",
					     "a.speedscope.json" };
	struct profile *p = profile__new();
	struct sample_spec spec;
	struct session *s = sampled(&spec, p);

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		for (size_t k = 0; k < 2; k++)
			reads_again(export__find(files[i]), p, &fake_values[k]);
	session__close(s);
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
		cmocka_unit_test(all_formats_have_both_values_and_the_leaf),
		cmocka_unit_test(what_is_written_is_read_again),
		cmocka_unit_test(one_that_fails_ends_the_session),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
