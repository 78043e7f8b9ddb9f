/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * py_binary__analyse() on a made-up interpreter: this very program, which defines the symbols it
 * looks for, with an eval loop in three parts and functions that must not be taken for a part.
 * Variants are made by patching a copy of the file. Real interpreters: test_pyproc_live.c.
 */
#include "python/pyproc.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debug_offsets.h"

#ifdef __x86_64__

/* The code is fake_python.S. */
__asm__(".include \"tests/unit/fake_python.S\"");

/* ---- Variants ----------------------------------------------------------------------------- */

struct copy {
	uint8_t *image;
	size_t size;
};

static int load_self(void **state)
{
	struct copy *c = calloc(1, sizeof(*c));
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (!c || fd < 0 || fstat(fd, &st))
		return -1;
	c->size = (size_t)st.st_size;
	c->image = malloc(c->size);
	if (!c->image || pread(fd, c->image, c->size, 0) != (ssize_t)c->size)
		return -1;
	close(fd);
	*state = c;
	return 0;
}

static int free_self(void **state)
{
	struct copy *c = *state;

	free(c->image);
	free(c);
	return 0;
}

/* Gives a symbol another name, of at most the same length, wherever the file has it. */
static void rename_symbol(struct copy *c, const char *from, const char *to)
{
	size_t len = strlen(from), hits = 0;
	uint8_t *p = c->image, *end = c->image + c->size;

	assert_true(strlen(to) <= len);
	for (; (p = memmem(p, (size_t)(end - p), from, len + 1)); p += len) {
		if (p > c->image && !p[-1]) {
			memset(p, 0, len);
			memcpy(p, to, strlen(to));
			hits++;
		}
	}
	assert_true(hits > 0);
}

/* Makes a symbol unfindable. */
static void hide(struct copy *c, const char *name)
{
	rename_symbol(c, name, "!");
}

static struct elf_symbol symbol(const struct copy *c, const char *name)
{
	struct elf_file *ef = elf_file__open_memory(c->image, c->size, "self");
	struct elf_symbol sym = { 0 };

	assert_non_null(ef);
	assert_true(elf_file__symbol(ef, name, &sym));
	elf_file__close(ef);
	return sym;
}

static void patch(struct copy *c, const char *name, size_t at, const void *bytes, size_t size)
{
	struct elf_file *ef = elf_file__open_memory(c->image, c->size, "self");
	struct elf_symbol sym;
	uint64_t off;

	assert_non_null(ef);
	assert_true(elf_file__symbol(ef, name, &sym));
	assert_true(elf_file__addr_to_off(ef, sym.addr + at, &off));
	elf_file__close(ef);
	memcpy(c->image + off, bytes, size);
}

static void set_version(struct copy *c, uint64_t hex)
{
	patch(c, "Py_Version", 0, &hex, sizeof(hex));
}

static int analyse(const struct copy *c, const char *path, struct py_binary *bin)
{
	struct elf_file *ef = elf_file__open_memory(c->image, c->size, path);
	int err;

	assert_non_null(ef);
	err = py_binary__analyse(ef, bin);
	elf_file__close(ef);
	assert_true((err == -ENOTSUP) == (bin->why_not != NULL));
	return err;
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void assert_part(const struct copy *c, const struct py_binary *bin, unsigned i,
			const char *name)
{
	struct elf_symbol sym = symbol(c, name);

	assert_int_equal(bin->interp.eval[i].start, sym.addr);
	assert_int_equal(bin->interp.eval[i].end, sym.addr + sym.size);
}

static void finds_the_parts_of_the_eval_loop(void **state)
{
	struct copy *c = *state;
	struct py_binary bin;

	set_version(c, 0x030c01f0);
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.eval_cnt, 3);
	assert_part(c, &bin, 0, "_PyEval_EvalFrameDefault");
	assert_part(c, &bin, 1, "fake_cold");
	assert_part(c, &bin, 2, "fake_colder");
	assert_int_equal(bin.interp.eval[3].start, 0);
	assert_int_equal(bin.interp.eval[3].end, 0);
}

