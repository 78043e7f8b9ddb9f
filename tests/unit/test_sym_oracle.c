/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names of addresses all over real libraries, by libdw's dwfl_module_addrinfo() and by us: the
 * same, or different for one of the reasons below.
 */
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbolize/sym_tables.h"
#include "symbolize/symbolize.h"

#define ADDRESSES 3000

enum outcome {
	SAME,
	BOTH_NONE,
	ALIAS, /* another name of the same start: sym_alias.h */
	PLT,   /* a stub, named after its relocation: libdw knows none of these */
	/* libdw's symbol ends before the address, or is of size 0 in a section before: a guess */
	PAST_END,
	NESTED,	   /* both symbols hold the address; ours is the inner one */
	NO_TEXT,   /* libdw's symbol is data, or a section */
	VERSIONED, /* libdw's name has a version */
	TABLE,	   /* sym_tables.h has it, no symbol does */
	OTHER,
	OUTCOMES,
};

static const char *const names[] = { "same",	     "both none", "alias",    "plt",
				     "past its end", "nested",	  "not code", "versioned",
				     "by a table",   "other" };

struct oracle {
	Dwfl *dwfl;
	Dwfl_Module *mod;
	GElf_Addr bias;
};

/* Not by the network, whatever the environment says. */
static int find_debuginfo(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **out)
{
	return dwfl_build_id_find_debuginfo(mod, data, name, base, file, link, crc, out);
}

static bool oracle_open(struct oracle *o, const char *path)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_build_id_find_elf,
		.section_address = dwfl_offline_section_address,
		.find_debuginfo = find_debuginfo,
	};

	o->dwfl = dwfl_begin(&callbacks);
	assert_non_null(o->dwfl);
	o->mod = dwfl_report_offline(o->dwfl, path, path, -1);
	dwfl_report_end(o->dwfl, NULL, NULL);
	return o->mod && dwfl_module_getelf(o->mod, &o->bias);
}

static enum outcome judge(const struct oracle *o, const char *ours, uint64_t start, uint64_t addr)
{
	GElf_Off into = 0;
	GElf_Sym sym = { 0 };
	GElf_Word shndx;
	const char *theirs =
		dwfl_module_addrinfo(o->mod, addr + o->bias, &into, &sym, &shndx, NULL, NULL);
	size_t len = ours ? strlen(ours) : 0;
	uint64_t theirs_start = addr - into;
	struct strbuf plain = { 0 };
	bool same;

	if (!theirs)
		return !ours ? BOTH_NONE : strstr(ours, "@plt") ? PLT : OTHER;
	sym_demangle(&plain, theirs);
	same = ours && !strcmp(ours, plain.s);
	strbuf__free(&plain);
	if (same)
		return SAME;
	if (ours && !strncmp(ours, theirs, len) && theirs[len] == '@')
		return VERSIONED;
	if (ours && len > 4 && !strcmp(ours + len - 4, "@plt"))
		return PLT;
	if (into >= sym.st_size)
		return PAST_END;
	if (GELF_ST_TYPE(sym.st_info) == STT_OBJECT || GELF_ST_TYPE(sym.st_info) == STT_SECTION)
		return NO_TEXT;
	if (ours && start == theirs_start)
		return ALIAS;
	if (ours && start > theirs_start)
		return NESTED;
	return OTHER;
}

/* Names from CPython's tables, of which libdw knows nothing: test_tables.py checks them. */
static bool in_tables(const struct sym_tables *t, uint64_t start, const char *name)
{
	for (size_t i = 0; i < t->cnt; i++)
		if (t->v[i].addr == start)
			return !strcmp(t->names + t->v[i].name, name);
	return false;
}

static struct sym_tables read_tables(const struct elf_file *ef)
{
	struct fde_range *ranges = NULL;
	struct sym_tables t = { 0 };
	size_t cnt = 0;

	if (!elf_file__has(ef, ".symtab") && !ehframe__ranges(ef, &ranges, &cnt))
		assert_int_equal(sym_tables__read(ef, ranges, cnt, &t), 0);
	free(ranges);
	return t;
}

