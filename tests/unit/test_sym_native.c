/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Truth is what nm and objdump say about files that gcc, strip, objcopy and xz make here, and about
 * the libraries that this program has loaded.
 */
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
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbolize/symbolize.h"

#define SKIP 77

static char dir[] = "/tmp/test_sym_native.XXXXXX";

#include "unit/tools.h"

/* ---- What nm says ---- */

struct truth {
	uint64_t addr, size;
	char type; /* of nm */
	char name[1024];
};

struct truths {
	struct truth *v;
	size_t cnt, cap;
};

static bool is_text(char type)
{
	return strchr("tTwWi", type);
}

static void parse_nm(FILE *f, struct truths *t)
{
	char line[2048];

	while (fgets(line, sizeof(line), f)) {
		struct truth one = { 0 };
		char *version;

		if (sscanf(line, "%lx %lx %c %1023s", &one.addr, &one.size, &one.type, one.name) !=
			    4 &&
		    (one.size = 0,
		     sscanf(line, "%lx %c %1023s", &one.addr, &one.type, one.name) != 3))
			continue;
		version = strchr(one.name, '@');
		if (version)
			*version = '\0';
		if (t->cnt == t->cap) {
			t->cap = t->cap ? t->cap * 2 : 64;
			t->v = realloc(t->v, t->cap * sizeof(one));
			assert_non_null(t->v);
		}
		t->v[t->cnt++] = one;
	}
}

static struct truths nm(const char *options, const char *path)
{
	struct truths t = { 0 };
	char cmd[512];
	FILE *f;

	snprintf(cmd, sizeof(cmd), "cd %s && nm -S --defined-only %s %s", dir, options, path);
	f = popen(cmd, "r");
	assert_non_null(f);
	parse_nm(f, &t);
	assert_int_equal(pclose(f), 0);
	assert_true(t.cnt > 0);
	return t;
}

static const struct truth *named(const struct truths *t, const char *name)
{
	for (size_t i = 0; i < t->cnt; i++)
		if (!strcmp(t->v[i].name, name))
			return &t->v[i];
	fail_msg("nm does not know %s", name);
	return NULL;
}

/* ---- What sym_native says ---- */

struct subject {
	struct elf_file *ef;
	struct sym_native *s;
	struct strbuf name;
	uint64_t start; /* link address */
};

static struct subject subject_open(const char *name)
{
	struct subject sub = { 0 };
	static struct sym_debugfile_places places = { .offered = { .fd = -1 } };
	static char root[512];
	char path[512];

	snprintf(path, sizeof(path), "%s%s%s", name[0] == '/' ? "" : dir, name[0] == '/' ? "" : "/",
		 name);
	snprintf(root, sizeof(root), "%s/root", dir);
	sub.ef = elf_file__open(open(path, O_RDONLY | O_CLOEXEC), path);
	assert_non_null(sub.ef);
	sub.s = sym_native__new(sub.ef);
	assert_non_null(sub.s);
	places.root = root;
	sym_native__set_places(sub.s, &places);
	return sub;
}

static void subject_close(struct subject *sub)
{
	strbuf__free(&sub->name);
	sym_native__free(sub->s);
	elf_file__close(sub->ef);
}

/* The name at a link address, or NULL. */
static const char *ask(struct subject *sub, uint64_t addr)
{
	uint64_t off, start;

	strbuf__clear(&sub->name);
	if (!elf_file__addr_to_off(sub->ef, addr, &off) ||
	    !sym_native__find(sub->s, off, &sub->name, &start))
		return NULL;
	assert_int_equal(sub->name.err, 0);
	assert_true(start <= off);
	assert_true(elf_file__off_to_addr(sub->ef, start, &sub->start));
	return sub->name.s;
}

/* Parts and copies of a function have its name. */
static bool is_called(const char *mangled, const char *shown)
{
	static const char *const made[] = { ".part.", ".constprop.", ".isra.", ".cold" };
	char name[sizeof(((struct truth *)NULL)->name)];
	struct strbuf b = { 0 };
	bool equal;

	strcpy(name, mangled);
	for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++)
		if (strstr(name + 1, made[i]))
			*strstr(name + 1, made[i]) = '\0';
	sym_demangle(&b, name);
	equal = !strcmp(b.s, shown);
	strbuf__free(&b);
	return equal;
}

