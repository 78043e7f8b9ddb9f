/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fail the Nth allocation, for every N: symbols and names are found or missed, never wrong, nothing
 * leaks, and a run of the symbolizer that said -ENOMEM works when it is tried again.
 *
 * The sources are compiled into this program with allocators of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/failing_alloc.h"
#include "../../user/base/hash.c"
#include "../../user/base/str.c"
#include "../../user/symbolize/sym_demangle.c"
#include "../../user/symbolize/sym_debugfile.c"
#include "../../user/symbolize/sym_native.c"
#define function kernel_function
#define load	 load_kernel
#define is_text	 is_kernel_text
#define add_name add_kernel_name
#include "../../user/symbolize/sym_kernel.c"
#undef function
#undef load
#include "../../user/symbolize/symbolize.c"
#undef calloc
#undef malloc
#undef realloc
#undef reallocarray

int symbolize_me(int x);
__attribute__((noinline)) int symbolize_me(int x)
{
	return x * 3;
}

static struct elf_file *open_self(uint64_t *off)
{
	struct elf_file *ef = elf_file__open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "self");
	struct elf_symbol sym;

	assert_non_null(ef);
	assert_true(elf_file__symbol(ef, "symbolize_me", &sym));
	assert_true(elf_file__addr_to_off(ef, sym.addr, off));
	return ef;
}

/* Calls `work` until no allocation is left to fail. */
static void fail_each(void (*work)(void *arg), void *arg)
{
	size_t reached = 0;

	for (size_t n = 1;; n++) {
		alloc_cnt = 0;
		fail_at = n;
		work(arg);
		fail_at = 0;
		if (alloc_cnt < n)
			break;
		reached = n;
	}
	assert_true(reached > 2);
}

struct native_case {
	struct elf_file *ef;
	uint64_t off;
	size_t found;
};

static void native_work(void *arg)
{
	struct native_case *c = arg;
	struct sym_native *s = sym_native__new(c->ef);
	struct strbuf name = { 0 };
	uint64_t start;

	if (!s) {
		assert_int_equal(errno, ENOMEM);
		return;
	}
	if (sym_native__find(s, c->off, &name, &start)) {
		assert_int_equal(start, c->off);
		if (name.err)
			assert_int_equal(name.err, -ENOMEM);
		else
			assert_string_equal(name.s, "symbolize_me");
		c->found++;
	}
	strbuf__free(&name);
	sym_native__free(s);
}

static void test_native(void **state)
{
	struct native_case c = { 0 };

	(void)state;
	c.ef = open_self(&c.off);
	fail_each(native_work, &c);
	assert_true(c.found > 0);
	elf_file__close(c.ef);
}

static void kernel_work(void *arg)
{
	struct sym_kernel *k = sym_kernel__open(arg);
	const char *name;
	uint64_t offset;

	if (!k) {
		assert_int_equal(errno, ENOMEM);
		return;
	}
	name = sym_kernel__find(k, 0xffffffff81000010, &offset);
	assert_non_null(name);
	assert_string_equal(name, "first");
	sym_kernel__close(k);
}

static void test_kernel(void **state)
{
	static const char text[] = "ffffffff81000000 T first\nffffffff81000100 t second\t[mod]\n";
	char path[] = "/tmp/test_sym_alloc.XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	fail_each(kernel_work, path);
	unlink(path);
}

static struct profile *make_profile(uint64_t off)
{
	struct profile *p = profile__new();
	struct profile_module module = { .file = 3 };
	uint64_t words[] = { NATIVE_WORD(3, off),
			     NATIVE_WORD(4, 1),
			     PYTHON_WORD(1, 0),
			     PYTHON_WORD(2, 0),
			     MARKER_WORD(MARK_NO_UNWIND_INFO, 3),
			     FRAME_WORD(FRAME_ANON, 5) };

	assert_non_null(p);
	module.path = profile__intern_z(p, "/lib/libx.so");
	assert_int_equal(profile__add_module(p, &module), 0);
	assert_int_equal(profile__add_proc(p, &(struct profile_proc){ .space = 1 }), 0);
	assert_int_equal(profile__add_stack(p, 0, 0, words, 6, 1), 0);
	return p;
}

static void symbolize_work(void *arg)
{
	struct native_case *c = arg;
	size_t saved = fail_at;
	struct symbolizer *s;
	struct profile *p;
	const char *name;
	int err;

	fail_at = 0;
	p = make_profile(c->off);
	alloc_cnt = 0;
	fail_at = saved;
	s = symbolizer__new(NULL);
	if (!s) {
		profile__free(p);
		return;
	}
	err = symbolizer__add_file(s, 3, c->ef);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		err = symbolizer__add_file(s, 3, c->ef);
		assert_int_equal(err, 0);
	}
	err = symbolizer__run(s, p, &(struct symbolize_opts){ .lines = true });
	if (err) {
		assert_int_equal(err, -ENOMEM);
		assert_null(p->frame_syms);
		err = symbolizer__run(s, p, &(struct symbolize_opts){ .lines = true });
		assert_int_equal(err, 0);
	}
	assert_non_null(p->frame_syms);
	assert_int_equal(p->sym_cnt, 5); /* the two of Python are one */
	assert_string_equal(profile__str(p, p->syms[p->frame_syms[4]].func),
			    "[no-unwind-info libx.so]");
	name = profile__str(p, p->syms[p->frame_syms[0]].func);
	if (!strcmp(name, "symbolize_me"))
		c->found++;
	else if (*name) /* there was no memory for symbols: it is where it is */
		assert_memory_equal(name, "self+0x", 7);
	symbolizer__free(s);
	profile__free(p);
}

static void test_symbolize(void **state)
{
	struct native_case c = { 0 };

	(void)state;
	c.ef = open_self(&c.off);
	fail_each(symbolize_work, &c);
	assert_true(c.found > 0);
	elf_file__close(c.ef);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_native),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_symbolize),
	};

	log_set_level(LOG_LEVEL_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
