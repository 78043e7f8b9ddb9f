/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The process that has the list is this one. Objects are as wrong as a hostile one makes them. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbolize/jit_list.h"
#include "symbolize/sym_jit.h"

#define SYMBOLS_MAX 1100
#define CODE	    0x7000000000ULL

struct entry {
	struct entry *next, *prev;
	void *addr;
	uint64_t size;
};

static struct {
	uint32_t version, action;
	struct entry *relevant, *first;
} list;

/* An object with one section of code, and symbols of 16 bytes each. */
struct object {
	Elf64_Ehdr eh;
	Elf64_Shdr sections[4]; /* none, code, symbols, strings */
	Elf64_Sym symbols[SYMBOLS_MAX];
	char strings[SYMBOLS_MAX * 32];
};

static struct object object;
static struct jit_objects found;
static struct jit_functions functions;

static void fill(struct object *o, uint32_t cnt, const char *name)
{
	memset(o, 0, sizeof(*o));
	memcpy(o->eh.e_ident, ELFMAG, SELFMAG);
	o->eh.e_ident[EI_CLASS] = ELFCLASS64;
	o->eh.e_ident[EI_DATA] = ELFDATA2LSB;
	o->eh.e_type = ET_REL;
	o->eh.e_shoff = offsetof(struct object, sections);
	o->eh.e_shentsize = sizeof(o->sections[0]);
	o->eh.e_shnum = 4;
	o->sections[1] =
		(Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_flags = SHF_EXECINSTR, .sh_addr = CODE };
	o->sections[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
				       .sh_offset = offsetof(struct object, symbols),
				       .sh_size = cnt * sizeof(Elf64_Sym),
				       .sh_link = 3 };
	o->sections[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
				       .sh_offset = offsetof(struct object, strings),
				       .sh_size = sizeof(o->strings) };
	for (uint32_t i = 0; i < cnt; i++) {
		o->symbols[i] = (Elf64_Sym){ .st_name = i * 32,
					     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					     .st_shndx = 1,
					     .st_value = i * 16,
					     .st_size = 16 };
		snprintf(o->strings + i * 32, 32, "%s%u", name, i);
	}
}

static struct jit_object in_memory(const struct object *o)
{
	return (struct jit_object){ .entry = 1, .addr = (uintptr_t)o, .size = sizeof(*o) };
}

static int ask(uint32_t from)
{
	const struct jit_object o = in_memory(&object);

	return jit_list__functions(NULL, (uint32_t)getpid(), &o, from, &functions);
}

static int ask_list(const struct jit_object *known)
{
	return jit_list__objects(NULL, (uint32_t)getpid(), (uintptr_t)&list, known, &found);
}

/* More than one answer holds. */
static void test_functions(void **state)
{
	uint32_t from = 0, cnt = 0;

	(void)state;
	fill(&object, SYMBOLS_MAX, "f");
	do {
		assert_int_equal(ask(from), 0);
		for (uint32_t i = 0; i < functions.cnt; i++, cnt++) {
			const struct jit_function *f = &functions.functions[i];
			char name[32];

			snprintf(name, sizeof(name), "f%u", cnt);
			assert_int_equal(f->start, CODE + cnt * 16);
			assert_int_equal(f->end, f->start + 16);
			assert_int_equal(f->len, strlen(name));
			assert_memory_equal(functions.names + f->text, name, f->len);
			assert_string_equal((const char *)(uintptr_t)f->name, name);
		}
		from = functions.next;
	} while (from);
	assert_int_equal(cnt, SYMBOLS_MAX);
}

/* Data, functions that lie nowhere, and those without name or size are none. */
static void test_no_functions(void **state)
{
	(void)state;
	fill(&object, 6, "f");
	object.symbols[0].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	object.symbols[1].st_shndx = SHN_UNDEF;
	object.symbols[2].st_shndx = 200;
	object.symbols[3].st_size = 0;
	object.symbols[4].st_name = sizeof(object.strings) + 1;
	object.symbols[5].st_value = UINT64_MAX - CODE - 8; /* its end is beyond the last address */
	assert_int_equal(ask(0), 0);
	assert_int_equal(functions.cnt, 0);
	fill(&object, 1, "f");
	object.sections[1].sh_addr = 0;
	assert_int_equal(ask(0), 0);
	assert_int_equal(functions.cnt, 0);
}