/* Is `name` one of the symbols at `addr`? */
static bool is_alias(const struct truths *t, uint64_t addr, const char *name)
{
	for (size_t i = 0; i < t->cnt; i++)
		if (t->v[i].addr == addr && is_text(t->v[i].type) && is_called(t->v[i].name, name))
			return true;
	return false;
}

/* First and last byte of every sized function of `t` have its name, or another of the same. */
static void check_functions(const char *file, const struct truths *t, const char *types)
{
	struct subject sub = subject_open(file);
	uint64_t start, limit, off;
	size_t checked = 0;

	assert_true(elf_file__text(sub.ef, &start, &limit));
	for (size_t i = 0; i < t->cnt; i++) {
		const struct truth *want = &t->v[i];

		/* nm says W of weak thread-local variables too */
		if (!strchr(types, want->type) || !want->size ||
		    !elf_file__addr_to_off(sub.ef, want->addr, &off) || off < start || off >= limit)
			continue;
		if (!ask(&sub, want->addr) || sub.start != want->addr ||
		    !is_alias(t, want->addr, sub.name.s))
			fail_msg("%s: %s at %lx is %s", file, want->name, want->addr, sub.name.s);
		if (!ask(&sub, want->addr + want->size - 1) && strcmp(want->name, "too_long") != 0)
			fail_msg("%s: end of %s has no name", file, want->name);
		checked++;
	}
	assert_true(checked > 0);
	subject_close(&sub);
}

/* ---- The sample ---- */

static const char sample_c[] =
	"#include <stdio.h>\n"
	"#include <stdlib.h>\n"
	"static __attribute__((noinline)) int hidden(int x) { return x * rand() + 1; }\n"
	"int shown(int x) { return hidden(x) + hidden(x + 1); }\n"
	"int __sh(int x) __attribute__((alias(\"shown\")));\n"
	"int weak_one(int x) __attribute__((weak, alias(\"shown\")));\n"
	"__attribute__((noinline)) int cold_c(int) __asm__(\"chilly.cold\");\n"
	"int cold_c(int x) { return x + rand(); }\n"
	"__attribute__((noinline)) int cold_cpp(int) __asm__(\"_ZN4deep3runEi.part.0.cold\");\n"
	"int cold_cpp(int x) { return x - rand(); }\n"
	"__attribute__((section(\".text.other\"))) int elsewhere(int x) { return x + 3; }\n"
	/* in sections of their own: nothing is to reach beyond the end */
	"__asm__(\".pushsection .sized,\\\"ax\\\",@progbits\\n\"\n"
	"        \".globl bare_first\\nbare_first: .zero 8, 0xcc\\n\"\n"
	"        \".type bare_func,@function\\nbare_func: .zero 8, 0xcc\\n\"\n"
	"        \".globl outer\\n.type outer,@function\\nouter: .zero 8, 0xcc\\n\"\n"
	"        \".globl inner\\n.type inner,@function\\ninner: .zero 8, 0xcc\\n.size inner, "
	"8\\n\"\n"
	"        \"label_inside: .zero 8, 0xcc\\n.size outer, . - outer\\n\"\n"
	"        \".zero 16, 0xcc\\n\"\n"
	"        \".globl bare_last\\nbare_last: .zero 24, 0xcc\\n\"\n"
	"        \".popsection\\n\"\n"
	"        \".pushsection .long,\\\"ax\\\",@progbits\\n.globl too_long\\n\"\n"
	"        \".type too_long,@function\\ntoo_long: .zero 32, 0xcc\\n\"\n"
	"        \".size too_long, 4096\\n.popsection\\n\"\n"
	"        \".pushsection .unnamed,\\\"ax\\\",@progbits\\n.zero 64, "
	"0xcc\\n.popsection\\n\");\n";

