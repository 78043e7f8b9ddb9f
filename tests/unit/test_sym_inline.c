/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Truth is what addr2line -i (binutils, which does not use libdw) says about files that gcc makes
 * here, and about this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

/* For what the parent believes of its child. */
#include "../../user/symbolize/sym_inline.c"

static char dir[] = "/tmp/test_sym_inline.XXXXXX";

#include "unit/tools.h"

static const struct sym_debugfile_places places = { .root = dir, .offered = { .fd = -1 } };

static const char c_source[] = "volatile unsigned sink;\n"
			       "static inline __attribute__((always_inline)) unsigned\n"
			       "leaf(unsigned x)\n"
			       "{\n"
			       "	for (int i = 0; i < 9; i++)\n"
			       "		sink = x = x * 31 + (x >> 7);\n"
			       "	return x;\n"
			       "}\n"
			       "static inline __attribute__((always_inline)) unsigned\n"
			       "middle(unsigned x)\n"
			       "{\n"
			       "	unsigned y = leaf(x ^ 5);\n"
			       "	if (y & 1) {\n"
			       "		unsigned z = leaf(y);\n"
			       "		sink = z;\n"
			       "		y += leaf(z);\n"
			       "	}\n"
			       "	return y;\n"
			       "}\n"
			       "__attribute__((noinline)) unsigned outer(unsigned x)\n"
			       "{\n"
			       "	sink += x;\n"
			       "	return middle(x) * 3;\n"
			       "}\n"
			       "int main(int argc, char **argv)\n"
			       "{\n"
			       "	(void)argv;\n"
			       "	return outer(argc) + middle(argc);\n"
			       "}\n";

static const char cxx_source[] =
	"#include <vector>\n#include <algorithm>\n#include <string>\n"
	"namespace shop {\n"
	"struct Cart {\n"
	"	std::vector<int> v;\n"
	"	int sum() const { int s = 0; for (int i : v) s += i; return s; }\n"
	"	template <class T> void add(T t) { v.push_back(t); }\n"
	"};\n"
	"}\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"	shop::Cart c;\n"
	"	auto twice = [&](int n) { c.add(n); c.add(short(n)); };\n"
	"	for (int i = 0; i < argc; i++)\n"
	"		twice(i);\n"
	"	std::sort(c.v.begin(), c.v.end());\n"
	"	return c.sum() + std::string(argv[0]).size();\n"
	"}\n";

/* ---- What sym_inline says ---- */

struct subject {
	struct elf_file *ef;
	struct sym_inline *s;
};

static struct subject subject_open(const char *name)
{
	struct subject sub;
	char path[512];

	snprintf(path, sizeof(path), "%s%s%s", name[0] == '/' ? "" : dir, name[0] == '/' ? "" : "/",
		 name);
	sub.ef = elf_file__open(open(path, O_RDONLY | O_CLOEXEC), path);
	assert_non_null(sub.ef);
	sub.s = sym_inline__new(sub.ef);
	assert_non_null(sub.s);
	sym_inline__set_places(sub.s, &places);
	return sub;
}

static void subject_close(struct subject *sub)
{
	sym_inline__free(sub->s);
	elf_file__close(sub->ef);
}

/* "leaf /x/a.c:6; middle /x/a.c:12; outer /x/a.c:23", innermost first, as addr2line prints. */
static void ours(const struct subject *sub, uint64_t addr, char *text, size_t size)
{
	const struct inline_frame *frames;
	uint64_t off;
	size_t n, at = 0;

	text[0] = '\0';
	assert_true(elf_file__addr_to_off(sub->ef, addr, &off));
	n = sym_inline__find(sub->s, off, &frames);
	while (n-- && at < size) {
		const char *slash = strrchr(frames[n].file, '/');

		at += (size_t)snprintf(text + at, size - at, "%s %s:%u; ", frames[n].name,
				       slash ? slash + 1 : frames[n].file, frames[n].line);
	}
}

static void load(const struct subject *sub, const uint64_t *addrs, size_t cnt)
{
	uint64_t *offs = calloc(cnt, sizeof(*offs));

	assert_non_null(offs);
	for (size_t i = 0; i < cnt; i++)
		assert_true(elf_file__addr_to_off(sub->ef, addrs[i], &offs[i]));
	assert_int_equal(sym_inline__load(sub->s, offs, cnt), 0);
	free(offs);
}

/* ---- What addr2line says ---- */