static void uses_exported_version(void **state)
{
	struct copy *c = *state;
	struct py_binary bin;

	set_version(c, 0x030c01f0);
	assert_int_equal(analyse(c, "/usr/bin/python3.10", &bin), 0);
	assert_int_equal(bin.version_hex, 0x030c01f0);
	assert_string_equal(bin.version, "3.12.1");
	assert_int_equal(bin.interp.layout.version, 0x030c);
	assert_int_equal(bin.interp.interp_head, symbol(c, "_PyRuntime").addr + 40);
	assert_int_equal(bin.interp.code_type, symbol(c, "PyCode_Type").addr);
	assert_false(bin.free_threaded);
	assert_int_equal(bin.interp.anchor_delta, 0);
	set_version(c, 0x030b00c2);
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_string_equal(bin.version, "3.11.0rc2");
	set_version(c, 0x030c00a7);
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
	assert_string_equal(bin.version, "3.12.0a7");
	set_version(c, 0x041000f0);
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
	/* Not a version at all: the next source is asked. */
	set_version(c, UINT64_MAX);
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_string_equal(bin.version, "3.9.18rc1");
}

static void reads_version_from_code(void **state)
{
	struct copy *c = *state;
	struct py_binary bin;

	hide(c, "Py_Version");
	assert_int_equal(analyse(c, "/usr/bin/python3.10", &bin), 0);
	assert_int_equal(bin.version_hex, 0x030912c1);
	assert_string_equal(bin.version, "3.9.18rc1");
	assert_int_equal(bin.interp.layout.version, 0x0309);
	patch(c, "fake_version", 5, "3.8.2+", 7);
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_string_equal(bin.version, "3.8.2");
	/* Two different ones: neither. */
	patch(c, "fake_format", 0, "3.8.18", 7);
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
}

/* Code at fixed addresses: mov $imm32 instead of lea. */
static void reads_version_from_fixed_code(void **state)
{
	struct copy *c = *state;
	struct elf_symbol text = symbol(c, "fake_version");
	uint32_t addr = (uint32_t)text.addr + 5;
	uint8_t code[16];
	struct py_binary bin;

	assert_true(text.addr < UINT32_MAX - 5);
	hide(c, "Py_Version");
	for (size_t at = 0; at < symbol(c, "Py_GetVersion").size; at++)
		patch(c, "Py_GetVersion", at, "\x90", 1);
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
	memset(code, 0x90, sizeof(code));
	code[3] = 0xb9; /* %ecx */
	memcpy(code + 4, &addr, sizeof(addr));
	patch(c, "Py_GetVersion", 0, code, sizeof(code));
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_string_equal(bin.version, "3.9.18rc1");
}

static void refuses_malformed_versions(void **state)
{
	static const char *const bad[] = { "3.9.",   "3.9",	  "3.9.256",   "3.100.1",
					   "4.9.1",  "1.9.1",	  "3.9.1x2",   "3.9.1rc",
					   "3.9.1a", "3.9.1rc16", "3.9.1rc1x", "3.9.1++",
					   "3..1",   " 3.9.1",	  "-3.9.1",    "" };
	struct copy *c = *state;
	struct py_binary bin;

	hide(c, "Py_Version");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		patch(c, "fake_version", 5, bad[i], strlen(bad[i]) + 1);
		if (analyse(c, "x", &bin) != -ENOTSUP)
			fail_msg("\"%s\" was taken for %s", bad[i], bin.version);
	}
}