static const char sample_cc[] =
	"#include <string>\n"
	"namespace deep { struct Box { int v; Box(int); ~Box(); int open(const std::string &) "
	"const; };\n"
	"Box::Box(int x) : v(x) {} Box::~Box() { v = 0; }\n"
	"int Box::open(const std::string &s) const { return v + (int)s.size(); }\n"
	"template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }\n"
	"template int twice<int>(int); template double twice<double>(double); }\n";

static int build_sample(const char *out, const char *options)
{
	return try_sh("gcc -O2 -g -fPIC -freorder-blocks-and-partition -c sample.c -o c.o &&"
		      " g++ -O2 -g -fPIC -c sample.cc -o cc.o &&"
		      " g++ -shared %s c.o cc.o -o %s",
		      options, out);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	write_file("sample.c", sample_c);
	write_file("sample.cc", sample_cc);
	sh("mkdir -p root other/.debug");
	return build_sample("whole.so", "-Wl,--build-id=sha1");
}

/* ---- .symtab ---- */

static void test_every_function(void **state)
{
	struct truths t = nm("", "whole.so");

	(void)state;
	check_functions("whole.so", &t, "tTwWi");
	free(t.v);
}

/* Innermost: of the sized symbols that cover the address, those that start last. */
static uint64_t innermost(const struct truths *t, uint64_t addr)
{
	uint64_t best = 0;

	for (size_t i = 0; i < t->cnt; i++)
		if (is_text(t->v[i].type) && t->v[i].addr <= addr &&
		    addr - t->v[i].addr < t->v[i].size && t->v[i].addr > best)
			best = t->v[i].addr;
	return best;
}

/* Every byte of .text, covered or not. */
static void test_every_byte(void **state)
{
	struct truths t = nm("", "whole.so");
	struct subject sub = subject_open("whole.so");
	size_t named_cnt = 0, bare_cnt = 0;
	struct elf_section text;

	(void)state;
	assert_true(elf_file__section_info(sub.ef, ".text", &text));
	for (uint64_t addr = text.addr; addr < text.addr + text.size; addr++) {
		uint64_t start = innermost(&t, addr);
		const char *name = ask(&sub, addr);

		if (start) {
			assert_non_null(name);
			assert_int_equal(sub.start, start);
			assert_true(is_alias(&t, start, name));
			named_cnt++;
		} else if (name) {
			/* only a symbol without a size may say so, and crtstuff's have none */
			assert_true(is_alias(&t, sub.start, name));
			bare_cnt++;
		}
	}
	assert_true(named_cnt > 50);
	assert_true(bare_cnt > 0);
	subject_close(&sub);
	free(t.v);
}

static void expect(struct subject *sub, uint64_t addr, const char *name, uint64_t start)
{
	const char *got = ask(sub, addr);

	if (!name) {
		assert_null(got);
		return;
	}
	assert_non_null(got);
	assert_string_equal(got, name);
	assert_int_equal(sub->start, start);
}

static void test_sizes_and_sections(void **state)
{
	struct truths t = nm("", "whole.so");
	struct subject sub = subject_open("whole.so");
	uint64_t first = named(&t, "bare_first")->addr, func = first + 8, outer = first + 16;
	uint64_t last = named(&t, "bare_last")->addr, longer = named(&t, "too_long")->addr;
	struct elf_section sized, unnamed;

	(void)state;
	assert_true(elf_file__section_info(sub.ef, ".sized", &sized));
	assert_true(elf_file__section_info(sub.ef, ".unnamed", &unnamed));
	expect(&sub, first, "bare_first", first); /* up to the next symbol */
	expect(&sub, first + 7, "bare_first", first);
	expect(&sub, func, "bare_func", func);
	expect(&sub, func + 7, "bare_func", func);
	expect(&sub, outer + 7, "outer", outer);
	expect(&sub, outer + 8, "inner", outer + 8);
	expect(&sub, outer + 15, "inner", outer + 8);
	expect(&sub, outer + 16, "outer", outer); /* the label does not split it */
	expect(&sub, outer + 23, "outer", outer);
	expect(&sub, outer + 24, NULL, 0); /* not beyond the size */
	expect(&sub, last - 1, NULL, 0);
	expect(&sub, last, "bare_last", last); /* up to the end of the section */
	expect(&sub, sized.addr + sized.size - 1, "bare_last", last);
	expect(&sub, longer + 31, "too_long", longer);
	assert_true(unnamed.addr >= longer + 32 && unnamed.addr < longer + 4096);
	for (uint64_t addr = unnamed.addr; addr < unnamed.addr + unnamed.size; addr++)
		expect(&sub, addr, NULL, 0);
	subject_close(&sub);
	free(t.v);
}

