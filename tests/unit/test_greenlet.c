/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A library with the calls and the code of greenlet before 2.0, made by gcc: its functions must be
 * found with symbols and without. Truth is what nm says of the file before it was stripped.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "elf/greenlet.h"

static char dir[] = "/tmp/test_grnlet.XXXXXX"; /* the name counts */

#include "unit/tools.h"

#define CODE                                                                                       \
	"volatile int sink;\n"                                                                     \
	"__attribute__((noinline)) static int slp_switch(void)\n"                                  \
	"{ long d = sink; __asm__ volatile (\"addq %0, %%rsp\\n addq %0, %%rbp\" : : "             \
	"\"r\"(d)); return sink; }\n"                                                              \
	"__attribute__((noinline)) static int g_switchstack(void)\n"                               \
	"{ sink++; int r = slp_switch(); sink++; return r; }\n"                                    \
	"__attribute__((noinline)) static int g_initialstub(void *mark)\n"                         \
	"{ sink += mark != 0; int r = g_switchstack(); sink++; return r; }\n"                      \
	"int g_switch(int x)\n"                                                                    \
	"{ int r = x ? g_switchstack() : g_initialstub(&x); sink++; return r; }\n"

static struct elf_file *open_file(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return elf_file__open(fd, path);
}

/* Is one of kind `kind` in the function that is called `name` in the file with symbols? */
static bool has(const struct greenlet_function *found, size_t cnt, enum cfa_kind kind,
		const char *name)
{
	struct elf_file *ef = open_file("_greenlet.so");
	struct elf_symbol sym;
	uint64_t off;
	bool yes = false;

	assert_true(elf_file__symbol(ef, name, &sym));
	assert_true(elf_file__addr_to_off(ef, sym.addr, &off));
	for (size_t i = 0; i < cnt; i++)
		yes |= found[i].kind == kind && found[i].off - off < sym.size;
	elf_file__close(ef);
	return yes;
}

static void check_functions(const char *file, bool wanted)
{
	struct greenlet_function found[MAX_GREENLET_FUNCTIONS];
	struct elf_file *ef = open_file(file);
	size_t cnt;

	assert_non_null(ef);
	cnt = greenlet__functions(ef, found);
	assert_true(cnt <= MAX_GREENLET_FUNCTIONS);
	assert_int_equal(has(found, cnt, CFA_BASE, "g_initialstub"), wanted);
	assert_int_equal(has(found, cnt, CFA_SWITCH, "g_switchstack"), wanted);
	assert_int_equal(has(found, cnt, CFA_SWITCH, "slp_switch"), wanted);
	elf_file__close(ef);
}

static void build(void)
{
	write_file("g.c", CODE);
	sh("gcc -O2 -fno-optimize-sibling-calls -fno-ipa-cp -fPIC -shared -o _greenlet.so g.c");
}

static void test_by_symbols(void **state)
{
	(void)state;
	build();
	check_functions("_greenlet.so", true);
}

static void test_by_code(void **state)
{
	(void)state;
	build();
	sh("strip -o stripped_greenlet.so _greenlet.so");
	check_functions("stripped_greenlet.so", true);
}

/* The cost of a look is for files of that name only. */
static void test_other_files(void **state)
{
	(void)state;
	build();
	sh("mkdir -p other && cp _greenlet.so other/g.so");
	check_functions("other/g.so", false);
}

/* Each byte of the file may be another one: nothing is read out of bounds (ASan). */
static void test_damaged(void **state)
{
	struct greenlet_function found[MAX_GREENLET_FUNCTIONS];
	static uint8_t image[1 << 16];
	char path[256];
	size_t size;
	FILE *f;

	(void)state;
	build();
	sh("strip -o stripped_greenlet.so _greenlet.so");
	snprintf(path, sizeof(path), "%s/stripped_greenlet.so", dir);
	f = fopen(path, "r");
	assert_non_null(f);
	size = fread(image, 1, sizeof(image), f);
	assert_int_equal(fclose(f), 0);
	for (size_t i = 0; i < size; i++) {
		struct elf_file *ef;

		image[i] ^= 0x41;
		ef = elf_file__open_memory(image, size, "_greenlet.so");
		if (ef)
			assert_true(greenlet__functions(ef, found) <= MAX_GREENLET_FUNCTIONS);
		elf_file__close(ef);
		image[i] ^= 0x41;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_symbols),
		cmocka_unit_test(test_by_code),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
