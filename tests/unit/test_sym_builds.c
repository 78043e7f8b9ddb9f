/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The table of names by build id: what it says, and that no damage to it is believed. */
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

#include "symbolize/sym_builds.h"

/*
 * Two builds. The first: "", first, second, "", first, third; the second, whose functions are more
 * than a byte of distance away from 0: "far".
 */
#define FAR 200
static uint8_t table[1024];
static size_t table_sz;

static void add(const void *data, size_t size)
{
	assert_true(table_sz + size <= sizeof(table));
	memcpy(table + table_sz, data, size);
	table_sz += size;
}

static void add_u32(uint32_t value)
{
	add(&value, sizeof(value));
}

static void add_build(uint8_t first_byte, uint32_t functions, uint32_t first)
{
	uint8_t id[20] = { first_byte };

	add(id, sizeof(id));
	add_u32(functions);
	add_u32(first);
}

static const uint8_t rows[] = { 0, 3, 3, 0, 2, 5, 0x91, 0x03 };

static void make_table(void)
{
	static const char magic[20] = "pyperf-bpf names\n", names[] = "\0first\0second\0third";

	table_sz = 0;
	add(magic, sizeof(magic));
	add_u32(2);
	add_u32(FAR + 1);
	add_u32(sizeof(rows));
	add_u32(sizeof(names) + (FAR - 4) * 2 + 4);
	add_build(0x10, 6, 0);
	add_build(0x20, 1, 6);
	add(rows, sizeof(rows));
	add(names, sizeof(names));
	for (int i = 4; i < FAR; i++)
		add("x", 2);
	add("far", 4);
}

static struct elf_id id_of(uint8_t first_byte)
{
	return (struct elf_id){ .bytes = { first_byte }, .size = 20 };
}

static void expect_row(const struct sym_builds *b, uint8_t id, const char *const *names, size_t cnt)
{
	struct elf_id elf_id = id_of(id);
	struct build_row row;

	assert_true(sym_builds__has(b, &elf_id));
	assert_int_equal(sym_builds__row(b, &elf_id, cnt, &row), 0);
	for (size_t i = 0; i < cnt; i++)
		assert_string_equal(row.names + row.v[i], names[i]);
	free(row.v);
}

static void test_rows(void **state)
{
	static const char *const first[] = { "", "first", "second", "", "first", "third" };
	static const char *const second[] = { "far" };
	struct sym_builds *b;

	(void)state;
	make_table();
	b = sym_builds__of(table, table_sz);
	assert_non_null(b);
	expect_row(b, 0x10, first, 6);
	expect_row(b, 0x20, second, 1);
	sym_builds__free(b);
}

static void expect_none(const struct sym_builds *b, const struct elf_id *id, size_t cnt, int want)
{
	struct build_row row;

	assert_int_equal(sym_builds__row(b, id, cnt, &row), want);
	assert_null(row.v);
}

/* The same build id and another number of functions: not the file that the row was made from. */
static void test_other_files(void **state)
{
	struct elf_id known = id_of(0x10), unknown = id_of(0x11), is_short = id_of(0x10);
	struct sym_builds *b;

	(void)state;
	make_table();
	b = sym_builds__of(table, table_sz);
	is_short.size = 19;
	for (size_t cnt = 0; cnt < 9; cnt++)
		if (cnt != 6)
			expect_none(b, &known, cnt, -EBADMSG);
	expect_none(b, &unknown, 6, -ENOENT);
	expect_none(b, &is_short, 6, -ENOENT);
	expect_none(NULL, &known, 6, -ENOENT);
	assert_false(sym_builds__has(b, &unknown));
	assert_false(sym_builds__has(NULL, &known));
	sym_builds__free(b);
}

/* Asks a table that may be anything. Sanitizers see what is read outside of it. */
static void ask(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1); /* to the byte */
	struct sym_builds *b;

	assert_non_null(copy);
	memcpy(copy, data, size);
	b = sym_builds__of(copy, size);
	for (uint8_t id = 0x10; b && id <= 0x20; id += 0x10) {
		struct elf_id elf_id = id_of(id);
		size_t cnt = id == 0x10 ? 6 : 1;
		struct build_row row;

		if (!sym_builds__row(b, &elf_id, cnt, &row))
			for (size_t i = 0; i < cnt; i++)
				assert_true(row.v[i] + strlen(row.names + row.v[i]) < row.names_sz);
		free(row.v);
	}
	sym_builds__free(b);
	free(copy);
}

static void test_damage(void **state)
{
	(void)state;
	make_table();
	for (size_t size = 0; size < table_sz; size++) {
		assert_null(sym_builds__of(table, size));
		ask(table, size);
	}
	for (size_t i = 0; i < table_sz; i++) {
		uint8_t was = table[i];

		for (unsigned value = 0; value < 256; value++) {
			table[i] = (uint8_t)value;
			ask(table, table_sz);
		}
		table[i] = was;
	}
}

/* Rows that say what cannot be: a name before the first, one behind the last, no end. */
static void test_bad_rows(void **state)
{
	static const struct {
		uint8_t row[sizeof(rows)];
	} bad[] = {
		{ { 0, 2, 0, 0, 0, 0, 0, 0 } },
		{ { 0, 0x93, 0x03, 0, 0, 0, 0, 0 } },
		{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0 } },
		{ { 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0 } },
		{ { 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80 } },
	};
	struct elf_id id = id_of(0x10);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sym_builds *b;

		make_table();
		memcpy(table + 36 + 2 * 28, bad[i].row, sizeof(rows));
		b = sym_builds__of(table, table_sz);
		assert_non_null(b);
		expect_none(b, &id, 6, -EBADMSG);
		sym_builds__free(b);
	}
}

static void test_file(void **state)
{
	char path[] = "/tmp/test_sym_builds.XXXXXX";
	int fd = mkstemp(path);
	struct elf_id id = id_of(0x20);
	struct sym_builds *b;

	(void)state;
	assert_true(fd >= 0);
	unlink(path);
	errno = 0;
	assert_null(sym_builds__open(fd));
	assert_int_equal(errno, EBADMSG);
	make_table();
	assert_int_equal(write(fd, table, table_sz), (ssize_t)table_sz);
	b = sym_builds__open(fd);
	close(fd);
	assert_non_null(b);
	assert_true(sym_builds__has(b, &id));
	sym_builds__free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),   cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_damage), cmocka_unit_test(test_bad_rows),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests_name("sym_builds", tests, NULL, NULL);
}