/* A table may say that functions are in each other as deep as it likes: no look-up takes longer. */
static void test_nested(void **state)
{
	const int depth = 1000;
	struct strbuf source = { 0 };
	struct subject sub;
	struct truths t;
	uint64_t base;

	(void)state;
	strbuf__addf(&source, ".text\n.globl base\nbase: .zero %d, 0xcc\n", 2 * depth);
	for (int i = 0; i < depth; i++)
		strbuf__addf(&source, ".type n%d,@function\n.set n%d, base+%d\n.size n%d, %d\n", i,
			     i, i, i, 2 * (depth - i));
	write_file("nested.s", source.s);
	sh("gcc -shared -nostdlib -o nested.so nested.s");
	t = nm("", "nested.so");
	base = named(&t, "base")->addr;
	sub = subject_open("nested.so");
	expect(&sub, base + 3, "n3", base + 3);
	expect(&sub, base + 1000, "n999", base + 999);
	expect(&sub, base + 1011, "n988", base + 988);
	expect(&sub, base + 1999, NULL, 0);
	subject_close(&sub);
	strbuf__free(&source);
	free(t.v);
}

static void test_aliases(void **state)
{
	struct truths t = nm("", "whole.so");
	struct subject sub = subject_open("whole.so");
	const struct truth *shown = named(&t, "shown"), *cold = named(&t, "chilly.cold");
	const struct truth *cpp = named(&t, "_ZN4deep3runEi.part.0.cold");

	(void)state;
	/* also __sh and weak_one: sym_alias.h */
	expect(&sub, shown->addr, "shown", shown->addr);
	expect(&sub, named(&t, "_ZN4deep3BoxC1Ei")->addr, "deep::Box::Box(int)",
	       named(&t, "_ZN4deep3BoxC2Ei")->addr);
	expect(&sub, cold->addr, "chilly", cold->addr);
	expect(&sub, cpp->addr, "deep::run(int)", cpp->addr);
	subject_close(&sub);
	free(t.v);
}

/* A name of Cython that has two readings: the file tells which. */
static void test_cython_peers(void **state)
{
	struct truths t;
	struct subject sub;

	(void)state;
	write_file("mod.c", "void __pyx_pf_3mod_3get_item(void) {}\n"
			    "void __pyx_pw_3mod_3get_1item(void) {}\n"
			    "void __pyx_pf_3mod_3put_item(void) {}\n"
			    "void __pyx_pw_3mod_4put_item(void) {}\n"
			    "void __pyx_pf_3mod_3cut_item(void) {}\n");
	sh("gcc -shared -fPIC mod.c -o mod.so");
	t = nm("", "mod.so");
	sub = subject_open("mod.so");
	for (size_t i = 0; i < t.cnt; i++) {
		const char *name = t.v[i].name;

		if (strstr(name, "get_"))
			expect(&sub, t.v[i].addr, "get.item (mod.pyx)", t.v[i].addr);
		else if (strstr(name, "put_"))
			expect(&sub, t.v[i].addr, "put_item (mod.pyx)", t.v[i].addr);
		else if (strstr(name, "cut_"))
			expect(&sub, t.v[i].addr, name, t.v[i].addr);
	}
	sym_native__unload(sub.s);
	expect(&sub, named(&t, "__pyx_pf_3mod_3get_item")->addr, "get.item (mod.pyx)",
	       named(&t, "__pyx_pf_3mod_3get_item")->addr);
	subject_close(&sub);
	free(t.v);
}

