/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A profile built by hand: one frame of each kind, and what is shared between frames. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbolize/symbolize.h"

#define FILE_ID 7
#define CODE_A	1
#define CODE_B	2 /* the same function, of another process */
#define CODE_C	3 /* another function of the same file */

/* 3.11: two units at the first line, two units one line further, two units without a line */
static const uint8_t table_311[] = { 0xd1, 0, 0xd9, 0, 0, 0xf9 };

struct fixture {
	struct elf_file *ef; /* this program */
	struct symbolizer *s;
	struct profile *p;
	int module;
};

/* What is asked for: a symbol of this program. */
int symbolize_me(int x);
__attribute__((noinline)) int symbolize_me(int x)
{
	return x * 3;
}

static void send(struct sym_python *s, uint64_t id, enum blob_kind kind, const void *data,
		 size_t size)
{
	struct ev_blob ev = { .type = EV_BLOB, .kind = kind, .id = id, .size = (uint32_t)size };

	memcpy(ev.data, data, size);
	assert_int_equal(sym_python__on_blob(s, &ev, offsetof(struct ev_blob, data) + size), 0);
}

static void add_code(struct sym_python *s, uint64_t id, const char *name, int line)
{
	static const struct py_layout layout = { .linetable_kind = PY_LINES_311 };
	struct ev_code ev = { .type = EV_CODE, .id = id, .firstlineno = line };

	ev.blob[BLOB_FILENAME] = (struct blob_info){ .size = 6, .width = 1, .flags = BLOB_ASCII };
	ev.blob[BLOB_NAME] = (struct blob_info){ .size = (uint32_t)strlen(name),
						 .width = 1,
						 .flags = BLOB_ASCII };
	ev.blob[BLOB_LINETABLE] = (struct blob_info){ .size = sizeof(table_311), .width = 1 };
	send(s, id, BLOB_FILENAME, "app.py", 6);
	send(s, id, BLOB_NAME, name, strlen(name));
	send(s, id, BLOB_LINETABLE, table_311, sizeof(table_311));
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout, 0), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct profile_module module = { .file = FILE_ID };
	struct sym_python *python;

	f->ef = elf_file__open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "/bin/test_symbolize");
	f->s = symbolizer__new(NULL);
	f->p = profile__new();
	if (!f->ef || !f->s || !f->p)
		return -1;
	assert_int_equal(symbolizer__add_file(f->s, FILE_ID, f->ef), 0);
	python = symbolizer__python(f->s);
	add_code(python, CODE_A, "work", 10);
	add_code(python, CODE_B, "work", 10);
	add_code(python, CODE_C, "rest", 20);
	module.path = profile__intern_z(f->p, "/opt/lib/libx.so.1");
	f->module = profile__add_module(f->p, &module);
	assert_int_equal(profile__add_proc(f->p, &(struct profile_proc){ .space = 1 }), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	profile__free(f->p);
	symbolizer__free(f->s);
	elf_file__close(f->ef);
	free(f);
	return 0;
}

static void add_stack(struct profile *p, const uint64_t *words, size_t cnt)
{
	assert_true(profile__add_stack(p, 0, 0, words, cnt, 1) >= 0);
}

/* The sym of the only frame of a profile of its own word. */
static const struct sym *sym_of(struct fixture *f, uint64_t word, bool lines)
{
	size_t frame = f->p->frame_cnt;

	add_stack(f->p, &word, 1);
	assert_int_equal(symbolizer__run(f->s, f->p, &(struct symbolize_opts){ .lines = lines }),
			 0);
	assert_non_null(f->p->frame_syms);
	assert_in_range(f->p->frame_syms[frame], 0, f->p->sym_cnt - 1);
	return &f->p->syms[f->p->frame_syms[frame]];
}

static const char *str(const struct fixture *f, str_id id)
{
	return profile__str(f->p, id);
}

static void test_native(void **state)
{
	struct fixture *f = *state;
	struct elf_symbol es;
	const struct sym *sym;
	uint64_t off;

	assert_true(elf_file__symbol(f->ef, "symbolize_me", &es));
	assert_true(elf_file__addr_to_off(f->ef, es.addr + 1, &off));
	sym = sym_of(f, NATIVE_WORD(FILE_ID, off), true);
	assert_int_equal(sym->kind, SYM_NATIVE);
	assert_string_equal(str(f, sym->func), "symbolize_me");
	assert_int_equal(sym->module, f->module);
	assert_int_equal(sym->addr, off);
	assert_int_equal(sym->inlined, -1);
}