static void checks_the_name_against_the_contents(void **state)
{
	struct copy *c = *state;
	struct py_binary bin;

	hide(c, "Py_Version");
	hide(c, "Py_GetVersion");
	assert_int_equal(analyse(c, "/usr/bin/python3.10", &bin), 0);
	assert_string_equal(bin.version, "3.10");
	assert_int_equal(bin.version_hex, 0x030a0000);
	assert_int_equal(analyse(c, "python3.9d", &bin), 0);
	assert_int_equal(analyse(c, "/usr/bin/python3.8", &bin), -ENOTSUP);
	assert_int_equal(analyse(c, "/usr/bin/python3.12", &bin), -ENOTSUP);
	assert_int_equal(analyse(c, "/usr/bin/python3.6", &bin), -ENOTSUP);
	assert_int_equal(analyse(c, "/usr/bin/python3.10x", &bin), -ENOTSUP);
	assert_int_equal(analyse(c, "/usr/bin/python3", &bin), -ENOTSUP);
	assert_int_equal(analyse(c, "/opt/app", &bin), -ENOTSUP);
}

static void asks_the_process_for_debug_offsets(void **state)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct copy *c = *state;
	struct py_binary bin, again;

	assert_int_equal(analyse(c, "x", &bin), -EAGAIN);
	assert_int_equal(bin.runtime, symbol(c, "_PyRuntime").addr);
	assert_string_equal(bin.version, "3.13.0");
	assert_int_equal(bin.eval_cnt, 3);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(py_binary__from_process(&bin, bytes, sizeof(bytes)), -EAGAIN);
	make_image(bytes, IMAGE(313));
	again = bin;
	assert_int_equal(py_binary__from_process(&again, bytes, sizeof(bytes)), 0);
	assert_int_equal(again.interp.interp_head, bin.runtime + 632);
	assert_int_equal(again.interp.layout.version, 0x030d);
	assert_null(again.why_not);
	again = bin;
	again.runtime_size = 632 + 7;
	assert_int_equal(py_binary__from_process(&again, bytes, sizeof(bytes)), -ENOTSUP);
	make_image(bytes, IMAGE(314));
	again = bin;
	assert_int_equal(py_binary__from_process(&again, bytes, sizeof(bytes)), -ENOTSUP);
	assert_non_null(again.why_not);
}

/* The same with debug offsets in the file, as real ones have them. */
static void reads_debug_offsets_of_the_file(void **state)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct copy *c = *state;
	struct py_binary bin;

	make_image(bytes, IMAGE(313));
	patch(c, "_PyRuntime", 0, bytes, 672);
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.interp_head, symbol(c, "_PyRuntime").addr + 632);
	/* Another minor version than Py_Version's. */
	set_version(c, 0x030e00f0);
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
}

static void refuses_other_builds(void **state)
{
	struct copy *c = *state;
	struct py_binary bin;

	set_version(c, 0x020712f0); /* had no _PyRuntime */
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
	set_version(c, 0x030600f0);
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
	set_version(c, 0x030c01f0);
	assert_int_equal(analyse(c, "x", &bin), 0);
	rename_symbol(c, "fake_spare_symbol_number_two", "_Py_GetObjects");
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
	assert_non_null(strstr(bin.why_not, "Py_TRACE_REFS"));
}

static void needs_the_code_type(void **state)
{
	struct py_binary bin;

	hide(*state, "PyCode_Type");
	assert_int_equal(analyse(*state, "x", &bin), -ENOTSUP);
}

static void tells_what_is_no_interpreter(void **state)
{
	struct copy *c = *state;
	struct py_binary bin;

	hide(c, "_PyRuntime");
	assert_int_equal(analyse(c, "/usr/bin/python3.10", &bin), -ENOENT);
	rename_symbol(c, "fake_spare_symbol_number_one", "_PyThreadState_Current");
	set_version(c, 0x030612f0);
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP); /* no list of interpreters */
	rename_symbol(c, "fake_spare_symbol_number_two", "interp_head");
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.interp_head, symbol(c, "interp_head").addr);
	assert_int_equal(bin.interp.layout.version, 0x0306);
	set_version(c, 0x020712f0); /* had no _PyEval_EvalFrameDefault, but PyString_Type */
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
	hide(c, "_PyEval_EvalFrameDefault");
	assert_int_equal(analyse(c, "x", &bin), -ENOENT);
}