/* Labels of the assembler, and Arm's mapping symbols, are in some symbol tables. */
static void test_private_labels(void **state)
{
	struct truths t = nm("", "whole.so");
	uint64_t first = named(&t, "bare_first")->addr;
	struct subject sub;

	(void)state;
	sh("objcopy --add-symbol .Linside=.sized:2,local --add-symbol '$x=.sized:4,local'"
	   " whole.so labels.so && nm labels.so | grep -F .Linside && nm labels.so | grep -F '$x'");
	sub = subject_open("labels.so");
	expect(&sub, first + 3, "bare_first", first);
	expect(&sub, first + 5, "bare_first", first);
	subject_close(&sub);
	free(t.v);
}

static void test_outside(void **state)
{
	struct subject sub = subject_open("whole.so");

	(void)state;
	assert_false(sym_native__find(sub.s, 0, &sub.name, NULL));
	assert_false(sym_native__find(sub.s, elf_file__size(sub.ef), &sub.name, NULL));
	assert_false(sym_native__find(sub.s, 1ULL << 35, &sub.name, NULL));
	assert_false(sym_native__find(sub.s, UINT64_MAX, &sub.name, NULL));
	assert_int_equal(sub.name.len, 0);
	subject_close(&sub);
}

/* ---- Procedure linkage table ---- */

static void check_plt(const char *file)
{
	struct subject sub = subject_open(file);
	char cmd[512], line[1024], name[512], *at;
	size_t checked = 0;
	uint64_t addr;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "cd %s && objdump -d %s", dir, file);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx <%511[^>]>:", &addr, name) != 2)
			continue;
		at = strstr(name, "@plt");
		if (!at || at[4])
			continue;
		/* objdump adds the version of the symbol */
		*strchr(name, '@') = '\0';
		strcat(name, "@plt");
		if (!ask(&sub, addr) || sub.start != addr)
			fail_msg("%s: no name for %s at %lx", file, name, addr);
		*strchr(name, '@') = '\0';
		assert_non_null(strstr(sub.name.s, "@plt"));
		*strstr(sub.name.s, "@plt") = '\0';
		assert_true(is_called(name, sub.name.s));
		checked++;
	}
	assert_int_equal(pclose(f), 0);
	assert_true(checked > 0);
	subject_close(&sub);
}

static void test_plt(void **state)
{
	(void)state;
	check_plt("whole.so");
	if (try_sh("gcc -shared -fcf-protection -Wl,-z,ibtplt c.o -o ibt.so && objdump -h ibt.so |"
		   " grep -q 'plt[.]sec'") == 0)
		check_plt("ibt.so");
	sh("gcc -O2 -fPIC -shared -Wl,-z,now c.o -o now.so");
	check_plt("now.so");
}

/* Stubs as linkers before binutils 2.36 made them for processors with MPX and CET. */
static void test_bnd_plt(void **state)
{
	struct elf_section plt;
	struct subject sub;

	(void)state;
	write_file("bnd.s", ".section .plt.sec,\"ax\",@progbits\n"
			    ".byte 0xf3, 0x0f, 0x1e, 0xfa\n.byte 0xf2\n"
			    "jmp *one@GOTPCREL(%rip)\n.byte 0x0f, 0x1f, 0x44, 0, 0\n"
			    ".byte 0xf2\njmp *two@GOTPCREL(%rip)\n.zero 9, 0x90\n");
	if (try_sh("gcc -shared -nostdlib bnd.s -o bnd.so")) {
		print_message("skipped: not the assembler of x86-64\n");
		skip();
	}
	sub = subject_open("bnd.so");
	assert_true(elf_file__section_info(sub.ef, ".plt.sec", &plt));
	expect(&sub, plt.addr, "one@plt", plt.addr);
	expect(&sub, plt.addr + 15, "one@plt", plt.addr);
	expect(&sub, plt.addr + 16, "two@plt", plt.addr + 16);
	subject_close(&sub);
}

/* ---- Stripped files ---- */

