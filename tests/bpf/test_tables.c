/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unwind tables on their way into the kernel: what is good at once, what comes, what goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/pyperf.h"
#include "process/tables.h"

#define CAP	  256
#define NO_SPARES 1
#define CHUNK_MAX 300

static uint32_t words[CHUNK_MAX * UW_CHUNK_WORDS];

static int make_map(uint32_t cap)
{
	LIBBPF_OPTS(bpf_map_create_opts, flags, .map_flags = BPF_F_INNER_MAP);
	LIBBPF_OPTS(bpf_map_create_opts, outer);
	int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "inner", 4, UW_CHUNK_BYTES, 1, &flags), fd;

	assert_true(inner >= 0);
	outer.inner_map_fd = (uint32_t)inner;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "outer", 4, 4, cap, &outer);
	assert_true(fd >= 0);
	close(inner);
	return fd;
}

static struct tables *make_live(int fd, uint32_t cap, uint64_t spare_bytes)
{
	struct tables *t = tables__new(fd, cap, spare_bytes);

	assert_non_null(t);
	assert_int_equal(tables__go_live(t), 0);
	return t;
}

/* `seed` tells one table from another. */
static int add(struct tables *t, uint32_t chunks, uint32_t seed, uint64_t *bytes)
{
	for (size_t i = 0; i < (size_t)chunks * UW_CHUNK_WORDS; i++)
		words[i] = seed * 2654435761U + (uint32_t)i;
	return tables__add(t, words, (size_t)chunks * UW_CHUNK_WORDS, true, bytes);
}

/* The number of chunks of the map there; it begins with what add() made. */
static uint32_t check(int fd, int index, uint32_t chunks, uint32_t seed)
{
	uint32_t key = (uint32_t)index, id, chunk[UW_CHUNK_WORDS];
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);
	int inner;

	assert_int_equal(bpf_map_lookup_elem(fd, &key, &id), 0);
	inner = bpf_map_get_fd_by_id(id);
	assert_true(inner >= 0);
	for (uint32_t c = 0; c < chunks; c++) {
		assert_int_equal(bpf_map_lookup_elem(inner, &c, chunk), 0);
		for (uint32_t i = 0; i < UW_CHUNK_WORDS; i++)
			assert_true(chunk[i] == seed * 2654435761U + c * UW_CHUNK_WORDS + i);
	}
	assert_int_equal(bpf_obj_get_info_by_fd(inner, &info, &size), 0);
	close(inner);
	return info.max_entries;
}

static bool absent(int fd, int index)
{
	uint32_t key = (uint32_t)index, id;

	return bpf_map_lookup_elem(fd, &key, &id) != 0;
}

