/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a process runs in which there is no CPython to be walked (unsupported.h), by files made for
 * it and mapped here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/unsupported.h"

#define MIB    (1 << 20)
/* Written with '-' for '_', because this program is a file of its process, too. */
#define EVAL   "-PyEval-EvalFrameDefault"
#define EVAL27 "PyEval-EvalFrameEx"

struct made {
	char path[64];
	int fd;
	void *at;
};

/* An ELF file whose last bytes are `name` and its NUL, at `offset`; big-endian if `big`. */
static struct made make(int class, bool big, uint16_t machine, const char *name, off_t offset)
{
	unsigned char head[sizeof(Elf64_Ehdr)] = { 0x7f, 'E', 'L', 'F', (unsigned char)class };
	const size_t at = offsetof(Elf32_Ehdr, e_machine);
	struct made m = { .path = "/tmp/pyperf-unsupported-XXXXXX" };
	char text[64];
	size_t len;

	head[EI_DATA] = big ? ELFDATA2MSB : ELFDATA2LSB;
	head[at + !big] = (unsigned char)(machine >> 8);
	head[at + big] = (unsigned char)machine;
	m.fd = mkstemp(m.path);
	assert_true(m.fd >= 0);
	assert_int_equal(write(m.fd, head, sizeof(head)), sizeof(head));
	len = (size_t)snprintf(text, sizeof(text), "%s", name) + 1;
	for (size_t i = 0; i < len; i++)
		text[i] = text[i] == '-' ? '_' : text[i];
	assert_int_equal(pwrite(m.fd, text, len, offset), len);
	m.at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, m.fd, 0);
	assert_true(m.at != MAP_FAILED);
	return m;
}

static void drop(struct made *m)
{
	munmap(m->at, 4096);
	close(m->fd);
	unlink(m->path);
}

static struct file_traits traits_of(int class, bool big, uint16_t machine, const char *name,
				    off_t offset)
{
	struct made m = make(class, big, machine, name, offset);
	struct file_traits t;

	assert_int_equal(unsupported__read(m.fd, &t), 0);
	drop(&m);
	return t;
}

static void files_are_told_apart(void **state)
{
	struct file_traits t = traits_of(ELFCLASS32, false, EM_386, EVAL, 5000);

	(void)state;
	assert_true(t.is_32_bit && t.cpython && !t.pypy && !t.qemu);
	assert_int_equal(t.machine, EM_386);
	t = traits_of(ELFCLASS64, true, EM_S390, EVAL27, 5000);
	assert_true(!t.is_32_bit && t.cpython);
	assert_int_equal(t.machine, EM_S390);
	t = traits_of(ELFCLASS64, false, EM_X86_64, "pypy-setup-home", 5000);
	assert_true(t.pypy && !t.cpython);
	t = traits_of(ELFCLASS64, false, EM_X86_64, "QEMU-LD-PREFIX", 5000);
	assert_true(t.qemu && !t.cpython);
}

/* Names are whole; they may lie across what is read at once. */
static void names_are_found_wherever_they_are(void **state)
{
	(void)state;
	assert_false(traits_of(ELFCLASS64, false, EM_X86_64, EVAL "x", 5000).cpython);
	assert_false(traits_of(ELFCLASS64, false, EM_X86_64, "-PyEval-", 5000).cpython);
	for (int back = 0; back < 40; back++)
		assert_true(traits_of(ELFCLASS64, false, EM_X86_64, EVAL, MIB - back).cpython);
}

static void what_is_no_elf_file_tells_nothing(void **state)
{
	struct made m = make(ELFCLASS32, false, EM_386, EVAL, 100);
	struct file_traits t;

	(void)state;
	assert_int_equal(pwrite(m.fd, "#!", 2, 0), 2);
	assert_int_equal(unsupported__read(m.fd, &t), 0);
	assert_true(!t.machine && !t.cpython);
	assert_int_equal(ftruncate(m.fd, 0), 0);
	assert_int_equal(unsupported__read(m.fd, &t), 0);
	assert_int_equal(t.machine, 0);
	drop(&m);
	assert_true(unsupported__read(-1, &t) < 0);
}

static void expect(const char *begin, const struct made *named)
{
	char why[UNSUPPORTED_LEN];

	assert_true(unsupported__explain(NULL, getpid(), why));
	if (strncmp(why, begin, strlen(begin)) || !strstr(why, named->path) ||
	    !strstr(why, "not supported"))
		fail_msg("'%s' is not '%s' of %s", why, begin, named->path);
}

/* This process has them mapped, and nothing else of the kind. */
static void processes_are_explained(void **state)
{
	struct made python32, pypy, qemu, guest;
	char why[UNSUPPORTED_LEN];

	(void)state;
	assert_false(unsupported__explain(NULL, getpid(), why));
	assert_false(unsupported__explain(NULL, 0, why));
	python32 = make(ELFCLASS32, false, EM_386, EVAL, 5000);
	expect("32-bit CPython (", &python32);
	drop(&python32);
	pypy = make(ELFCLASS64, false, EM_X86_64, "pypy-setup-home", 5000);
	expect("PyPy (", &pypy);
	drop(&pypy);
	qemu = make(ELFCLASS64, false, EM_X86_64, "QEMU-LD-PREFIX", 5000);
	assert_false(unsupported__explain(NULL, getpid(), why));
	guest = make(ELFCLASS64, false, EM_RISCV, "libc", 5000);
	expect("a program for riscv (", &guest);
	drop(&guest);
	guest = make(ELFCLASS64, false, EM_RISCV, EVAL, 5000);
	expect("CPython for riscv (", &guest);
	drop(&guest);
	drop(&qemu);
	assert_false(unsupported__explain(NULL, getpid(), why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_told_apart),
		cmocka_unit_test(names_are_found_wherever_they_are),
		cmocka_unit_test(what_is_no_elf_file_tells_nothing),
		cmocka_unit_test(processes_are_explained),
	};

	return cmocka_run_group_tests_name("unsupported", tests, NULL, NULL);
}