static void decodes_the_list_of_interpreters(void **state)
{
	static const uint8_t rip[] = { 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3 };
	static const uint8_t cet[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b,
				       0x05, 0xf0, 0xff, 0xff, 0xff, 0xc3 };
	static const uint8_t abs[] = { 0x48, 0x8b, 0x04, 0x25, 0x78, 0x56, 0x34, 0x12, 0xc3 };
	static const uint8_t framed[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x05,
					  0x20, 0,    0,    0,	  0x5d, 0xc3 };
	static const uint8_t more[] = { 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0x5d, 0x90 };
	struct copy *c = *state;
	struct py_binary bin;
	uint64_t head = symbol(c, "PyInterpreterState_Head").addr;

	set_version(c, 0x030612f0);
	hide(c, "_PyRuntime");
	rename_symbol(c, "fake_spare_symbol_number_one", "_PyThreadState_Current");
	patch(c, "PyInterpreterState_Head", 0, rip, sizeof(rip));
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.interp_head, head + 7 + 0x10);
	patch(c, "PyInterpreterState_Head", 0, cet, sizeof(cet));
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.interp_head, head + 4 + 7 - 0x10);
	patch(c, "PyInterpreterState_Head", 0, abs, sizeof(abs));
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.interp_head, 0x12345678);
	patch(c, "PyInterpreterState_Head", 0, framed, sizeof(framed));
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.interp_head, head + 4 + 7 + 0x20);
	patch(c, "PyInterpreterState_Head", 0, more, sizeof(more));
	assert_int_equal(analyse(c, "x", &bin), -ENOTSUP);
}

static void make_27(struct copy *c)
{
	static const uint8_t rip[] = { 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3 };

	set_version(c, 0x020712f0);
	hide(c, "_PyRuntime");
	rename_symbol(c, "fake_spare_symbol_number_one", "_PyThreadState_Current");
	rename_symbol(c, "fake_spare_symbol_number_two", "PyString_Type");
	rename_symbol(c, "_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx");
	patch(c, "PyInterpreterState_Head", 0, rip, sizeof(rip));
}

/* PyEval_ThreadsInitialized() is `code`, with the address of `name` at `at`. */
static void name_gil(struct copy *c, const uint8_t *code, size_t size, size_t at, const char *name,
		     uint64_t pc)
{
	int32_t disp = (int32_t)(symbol(c, name).addr - pc);

	patch(c, "PyEval_ThreadsInitialized", 0, code, size);
	patch(c, "PyEval_ThreadsInitialized", at, &disp, sizeof(disp));
}

static void assert_gil(const struct copy *c, bool known)
{
	struct py_binary bin;
	const struct interp *in = &bin.interp;

	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(in->gil_size, known ? 32 : 0);
	if (!known)
		return;
	assert_int_equal(in->gil_locked, PY_OFF_NONE);
	assert_int_equal(in->gil + in->gil_locks, symbol(c, "fake_interpreter_lock").addr);
	assert_int_equal(in->gil + in->gil_holder, symbol(c, "_PyThreadState_Current").addr);
	assert_true(!in->gil_locks || !in->gil_holder);
}

static void decodes_the_gil_of_27(void **state)
{
	static const uint8_t compare[] = { 0x31, 0xc0, 0x48, 0x83, 0x3d, 0, 0, 0, 0, 0 };
	static const uint8_t compare_one[] = { 0x31, 0xc0, 0x48, 0x83, 0x3d, 0, 0, 0, 0, 1 };
	static const uint8_t cet[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0x3d, 0, 0, 0, 0, 0 };
	static const uint8_t framed[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x05, 0, 0, 0, 0 };
	static const uint8_t abs[] = { 0x48, 0x83, 0x3c, 0x25, 0, 0, 0, 0, 0 };
	static const uint8_t narrow[] = { 0x8b, 0x05, 0, 0, 0, 0 };
	struct copy *c = *state;
	const char *lock = "fake_interpreter_lock";
	uint64_t code = symbol(c, "PyEval_ThreadsInitialized").addr;

	make_27(c);
	assert_gil(c, false);
	name_gil(c, compare, sizeof(compare), 5, lock, code + sizeof(compare));
	assert_gil(c, true);
	name_gil(c, cet, sizeof(cet), 7, lock, code + sizeof(cet));
	assert_gil(c, true);
	name_gil(c, framed, sizeof(framed), 7, lock, code + sizeof(framed));
	assert_gil(c, true);
	name_gil(c, abs, sizeof(abs), 4, lock, 0);
	assert_gil(c, true);
	name_gil(c, compare_one, sizeof(compare_one), 5, lock, code + sizeof(compare_one));
	assert_gil(c, false);
	name_gil(c, narrow, sizeof(narrow), 2, lock, code + sizeof(narrow));
	assert_gil(c, false);
	name_gil(c, abs, sizeof(abs), 4, "PyCode_Type", 0); /* not zeroed */
	assert_gil(c, false);
	name_gil(c, abs, sizeof(abs), 4, lock, 1); /* not aligned */
	assert_gil(c, false);
}

