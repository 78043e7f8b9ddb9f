/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process is a directory with what is read of one: status and root. CPU time is what a case
 * says, where it says it.
 */
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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "process/maps_parse.h"
#include "symbolize/sym_jit.h"

#define PID   7 /* in its namespace; 4711 in ours */
#define SPACE 1

static char dir[] = "/tmp/test_sym_jit.XXXXXX";

static const char *in_dir(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const void *data, size_t size, const char *mode)
{
	FILE *f = fopen(in_dir(name), mode);

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
}

static void put_map(const char *text)
{
	put("root/tmp/perf-7.map", text, strlen(text), "w");
}

static void append_map(const char *text)
{
	put("root/tmp/perf-7.map", text, strlen(text), "a");
}

/* ---- The clock of CPU time ---- */

static uint64_t tick_ns; /* each look at it takes so long; 0: it is the kernel's */
static uint64_t clock_ns;

/* The definition here is before the C library's for the whole program. */
int clock_gettime(clockid_t id, struct timespec *t);
int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!tick_ns || id != CLOCK_THREAD_CPUTIME_ID)
		return (int)syscall(SYS_clock_gettime, id, t);
	clock_ns += tick_ns;
	t->tv_sec = (time_t)(clock_ns / 1000000000);
	t->tv_nsec = (long)(clock_ns % 1000000000);
	return 0;
}

/* ---- The process ---- */

/* From now on it is the user's, and so is its file. */
static void give_to(uid_t uid)
{
	char status[128];

	snprintf(status, sizeof(status), "Name:\tx\nUid:\t1\t2\t3\t%u\nNSpid:\t4711\t%u\nX:\n", uid,
		 PID);
	put("status", status, strlen(status), "w");
	if (uid != geteuid())
		assert_int_equal(chown(in_dir("root/tmp/perf-7.map"), uid, (gid_t)-1), 0);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir + sizeof(dir) - 7, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(mkdir(in_dir("root"), 0755), 0);
	assert_int_equal(mkdir(in_dir("root/tmp"), 0755), 0);
	give_to(geteuid());
	tick_ns = 0;
	return 0;
}

static int teardown(void **state)
{
	char cmd[300];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static void look(struct sym_jit *j, uint32_t space, int dump_fd)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	sym_jit__look(j, space, 0, fd, opened__of(dump_fd));
	close(fd);
}

static struct sym_jit *looked_at(void)
{
	struct sym_jit *j = sym_jit__new(NULL);

	assert_non_null(j);
	look(j, SPACE, -1);
	sym_jit__begin(j);
	return j;
}

static const char *ask(struct sym_jit *j, uint32_t space, uint64_t addr)
{
	return sym_jit__name(j, sym_jit__find(j, space, addr));
}

#define is(j, addr, name) assert_string_equal(ask(j, SPACE, addr), name)

/* ---- Perf maps ---- */

static void test_map(void **state)
{
	struct sym_jit *j;

	(void)state;
	put_map("1000 10 first\n"
		"0x2000 0x20 with prefix (and blanks)\n"
		"3000 0 nothing\n"
		"rubbish\n"
		"4000 zz rubbish\n"
		"5000 10\n"
		"ffffffffffffffff 10 overflows\n"
		"7fff00001000 8 last\n"
		"6000 10 still being writ");
	j = looked_at();
	is(j, 0xfff, "");
	is(j, 0x1000, "first");
	is(j, 0x100f, "first");
	is(j, 0x1010, "");
	is(j, 0x201f, "with prefix (and blanks)");
	is(j, 0x3000, "");
	is(j, 0x4000, "");
	is(j, 0x5000, "");
	is(j, UINT64_MAX, "");
	is(j, 0x7fff00001007, "last");
	is(j, 0x6000, "");
	assert_string_equal(ask(j, SPACE + 1, 0x1000), "");
	append_map("ten\n1008 2 inside\n");
	is(j, 0x6000, ""); /* not in the same window */
	sym_jit__begin(j);
	is(j, 0x6000, "still being written");
	is(j, 0x1007, "first");
	is(j, 0x1008, "inside");
	is(j, 0x100a, "first");
	sym_jit__free(j);
}