/* Everything that says where something is leads out of the object. */
static void test_hostile_objects(void **state)
{
	struct jit_object o = in_memory(&object);

	(void)state;
	fill(&object, 3, "f");
	object.eh.e_shoff = sizeof(object) - 1;
	assert_int_equal(ask(0), -ENOEXEC);
	object.eh.e_shoff = UINT64_MAX - 8;
	assert_int_equal(ask(0), -ENOEXEC);
	fill(&object, 3, "f");
	object.sections[2].sh_size = UINT64_MAX;
	assert_int_equal(ask(0), 0); /* symbols end where the object does */
	fill(&object, 3, "f");
	object.sections[2].sh_link = 4;
	assert_int_equal(ask(0), 0);
	assert_int_equal(functions.cnt, 0);
	fill(&object, 3, "f");
	object.sections[3].sh_offset = UINT64_MAX - 31;
	object.sections[3].sh_size = UINT64_MAX;
	assert_int_equal(ask(0), 0);
	fill(&object, 1, "f");
	memset(object.strings, 'x', sizeof(object.strings)); /* a name without an end */
	assert_int_equal(ask(0), 0);
	assert_int_equal(functions.cnt, 1);
	assert_int_equal(functions.functions[0].len, JIT_NAME_MAX);
	memset(object.eh.e_ident, 0, 4);
	assert_int_equal(ask(0), -ENOEXEC);
	o.size = UINT64_MAX;
	assert_int_equal(jit_list__functions(NULL, (uint32_t)getpid(), &o, 0, &functions),
			 -ENOEXEC);
	o = (struct jit_object){ .addr = 16, .size = 4096 };
	assert_int_equal(jit_list__functions(NULL, (uint32_t)getpid(), &o, 0, &functions), -EFAULT);
}

static void test_list(void **state)
{
	struct entry first = { .addr = &object, .size = 5 }, second = { .next = &first };
	struct jit_object known = { .entry = (uintptr_t)&first, .addr = (uintptr_t)&object };

	(void)state;
	list.version = 1;
	list.first = &second;
	assert_int_equal(ask_list(NULL), 0);
	assert_int_equal(found.cnt, 2);
	assert_int_equal(found.objects[1].entry, (uintptr_t)&first);
	assert_int_equal(ask_list(&known), 0); /* another size: another object */
	assert_int_equal(found.cnt, 2);
	known.size = 5;
	assert_int_equal(ask_list(&known), 0);
	assert_int_equal(found.cnt, 1);
	first.next = &second;
	assert_int_equal(ask_list(NULL), 0);
	assert_int_equal(found.cnt, JIT_OBJECTS_MAX);
	second.next = (void *)8;
	assert_int_equal(ask_list(NULL), 0);
	assert_int_equal(found.cnt, 1);
	list.version = 2;
	assert_int_equal(ask_list(NULL), 0);
	assert_int_equal(found.cnt, 0);
}

static void expect(struct sym_jit *j, uint64_t addr, const char *name)
{
	sym_jit__begin(j);
	assert_string_equal(sym_jit__name(j, sym_jit__find(j, 1, addr)), name);
}

/* Code that was given back made room for other code, which is listed later. */
static void test_names(void **state)
{
	static struct object later;
	struct entry old = { .addr = &object, .size = sizeof(object) };
	struct entry new = { .addr = &later, .size = sizeof(later), .next = &old };
	struct sym_jit *j = sym_jit__new(NULL);
	int proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	fill(&object, 3, "_ZN1a1fB3abcE");
	fill(&later, 1, "_Z1gv");
	memcpy(later.strings, "_ZN4shop12_3clocals_3e1gB2v1Ev", 31);
	memcpy(object.strings + 32, "_ZN1a1fB3abcEj", 15);
	list.version = 1;
	list.first = &old;
	sym_jit__look(j, 1, (uint32_t)getpid(), proc, OPENED_NONE);
	sym_jit__add_list(j, 1, (uintptr_t)&list);
	sym_jit__add_list(j, 1, (uintptr_t)&list);
	expect(j, CODE + 16, "a::f(unsigned int)");
	list.first = &new;
	expect(j, CODE + 3, "shop::<locals>::g()");
	expect(j, CODE + 31, "a::f(unsigned int)");
	expect(j, CODE + 48, "");
	close(proc);
	sym_jit__free(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),	cmocka_unit_test(test_no_functions),
		cmocka_unit_test(test_hostile_objects), cmocka_unit_test(test_list),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