static void trim(char *line)
{
	char *more = strstr(line, " (discriminator");

	line[strcspn(line, "\n")] = '\0';
	if (more)
		*more = '\0';
}

/* The same text for each address. */
static char (*theirs(const char *path, const uint64_t *addrs, size_t cnt))[4096]
{
	char(*text)[4096] = calloc(cnt, sizeof(*text));
	char cmd[1024], name[2048], place[2048];
	size_t i = SIZE_MAX;
	FILE *f;

	assert_non_null(text);
	snprintf(cmd, sizeof(cmd), "%s/addrs", dir);
	f = fopen(cmd, "w");
	assert_non_null(f);
	for (size_t a = 0; a < cnt; a++)
		fprintf(f, "%" PRIx64 "\n", addrs[a]);
	fclose(f);
	snprintf(cmd, sizeof(cmd), "cd %s && addr2line -a -f -i -e %s <addrs", dir, path);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (fgets(name, sizeof(name), f)) {
		char *slash;

		trim(name);
		if (!strncmp(name, "0x", 2)) {
			i++;
			assert_true(i < cnt);
			continue;
		}
		assert_non_null(fgets(place, sizeof(place), f));
		trim(place);
		slash = strrchr(place, '/');
		if (strlen(text[i]) + strlen(name) + strlen(place) + 8 < sizeof(text[i]))
			sprintf(text[i] + strlen(text[i]), "%s %s; ", name,
				slash ? slash + 1 : place);
	}
	assert_int_equal(pclose(f), 0);
	assert_int_equal(i, cnt - 1);
	return text;
}

/* Addresses of instructions. */
static size_t instructions(const char *path, uint64_t *addrs, size_t max, unsigned step)
{
	char cmd[512], line[512];
	size_t n = 0;
	unsigned seen = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "cd %s && objdump -d -j .text --no-show-raw-insn %s", dir, path);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (n < max && line[0] == ' ' && sscanf(line, " %" SCNx64 ":", &addrs[n]) == 1 &&
		    seen++ % step == 0)
			n++;
	pclose(f);
	assert_true(n > 0);
	return n;
}

struct score {
	size_t cnt, same, inlined, deepest;
};

/* The answers for `name`, by those for `truth_name`, whose code is the same. */
static struct score compare_with(const char *name, const char *truth_name, unsigned step)
{
	static uint64_t addrs[20000];
	struct score score = { .cnt = instructions(name, addrs, 20000, step) };
	struct subject sub = subject_open(name);
	char(*truth)[4096] = theirs(truth_name, addrs, score.cnt);
	char mine[4096];

	load(&sub, addrs, score.cnt);
	for (size_t i = 0; i < score.cnt; i++) {
		size_t depth = 0;

		ours(&sub, addrs[i], mine, sizeof(mine));
		for (const char *p = mine; (p = strstr(p, "; ")); p += 2)
			depth++;
		score.inlined += depth > 1;
		score.deepest = depth > score.deepest ? depth : score.deepest;
		/* Without debug information addr2line has the name of a symbol. */
		if (!strcmp(mine, truth[i]) || (!mine[0] && strstr(truth[i], ":?; ")))
			score.same++;
		else if (i - score.same < 12)
			printf("%" PRIx64 "\n  ours   %s\n  theirs %s\n", addrs[i], mine, truth[i]);
	}
	printf("%s: %zu addresses, %zu with inlined functions (up to %zu deep), %zu the same\n",
	       name, score.cnt, score.inlined, score.deepest, score.same);
	free(truth);
	subject_close(&sub);
	return score;
}

static struct score compare(const char *name, unsigned step)
{
	return compare_with(name, name, step);
}

static void test_compilers(void **state)
{
	static const char *const options[] = { "-O2 -g -gdwarf-4", "-O3 -g -gz" };

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		struct score c, cxx;

		sh("gcc %s -o c a.c && g++ %s -o cxx b.cc", options[i], options[i]);
		c = compare("c", 1);
		assert_int_equal(c.same, c.cnt);
		assert_true(c.inlined > 50 && c.deepest == 3);
		/*
		 * The others: addr2line names b.cc for lines of headers in the first sequence of
		 * DWARF 5, and the caller for a lambda, which has no linkage name.
		 */
		cxx = compare("cxx", 1);
		assert_true(cxx.same * 100 >= cxx.cnt * 95);
		assert_true(cxx.inlined * 2 > cxx.cnt && cxx.deepest > 5);
	}
}

