/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbolize/symbolize.h"

static struct sym_kernel *open_text(const char *text, size_t len)
{
	char path[] = "/tmp/test_sym_kernel.XXXXXX";
	int fd = mkstemp(path), saved;
	struct sym_kernel *k;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	close(fd);
	errno = 0;
	k = sym_kernel__open(path);
	saved = errno;
	unlink(path);
	errno = saved;
	return k;
}

static struct sym_kernel *open_z(const char *text)
{
	return open_text(text, strlen(text));
}

static void expect(struct sym_kernel *k, uint64_t addr, const char *name, uint64_t offset)
{
	uint64_t got_offset = 0;
	const char *got = sym_kernel__find(k, addr, &got_offset);

	if (!name) {
		if (got)
			fail_msg("%" PRIx64 " is %s", addr, got);
		return;
	}
	if (!got)
		fail_msg("%" PRIx64 " is not %s", addr, name);
	assert_string_equal(got, name);
	assert_int_equal(got_offset, offset);
	assert_ptr_equal(sym_kernel__find(k, addr, NULL), got);
}

static void test_functions(void **state)
{
	/* not in order, as modules are not */
	struct sym_kernel *k = open_z("ffffffff81002000 T vfs_read\n"
				      "ffffffff81001000 t do_read\n"
				      "0000000000000000 A fixed_percpu_data\n"
				      "ffffffff81001800 a not_an_address\n"
				      "ffffffff81002100 W weak_one\n"
				      "ffffffff81002200 w weak_local\n"
				      "ffffffff81002300 R __start_rodata\n"
				      "ffffffff81003000 D init_task\n"
				      "ffffffff81003100 T after_data\n");

	(void)state;
	assert_non_null(k);
	expect(k, 0, NULL, 0);
	expect(k, 0xffffffff81000fff, NULL, 0);
	expect(k, 0xffffffff81001000, "do_read", 0);
	expect(k, 0xffffffff81001fff, "do_read", 0xfff);
	expect(k, 0xffffffff81002000, "vfs_read", 0);
	expect(k, 0xffffffff810021ff, "weak_one", 0xff);
	expect(k, 0xffffffff810022ff, "weak_local", 0xff);
	expect(k, 0xffffffff81002300, NULL, 0); /* data is no function, and ends one */
	expect(k, 0xffffffff81003050, NULL, 0);
	expect(k, 0xffffffff81003100, "after_data", 0);
	expect(k, UINT64_MAX, NULL, 0);
	sym_kernel__close(k);
}

/* The first in the list is the name, as in the kernel's own stack traces. */
static void test_aliases(void **state)
{
	struct sym_kernel *k = open_z("ffffffff81000000 T srso_alias\n"
				      "ffffffff81000000 T _stext\n"
				      "ffffffff81000000 T _text\n"
				      "ffffffff81000100 t __do_sys_getpid\n"
				      "ffffffff81000100 T __x64_sys_getpid\n"
				      "ffffffff81000200 D data_name\n"
				      "ffffffff81000200 T bb\n"
				      "ffffffff81000200 T ba\n"
				      "ffffffff81000200 T a\n"
				      "ffffffff81000200 T b\n"
				      "ffffffff81000400 t $x\n"
				      "ffffffff81000400 t .Llabel\n"
				      "ffffffffc0001100 t first\t[mod]\n"
				      "ffffffffc0001000 t other\t[mod]\n"
				      "ffffffffc0001100 t a_second\t[mod]\n");

	(void)state;
	assert_non_null(k);
	expect(k, 0xffffffff81000010, "srso_alias", 0x10);
	expect(k, 0xffffffff81000110, "__do_sys_getpid", 0x10);
	expect(k, 0xffffffff81000210, "bb", 0x10);
	expect(k, 0xffffffff81000410, NULL, 0);
	expect(k, 0xffffffffc0001110, "first [mod]", 0x10);
	sym_kernel__close(k);
}