static volatile int inlined_sink;

static inline __attribute__((always_inline)) void inlined_here(int x)
{
	inlined_sink = x; /* THE_LINE */
}
enum { THE_LINE = __LINE__ - 2 };

int calls_inlined(int x);
__attribute__((noinline)) int calls_inlined(int x)
{
	inlined_here(x);
	return x;
}

/* Somewhere in the function is the code of the other: a frame of its own, innermost last. */
static void test_inlined(void **state)
{
	struct fixture *f = *state;
	struct elf_symbol es;
	size_t found = 0;
	uint64_t off;

	assert_true(elf_file__symbol(f->ef, "calls_inlined", &es));
	for (uint64_t i = 0; i < es.size; i++) {
		assert_true(elf_file__addr_to_off(f->ef, es.addr + i, &off));
		add_stack(f->p, &(uint64_t){ NATIVE_WORD(FILE_ID, off) }, 1);
	}
	assert_int_equal(
		symbolizer__run(f->s, f->p,
				&(struct symbolize_opts){ .lines = true, .inlines = true }),
		0);
	for (size_t i = 0; i < f->p->frame_cnt; i++) {
		const struct sym *sym = &f->p->syms[f->p->frame_syms[i]], *inner;

		assert_string_equal(str(f, sym->func), "calls_inlined");
		assert_non_null(strstr(str(f, sym->file), "test_symbolize.c"));
		assert_int_equal(sym->flags, 0);
		if (sym->inlined < 0)
			continue;
		inner = &f->p->syms[sym->inlined];
		found++;
		assert_string_equal(str(f, inner->func), "inlined_here");
		assert_int_equal(inner->line, THE_LINE);
		assert_int_equal(inner->flags, SYM_INLINED);
		assert_int_equal(inner->inlined, -1);
		assert_int_equal(inner->module, f->module);
		assert_int_equal(sym->line, THE_LINE + 7);
	}
	assert_true(found > 0);
}

static void test_native_misses(void **state)
{
	struct fixture *f = *state;
	/* no symbol there; no such file, a module of no file */
	static const uint32_t files[] = { FILE_ID, FILE_ID + 1, FRAME_NATIVE_FILE, 0 };
	const struct sym *sym;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		sym = sym_of(f, NATIVE_WORD(files[i], 1), true);
		assert_int_equal(sym->kind, SYM_NATIVE);
		assert_int_equal(sym->func, 0);
		assert_int_equal(sym->module, files[i] == FILE_ID ? f->module : -1);
		assert_int_equal(sym->addr, 1);
	}
}

static void test_anonymous(void **state)
{
	struct fixture *f = *state;
	const struct sym *sym = sym_of(f, FRAME_WORD(FRAME_ANON, 0x7f0012345678), true);

	assert_int_equal(sym->kind, SYM_NATIVE);
	assert_string_equal(profile__str(f->p, sym->func), "generated code"); /* one name for all */
	assert_int_equal(sym->module, -1);
	assert_int_equal(sym->addr, 0x7f0012345678);
}

static void test_kernel(void **state)
{
	struct fixture *f = *state;
	struct sym_kernel *k = sym_kernel__open(NULL);
	uint64_t addr = 0xffffffff81000010, offset;
	const char *name = NULL;
	const struct sym *sym;

	/* The first function behind the usual start of the text, wherever it was put. */
	for (; k && !name && addr < 0xfffffffff0000000; addr += 0x10000)
		name = sym_kernel__find(k, addr, &offset);
	addr -= name ? 0x10000 : 0;
	sym = sym_of(f, FRAME_WORD(FRAME_KERNEL, addr), true);
	assert_int_equal(sym->kind, SYM_KERNEL);
	assert_int_equal(sym->addr, addr); /* with its upper bits */
	assert_int_equal(sym->module, -1);
	assert_string_equal(str(f, sym->func), name ? name : "");
	sym = sym_of(f, FRAME_WORD(FRAME_KERNEL, 0x10), true);
	assert_int_equal(sym->func, 0);
	sym_kernel__close(k);
}