static void finds_the_gil_of_27_by_its_symbol(void **state)
{
	struct copy *c = *state;
	uint64_t lock = symbol(c, "fake_interpreter_lock").addr;
	struct py_binary bin;

	make_27(c);
	rename_symbol(c, "fake_interpreter_lock", "interpreter_lock");
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.gil + bin.interp.gil_locks, lock);
}

static void make_36(struct copy *c)
{
	static const uint8_t rip[] = { 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3 };

	set_version(c, 0x030612f0);
	hide(c, "_PyRuntime");
	rename_symbol(c, "fake_spare_symbol_number_one", "_PyThreadState_Current");
	patch(c, "PyInterpreterState_Head", 0, rip, sizeof(rip));
}

static void assert_gil_36(const struct copy *c, bool known)
{
	struct py_binary bin;
	const struct interp *in = &bin.interp;

	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(in->gil_size, known ? 3 * 64 + 48 : 0);
	if (!known)
		return;
	assert_int_equal(in->gil + in->gil_locks, symbol(c, "fake_switch_mutex").addr);
	assert_int_equal(in->gil + in->gil_locked, symbol(c, "fake_gil_locked").addr);
	assert_int_equal(in->gil + in->gil_holder, symbol(c, "_PyThreadState_Current").addr);
	assert_true(!in->gil_locks || !in->gil_locked || !in->gil_holder);
}

static void decodes_the_gil_of_36(void **state)
{
	static const uint8_t load[] = { 0x8b, 0x05, 0, 0, 0, 0 };
	static const uint8_t compare[] = { 0x31, 0xc0, 0x83, 0x3d, 0, 0, 0, 0, 0 };
	static const uint8_t wide[] = { 0x48, 0x8b, 0x05, 0, 0, 0, 0 };
	static const uint8_t nops[] = { 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 };
	struct copy *c = *state;
	const char *locked = "fake_gil_locked";
	uint64_t code = symbol(c, "PyEval_ThreadsInitialized").addr;
	uint64_t fini = symbol(c, "_PyEval_FiniThreads").addr;
	int32_t fifth = (int32_t)(symbol(c, "fake_gil_cond").addr + 8 - (fini + 16 + 5 * 7));

	make_36(c);
	assert_gil_36(c, false);
	name_gil(c, load, sizeof(load), 2, locked, code + sizeof(load));
	assert_gil_36(c, true);
	name_gil(c, compare, sizeof(compare), 4, locked, code + sizeof(compare));
	assert_gil_36(c, true);
	name_gil(c, wide, sizeof(wide), 3, locked, code + sizeof(wide));
	assert_gil_36(c, false);
	name_gil(c, load, sizeof(load), 2, "PyCode_Type", code + sizeof(load)); /* not -1 */
	assert_gil_36(c, false);
	name_gil(c, load, sizeof(load), 2, locked, code + sizeof(load));
	patch(c, "_PyEval_FiniThreads", 16 + 4 * 7 + 3, &fifth, sizeof(fifth));
	assert_gil_36(c, false);
	patch(c, "_PyEval_FiniThreads", 16 + 3 * 7, nops, sizeof(nops)); /* three */
	patch(c, "_PyEval_FiniThreads", 16 + 2 * 7, nops, sizeof(nops));
	assert_gil_36(c, false);
}

