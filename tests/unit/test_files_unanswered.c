/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Files about which a process gives no answer are asked about again for another process of the same
 * round: one question is about many files, and not all of them are to blame.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/tenant.h"
#include "process/file_batch.h"

#define SHARED 7 /* inodes: of all processes */
#define OWN    8 /* ... of one */

static struct {
	uint32_t silent_from, silent_to; /* processes: questions about them have no answer */
	int err;
	bool roots;
	int asked;
} world;

static void fake_ask(struct file_batch *m, uint32_t tgid)
{
	bool silent = tgid >= world.silent_from && tgid < world.silent_to;

	world.asked++;
	for (size_t i = 0; i < m->cnt; i++)
		m->answers[i] = (struct file_answer){ .start = m->lines[i]->start,
						      .inode = m->lines[i]->inode,
						      .err = silent ? world.err : -ENOEXEC,
						      .file = OPENED_NONE };
	m->answered = true;
}

#define file_batch__ask(m, rs, tgid, proc_fd) ((void)(proc_fd), fake_ask(m, tgid))
#define tenant__of_process(tgid)	      ((uint64_t)(tgid))
#define tenant__is_roots(tenant)	      ((void)(tenant), world.roots)
#include "../../user/process/files.c"

static const struct map_line lines[] = {
	{ .start = 0x1000, .end = 0x2000, .inode = SHARED, .name = "/python", .name_len = 7 },
	{ .start = 0x3000, .end = 0x4000, .inode = OWN, .name = "/silent", .name_len = 7 },
};

/* Of the first file; `cnt` are mapped. */
static int is_python(struct file_table *ft, uint32_t tgid, size_t cnt)
{
	int found;

	file_table__enter(ft, tgid, -1, lines, cnt);
	found = file_table__is_python(ft, &lines[0]);
	file_table__leave(ft);
	return found;
}

static void end(struct file_table *ft)
{
	struct inode *inode;

	for (size_t at = 0; (inode = idmap__next(&ft->inodes, &at));)
		free(inode);
	idmap__free(&ft->inodes);
}

/* Whatever the reason is. */
static void another_one_is_asked(void **state)
{
	static const int errors[] = { -ETIMEDOUT, -EBUSY, -ECHILD };

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct file_table ft = { .round = 1 };

		memset(&world, 0, sizeof(world));
		world.silent_from = 1;
		world.silent_to = 2;
		world.err = errors[i];
		assert_int_equal(is_python(&ft, 1, 2), errors[i]);
		assert_int_equal(is_python(&ft, 1, 2), errors[i]);
		assert_int_equal(world.asked, 1); /* once about each process */
		assert_int_equal(is_python(&ft, 2, 1), 0);
		assert_int_equal(world.asked, 2);
		assert_int_equal(is_python(&ft, 1, 2), 0); /* and it is known for all */
		assert_int_equal(world.asked, 2);
		end(&ft);
	}
}

/* A disk that does not answer holds up no more than some of root's processes. */
static void roots_ask_seldom(void **state)
{
	struct file_table ft = { .round = 1 };

	(void)state;
	memset(&world, 0, sizeof(world));
	world.silent_from = 1;
	world.silent_to = 1000;
	world.err = -ETIMEDOUT;
	world.roots = true;
	for (uint32_t tgid = 1; tgid < 100; tgid++)
		assert_int_equal(is_python(&ft, tgid, 2), -ETIMEDOUT);
	assert_int_equal(world.asked, ROOTS_UNANSWERED_MAX);
	world.roots = false;
	assert_int_equal(is_python(&ft, 1000, 1), 0);
	end(&ft);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_one_is_asked),
		cmocka_unit_test(roots_ask_seldom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