static void test_deleted(void **state)
{
	struct sym_jit *j;

	(void)state;
	put_map("1000 10 gone\n");
	j = looked_at();
	unlink(in_dir("root/tmp/perf-7.map"));
	is(j, 0x1000, "gone");
	sym_jit__forget(j, SPACE);
	is(j, 0x1000, "");
	sym_jit__free(j);
}

static void test_comes_late(void **state)
{
	struct sym_jit *j = looked_at();

	(void)state;
	is(j, 0x1000, "");
	put_map("1000 10 late\n");
	sym_jit__begin(j);
	is(j, 0x1000, "late");
	sym_jit__free(j);
}

/* Longer than what is read at once: no name, and the next line is a line again. */
static void test_long_line(void **state)
{
	char *text = malloc(200000);
	struct sym_jit *j;
	int n = sprintf(text, "1000 10 a\n2000 10 ");

	(void)state;
	memset(text + n, 'x', 150000);
	strcpy(text + n + 150000, "\n3000 10 b\n");
	put_map(text);
	j = looked_at();
	is(j, 0x1000, "a");
	is(j, 0x3000, "b");
	free(text);
	sym_jit__free(j);
}

/* At every address the last line that covers it. */
static void test_overwritten(void **state)
{
	uint32_t truth[512] = { 0 };
	struct sym_jit *j;
	char line[64];

	(void)state;
	put_map("");
	j = looked_at();
	srand(1);
	for (uint32_t i = 1; i <= 2000; i++) {
		unsigned start = (unsigned)rand() % 500, size = (unsigned)rand() % 12 + 1;

		snprintf(line, sizeof(line), "%x %x f%u\n", 0x1000 + start, size, i);
		append_map(line);
		for (unsigned a = start; a < start + size; a++)
			truth[a] = i;
		if (i % 250)
			continue;
		sym_jit__begin(j);
		for (unsigned a = 0; a < 512; a++) {
			snprintf(line, sizeof(line), "f%u", truth[a]);
			is(j, 0x1000 + a, truth[a] ? line : "");
		}
	}
	sym_jit__free(j);
}

/*
 * More functions than are kept of a file: the first ones have their names, in a time that goes by
 * their number.
 */
static void test_too_many(void **state)
{
	struct sym_jit *j;
	FILE *f = fopen(in_dir("root/tmp/perf-7.map"), "w");

	(void)state;
	assert_non_null(f);
	for (unsigned i = 0; i < 600000; i++)
		fprintf(f, "%x 10 f%u\n", 0x10000 + 16 * i, i);
	assert_int_equal(fclose(f), 0);
	alarm(100); /* settled at each further line, it would take an hour */
	j = looked_at();
	for (int round = 0; round < 20 && !*ask(j, SPACE, 0x10000 + 16 * 200000); round++)
		sym_jit__begin(j); /* one may be too short for all */
	alarm(0);
	is(j, 0x10000, "f0");
	is(j, 0x10000 + 16 * 200000, "f200000");
	is(j, 0x10000 + 16 * 599999, "");
	sym_jit__free(j);
}

/* ---- What a file, a user and all may cost ---- */

#define OF_FILE (1U << 18) /* functions */
#define OF_USER (3U << 17)
#define OF_ALL	(1U << 19)

static uint64_t nth(unsigned int n)
{
	return 0x10000 + 16ULL * n;
}

/* `cnt` functions in lines of `width` bytes each. */
static void put_functions(unsigned int cnt, int width)
{
	FILE *f = fopen(in_dir("root/tmp/perf-7.map"), "w");

	assert_non_null(f);
	for (unsigned int i = 0; i < cnt; i++)
		fprintf(f, "%016" PRIx64 " 10 f%0*u\n", nth(i), width - 22, i);
	assert_int_equal(fclose(f), 0);
}

