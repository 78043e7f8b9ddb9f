/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Lines of many processes stand below the names of these, each in its order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/blocks.h"

static const char *name_of(void *ctx, pid_t pid, uint64_t ns)
{
	(void)ctx, (void)ns;
	return pid == 1 ? "one" : "other";
}

static void add(struct blocks *b, pid_t pid, const char *line)
{
	blocks__add(b, pid, line, strlen(line));
}

/* Lets stdout go to a file meanwhile. */
static int divert(const char *path, int *old)
{
	fflush(stdout);
	*old = dup(1);
	return freopen(path, "w+", stdout) ? 0 : -1;
}

static void restore(int old)
{
	fflush(stdout);
	__fpurge(stdout); /* what found no room */
	dup2(old, 1);
	close(old);
	clearerr(stdout);
}

static void groups_lines(void **state)
{
	char path[] = "/tmp/test_call_blocks.XXXXXX", text[512] = "";
	struct blocks *b = blocks__new(name_of, NULL);
	int fd = mkstemp(path), old, err;
	ssize_t len;

	(void)state;
	assert_int_equal(divert(path, &old), 0);
	add(b, 1, "a\n");
	add(b, 2, "b\n");
	add(b, 1, "c\n");
	err = blocks__flush(b);
	add(b, 2, "d\n"); /* its name is above already */
	add(b, 1, "e\n");
	blocks__remark(b, "lost\n", 5);
	add(b, 1, "f\n");
	err = err ? err : blocks__flush(b);
	restore(old);
	assert_int_equal(err, 0);
	len = read(fd, text, sizeof(text) - 1);
	assert_true(len > 0);
	assert_string_equal(text,
			    "process 1 (one)\na\nc\nprocess 2 (other)\nb\nd\nprocess 1 (one)\n"
			    "e\nlost\nprocess 1 (one)\nf\n");
	blocks__free(b);
	blocks__free(NULL);
	close(fd);
	unlink(path);
}

/* Names may be remarks. */
static void marks_names(void **state)
{
	char path[] = "/tmp/test_call_blocks.XXXXXX", text[512] = "";
	struct blocks *b = blocks__new(name_of, NULL);
	int fd = mkstemp(path), old, err;
	ssize_t len;

	(void)state;
	blocks__set_mark(b, "# ");
	assert_int_equal(divert(path, &old), 0);
	add(b, 1, "a\n");
	add(b, 2, "b\n");
	err = blocks__flush(b);
	restore(old);
	assert_int_equal(err, 0);
	len = read(fd, text, sizeof(text) - 1);
	assert_true(len > 0);
	assert_string_equal(text, "# process 1 (one)\na\n# process 2 (other)\nb\n");
	blocks__free(b);
	close(fd);
	unlink(path);
}

#define LINE	      "...............................................................\n"
#define WRITTEN_BYTES (4 << 20)

static void add_many(struct blocks *b)
{
	for (int i = 0; i < WRITTEN_BYTES; i += 64)
		blocks__add(b, i % 3 + 1, LINE, 64);
}

/* What waits is bounded. */
static void writes_by_itself(void **state)
{
	char path[] = "/tmp/test_call_blocks.XXXXXX";
	struct blocks *b = blocks__new(name_of, NULL);
	int fd = mkstemp(path), old;
	long before;

	(void)state;
	assert_int_equal(divert(path, &old), 0);
	add_many(b);
	before = ftell(stdout);
	restore(old);
	assert_true(before > WRITTEN_BYTES / 2);
	blocks__free(b);
	close(fd);
	unlink(path);
}

static void says_a_full_disk(void **state)
{
	struct blocks *b = blocks__new(name_of, NULL);
	int old, err;

	(void)state;
	assert_int_equal(divert("/dev/full", &old), 0);
	add_many(b);
	err = blocks__flush(b);
	restore(old);
	assert_int_equal(err, -ENOSPC);
	blocks__free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_lines),
		cmocka_unit_test(marks_names),
		cmocka_unit_test(writes_by_itself),
		cmocka_unit_test(says_a_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