static void test_this_program(void **state)
{
	char exe[512] = { 0 };
	struct score self;

	(void)state;
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	self = compare(exe, 61);
	assert_true(self.same * 100 >= self.cnt * 98);
	assert_true(self.inlined * 4 > self.cnt);
}

static void all_the_same(const char *name, const char *truth)
{
	struct score score = compare_with(name, truth, 1);

	assert_int_equal(score.same, score.cnt);
	assert_true(score.inlined > 50);
}

static void test_split(void **state)
{
	(void)state;
	sh("gcc -O2 -g -o c a.c && gcc -O2 -g -gsplit-dwarf -o split a.c && test -e *.dwo");
	all_the_same("split", "c");
	sh("gcc -O2 -g -gdwarf-4 -gsplit-dwarf -o split a.c");
	all_the_same("split", "c");
}

static void test_debug_files(void **state)
{
	(void)state;
	sh("gcc -O2 -g -Wl,--build-id=sha1 -o whole a.c && objcopy --only-keep-debug whole d &&"
	   " id=$(readelf -n d | sed -n 's/.*Build ID: //p') && mkdir -p .build-id/${id%%${id#??}} "
	   "&&"
	   " strip -o by_id whole && mv d .build-id/${id%%${id#??}}/${id#??}.debug");
	all_the_same("by_id", "whole");
	sh("rm -r .build-id; gcc -O2 -g -Wl,--build-id=none -o whole a.c &&"
	   " objcopy --only-keep-debug whole link.debug && strip -o by_link whole &&"
	   " objcopy --add-gnu-debuglink=link.debug by_link");
	all_the_same("by_link", "whole");
}

static void test_dwz(void **state)
{
	struct score before, after;

	(void)state;
	if (try_sh("dwz --version")) {
		printf("skip: no dwz\n");
		skip();
	}
	sh("g++ -O2 -g -o cxx b.cc && cp cxx one && cp cxx two && dwz -m common.dwz one two &&"
	   " readelf -S one | grep gnu_debugaltlink");
	before = compare("cxx", 3);
	after = compare_with("one", "cxx", 3);
	assert_int_equal(after.same, before.same);
	assert_int_equal(after.inlined, before.inlined);
}

static void test_none(void **state)
{
	struct subject sub;
	uint64_t off = 0x1040;

	(void)state;
	sh("gcc -O2 -o none a.c");
	sub = subject_open("none");
	assert_int_equal(sym_inline__load(sub.s, &off, 1), 0);
	assert_int_equal(sym_inline__load(sub.s, &off, 1), 0);
	assert_int_equal(sym_inline__find(sub.s, off, &(const struct inline_frame *){ NULL }), 0);
	subject_close(&sub);
}

static void test_remembered(void **state)
{
	static uint64_t addrs[200];
	struct subject sub;
	char before[4096], after[4096];
	size_t cnt;

	(void)state;
	sh("gcc -O2 -g -o c a.c");
	cnt = instructions("c", addrs, 200, 1);
	sub = subject_open("c");
	load(&sub, addrs, 1);
	ours(&sub, addrs[0], before, sizeof(before));
	assert_string_not_equal(before, "");
	/*
	 * Some known and some new ones, some twice: those that are known are not asked for again.
	 */
	load(&sub, addrs, cnt);
	load(&sub, addrs, cnt);
	assert_int_equal(sub.s->cnt, cnt);
	sub.s->limit_s = 0;
	load(&sub, addrs, cnt);
	ours(&sub, addrs[0], after, sizeof(after));
	assert_string_equal(before, after);
	subject_close(&sub);
}

/* ---- Hostile ones ---- */

static void test_too_slow(void **state)
{
	uint64_t off = 0x1040;
	struct subject sub;

	(void)state;
	sh("gcc -O2 -g -o c a.c");
	sub = subject_open("c");
	sym_inline__set_limit(sub.s, 0);
	log_set_level(LOG_LEVEL_ERR);
	assert_int_equal(sym_inline__load(sub.s, &off, 1), 0);
	log_set_level(LOG_LEVEL_INFO);
	assert_int_equal(sym_inline__find(sub.s, off, &(const struct inline_frame *){ NULL }), 0);
	assert_true(sub.s->warned);
	subject_close(&sub);
}

static char logged[512];