/* How many of `cnt` functions have a name: the first ones. */
static unsigned int named(struct sym_jit *j, uint32_t space, unsigned int cnt)
{
	unsigned int low = 0, high = cnt;

	while (low < high) {
		unsigned int mid = low + (high - low) / 2;

		if (*ask(j, space, nth(mid)))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Each next process takes what the ones before it have left. */
static void test_room(void **state)
{
	struct sym_jit *j = sym_jit__new(NULL);

	(void)state;
	assert_non_null(j);
	put_functions(OF_FILE + 1000, 30);
	tick_ns = 1; /* time is no matter */
	for (uint32_t space = 1; space <= 3; space++)
		look(j, space, -1);
	sym_jit__begin(j);
	assert_int_equal(named(j, 1, OF_FILE + 1000), OF_FILE);
	assert_int_equal(named(j, 2, OF_FILE + 1000), OF_USER - OF_FILE);
	assert_int_equal(named(j, 3, OF_FILE + 1000), 0);
	if (geteuid()) {
		printf("not root: other users have no files here\n");
	} else {
		give_to(1001);
		look(j, 4, -1);
		assert_int_equal(named(j, 4, OF_FILE + 1000), OF_ALL - OF_USER);
		give_to(1002);
		look(j, 5, -1);
		assert_int_equal(named(j, 5, OF_FILE + 1000), 0);
		/* What ends makes room. */
		sym_jit__forget(j, 1);
		look(j, 6, -1);
		assert_int_equal(named(j, 6, OF_FILE + 1000), OF_FILE);
	}
	sym_jit__free(j);
}

#define BLOCK	 (64U << 10) /* is read at once, with a look at the clock before each */
#define MS	 1000000ULL
#define IN_BLOCK (BLOCK / 1024)

/* Blocks that are read of one more process in this round, of 100. */
static unsigned int blocks(struct sym_jit *j, uint32_t space)
{
	return named(j, space, 100 * IN_BLOCK) / IN_BLOCK;
}

/* One block takes 5 ms: 200 ms for a file, 250 ms for a user, 350 ms for all. */
static void test_time(void **state)
{
	struct sym_jit *j = sym_jit__new(NULL);
	unsigned int first, second, other;

	(void)state;
	assert_non_null(j);
	put_functions(100 * IN_BLOCK, 1024);
	tick_ns = 5 * MS;
	for (uint32_t space = 1; space <= 3; space++)
		look(j, space, -1);
	sym_jit__begin(j);
	first = blocks(j, 1);
	second = blocks(j, 2);
	assert_in_range(first, 30, 40);
	assert_in_range(second, 2, 10);
	assert_int_equal(blocks(j, 3), 0);
	if (geteuid()) {
		printf("not root: other users have no files here\n");
	} else {
		give_to(1001);
		look(j, 4, -1);
		other = blocks(j, 4);
		assert_in_range(other, 10, 20);
		give_to(1002);
		look(j, 5, -1);
		assert_int_equal(blocks(j, 5), 0);
	}
	/* The rest comes later, and nobody stays without. */
	for (int round = 0; round < 40; round++) {
		sym_jit__begin(j);
		for (uint32_t space = 1; space <= 3; space++)
			ask(j, 1 + (space + (uint32_t)round) % 3, nth(0));
	}
	for (uint32_t space = 1; space <= 3; space++)
		assert_int_equal(blocks(j, space), 100);
	sym_jit__free(j);
}

/* Bytes of one file: what is behind 64 MiB is not read, although it takes no room on the disk. */
static void test_bytes(void **state)
{
	static const char in[] = "\n2000 10 in\n", out[] = "\n3000 10 out\n";
	const off_t end = 64 << 20;
	struct sym_jit *j;
	int fd;

	(void)state;
	put_map("1000 10 first\n");
	fd = open(in_dir("root/tmp/perf-7.map"), O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, in, sizeof(in) - 1, end - BLOCK), sizeof(in) - 1);
	assert_int_equal(pwrite(fd, out, sizeof(out) - 1, end + 2 * BLOCK), sizeof(out) - 1);
	assert_int_equal(close(fd), 0);
	tick_ns = 1;
	j = looked_at();
	is(j, 0x1000, "first");
	is(j, 0x2000, "in");
	is(j, 0x3000, "");
	sym_jit__begin(j);
	is(j, 0x3000, "");
	sym_jit__free(j);
}

/* ---- Whose file is it ---- */

static void test_strangers(void **state)
{
	struct sym_jit *j;

	(void)state;
	if (geteuid()) {
		printf("skip: not root\n");
		skip();
	}
	put_map("1000 10 stranger\n");
	assert_int_equal(chown(in_dir("root/tmp/perf-7.map"), 12345, 0), 0);
	j = looked_at();
	is(j, 0x1000, "");
	assert_int_equal(chown(in_dir("root/tmp/perf-7.map"), 0, 0), 0);
	sym_jit__begin(j);
	is(j, 0x1000, "stranger");
	sym_jit__free(j);
}

static void test_no_file(void **state)
{
	struct sym_jit *j = looked_at();
	char outside[300];

	(void)state;
	put("outside", "1000 10 outside\n", 16, "w");
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	assert_int_equal(symlink(outside, in_dir("root/tmp/perf-7.map")), 0);
	is(j, 0x1000, "");
	unlink(in_dir("root/tmp/perf-7.map"));
	/* a directory of the path leads out of the root: it must not */
	assert_int_equal(rmdir(in_dir("root/tmp")), 0);
	put("perf-7.map", "1000 10 outside\n", 16, "w");
	assert_int_equal(symlink("..", in_dir("root/tmp")), 0);
	sym_jit__begin(j);
	is(j, 0x1000, "");
	unlink(in_dir("root/tmp"));
	assert_int_equal(symlink(dir, in_dir("root/tmp")), 0);
	sym_jit__begin(j);
	is(j, 0x1000, "");
	unlink(in_dir("root/tmp"));
	assert_int_equal(mkdir(in_dir("root/tmp"), 0755), 0);
	/* nobody writes to this pipe */
	assert_int_equal(mkfifo(in_dir("root/tmp/perf-7.map"), 0644), 0);
	sym_jit__begin(j);
	is(j, 0x1000, "");
	sym_jit__free(j);
}

/* ---- fork ---- */

static void test_fork(void **state)
{
	struct sym_jit *j;

	(void)state;
	put_map("1000 10 parent\n");
	j = looked_at();
	sym_jit__fork(j, 2, SPACE);
	sym_jit__fork(j, 3, 2);
	sym_jit__forget(j, SPACE);
	assert_string_equal(ask(j, 2, 0x1000), "parent");
	sym_jit__forget(j, 2);
	assert_string_equal(ask(j, 3, 0x1000), "parent");
	sym_jit__fork(j, 3, 3);
	sym_jit__fork(j, 5, 4); /* of one that generates nothing */
	sym_jit__free(j);
}

/* The file of another process: each look opens what has the name then. */
static void next_map(const char *text)
{
	assert_int_equal(unlink(in_dir("root/tmp/perf-7.map")), 0);
	put_map(text);
}

/* A child that compiles, too: its own names first, then those that it was forked with. */
static void test_fork_with_map(void **state)
{
	struct sym_jit *j;

	(void)state;
	put_map("1000 10 parent\n3000 10 replaced\n");
	j = looked_at();
	is(j, 0x1000, "parent");
	sym_jit__fork(j, 2, SPACE);
	append_map("4000 10 later\n5000 10 parent only\n");
	next_map("2000 10 child\n3000 10 own\n5000 10 child only\n");
	look(j, 2, -1);
	sym_jit__begin(j);
	is(j, 0x4000, "later");
	is(j, 0x5000, "parent only");
	assert_string_equal(ask(j, 2, 0x1000), "parent");
	assert_string_equal(ask(j, 2, 0x2000), "child");
	assert_string_equal(ask(j, 2, 0x3000), "own");
	assert_string_equal(ask(j, 2, 0x4000), ""); /* compiled after the fork: not in the child */
	assert_string_equal(ask(j, 2, 0x5000), "child only");
	/* A child of the child has both, also when they have ended. */
	sym_jit__fork(j, 3, 2);
	next_map("6000 10 grandchild\n");
	look(j, 3, -1);
	sym_jit__forget(j, SPACE);
	sym_jit__forget(j, 2);
	sym_jit__begin(j);
	assert_string_equal(ask(j, 3, 0x1000), "parent");
	assert_string_equal(ask(j, 3, 0x2000), "child");
	assert_string_equal(ask(j, 3, 0x4000), "");
	assert_string_equal(ask(j, 3, 0x6000), "grandchild");
	sym_jit__free(j);
}

/* Each process of a chain of forks writes a map, and ends: not all of them are kept open. */
static void test_long_chain_of_forks(void **state)
{
	struct sym_jit *j;
	int first, last;

	(void)state;
	put_map("1000 10 first\n");
	j = looked_at();
	first = dup(0);
	assert_int_equal(close(first), 0);
	for (uint32_t space = SPACE; space < SPACE + 100; space++) {
		sym_jit__fork(j, space + 1, space);
		next_map("2000 10 one\n");
		look(j, space + 1, -1);
		sym_jit__forget(j, space);
		sym_jit__begin(j);
		assert_string_equal(ask(j, space + 1, 0x2000), "one");
	}
	last = dup(0);
	assert_int_equal(close(last), 0);
	assert_true(last - first < 50);
	sym_jit__free(j);
}

/* ---- jitdump ---- */

struct dump {
	uint8_t bytes[4096];
	size_t size;
};

static void add(struct dump *d, const void *data, size_t size)
{
	assert_true(d->size + size <= sizeof(d->bytes));
	memcpy(d->bytes + d->size, data, size);
	d->size += size;
}

static void begin(struct dump *d)
{
	const uint32_t head[] = { 0x4a695444, 1, 40, 62, 0, PID, 0, 0, 0, 0 };

	d->size = 0;
	add(d, head, sizeof(head));
}

static void record(struct dump *d, uint32_t id, const void *body, size_t size)
{
	const uint32_t head[] = { id, (uint32_t)size + 16, 0, 0 };

	add(d, head, sizeof(head));
	add(d, body, size);
}

static void load(struct dump *d, uint64_t addr, uint64_t index, const char *name)
{
	uint8_t body[256] = { 0 };
	uint64_t fixed[] = { 0, addr, addr, 0x10, index };

	memcpy(body, fixed, sizeof(fixed));
	strcpy((char *)body + sizeof(fixed), name);
	memset(body + sizeof(fixed) + strlen(name) + 1, 0xcc, 0x10);
	record(d, 0, body, sizeof(fixed) + strlen(name) + 1 + 0x10);
}

static void move(struct dump *d, uint64_t from, uint64_t to, uint64_t index)
{
	const uint64_t body[] = { 0, to, from, to, 0x10, index };

	record(d, 1, body, sizeof(body));
}

static struct sym_jit *with_dump(const struct dump *d)
{
	struct sym_jit *j = sym_jit__new(NULL);

	put("jit.dump", d->bytes, d->size, "w");
	look(j, SPACE, open(in_dir("jit.dump"), O_RDONLY | O_CLOEXEC));
	sym_jit__begin(j);
	return j;
}

static void test_dump(void **state)
{
	static const uint8_t debug_info[64];
	struct sym_jit *j;
	struct dump d;

	(void)state;
	begin(&d);
	record(&d, 2, debug_info, sizeof(debug_info));
	load(&d, 0x1000, 1, "first");
	record(&d, 4, debug_info, 3);
	load(&d, 0x2000, 2, "second");
	load(&d, 0x1000, 3, "again");
	load(&d, 0x3000, 4, "moves");
	move(&d, 0x3000, 0x4000, 4);
	j = with_dump(&d);
	is(j, 0x1000, "again");
	is(j, 0x200f, "second");
	is(j, 0x2010, "");
	is(j, 0x3000, "");
	is(j, 0x4008, "moves");
	begin(&d);
	d.size = 0;
	move(&d, 0x4000, 0x5000, 4);
	load(&d, 0x4000, 5, "new");
	put("jit.dump", d.bytes, d.size - 1, "a"); /* the last byte is on its way */
	sym_jit__begin(j);
	is(j, 0x5000, "moves");
	is(j, 0x4000, "");
	put("jit.dump", "", 1, "a");
	sym_jit__begin(j);
	is(j, 0x4000, "new");
	assert_true(sym_jit__is_trampoline(j, SPACE, 0)); /* perhaps not written yet */
	assert_false(sym_jit__is_trampoline(j, SPACE, sym_jit__find(j, SPACE, 0x4000)));
	sym_jit__free(j);
}

static void test_dump_ends(void **state)
{
	struct sym_jit *j;
	struct dump d;

	(void)state;
	begin(&d);
	load(&d, 0x1000, 1, "before");
	record(&d, 3, "", 0);
	load(&d, 0x2000, 2, "behind");
	j = with_dump(&d);
	is(j, 0x1000, "before");
	is(j, 0x2000, "");
	sym_jit__free(j);
	begin(&d);
	d.bytes[0]++;
	load(&d, 0x1000, 1, "no magic");
	j = with_dump(&d);
	is(j, 0x1000, "");
	sym_jit__free(j);
}

static void test_trampoline(void **state)
{
	struct sym_jit *j;

	(void)state;
	put_map("1000 10 py::f:/x.py\n2000 10 other\n");
	j = looked_at();
	assert_true(sym_jit__is_trampoline(j, SPACE, sym_jit__find(j, SPACE, 0x1000)));
	assert_false(sym_jit__is_trampoline(j, SPACE, sym_jit__find(j, SPACE, 0x2000)));
	assert_false(sym_jit__is_trampoline(j, SPACE, 0));
	sym_jit__free(j);
}

/* ---- Mappings ---- */

static void is_line(const char *text, bool generated, bool dump)
{
	struct map_line line;

	assert_int_equal(map_line__parse(&line, text, strlen(text)), 0);
	assert_int_equal(map_line__is_generated(&line), generated);
	assert_int_equal(map_line__is_jitdump(&line), dump);
}

static void test_mappings(void **state)
{
	(void)state;
	is_line("1000-2000 r-xp 00000000 00:00 0 ", true, false);
	is_line("1000-2000 rw-p 00000000 00:00 0 ", false, false);
	is_line("1000-2000 r-xp 00000000 00:00 0                          [heap]", true, false);
	is_line("1000-2000 r-xp 00000000 00:00 0                          [vdso]", false, false);
	is_line("1000-2000 --xp 00000000 00:00 0                          [vsyscall]", false,
		false);
	is_line("1000-2000 r-xs 00000000 00:01 3                          /dev/zero (deleted)",
		true, false);
	is_line("1000-2000 r-xs 00000000 00:01 12                         /memfd:jit (deleted)",
		true, false);
	is_line("1000-2000 r-xp 00000000 fe:00 12                         /tmp/jit-12.dump", true,
		true);
	is_line("1000-2000 r-xp 00000000 fe:00 12                         /tmp/jit-.dump", true,
		false);
	is_line("1000-2000 r--p 00000000 fe:00 12                         /tmp/jit-12.dump", false,
		false);
	is_line("1000-2000 r-xp 00000000 fe:00 12                         /jit-12.dum", true,
		false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_map),		  TEST(test_deleted),
		TEST(test_comes_late),	  TEST(test_long_line),
		TEST(test_overwritten),	  TEST(test_strangers),
		TEST(test_no_file),	  TEST(test_fork),
		TEST(test_fork_with_map), TEST(test_long_chain_of_forks),
		TEST(test_dump),	  TEST(test_dump_ends),
		TEST(test_trampoline),	  cmocka_unit_test(test_mappings),
		TEST(test_too_many),	  TEST(test_room),
		TEST(test_time),	  TEST(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