/* False: not a file of this machine, but one of its 32-bit libraries, or a script. */
static bool compare(const char *path)
{
	struct elf_file *ef = elf_file__open(open(path, O_RDONLY | O_CLOEXEC), path);
	size_t cnt[OUTCOMES] = { 0 }, shown = 0;
	struct strbuf name = { 0 };
	uint64_t first, limit, addr, start, off;
	struct sym_tables tables;
	struct sym_native *s;
	struct oracle o;

	if (!ef)
		return false;
	tables = read_tables(ef);
	s = sym_native__new(ef);
	assert_non_null(s);
	assert_true(oracle_open(&o, path));
	assert_true(elf_file__text(ef, &first, &limit));
	srand(1);
	for (size_t i = 0; i < ADDRESSES; i++) {
		bool found;
		enum outcome what;

		off = first + ((uint64_t)rand() << 15 ^ (uint64_t)rand()) % (limit - first);
		if (!elf_file__off_to_addr(ef, off, &addr))
			continue;
		strbuf__clear(&name);
		found = sym_native__find(s, off, &name, &off);
		if (found)
			assert_true(elf_file__off_to_addr(ef, off, &start));
		what = judge(&o, found ? name.s : NULL, found ? start : 0, addr);
		if (what == OTHER && found && in_tables(&tables, start, name.s))
			what = TABLE;
		cnt[what]++;
		if (what == OTHER && shown++ < 5)
			printf("  %lx: %s, not %s\n", addr, found ? name.s : "none",
			       dwfl_module_addrname(o.mod, addr + o.bias));
	}
	printf("%s:", path);
	for (size_t i = 0; i < OUTCOMES; i++)
		if (cnt[i])
			printf(" %zu %s,", cnt[i], names[i]);
	printf("\n");
	strbuf__free(&name);
	sym_native__free(s);
	sym_tables__free(&tables);
	elf_file__close(ef);
	dwfl_end(o.dwfl);
	assert_int_equal(cnt[OTHER], 0);
	assert_true(cnt[SAME] + cnt[ALIAS] > 0);
	return true;
}

static void test_libraries(void **state)
{
	static const char *const patterns[] = {
		"/usr/lib*/libc.so.6",		"/usr/lib/*/libc.so.6",
		"/usr/lib*/libcrypto.so.3",	"/usr/lib/*/libcrypto.so.3",
		"/usr/lib*/libstdc++.so.6",	"/usr/lib/*/libstdc++.so.6",
		"/usr/lib*/libpython3*.so.1.0", "/usr/bin/python3.[0-9]*[0-9]"
	};
	size_t files = 0;
	glob_t g;

	(void)state;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		if (glob(patterns[i], 0, NULL, &g))
			continue;
		for (size_t j = 0; j < g.gl_pathc; j++)
			files += compare(g.gl_pathv[j]);
		globfree(&g);
	}
	assert_true(files >= 2);
}

/* Of the many names that libc has for a function, the one that people call. */
static void test_names_of_libc(void **state)
{
	static const char *const wanted[] = { "malloc",		"free",	  "calloc",
					      "read",		"write",  "open",
					      "fopen",		"printf", "strtol",
					      "pthread_create", "poll",	  "mmap",
					      "qsort",		"getpid", "pthread_mutex_lock" };
	char path[512] = "";
	struct elf_file *ef;
	struct sym_native *s;
	struct strbuf name = { 0 };
	struct elf_symbol sym;
	uint64_t off;
	FILE *maps = fopen("/proc/self/maps", "r");

	(void)state;
	assert_non_null(maps);
	while (!strstr(path, "/libc.so.6") &&
	       fscanf(maps, "%*s %*s %*s %*s %*s%*[ ]%511[^\n]", path) >= 0)
		;
	fclose(maps);
	if (!strstr(path, "/libc.so.6")) {
		printf("skip: not glibc\n");
		skip();
	}
	ef = elf_file__open(open(path, O_RDONLY | O_CLOEXEC), path);
	assert_non_null(ef);
	s = sym_native__new(ef);
	assert_non_null(s);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		assert_true(elf_file__symbol(ef, wanted[i], &sym));
		assert_true(elf_file__addr_to_off(ef, sym.addr, &off));
		strbuf__clear(&name);
		assert_true(sym_native__find(s, off, &name, NULL));
		assert_string_equal(name.s, wanted[i]);
	}
	strbuf__free(&name);
	sym_native__free(s);
	elf_file__close(ef);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_names_of_libc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