static void finds_the_gil_of_36_by_its_symbols(void **state)
{
	struct copy *c = *state;
	uint64_t locks = symbol(c, "fake_switch_mutex").addr;
	struct py_binary bin;

	make_36(c);
	hide(c, "_PyEval_FiniThreads");
	rename_symbol(c, "fake_gil_locked", "gil_locked");
	rename_symbol(c, "fake_gil_cond", "gil_cond");
	rename_symbol(c, "fake_gil_mutex", "gil_mutex");
	rename_symbol(c, "fake_switch_cond", "switch_cond");
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.gil_size, 0);
	rename_symbol(c, "fake_switch_mutex", "switch_mutex");
	assert_int_equal(analyse(c, "x", &bin), 0);
	assert_int_equal(bin.interp.gil_size, 3 * 64 + 48);
	assert_int_equal(bin.interp.gil + bin.interp.gil_locks, locks);
	assert_int_equal(bin.interp.gil + bin.interp.gil_locked, symbol(c, "gil_locked").addr);
}

/* Debug builds up to 3.7: two more pointers at the start of each object, so of frames, too. */
static void knows_traced_objects(void **state)
{
	static const uint8_t rip[] = { 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3 };
	struct copy *c = *state;
	struct py_binary plain, traced;

	set_version(c, 0x030612f0);
	hide(c, "_PyRuntime");
	rename_symbol(c, "fake_spare_symbol_number_one", "_PyThreadState_Current");
	patch(c, "PyInterpreterState_Head", 0, rip, sizeof(rip));
	assert_int_equal(analyse(c, "x", &plain), 0);
	rename_symbol(c, "fake_spare_symbol_number_two", "_Py_GetObjects");
	assert_int_equal(analyse(c, "x", &traced), 0);
	assert_true(traced.trace_refs && !plain.trace_refs);
	assert_int_equal(traced.interp.layout.ob_type, plain.interp.layout.ob_type + 16);
	assert_int_equal(traced.interp.layout.frame_back, plain.interp.layout.frame_back + 16);
	assert_int_equal(traced.interp.layout.code_read, plain.interp.layout.code_read + 16);
	assert_int_equal(traced.interp.layout.code_qualname, PY_OFF_NONE);
	assert_int_equal(traced.interp.layout.tstate_frame, plain.interp.layout.tstate_frame);
	assert_int_equal(traced.interp.layout.tstate_read, plain.interp.layout.tstate_read);
}

static void ignores_other_programs(void **state)
{
	static const char path[] = "/bin/true";
	struct elf_file *ef = elf_file__open(open(path, O_RDONLY | O_CLOEXEC), path);
	struct py_binary bin;

	(void)state;
	assert_non_null(ef);
	assert_int_equal(py_binary__analyse(ef, &bin), -ENOENT);
	elf_file__close(ef);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, load_self, free_self)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(finds_the_parts_of_the_eval_loop),
		TEST(uses_exported_version),
		TEST(reads_version_from_code),
		TEST(reads_version_from_fixed_code),
		TEST(refuses_malformed_versions),
		TEST(checks_the_name_against_the_contents),
		TEST(asks_the_process_for_debug_offsets),
		TEST(reads_debug_offsets_of_the_file),
		TEST(refuses_other_builds),
		TEST(needs_the_code_type),
		TEST(tells_what_is_no_interpreter),
		TEST(decodes_the_list_of_interpreters),
		TEST(decodes_the_gil_of_27),
		TEST(finds_the_gil_of_27_by_its_symbol),
		TEST(decodes_the_gil_of_36),
		TEST(finds_the_gil_of_36_by_its_symbols),
		TEST(knows_traced_objects),
		cmocka_unit_test(ignores_other_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	puts("the made-up interpreter is x86-64 code");
	return 77;
}

#endif