static void expect_marker(struct fixture *f, uint64_t word, const char *text, int module)
{
	const struct sym *sym = sym_of(f, word, true);

	assert_int_equal(sym->kind, SYM_MARKER);
	assert_string_equal(str(f, sym->func), text);
	assert_int_equal(sym->module, module);
}

static void test_markers(void **state)
{
	struct fixture *f = *state;

#define X(name, number, text) expect_marker(f, MARKER_WORD(number, 0), "[" text "]", -1);
	PYPERF_MARKERS(X)
#undef X
	expect_marker(f, MARKER_WORD(MARK_NO_UNWIND_INFO, FILE_ID), "[no-unwind-info libx.so.1]",
		      f->module);
	expect_marker(f, MARKER_WORD(MARK_NO_UNWIND_INFO, FILE_ID + 1), "[no-unwind-info]", -1);
	expect_marker(f, MARKER_WORD(MARK_NO_UNWIND_INFO, 1ULL << 40 | FILE_ID), "[no-unwind-info]",
		      -1);
	/* the detail of others is no file */
	expect_marker(f, MARKER_WORD(MARK_TRUNCATED, FILE_ID), "[truncated]", -1);
	expect_marker(f, MARKER_WORD(4000, 0), "[marker 4000]", -1);
}

static void test_python(void **state)
{
	struct fixture *f = *state;
	const struct sym *sym = sym_of(f, PYTHON_WORD(CODE_A, 4), true);

	assert_int_equal(sym->kind, SYM_PYTHON);
	assert_string_equal(str(f, sym->func), "work");
	assert_string_equal(str(f, sym->file), "app.py");
	assert_int_equal(sym->line, 11);
	assert_int_equal(sym->start_line, 10);
	assert_int_equal(sym->module, -1);
	sym = sym_of(f, PYTHON_WORD(CODE_A, OFFSET_NOT_STARTED), true);
	assert_int_equal(sym->line, 10);
	sym = sym_of(f, PYTHON_WORD(99, 0), true);
	assert_int_equal(sym->kind, SYM_PYTHON);
	assert_string_equal(str(f, sym->func), "<unknown>");
	assert_int_equal(sym->line, 0);
}

static const uint64_t pythons[] = {
	PYTHON_WORD(CODE_A, 0), PYTHON_WORD(CODE_A, 2), /* line 10 */
	PYTHON_WORD(CODE_A, 4),				/* line 11 */
	PYTHON_WORD(CODE_B, 2),				/* line 10 */
	PYTHON_WORD(CODE_C, 2),				/* rest, line 20 */
	PYTHON_WORD(CODE_A, 0),
};

static void test_python_is_shared(void **state)
{
	struct fixture *f = *state;
	const uint32_t *syms;

	add_stack(f->p, pythons, 6);
	assert_int_equal(symbolizer__run(f->s, f->p, &(struct symbolize_opts){ .lines = true }), 0);
	syms = f->p->frame_syms;
	assert_int_equal(f->p->sym_cnt, 3);
	assert_int_equal(syms[0], syms[1]);
	assert_int_equal(syms[0], syms[3]);
	assert_int_equal(syms[0], syms[5]);
	assert_int_not_equal(syms[0], syms[2]);
	assert_int_not_equal(syms[0], syms[4]);
}

static void test_no_lines(void **state)
{
	struct fixture *f = *state;

	add_stack(f->p, pythons, 6);
	assert_int_equal(symbolizer__run(f->s, f->p, &(struct symbolize_opts){ .lines = false }),
			 0);
	assert_int_equal(f->p->sym_cnt, 2);
	for (size_t i = 0; i < f->p->sym_cnt; i++)
		assert_int_equal(f->p->syms[i].line, 0);
	assert_int_equal(f->p->syms[f->p->frame_syms[2]].start_line, 10);
	assert_int_equal(f->p->syms[f->p->frame_syms[4]].start_line, 20);
}