static void test_stripped(void **state)
{
	struct truths all = nm("", "whole.so"), exported;
	struct subject sub;

	(void)state;
	sh("strip -o stripped.so whole.so");
	exported = nm("-D", "stripped.so");
	check_functions("stripped.so", &exported, "TWi");
	sub = subject_open("stripped.so");
	expect(&sub, named(&all, "hidden")->addr, NULL, 0);
	subject_close(&sub);
	free(exported.v);
	free(all.v);
}

/* As Fedora's find-debuginfo does: the functions that .dynsym lacks, without debug sections. */
static void make_minidebug(const char *out)
{
	sh("nm -D whole.so --format=posix --defined-only | awk '{print $1}' | sort >dyn &&"
	   " nm whole.so --format=posix --defined-only | awk '$2 ~ /[TtDd]/ {print $1}' | sort "
	   ">full &&"
	   " comm -13 dyn full >keep && objcopy --only-keep-debug whole.so mini &&"
	   " objcopy -S --remove-section .comment --keep-symbols=keep mini mini2 && rm -f mini2.xz "
	   "&&"
	   " xz mini2 && strip -o plain.so whole.so &&"
	   " objcopy --add-section .gnu_debugdata=mini2.xz plain.so %s",
	   out);
}

static void test_minidebug(void **state)
{
	struct truths all = nm("", "whole.so");
	struct subject sub;

	(void)state;
	make_minidebug("mini.so");
	check_functions("mini.so", &all, "tTwWi");
	sub = subject_open("mini.so");
	expect(&sub, named(&all, "hidden")->addr, "hidden", named(&all, "hidden")->addr);
	subject_close(&sub);
	free(all.v);
}

static void test_damaged_minidebug(void **state)
{
	static const char *const damage[] = {
		"head -c 100 mini2.xz >bad",		   /* cut */
		"tail -c +7 mini2.xz >bad",		   /* no magic */
		"echo plain | xz >bad",			   /* no ELF file */
		"head -c 70000000 /dev/zero | xz -0 >bad", /* a bomb */
		": >bad",
	};
	struct truths all = nm("", "whole.so"), exported;
	struct subject sub;

	(void)state;
	make_minidebug("mini.so");
	exported = nm("-D", "mini.so");
	for (size_t i = 0; i < sizeof(damage) / sizeof(*damage); i++) {
		sh("%s && objcopy --update-section .gnu_debugdata=bad mini.so bad.so", damage[i]);
		check_functions("bad.so", &exported, "TWi");
		sub = subject_open("bad.so");
		expect(&sub, named(&all, "hidden")->addr, NULL, 0);
		subject_close(&sub);
	}
	free(exported.v);
	free(all.v);
}

static void test_build_id(void **state)
{
	struct truths all = nm("", "whole.so");
	char hex[2 * BUILD_ID_MAX + 1];
	struct subject sub = subject_open("whole.so");

	(void)state;
	elf_file__id_hex(sub.ef, hex);
	subject_close(&sub);
	sh("strip -o id.so whole.so && mkdir -p root/.build-id/%.2s &&"
	   " objcopy --only-keep-debug whole.so root/.build-id/%.2s/%s.debug",
	   hex, hex, hex + 2);
	check_functions("id.so", &all, "tTwWi");

	/* What lies there is another file. */
	assert_int_equal(build_sample("foreign.so",
				      "-Wl,--build-id=0x0102030405060708090a0b0c0d0e0f1011121314"),
			 0);
	sh("objcopy --only-keep-debug foreign.so root/.build-id/%.2s/%s.debug", hex, hex + 2);
	sub = subject_open("id.so");
	expect(&sub, named(&all, "hidden")->addr, NULL, 0);
	subject_close(&sub);
	sh("rm -r root/.build-id");
	free(all.v);
}

static void check_hidden(const char *file, uint64_t addr, bool found)
{
	struct subject sub = subject_open(file);

	expect(&sub, addr, found ? "hidden" : NULL, addr);
	subject_close(&sub);
}

