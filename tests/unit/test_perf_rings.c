/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records of perf's rings (perf_rings.h): on memory that the test fills, and the kernel's own. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/perf_rings.h"

#define RING 64

struct seen {
	int cnt;
	uint32_t types[RING];
	bool whole; /* all bytes behind the headers are what put() wrote */
};

static void take(void *ctx, const struct perf_event_header *record)
{
	const uint8_t *body = (const uint8_t *)(record + 1);
	struct seen *s = ctx;

	assert_true(s->cnt < RING);
	for (size_t i = 0; i < record->size - sizeof(*record); i++)
		s->whole &= body[i] == (uint8_t)(record->type + i);
	s->types[s->cnt++] = record->type;
}

/* A record at `at`; returns where the next one goes. */
static uint64_t put(uint8_t *data, uint64_t at, uint32_t type, uint16_t size)
{
	struct perf_event_header header = { .type = type, .size = size };

	for (uint16_t i = 0; i < size; i++)
		data[(at + i) % RING] = i < sizeof(header) ? ((uint8_t *)&header)[i]
							   : (uint8_t)(type + i - sizeof(header));
	return at + (size > 8 ? size : 8);
}

static struct perf_ring_data make(void)
{
	return (struct perf_ring_data){ .data = calloc(1, RING),
					.size = RING,
					.whole = malloc(PERF_RECORD_MAX) };
}

static void drop(struct perf_ring_data *d)
{
	free((void *)d->data);
	free(d->whole);
}

/* Wherever the ring's end is in them; a record may fill the ring. */
static void records_come_whole(void **state)
{
	struct perf_ring_data d = make();

	(void)state;
	for (uint64_t start = 0; start <= 2 * RING; start += 8) {
		struct seen s = { .whole = true };
		uint64_t at = put((uint8_t *)d.data, start, 7, 24);

		at = put((uint8_t *)d.data, at, 8, 8);
		at = put((uint8_t *)d.data, at, 9, 32);
		assert_int_equal(at - start, RING);
		perf_ring_data__walk(&d, start, at, take, &s);
		assert_true(s.cnt == 3 && s.whole);
		assert_true(s.types[0] == 7 && s.types[1] == 8 && s.types[2] == 9);
		s = (struct seen){ .whole = true };
		at = put((uint8_t *)d.data, start, 5, RING);
		perf_ring_data__walk(&d, start, at, take, &s);
		assert_true(s.cnt == 1 && s.whole);
		perf_ring_data__walk(&d, at, at, take, &s); /* nothing new */
		assert_int_equal(s.cnt, 1);
	}
	drop(&d);
}

/* The records before it are passed, and it is not read beyond what is there. */
static void stops_at_what_cannot_be(void **state)
{
	static const uint16_t sizes[] = { 0, 7, 12, RING, RING + 8, UINT16_MAX };
	struct perf_ring_data d = make();

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct seen s = { .whole = true };
		uint64_t at = put((uint8_t *)d.data, 40, 7, 16);
		struct perf_event_header header = { .type = 8, .size = sizes[i] };

		memcpy((uint8_t *)d.data + at % RING, &header, sizeof(header));
		perf_ring_data__walk(&d, 40, at + 24, take, &s);
		assert_true(s.cnt == 1 && s.types[0] == 7);
	}
	drop(&d);
}

static void ignore(void *ctx, const struct perf_event_header *record)
{
	volatile uint8_t last = ((const uint8_t *)record)[record->size - 1];

	(void)ctx;
	(void)last;
}

/* Never outside of the ring: the sanitizer sees it. */
static void survives_any_bytes(void **state)
{
	struct perf_ring_data d = make();

	(void)state;
	srand(1);
	for (int i = 0; i < 100000; i++) {
		for (int k = 0; k < RING; k++)
			((uint8_t *)d.data)[k] = (uint8_t)(rand() % 4 ? rand() % 32 : rand());
		perf_ring_data__walk(&d, (uint64_t)(rand() % 64) * 8, (uint64_t)(rand() % 1024),
				     ignore, NULL);
	}
	drop(&d);
}

