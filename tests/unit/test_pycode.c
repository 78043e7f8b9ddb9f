/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Code objects that are read, in the memory of a process that frees them and makes others there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "python/pycode.h"
#include "python/pylayout.h"

#define BASE  0x10000ULL
#define CODE  (BASE + 0x100)
#define NAME  (BASE + 0x400)
#define FILE_ (BASE + 0x500)
#define LINES (BASE + 0x600)
#define CODES 0x7000ULL /* the type of code objects */
#define STRS  0x7100ULL
#define MOST  (32U << 20) /* bytes that are kept */

static uint8_t memory[0x800];
static unsigned reads;
static struct py_layout layout;
static struct pymem mem;
static struct pycodes codes;

static int read_memory(void *ctx, void *dst, size_t size, uint64_t src)
{
	(void)ctx;
	reads++;
	if (src < BASE || src - BASE > sizeof(memory) || size > sizeof(memory) - (src - BASE))
		return -EFAULT;
	memcpy(dst, memory + (src - BASE), size);
	return 0;
}

static void put(uint64_t at, uint64_t word, size_t size)
{
	memcpy(memory + (at - BASE), &word, size);
}

/* Compact and ASCII. */
static void put_str(uint64_t at, const char *text)
{
	put(at + 8, STRS, 8);
	put(at + layout.str_length, strlen(text), 8);
	put(at + layout.str_state, 0x64, 4);
	strcpy((char *)memory + (at - BASE) + layout.str_ascii, text);
}

/* A code object at CODE, all of whose parts have the addresses of those before it. */
static void make_code(const char *name, uint32_t version)
{
	put(CODE + 8, CODES, 8);
	put(CODE + layout.code_firstlineno, 7, 4);
	if (layout.code_version != PY_OFF_NONE)
		put(CODE + layout.code_version, version, 4);
	put(CODE + layout.code_name, NAME, 8);
	if (layout.code_qualname != PY_OFF_NONE)
		put(CODE + layout.code_qualname, NAME, 8);
	put(CODE + layout.code_filename, FILE_, 8);
	put(CODE + layout.code_linetable, LINES, 8);
	put(LINES + layout.bytes_size, 0, 8);
	put_str(NAME, name);
	put_str(FILE_, "/srv/app.py");
}

static void begin(uint32_t version)
{
	memset(memory, 0, sizeof(memory));
	assert_int_equal(py_layout__get(&layout, version << 16, false, NULL, 0, NULL), 0);
	layout.version = (uint16_t)version;
	mem = (struct pymem){
		.read = read_memory, .lay = &layout, .str_type = STRS, .version = (uint16_t)version
	};
	codes = (struct pycodes){ .mem = &mem, .code_type = CODES };
}

static const struct pycode *get(const char *name)
{
	const struct pycode *code = pycodes__get(&codes, CODE);

	assert_non_null(code);
	assert_string_equal(code->name, name);
	assert_string_equal(code->file, "/srv/app.py");
	assert_int_equal(code->first_line, 7);
	return code;
}

static void another_at_the_same_address(uint32_t version)
{
	uint64_t id;

	begin(version);
	make_code("before", 11);
	id = get("before")->id;
	pycodes__look(&codes);
	assert_int_equal(get("before")->id, id);
	make_code("behind", 12);
	get("before"); /* nobody asks twice in one look */
	pycodes__look(&codes);
	assert_int_not_equal(get("behind")->id, id);
	assert_int_equal(codes.by_addr.cnt, 1);
	assert_int_equal(codes.bytes, sizeof(struct pycode) + strlen("behind/srv/app.py"));
	pycodes__free(&codes);
}

static void freed_and_made_anew(void **state)
{
	(void)state;
	another_at_the_same_address(0x0308);
	another_at_the_same_address(0x030b);
	another_at_the_same_address(0x030c);
}

/* From 3.12 on the number tells: one read for each look. */
static void unchanged_costs_one_read(void **state)
{
	(void)state;
	begin(0x030c);
	make_code("price", 11);
	get("price");
	reads = 0;
	get("price");
	assert_int_equal(reads, 0);
	pycodes__look(&codes);
	get("price");
	assert_int_equal(reads, 1);
	pycodes__free(&codes);
}

/* The numbers may be exhausted. */
static void without_a_number(void **state)
{
	(void)state;
	begin(0x030c);
	make_code("before", 0);
	get("before");
	make_code("behind", 0);
	pycodes__look(&codes);
	get("behind");
	pycodes__free(&codes);
}

/* Names are not known, so none is told. */
static void what_cannot_be_read_has_no_name(void **state)
{
	const struct pycode *code;

	(void)state;
	begin(0x030c);
	make_code("price", 11);
	get("price");
	pycodes__look(&codes);
	mem.reads_max = 1;
	mem.reads = 1;
	code = pycodes__get(&codes, CODE);
	assert_non_null(code);
	assert_true(!code->name && !code->id);
	mem.reads_max = 0;
	get("price");
	pycodes__free(&codes);
}

/* Names that are known cost no room, also where only the contents tell that they are the same. */
static void full_tables_keep_what_they_know(void **state)
{
	const struct pycode *code;

	(void)state;
	begin(0x030b);
	make_code("price", 0);
	get("price");
	pycodes__look(&codes);
	codes.bytes = MOST;
	get("price");
	pycodes__look(&codes);
	make_code("prices", 0);
	code = pycodes__get(&codes, CODE);
	assert_true(code && !code->name);
	make_code("cost", 0);
	get("cost"); /* shorter */
	codes.bytes = MOST;
	code = pycodes__get(&codes, NAME);
	assert_true(code && !code->name);
	assert_int_equal(codes.by_addr.cnt, 1);
	pycodes__free(&codes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_tables_keep_what_they_know),
		cmocka_unit_test(freed_and_made_anew),
		cmocka_unit_test(unchanged_costs_one_read),
		cmocka_unit_test(without_a_number),
		cmocka_unit_test(what_cannot_be_read_has_no_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