static void keep_message(enum log_level level, const char *fmt, const char *text)
{
	(void)level, (void)fmt;
	snprintf(logged, sizeof(logged), "%s", text);
}

/* The child opens a file that may wait anew. A link in its place cannot be opened. */
static void test_not_opened_again(void **state)
{
	uint64_t off = 0x1040;
	struct subject sub;
	int place;

	(void)state;
	sh("gcc -O2 -g -o c a.c && ln -sf c link");
	sub = subject_open("c");
	snprintf(logged, sizeof(logged), "%s/link", dir);
	place = open(logged, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	assert_true(place >= 0);
	assert_true(dup2(place, elf_file__fd(sub.ef)) >= 0);
	((struct opened *)elf_file__opened(sub.ef))->may_wait = true;
	log_set_writer(keep_message);
	assert_int_equal(sym_inline__load(sub.s, &off, 1), 0);
	log_set_writer(NULL);
	assert_non_null(strstr(logged, "/c: debug information: "));
	assert_non_null(strstr(logged, strerror(ELOOP)));
	assert_non_null(strstr(logged, "0 of 1 places"));
	assert_int_equal(sym_inline__find(sub.s, off, &(const struct inline_frame *){ NULL }), 0);
	close(place);
	subject_close(&sub);
}

/* Three bytes of each section of DWARF become others. */
static void damage(const char *name)
{
	unsigned long off, size;
	char path[256];
	FILE *sections;
	int fd;

	snprintf(path, sizeof(path), "%s/sections", dir);
	sections = fopen(path, "r");
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(sections && fd >= 0);
	while (fscanf(sections, "%lx %lx", &off, &size) == 2)
		for (int i = 0; i < 3; i++)
			assert_int_equal(pwrite(fd, &(uint8_t){ (uint8_t)rand() }, 1,
						(off_t)(off + (unsigned long)rand() % size)),
					 1);
	fclose(sections);
	close(fd);
}

/* Whatever comes of it: it ends, and no answer is out of bounds. */
static void test_damaged(void **state)
{
	static uint64_t addrs[200];
	size_t cnt, answered = 0;

	(void)state;
	sh("gcc -O2 -g -o c a.c && objdump -h c | awk '$2 ~ /^.debug/ { print $6, $3 }' >sections");
	cnt = instructions("c", addrs, 200, 1);
	log_set_level(LOG_LEVEL_ERR);
	srand(1);
	for (unsigned i = 0; i < 60; i++) {
		struct subject sub;
		char text[4096];

		sh("cp c damaged");
		damage("damaged");
		sub = subject_open("damaged");
		sym_inline__set_limit(sub.s, 5);
		load(&sub, addrs, cnt);
		for (size_t a = 0; a < cnt; a++) {
			ours(&sub, addrs[a], text, sizeof(text));
			answered += text[0] != '\0';
		}
		subject_close(&sub);
	}
	log_set_level(LOG_LEVEL_INFO);
	assert_true(answered > 0);
}

/* A child that was taken over may write what it likes. */
static void test_forged_answers(void **state)
{
	struct place places[4] = { 0 };
	struct subject sub;

	(void)state;
	sh("gcc -O2 -g -o c a.c");
	sub = subject_open("c");
	srand(1);
	for (unsigned i = 0; i < 20000; i++) {
		uint32_t words[64];
		struct strbuf b = { 0 };
		int err;

		for (size_t w = 0; w < 64; w++)
			words[w] = rand() % 8 ? (uint32_t)rand() % 4 : (uint32_t)rand() * 2U;
		strbuf__add(&b, words, 1 + (size_t)rand() % sizeof(words));
		err = take_answers(sub.s, places, 4, &b);
		assert_true(!err || err == -EBADMSG);
		for (size_t p = 0; p < 4; p++)
			assert_true(places[p].first + (uint64_t)places[p].cnt <= sub.s->frame_cnt);
		strbuf__free(&b);
	}
	assert_int_equal(make_frames(sub.s), 0);
	subject_close(&sub);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	chmod(dir, 0755);
	write_file("a.c", c_source);
	write_file("b.cc", cxx_source);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compilers),
		cmocka_unit_test(test_this_program),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_debug_files),
		cmocka_unit_test(test_dwz),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_remembered),
		cmocka_unit_test(test_too_slow),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_forged_answers),
		cmocka_unit_test(test_not_opened_again),
	};

	return cmocka_run_group_tests(tests, setup, remove_dir);
}