static void test_debuglink(void **state)
{
	struct truths all;
	uint64_t hidden;

	(void)state;
	assert_int_equal(build_sample("noid.so", "-Wl,--build-id=none"), 0);
	all = nm("", "noid.so");
	hidden = named(&all, "hidden")->addr;
	sh("cd other && objcopy --only-keep-debug ../noid.so x.debug &&"
	   " strip --strip-all -o link.so ../noid.so && objcopy --add-gnu-debuglink=x.debug "
	   "link.so");
	check_functions("other/link.so", &all, "tTwWi"); /* dir/ */
	sh("mv other/x.debug other/.debug/");
	check_functions("other/link.so", &all, "tTwWi"); /* dir/.debug/ */
	sh("mkdir -p root%s/other && mv other/.debug/x.debug root%s/other/", dir, dir);
	check_functions("other/link.so", &all, "tTwWi"); /* root/dir/ */

	/* The checksum is looked at: one more byte at the end changes nothing else. */
	sh("echo >>root%s/other/x.debug", dir);
	check_hidden("other/link.so", hidden, false);

	/* A pipe must not hold us up, a directory not confuse us. */
	sh("mkfifo other/x.debug && mkdir other/.debug/x.debug");
	check_hidden("other/link.so", hidden, false);
	sh("rm -r other/x.debug other/.debug/x.debug root/*");
	free(all.v);
}

static void test_debuglink_leads_nowhere(void **state)
{
	struct truths all = nm("", "noid.so");
	uint64_t hidden = named(&all, "hidden")->addr;

	(void)state;
	/* up/x.debug would be right, but a name with a slash is none. */
	sh("mkdir -p other/up && objcopy --only-keep-debug noid.so other/x.debug &&"
	   " cp other/x.debug other/up/x.debug && strip -o other/link.so noid.so &&"
	   " objcopy --add-gnu-debuglink=other/x.debug other/link.so &&"
	   " objcopy -O binary --only-section=.gnu_debuglink --set-section-flags"
	   " .gnu_debuglink=alloc other/link.so link.bin");
	check_hidden("other/link.so", hidden, true);
	sh("{ printf 'up/x.debug\\0\\0'; tail -c 4 link.bin; } >slash.bin &&"
	   " objcopy --update-section .gnu_debuglink=slash.bin other/link.so other/slash.so");
	check_hidden("other/slash.so", hidden, false);
	sh("head -c 9 link.bin >short.bin &&"
	   " objcopy --update-section .gnu_debuglink=short.bin other/link.so other/short.so");
	check_hidden("other/short.so", hidden, false);
	free(all.v);
}

/* ---- Rust ---- */

static void test_rust(void **state)
{
	static const char *const manglings[] = {
		"-Z unstable-options -C symbol-mangling-version=legacy",
		"-C symbol-mangling-version=v0"
	};
	struct subject sub;
	struct truths t;

	(void)state;
	if (try_sh("rustc --version")) {
		print_message("skipped: no rustc\n");
		skip();
	}
	write_file("r.rs",
		   "#![no_std]\n"
		   "#[inline(never)] pub fn spin(x: u64) -> u64 { x.wrapping_mul(31) }\n"
		   "pub mod inner { #[inline(never)] pub fn turn(x: u64) -> u64 { x ^ 5 } }\n");
	for (size_t i = 0; i < 2; i++) {
		if (try_sh("RUSTC_BOOTSTRAP=1 rustc --crate-type=lib --crate-name=thing -O "
			   "--emit=obj"
			   " %s r.rs -o r.o && gcc -shared r.o -o r.so",
			   manglings[i])) {
			print_message("skipped: rustc knows no %s\n", manglings[i]);
			continue;
		}
		t = nm("", "r.so");
		sub = subject_open("r.so");
		for (size_t k = 0; k < t.cnt; k++) {
			if (strstr(t.v[k].name, "4spin"))
				expect(&sub, t.v[k].addr, "thing::spin", t.v[k].addr);
			else if (strstr(t.v[k].name, "4turn"))
				expect(&sub, t.v[k].addr, "thing::inner::turn", t.v[k].addr);
		}
		check_functions("r.so", &t, "tTW");
		subject_close(&sub);
		free(t.v);
	}
}

/* ---- Real libraries: those of this process ---- */