static void test_modules(void **state)
{
	struct sym_kernel *k = open_z("ffffffff81000000 T last_of_kernel\n"
				      "ffffffffc0001000 t nf_first\t[nf_tables]\n"
				      "ffffffffc0001100 t nf_last\t[nf_tables]\n"
				      "ffffffffc0100000 t other\t[other_mod]\n"
				      "ffffffffc0100800 t bpf_prog_12_x\t[bpf]\n");

	(void)state;
	assert_non_null(k);
	expect(k, 0xffffffffc0001080, "nf_first [nf_tables]", 0x80);
	expect(k, 0xffffffffc0001100, "nf_last [nf_tables]", 0);
	/* Up to the page behind its own: what follows may be code without a name. */
	expect(k, 0xffffffffc0002fff, "nf_last [nf_tables]", 0x1eff);
	expect(k, 0xffffffffc0003000, NULL, 0);
	expect(k, 0xffffffff81001fff, "last_of_kernel", 0x1fff);
	expect(k, 0xffffffff81002000, NULL, 0);
	expect(k, 0xffffffffc0100810, "bpf_prog_12_x [bpf]", 0x10);
	expect(k, 0xffffffffc0200000, NULL, 0);
	sym_kernel__close(k);
}

/* Names that end alike are stored once. */
static void test_padding(void **state)
{
	struct sym_kernel *k = open_z("ffffffff81000ff0 t __pfx_read\n"
				      "ffffffff81001000 t read\n"
				      "ffffffff81001100 t ad\n"
				      "ffffffff81001200 t d\n"
				      "ffffffff81001300 t read\n"
				      "ffffffff81001400 t __pfx_read\t[mod]\n"
				      "ffffffff81001500 t read\t[mod]\n"
				      "ffffffff81001600 t read\n"
				      "ffffffff81001700 t bread\n");

	(void)state;
	assert_non_null(k);
	expect(k, 0xffffffff81000ff0, "__pfx_read", 0);
	expect(k, 0xffffffff81001000, "read", 0);
	expect(k, 0xffffffff81001100, "ad", 0);
	expect(k, 0xffffffff81001200, "d", 0);
	expect(k, 0xffffffff81001300, "read", 0);
	expect(k, 0xffffffff81001400, "__pfx_read [mod]", 0);
	expect(k, 0xffffffff81001500, "read [mod]", 0);
	expect(k, 0xffffffff81001600, "read", 0);
	expect(k, 0xffffffff81001700, "bread", 0);
	sym_kernel__close(k);
}

static void test_hidden_addresses(void **state)
{
	(void)state;
	assert_null(open_z("0000000000000000 T vfs_read\n0000000000000000 t do_read\n"
			   "0000000000000000 d data\n"));
	assert_int_equal(errno, EPERM);
	assert_null(open_z(""));
	assert_int_equal(errno, ENODATA);
	assert_null(open_z("ffffffff81000000 D data\n"));
	assert_int_equal(errno, ENODATA);
	assert_null(sym_kernel__open("/nonexistent/kallsyms"));
	assert_int_equal(errno, ENOENT);
	sym_kernel__close(NULL);
}

static void test_nonsense_is_skipped(void **state)
{
	static const char text[] = "ffffffff81000000 T good\n"
				   "\n"
				   "T\n"
				   "ffffffff81000100\n"
				   "ffffffff81000100 T\n"
				   "ffffffff81000100 T \n"
				   "fffffffff81000100 T seventeen_digits\n"
				   "ffffffff810001@0 T not_hex\n"
				   " ffffffff81000100 T indented\n"
				   "ffffffff81000100 T open\t[mod\n"
				   "ffffffff81000100 T two words\n"
				   "ffffffff81000100 T nul\0inside\n"
				   "ffffffff81000100 \0 type\n"
				   "FFFFFFFF81000200 T capitals\n"
				   "ffffffff81000300 T cut";
	struct sym_kernel *k = open_text(text, sizeof(text) - 1);

	(void)state;
	assert_non_null(k);
	expect(k, 0xffffffff810001ff, "good", 0x1ff);
	expect(k, 0xffffffff81000300, "capitals", 0x100); /* the last line has no end */
	sym_kernel__close(k);
}