/* ---- the kernel's ---------------------------------------------------------------------------- */

struct names {
	unsigned next; /* the number in the name that comes next */
};

static void make_name(char name[16], unsigned n)
{
	snprintf(name, 16, "renamed %06u", n % 1000000);
}

static void take_name(void *ctx, const struct perf_event_header *record)
{
	struct {
		struct perf_event_header header;
		uint32_t pid, tid;
		char name[16];
	} comm;
	struct names *n = ctx;
	char expected[16];

	if (record->type != PERF_RECORD_COMM || record->size < sizeof(comm))
		return;
	memcpy(&comm, record, sizeof(comm));
	if (comm.tid != (uint32_t)getpid())
		return;
	make_name(expected, n->next);
	assert_string_equal(comm.name, expected);
	n->next++;
}

static struct perf_rings *open_all(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_DUMMY,
					.exclude_kernel = 1,
					.comm = 1 };
	struct perf_rings *rs = perf_rings__new(&attr, 1);
	int err = 0;

	assert_non_null(rs);
	for (int i = 0; i < perf_rings__cnt(rs) && (!err || err == -ENODEV); i++)
		err = perf_rings__open(rs, i);
	if (err == -EACCES || err == -EPERM) {
		perf_rings__free(rs);
		printf("skip: not permitted to watch all CPUs (perf_event_open)\n");
		skip();
	}
	assert_true(!err || err == -ENODEV);
	return rs;
}

/* Each record once and in order, many times around the ring. */
static void reads_each_record_once(void **state)
{
	struct perf_rings *rs = open_all();
	struct names n = { 0 };
	cpu_set_t before, one;
	char name[16], was[16];

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one); /* the order is that of one CPU */
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	prctl(PR_GET_NAME, was);
	for (unsigned i = 0; i < 2000; i++) {
		make_name(name, i);
		prctl(PR_SET_NAME, name);
		if (i % 7 == 0) /* others on this CPU have their share of the ring */
			perf_rings__read(rs, take_name, &n);
	}
	perf_rings__read(rs, take_name, &n);
	prctl(PR_SET_NAME, was);
	assert_int_equal(n.next, 2000);
	sched_setaffinity(0, sizeof(before), &before);
	perf_rings__free(rs);
}

static void opens_and_closes_one(void **state)
{
	struct perf_rings *rs = open_all();
	int cnt = perf_rings__open_cnt(rs);
	uint64_t each = perf_rings__bytes(rs) / (uint64_t)cnt;
	int cpu = 0;

	(void)state;
	assert_int_equal(each, 2 * sysconf(_SC_PAGESIZE));
	while (perf_rings__fd(rs, cpu) < 0)
		cpu++;
	perf_rings__close(rs, cpu);
	perf_rings__close(rs, cpu);
	assert_true(perf_rings__fd(rs, cpu) == -1 && perf_rings__open_cnt(rs) == cnt - 1);
	assert_int_equal(perf_rings__open(rs, cpu), 0);
	assert_int_equal(perf_rings__open(rs, cpu), 0); /* again */
	assert_int_equal(perf_rings__open_cnt(rs), cnt);
	assert_int_equal(perf_rings__open(rs, -1), -EINVAL);
	assert_int_equal(perf_rings__open(rs, 1 << 20), -EINVAL);
	assert_int_equal(perf_rings__fd(rs, 1 << 20), -1);
	perf_rings__close(rs, 1 << 20);
	perf_rings__free(rs);
	perf_rings__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_whole),	cmocka_unit_test(stops_at_what_cannot_be),
		cmocka_unit_test(survives_any_bytes),	cmocka_unit_test(reads_each_record_once),
		cmocka_unit_test(opens_and_closes_one),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