static void test_loaded_libraries(void **state)
{
	char line[1024], last[512] = "", perm[8], path[512];
	FILE *maps = fopen("/proc/self/maps", "r");
	size_t checked = 0;

	(void)state;
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		struct truths t;

		if (sscanf(line, "%*s %7s %*s %*s %*s %511s", perm, path) != 2 ||
		    !strchr(perm, 'x') || path[0] != '/' || !strstr(path, ".so") ||
		    !strcmp(path, last))
			continue;
		strcpy(last, path);
		t = nm("-D", path);
		check_functions(path, &t, "TWi");
		free(t.v);
		checked++;
	}
	fclose(maps);
	assert_true(checked >= 2);
}

/* ---- Hostile tables: see also fuzz_symbols.c ---- */

/* What was given back is read again. */
static void test_unload(void **state)
{
	struct subject sub = subject_open("/proc/self/exe");
	struct elf_symbol es;
	size_t loaded;

	(void)state;
	assert_true(elf_file__symbol(sub.ef, "main", &es));
	assert_int_equal(sym_native__memory(sub.s), 0);
	assert_string_equal(ask(&sub, es.addr), "main");
	loaded = sym_native__memory(sub.s);
	assert_true(loaded > 1000);
	sym_native__unload(sub.s);
	assert_int_equal(sym_native__memory(sub.s), 0);
	assert_string_equal(ask(&sub, es.addr), "main");
	assert_int_equal(sym_native__memory(sub.s), loaded);
	subject_close(&sub);
}

/* Thousands of names that are tails of one: 3000 bytes in the file, 4.5 MB when copied. */
static void test_shared_tails(void **state)
{
	size_t named_cnt = 0, unnamed_cnt = 0;
	struct elf_section sec;
	struct subject sub;

	(void)state;
	write_file("tails.awk",
		   "BEGIN { print \".text\"; for (i = 1; i <= 3000; i++) { s = s \"x\";"
		   " printf \".type %s,@function\\n%s: .byte 0xcc\\n.size %s, 1\\n\","
		   " s, s, s } }\n");
	sh("awk -f tails.awk >tails.s && gcc -shared -nostdlib -Wl,-O2 tails.s -o tails.so");
	sub = subject_open("tails.so");
	assert_true(elf_file__section_info(sub.ef, ".strtab", &sec));
	if (sec.size > 100000) {
		subject_close(&sub);
		print_message("skipped: the linker does not share tails\n");
		skip();
	}
	assert_true(elf_file__section_info(sub.ef, ".text", &sec));
	for (uint64_t addr = sec.addr; addr < sec.addr + sec.size; addr++) {
		const char *name = ask(&sub, addr);

		if (!name) {
			unnamed_cnt++;
			continue;
		}
		named_cnt++;
		assert_int_equal(strlen(name), addr - sec.addr + 1);
	}
	assert_true(named_cnt > 100);
	assert_true(unnamed_cnt > 0); /* the limit was reached */
	subject_close(&sub);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_function),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_sizes_and_sections),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_cython_peers),
		cmocka_unit_test(test_private_labels),
		cmocka_unit_test(test_outside),
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_bnd_plt),
		cmocka_unit_test(test_stripped),
		cmocka_unit_test(test_minidebug),
		cmocka_unit_test(test_damaged_minidebug),
		cmocka_unit_test(test_build_id),
		cmocka_unit_test(test_debuglink),
		cmocka_unit_test(test_debuglink_leads_nowhere),
		cmocka_unit_test(test_rust),
		cmocka_unit_test(test_loaded_libraries),
		cmocka_unit_test(test_unload),
		cmocka_unit_test(test_shared_tails),
	};
	static const char *const tools[] = {
		"gcc", "g++", "objcopy", "strip", "nm", "objdump", "xz"
	};

	for (size_t i = 0; i < sizeof(tools) / sizeof(*tools); i++) {
		char cmd[64];

		snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null", tools[i]);
		if (system(cmd)) {
			fprintf(stderr, "skipped: no %s\n", tools[i]);
			return SKIP;
		}
	}
	return cmocka_run_group_tests(tests, setup, remove_dir);
}