static void test_overlong_line(void **state)
{
	struct strbuf b = { 0 };
	struct sym_kernel *k;

	(void)state;
	strbuf__addz(&b, "ffffffff81000000 T before\nffffffff81000100 T ");
	/*
	 * Where the reader's buffer is full stands what looks like a line, but is the rest of one.
	 */
	while (b.len < strlen("ffffffff81000000 T before\n") + 65536)
		strbuf__addc(&b, 'x');
	strbuf__addz(&b, "ffffffff81000200 T inside\nffffffff81000300 T behind\n");
	k = open_text(b.s, b.len);
	assert_non_null(k);
	expect(k, 0xffffffff81000250, "before", 0x250);
	expect(k, 0xffffffff81000300, "behind", 0);
	sym_kernel__close(k);
	strbuf__free(&b);
}

/* Lines that straddle the reader's buffer, in reverse order. */
static void test_many(void **state)
{
	struct strbuf b = { 0 };
	struct sym_kernel *k;
	char name[32];

	(void)state;
	for (int i = 20000; i-- > 0;)
		strbuf__addf(&b, "%016" PRIx64 " t function_%d\n",
			     0xffffffff81000000 + (uint64_t)i * 16, i);
	assert_int_equal(b.err, 0);
	k = open_text(b.s, b.len);
	assert_non_null(k);
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "function_%d", i);
		expect(k, 0xffffffff81000000 + (uint64_t)i * 16 + 15, name, 15);
	}
	sym_kernel__close(k);
	strbuf__free(&b);
}

static void read_kallsyms(struct strbuf *b)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	char part[4096];
	size_t len;

	assert_non_null(f);
	while ((len = fread(part, 1, sizeof(part), f)))
		strbuf__add(b, part, len);
	fclose(f);
	assert_int_equal(b->err, 0);
}

static void expect_start(struct sym_kernel *k, uint64_t addr, const char *name)
{
	uint64_t offset = 0;
	const char *got = sym_kernel__find(k, addr, &offset);

	if (!got || offset)
		fail_msg("%s at %" PRIx64 " is %s", name, addr, got ? got : "nothing");
}

/*
 * Every text symbol of the running kernel comes back as itself or as another one of its address.
 * BPF programs and modules come and go meanwhile, and a program can go and come back at its old
 * address: those are asked of a copy of the list, and only the kernel's own, which stay, of the
 * list itself.
 */
static void test_running_kernel(void **state)
{
	struct strbuf list = { 0 };
	uint64_t addr, offset, last = 0;
	struct sym_kernel *k, *copy;
	char type, name[1024];
	size_t checked = 0;

	(void)state;
	read_kallsyms(&list);
	k = sym_kernel__open(NULL);
	if (!k) {
		print_message("skipped: /proc/kallsyms: %s\n", strerror(errno));
		skip();
	}
	copy = open_text(list.s, list.len);
	assert_non_null(copy);
	for (char *line = strtok(list.s, "\n"); line; line = strtok(NULL, "\n")) {
		bool own = !strstr(line, "\t[");

		if (sscanf(line, "%" SCNx64 " %c %1023s", &addr, &type, name) != 3 ||
		    !strchr("tTwW", type) || name[0] == '$' || name[0] == '.')
			continue;
		expect_start(copy, addr, name);
		if (own)
			expect_start(k, addr, name);
		if (addr != last && own && strchr(sym_kernel__find(copy, addr, &offset), '['))
			fail_msg("%s is no function of a module", name);
		last = addr;
		checked++;
	}
	assert_true(checked > 1000);
	sym_kernel__close(copy);
	sym_kernel__close(k);
	strbuf__free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),	 cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_modules),		 cmocka_unit_test(test_padding),
		cmocka_unit_test(test_hidden_addresses), cmocka_unit_test(test_nonsense_is_skipped),
		cmocka_unit_test(test_overlong_line),	 cmocka_unit_test(test_many),
		cmocka_unit_test(test_running_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
