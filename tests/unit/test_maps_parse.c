/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Lines of /proc/PID/maps: what the kernel writes, and what it never would. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/maps_read.h"

/* From a buffer of its exact size, so that the sanitizer sees a byte too many. */
static int parse(struct map_line *line, const char *text)
{
	static char *copy;
	size_t len = strlen(text);

	free(copy);
	copy = malloc(len + !len);
	memcpy(copy, text, len);
	return map_line__parse(line, copy, len);
}

static const char *path_of(const char *name)
{
	static char buf[4096];
	struct map_line line = { .name = name, .name_len = strlen(name) };
	int n = map_line__path(&line, buf, sizeof(buf));

	assert_true(n < 0 || strlen(buf) == (size_t)n);
	return n < 0 ? NULL : buf;
}

static void parses_what_the_kernel_writes(void **state)
{
	struct map_line l;

	(void)state;
	assert_int_equal(parse(&l, "7f30a6a28000-7f30a6b7d000 r-xp 00028000 fe:00 1234"
				   "                       /usr/lib/libc.so.6"),
			 0);
	assert_true(l.start == 0x7f30a6a28000 && l.end == 0x7f30a6b7d000 && l.offset == 0x28000);
	assert_true(l.major == 0xfe && l.minor == 0 && l.inode == 1234);
	assert_true(l.read && !l.write && l.exec && !l.shared);
	assert_int_equal(l.name_len, 18);
	assert_memory_equal(l.name, "/usr/lib/libc.so.6", 18);

	assert_int_equal(parse(&l, "00400000-00401000 -w-s 00000000 00:00 0 "), 0);
	assert_true(!l.read && l.write && !l.exec && l.shared && !l.name_len && !l.inode);
	assert_int_equal(parse(&l, "00400000-00401000 ---p 00000000 00:00 0"), 0);
	assert_int_equal(parse(&l, "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0"
				   "                  [vsyscall]"),
			 0);
	assert_true(l.start == 0xffffffffff600000 && l.exec);
	assert_int_equal(parse(&l, "1-2 r-xp ffffffffffffffff fffff:ffffffff "
				   "18446744073709551615 x"),
			 0);
	assert_true(l.offset == UINT64_MAX && l.minor == UINT32_MAX && l.inode == UINT64_MAX);
}

static void refuses_damage(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"-",
		"400000",
		"400000-401000",
		"400000-401000 ",
		"400000-401000 r-x",
		"400000-401000 r-xp",
		"400000-401000 r-xp 0",
		"400000-401000 r-xp 0 ",
		"400000-401000 r-xp 0 0:0",
		"400000-401000 r-xp 0 0:0 ",
		"400000-401000 r-xp 0 0:0 x",
		"400000-401000 r-xp 0 0:0 1/x",
		"400000-401000 r-xp 0 0:0 18446744073709551616 x",
		"400000-401000 r-xp 0 0:0 99999999999999999999 x",
		"400000-401000 r-xp 0 100000000:0 1 x",
		"400000-401000 r-xp 0 0:100000000 1 x",
		"400000-401000 r-xp 10000000000000000 0:0 1 x",
		"10000000000000000-20000000000000000 r-xp 0 0:0 1 x",
		"401000-400000 r-xp 0 0:0 1 x",
		"400000-400000 r-xp 0 0:0 1 x",
		"400000-401000 rwxq 0 0:0 1 x",
		"400000-401000 x-rp 0 0:0 1 x",
		"400000 401000 r-xp 0 0:0 1 x",
		"0x40000-0x401000 r-xp 0 0:0 1 x",
		"+400000-401000 r-xp 0 0:0 1 x",
		"400000-401000  r-xp 0 0:0 1 x",
		"40000A-401000 r-xp 0 0:0 1 x",
	};
	struct map_line l;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse(&l, bad[i]) != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
	}
}

static void makes_paths(void **state)
{
	char small[8];
	struct map_line line = { .name = "/1234567", .name_len = 8 };

	(void)state;
	assert_string_equal(path_of("/usr/lib/x.so"), "/usr/lib/x.so");
	assert_string_equal(path_of("/usr/lib/x.so (deleted)"), "/usr/lib/x.so");
	assert_string_equal(path_of("/a (deleted) (deleted)"), "/a (deleted)");
	assert_string_equal(path_of("/a\\012b"), "/a\nb");
	assert_string_equal(path_of("/a\\01"), "/a\\01");
	assert_string_equal(path_of("/a\\\\012"), "/a\\\n");
	assert_string_equal(path_of("/ (deleted)"), "/");
	assert_string_equal(path_of("/with blanks  in it"), "/with blanks  in it");
	assert_string_equal(path_of("/memfd:jit (deleted)"), "/memfd:jit");
	assert_null(path_of(""));
	assert_null(path_of("[vdso]"));
	assert_null(path_of("anon_inode:[perf_event]"));
	assert_null(path_of(" (deleted)"));
	assert_int_equal(map_line__path(&line, small, sizeof(small)), -ENAMETOOLONG);
	line.name_len = 7;
	assert_int_equal(map_line__path(&line, small, sizeof(small)), 7);
}

static void takes_very_long_names(void **state)
{
	size_t len = 1 << 20;
	char *text = malloc(len), *buf = malloc(len);
	int head = snprintf(text, len, "400000-401000 r-xp 0 0:0 1 /");
	struct map_line l;

	(void)state;
	memset(text + head, 'x', len - (size_t)head);
	assert_int_equal(map_line__parse(&l, text, len), 0);
	assert_true(l.name_len == len - (size_t)head + 1);
	assert_int_equal(map_line__path(&l, buf, 4096), -ENAMETOOLONG);
	assert_int_equal(map_line__path(&l, buf, len), (int)l.name_len);
	free(text);
	free(buf);
}

