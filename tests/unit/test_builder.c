/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Tables that are built in a thread: the same as those that are not, and nothing is left behind. */
#include "elf/builder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define FILES 20

static struct elf_file *open_self(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_file *elf = elf_file__open(fd, "/proc/self/exe");

	assert_non_null(elf);
	return elf;
}

static struct builder_result wait_for_one(struct table_builder *b)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct builder_result r = { 0 };

	for (int i = 0; i < 60000 && !table_builder__take(b, &r); i++)
		nanosleep(&pause, NULL);
	assert_int_not_equal(r.id, 0);
	return r;
}

static void test_same_table(void **state)
{
	struct elf_file *elf = open_self();
	struct unwind_table *want = unwind_table__build(elf);
	struct table_builder *b = table_builder__new();
	bool seen[FILES + 1] = { false };

	(void)state;
	assert_non_null(want);
	assert_non_null(b);
	for (uint32_t id = 1; id <= FILES; id++)
		assert_int_equal(table_builder__add(b, id, elf), 0);
	elf_file__close(elf); /* the builder has descriptors of its own */
	for (int i = 0; i < FILES; i++) {
		struct builder_result r = wait_for_one(b);

		assert_in_range(r.id, 1, FILES);
		assert_false(seen[r.id]);
		seen[r.id] = true;
		assert_non_null(r.table);
		assert_int_equal(r.table->word_cnt, want->word_cnt);
		assert_memory_equal(r.table->words, want->words,
				    want->word_cnt * sizeof(*want->words));
		assert_true(r.took_ns > 0);
		unwind_table__free(r.table);
	}
	assert_false(table_builder__take(b, &(struct builder_result){ 0 }));
	unwind_table__free(want);
	table_builder__free(b);
}

/*
 * Some are done, one is at hand, others wait: ASan finds what is forgotten, and the descriptors are
 * few.
 */
static void test_free_at_work(void **state)
{
	struct elf_file *elf = open_self();
	int fd, after;

	(void)state;
	fd = dup(0);
	close(fd);
	for (uint32_t files = 0; files < FILES; files++) {
		struct table_builder *b = table_builder__new();

		assert_non_null(b);
		for (uint32_t id = 1; id <= files; id++)
			assert_int_equal(table_builder__add(b, id, elf), 0);
		if (files)
			unwind_table__free(wait_for_one(b).table);
		table_builder__free(b);
	}
	after = dup(0);
	close(after);
	assert_int_equal(fd, after);
	elf_file__close(elf);
	table_builder__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_table),
		cmocka_unit_test(test_free_at_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