static void pause_ms(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Asks until the filler is done; 10 s at most. */
#define EVENTUALLY(t, condition)                                                                   \
	do {                                                                                       \
		int tries_ = 10000;                                                                \
		while (!(condition) && tries_--) {                                                 \
			pause_ms();                                                                \
			tables__collect(t);                                                        \
		}                                                                                  \
		assert_true(condition);                                                            \
	} while (0)

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int cnt = 0;

	assert_non_null(dir);
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void spares_are_good_at_once(void **state)
{
	static const uint32_t sizes[][2] = { { 1, 4 },	 { 4, 4 },    { 5, 16 },    { 16, 16 },
					     { 62, 64 }, { 79, 128 }, { 128, 128 }, { 200, 256 } };
	int fd = make_map(CAP), index[8];
	struct tables *t = make_live(fd, CAP, 0);
	const struct tables_stats *st = tables__stats(t);
	uint64_t waits = st->waits, spares = st->spares, total = st->spare_bytes, bytes;

	(void)state;
	assert_true(waits == 1 && spares > 8 && total <= SPARE_BYTES_DEFAULT);
	for (uint32_t i = 0; i < 8; i++) {
		assert_true(tables__spare_bytes(t, sizes[i][0] * UW_CHUNK_WORDS) ==
			    sizes[i][1] * UW_CHUNK_BYTES);
		index[i] = add(t, sizes[i][0], i, &bytes);
		assert_true(index[i] > 0 && bytes == sizes[i][1] * UW_CHUNK_BYTES);
		assert_int_equal(tables__usable(t, (uint32_t)index[i]), 1);
		total -= bytes;
		assert_true(st->spare_bytes == total);
	}
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(check(fd, index[i], sizes[i][0], i), sizes[i][1]);
	assert_true(st->waits == waits && st->spares_used == 8 && !st->spares_missed);
	/* They are replaced, and those in use stay as they are. */
	assert_true(st->spares == spares - 8);
	tables__flush(t);
	EVENTUALLY(t, st->spares == spares);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(check(fd, index[i], sizes[i][0], i), sizes[i][1]);
	assert_true(st->waits == waits);
	tables__free(t);
	close(fd);
}

static void empty_class_takes_a_larger_one(void **state)
{
	int fd = make_map(CAP), index;
	struct tables *t = make_live(fd, CAP, 0);
	const struct tables_stats *st = tables__stats(t);
	uint64_t bytes, last = 0, spares = st->spares;
	uint32_t seed = 0;

	(void)state;
	while (st->spares) {
		index = add(t, 3, seed, &bytes);
		assert_int_equal(tables__usable(t, (uint32_t)index), 1);
		check(fd, index, 3, seed++);
		assert_true(bytes >= last);
		last = bytes;
	}
	assert_true(seed == spares && last == 256 * UW_CHUNK_BYTES && !st->spare_bytes);
	/* The pool is empty: the next one comes later, of its own size. */
	assert_true(tables__spare_bytes(t, 3 * UW_CHUNK_WORDS) == 0);
	index = add(t, 3, seed, &bytes);
	assert_true(index > 0 && bytes == 3 * UW_CHUNK_BYTES && st->spares_missed == 1);
	assert_int_equal(tables__usable(t, (uint32_t)index), 0);
	tables__flush(t);
	EVENTUALLY(t, tables__usable(t, (uint32_t)index) == 1);
	assert_int_equal(check(fd, index, 3, seed), 3);
	EVENTUALLY(t, st->spares == spares);
	assert_true(st->waits == 1);
	tables__free(t);
	close(fd);
}

static void too_large_comes_later(void **state)
{
	int fd = make_map(CAP), index;
	struct tables *t = make_live(fd, CAP, 0);
	uint64_t bytes;

	(void)state;
	index = add(t, CHUNK_MAX, 7, &bytes);
	assert_true(index > 0 && bytes == sizeof(words));
	assert_int_equal(tables__usable(t, (uint32_t)index), 0);
	tables__flush(t);
	EVENTUALLY(t, tables__usable(t, (uint32_t)index) == 1);
	assert_int_equal(check(fd, index, CHUNK_MAX, 7), CHUNK_MAX);
	assert_true(tables__stats(t)->waits == 1);
	tables__free(t);
	close(fd);
}

static void waits_before_it_is_live(void **state)
{
	int fd = make_map(CAP), index[100];
	struct tables *t = tables__new(fd, CAP, 0);
	uint64_t bytes;

	(void)state;
	assert_non_null(t);
	for (uint32_t i = 0; i < 100; i++) {
		index[i] = add(t, 1 + i % 3, i, &bytes);
		assert_true(index[i] > 0 && bytes == (1 + i % 3) * UW_CHUNK_BYTES);
	}
	assert_int_equal(tables__flush(t), 0);
	for (uint32_t i = 0; i < 100; i++) {
		assert_true(tables__usable(t, (uint32_t)index[i]) == 1);
		assert_int_equal(check(fd, index[i], 1 + i % 3, i), 1 + i % 3);
	}
	assert_true(tables__stats(t)->waits == 1 && tables__stats(t)->spares > 0);
	assert_int_equal(tables__go_live(t), 0);
	assert_int_equal(tables__go_live(t), 0);
	assert_true(tables__stats(t)->waits == 1);
	tables__free(t);
	close(fd);
}

static void indexes_are_used_again(void **state)
{
	int fd = make_map(8), index[7];
	struct tables *t = make_live(fd, 8, NO_SPARES);
	uint64_t bytes;

	(void)state;
	assert_true(tables__stats(t)->waits == 0 && tables__stats(t)->spare_bytes == 0);
	for (uint32_t i = 0; i < 7; i++)
		index[i] = add(t, 1, i, &bytes);
	assert_true(tables__full(t));
	assert_int_equal(add(t, 1, 9, &bytes), -ENOSPC);
	tables__flush(t);
	for (uint32_t i = 0; i < 7; i++)
		EVENTUALLY(t, tables__usable(t, (uint32_t)index[i]) == 1);
	tables__remove(t, (uint32_t)index[3]);
	assert_true(tables__usable(t, (uint32_t)index[3]) < 0);
	assert_true(tables__full(t)); /* a program may still read it */
	tables__flush(t);
	EVENTUALLY(t, !tables__full(t));
	assert_true(absent(fd, index[3]));
	assert_int_equal(add(t, 1, 10, &bytes), index[3]);
	tables__flush(t);
	EVENTUALLY(t, tables__usable(t, (uint32_t)index[3]) == 1);
	check(fd, index[3], 1, 10);
	assert_true(tables__stats(t)->waits == 0);
	tables__free(t);
	close(fd);
}

/* The map refuses: it is none of maps. */
static void refusals_are_told(void **state)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "wrong", 4, 8, 4, NULL), index, files;
	struct tables *t;
	uint64_t bytes;

	(void)state;
	assert_true(fd >= 0);
	files = open_files();
	t = tables__new(fd, 4096, 0); /* indexes that the map does not have */
	assert_non_null(t);
	for (int i = 0; i < 4; i++) /* away from those that it has */
		add(t, 1, 1, &bytes);
	index = add(t, 1, 1, &bytes);
	assert_true(index > 4);
	assert_true(tables__flush(t) < 0);
	assert_true(tables__usable(t, (uint32_t)index) < 0);
	tables__remove(t, (uint32_t)index);
	assert_int_equal(tables__go_live(t), 0);
	/* Spares were tried and failed: not again and again. */
	assert_true(!tables__stats(t)->spares && !tables__stats(t)->spare_bytes);
	index = add(t, 1, 1, &bytes);
	tables__flush(t);
	EVENTUALLY(t, tables__usable(t, (uint32_t)index) < 0);
	tables__flush(t);
	assert_true(!tables__stats(t)->spares && !tables__stats(t)->spare_bytes);
	tables__free(t);
	assert_int_equal(open_files(), files);
	close(fd);
}

static void can_end_at_any_time(void **state)
{
	int fd = make_map(CAP), files = open_files();
	struct tables *t;
	uint64_t bytes;

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		t = make_live(fd, CAP, i % 2 ? NO_SPARES : 0);
		for (uint32_t k = 0; k < 20; k++) {
			assert_true(add(t, 2, k, &bytes) > 0);
			if (k == 10 && i > 1)
				tables__flush(t);
		}
		if (i > 3)
			tables__flush(t);
		tables__free(t);
		assert_int_equal(open_files(), files);
	}
	tables__free(NULL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spares_are_good_at_once),
		cmocka_unit_test(empty_class_takes_a_larger_one),
		cmocka_unit_test(too_large_comes_later),
		cmocka_unit_test(waits_before_it_is_live),
		cmocka_unit_test(indexes_are_used_again),
		cmocka_unit_test(refusals_are_told),
		cmocka_unit_test(can_end_at_any_time),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