static void takes_lines_one_by_one(void **state)
{
	const char *text = "one\n\nthree\ncut", *line;
	size_t len = strlen(text), line_len;

	(void)state;
	assert_true(maps__next(&text, &len, &line, &line_len) && line_len == 3);
	assert_true(maps__next(&text, &len, &line, &line_len) && line_len == 0);
	assert_true(maps__next(&text, &len, &line, &line_len) && line_len == 5);
	assert_memory_equal(line, "three", 5);
	assert_false(maps__next(&text, &len, &line, &line_len));
	assert_int_equal(len, 3);
	text = NULL;
	len = 0;
	assert_false(maps__next(&text, &len, &line, &line_len));
}

/* A file with every hostile character in its name, mapped, and found in our own maps. */
static void reads_back_a_hostile_name(void **state)
{
	const char *name =
		"/tmp/test_maps [vdso] r-xp \n400000-401000 r-xp 0 0:0 1 x\\012 (deleted)";
	char path[4096] = "", copy[64];
	struct map_line l;
	char *text = NULL;
	size_t cap = 0;
	void *at;
	FILE *f;
	ssize_t n;
	int fd;

	(void)state;
	f = fopen(name, "w+");
	if (!f) {
		printf("skip: cannot write to /tmp\n");
		skip();
	}
	fd = fileno(f);
	assert_int_equal(ftruncate(fd, 4096), 0);
	at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	unlink(name);
	fclose(f);
	if (at == MAP_FAILED) {
		printf("skip: /tmp is mounted noexec\n");
		skip();
	}
	f = fopen("/proc/self/maps", "r");
	while ((n = getline(&text, &cap, f)) > 0) {
		assert_int_equal(text[n - 1], '\n');
		assert_int_equal(map_line__parse(&l, text, (size_t)n - 1), 0);
		if (l.start == (uintptr_t)at)
			assert_true(map_line__path(&l, path, sizeof(path)) > 0);
	}
	free(text);
	fclose(f);
	munmap(at, 4096);
	/* The kernel does not escape the backslash: that one reads as a newline. */
	snprintf(copy, sizeof(copy), "%s", strrchr(path, 'x'));
	assert_string_equal(copy, "x\n (deleted)");
	assert_memory_equal(path, name, strlen("/tmp/test_maps [vdso] r-xp \n400000"));
}

/* The kernel's two ways to tell of mappings agree, for us and for a process without memory. */
static void query_and_text_agree(void **state)
{
	struct exec_maps query = { 0 }, text = { .no_query = true };
	int self = open("/proc/self", O_PATH | O_DIRECTORY), kthreadd;

	(void)state;
	assert_true(self >= 0);
	assert_int_equal(exec_maps__read(&text, self), 0);
	assert_true(text.cnt > 3 && !text.truncated);
	assert_int_equal(exec_maps__read(&query, self), 0);
	if (query.no_query) {
		printf("skip: no PROCMAP_QUERY in this kernel (6.11)\n");
		skip();
	}
	assert_int_equal(query.cnt, text.cnt);
	for (size_t i = 0; i < text.cnt; i++) {
		const struct map_line *a = &query.lines[i], *b = &text.lines[i];

		assert_true(a->start == b->start && a->end == b->end && a->offset == b->offset);
		assert_true(a->major == b->major && a->minor == b->minor && a->inode == b->inode);
		assert_true(a->read == b->read && a->write == b->write && a->exec && b->exec &&
			    a->shared == b->shared);
		assert_true(a->name_len == b->name_len && !memcmp(a->name, b->name, a->name_len));
	}
	kthreadd = open("/proc/2", O_PATH | O_DIRECTORY);
	if (kthreadd >= 0 && !geteuid()) {
		assert_int_equal(exec_maps__read(&text, kthreadd), -ESRCH);
		assert_int_equal(exec_maps__read(&query, kthreadd), -ESRCH);
		assert_true(!text.cnt && !query.cnt && !query.no_query);
	}
	close(kthreadd);
	close(self);
	exec_maps__free(&query);
	exec_maps__free(&text);
}

/* No more than the limit, and said so. */
static void takes_no_more_than_the_limit(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), cnt = EXEC_MAPS_MAX + 10;
	struct exec_maps query = { 0 }, text = { .no_query = true };
	int self = open("/proc/self", O_PATH | O_DIRECTORY);
	uint8_t *at = mmap(NULL, 2 * cnt * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(at != MAP_FAILED);
	for (size_t i = 0; i < cnt; i++)
		assert_int_equal(mprotect(at + 2 * i * page, page, PROT_EXEC), 0);
	assert_int_equal(exec_maps__read(&query, self), 0);
	assert_int_equal(exec_maps__read(&text, self), 0);
	assert_true(query.cnt == EXEC_MAPS_MAX && query.truncated);
	assert_true(text.cnt == EXEC_MAPS_MAX && text.truncated);
	munmap(at, 2 * cnt * page);
	assert_int_equal(exec_maps__read(&text, self), 0);
	assert_false(text.truncated);
	close(self);
	exec_maps__free(&query);
	exec_maps__free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_what_the_kernel_writes),
		cmocka_unit_test(refuses_damage),
		cmocka_unit_test(makes_paths),
		cmocka_unit_test(takes_very_long_names),
		cmocka_unit_test(takes_lines_one_by_one),
		cmocka_unit_test(reads_back_a_hostile_name),
		cmocka_unit_test(query_and_text_agree),
		cmocka_unit_test(takes_no_more_than_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