/* Equal words have one sym; a profile that grew is named again as a whole. */
static void test_grows(void **state)
{
	struct fixture *f = *state;
	uint64_t words[] = { NATIVE_WORD(FILE_ID, 1), NATIVE_WORD(FILE_ID, 2),
			     NATIVE_WORD(FILE_ID, 1) };

	assert_int_equal(symbolizer__run(f->s, f->p, &(struct symbolize_opts){ .lines = true }),
			 0); /* nothing yet */
	assert_int_equal(f->p->sym_cnt, 0);
	add_stack(f->p, words, 3);
	assert_int_equal(symbolizer__run(f->s, f->p, &(struct symbolize_opts){ .lines = true }), 0);
	assert_int_equal(f->p->sym_cnt, 2);
	assert_int_equal(f->p->frame_syms[0], f->p->frame_syms[2]);
	assert_int_equal(symbolizer__run(f->s, f->p, &(struct symbolize_opts){ .lines = true }), 0);
	assert_int_equal(f->p->sym_cnt, 2);
	for (uint64_t i = 0; i < 5000; i++) {
		words[0] = NATIVE_WORD(FILE_ID, i % 1000);
		words[1] = NATIVE_WORD(FILE_ID, i);
		add_stack(f->p, words, 2);
	}
	assert_int_equal(symbolizer__run(f->s, f->p, &(struct symbolize_opts){ .lines = true }), 0);
	assert_int_equal(f->p->sym_cnt, 5000);
	for (size_t i = 0; i < f->p->frame_cnt; i++)
		assert_int_equal(f->p->syms[f->p->frame_syms[i]].addr,
				 NATIVE_OFFSET(f->p->frames[i]));
}

/* Symbols that find no room are read again: no answer depends on it. */
static void test_budget(void **state)
{
	const struct symbolize_opts o = { .lines = true, .symbols_budget = 1 };
	struct fixture *f = *state;
	struct elf_symbol es;
	uint64_t off;

	assert_true(elf_file__symbol(f->ef, "symbolize_me", &es));
	assert_true(elf_file__addr_to_off(f->ef, es.addr, &off));
	assert_int_equal(symbolizer__add_file(f->s, FILE_ID + 1, f->ef), 0);
	for (uint64_t i = 0; i < 3; i++) {
		add_stack(f->p, &(uint64_t){ NATIVE_WORD(FILE_ID, off + i) }, 1);
		add_stack(f->p, &(uint64_t){ NATIVE_WORD(FILE_ID + 1, off + i) }, 1);
		assert_int_equal(symbolizer__run(f->s, f->p, &o), 0);
		assert_int_equal(f->p->sym_cnt, 2 * i + 2);
		for (size_t j = 0; j < f->p->sym_cnt; j++)
			assert_string_equal(str(f, f->p->syms[j].func), "symbolize_me");
	}
}

static void test_any_word(void **state)
{
	struct fixture *f = *state;
	uint64_t word = 1;

	for (int i = 0; i < 4096; i++) {
		word = word * 6364136223846793005 + 1442695040888963407;
		add_stack(f->p, &word, 1);
	}
	word = 0;
	add_stack(f->p, &word, 1);
	assert_int_equal(symbolizer__run(f->s, f->p, &(struct symbolize_opts){ .lines = true }), 0);
	for (size_t i = 0; i < f->p->frame_cnt; i++)
		assert_in_range(f->p->frame_syms[i], 0, f->p->sym_cnt - 1);
}

static void test_files(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(symbolizer__add_file(f->s, FILE_ID, f->ef), -EEXIST);
	assert_int_equal(symbolizer__add_file(f->s, 0, f->ef), -EINVAL);
	assert_int_equal(symbolizer__add_file(f->s, FRAME_NATIVE_FILE + 1, f->ef), -EINVAL);
	assert_int_equal(symbolizer__add_file(f->s, 1, f->ef), 0);
	assert_int_equal(symbolizer__add_file(f->s, 5000, f->ef), 0);
	symbolizer__free(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_native),    TEST(test_inlined),  TEST(test_native_misses),
		TEST(test_anonymous), TEST(test_kernel),   TEST(test_markers),
		TEST(test_python),    TEST(test_no_lines), TEST(test_python_is_shared),
		TEST(test_grows),     TEST(test_any_word), TEST(test_budget),
		TEST(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
