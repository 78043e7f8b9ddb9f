/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The page that says who grew when the kernel killed a process for lack of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/oom.h"

static char dir[] = "/tmp/test_agent_oom.XXXXXX";

#include "owndir.h"

static void put(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc", dir);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/proc/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* statm of a process, in MiB of pages of 4 KiB */
static void put_rss(unsigned pid, unsigned mib)
{
	char path[128], name[64], text[64];

	snprintf(path, sizeof(path), "%s/proc", dir);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/proc/%u", dir, pid);
	mkdir(path, 0755);
	snprintf(name, sizeof(name), "%u/statm", pid);
	snprintf(text, sizeof(text), "999999 %u 1 1 0 1 0\n", mib * 256);
	put(name, text);
}

static void kills(unsigned cnt)
{
	char text[64];

	snprintf(text, sizeof(text), "nr_free_pages 1\noom_kill %u\nother 2\n", cnt);
	put("vmstat", text);
}

/* The only page, to be freed; its name in `path`. NULL: there is none. */
static char *page(char *path, size_t size)
{
	static char text[16384];
	struct dirent *e;
	DIR *d = opendir(dir);
	char *found = NULL;

	assert_non_null(d);
	while ((e = readdir(d))) {
		FILE *f;

		if (strncmp(e->d_name, "oom-", 4) != 0)
			continue;
		assert_null(found);
		snprintf(path, size, "%s/%s", dir, e->d_name);
		f = fopen(path, "r");
		assert_non_null(f);
		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
		fclose(f);
		found = text;
	}
	closedir(d);
	return found;
}

/* Second by second, with two processes of which the first one grows. */
static void live(struct oom *o, uint64_t from_s, uint64_t to_s)
{
	for (uint64_t s = from_s; s < to_s; s++) {
		put_rss(11, 100 + (unsigned)s);
		put_rss(12, 300);
		oom__note(o, 1, 11, "leaky \x1b[31mserver", false);
		oom__note(o, 2, 12, "steady", false);
		oom__read(o, s);
		assert_false(oom__is_due(o, s));
	}
}

static void test_who_grew(void **state)
{
	struct oom *o = oom__new(dir);
	char path[300], *text;
	struct stat st;

	(void)state;
	assert_non_null(o);
	kills(5); /* before we looked */
	live(o, 1, 30);
	kills(6);
	oom__note(o, 1, 11, "leaky server", true);
	oom__note(o, 2, 12, "steady", false);
	oom__read(o, 30);
	assert_false(oom__is_due(o, 30));
	assert_true(oom__is_due(o, 30 + OOM_SETTLE_S));
	assert_int_equal(oom__write(o, dir, "Ask the windows.", 1795255200), 0);
	assert_false(oom__is_due(o, 100));
	text = page(path, sizeof(path));
	assert_non_null(text);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_non_null(strstr(path, "/oom-20261121T100000Z.txt"));
	assert_non_null(strstr(text, "The kernel killed 1 process for lack of memory"));
	/* Readings at 1, 6, ... 26 s. */
	assert_non_null(strstr(text, "       11  126.0 MiB, +25.0 MiB in 25 s  leaky "));
	assert_null(strchr(text, 0x1b));
	assert_null(strstr(text, "steady")); /* it goes on, and did not grow */
	assert_non_null(strstr(text, "Ask the windows."));
	unlink(path);
	oom__free(o);
}

/* No process that is known: those that go on and grew are listed; and pages do not become many. */
static void test_others(void **state)
{
	struct oom *o = oom__new(dir);
	char path[300], *text;

	(void)state;
	assert_non_null(o);
	kills(1);
	live(o, 1, 30);
	kills(3);
	oom__note(o, 1, 11, "leaky", false);
	oom__note(o, 2, 12, "steady", false);
	oom__read(o, 30);
	for (unsigned i = 0; i < 2 * OOM_PAGES; i++)
		assert_int_equal(oom__write(o, dir, "", 1795255200 + i), 0);
	for (unsigned i = OOM_PAGES; i < 2 * OOM_PAGES - 1; i++) {
		snprintf(path, sizeof(path), "%s/oom-20261121T1000%02uZ.txt", dir, i);
		assert_int_equal(unlink(path), 0);
	}
	text = page(path, sizeof(path)); /* the last one, and none of the first */
	assert_non_null(text);
	assert_non_null(strstr(text, "killed 0 processes"));
	assert_non_null(strstr(text, "at that time, the largest first"));
	assert_non_null(strstr(text, "       11  126.0 MiB, +25.0 MiB"));
	unlink(path);
	oom__free(o);
}

/* A clock that ran ahead left pages: a new one is not the oldest of them. */
static void test_clock_set_back(void **state)
{
	struct oom *o = oom__new(dir);
	char path[300];

	(void)state;
	assert_non_null(o);
	for (unsigned i = 0; i < OOM_PAGES; i++)
		assert_int_equal(oom__write(o, dir, "", 4070908800 + i), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(oom__write(o, dir, "", 1795255200 + i), 0);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/oom-20261121T1000%02uZ.txt", dir, i);
		assert_int_equal(unlink(path), 0);
	}
	for (unsigned i = 0; i < OOM_PAGES; i++) { /* the first two gave way */
		snprintf(path, sizeof(path), "%s/oom-20990101T0000%02uZ.txt", dir, i);
		assert_int_equal(unlink(path), i < 2 ? -1 : 0);
	}
	oom__free(o);
}

/* A kernel that does not count, a directory that is not there, more processes than are read. */
static void test_limits(void **state)
{
	struct oom *o = oom__new("/nonexistent");

	(void)state;
	assert_non_null(o);
	for (unsigned i = 0; i < 2 * OOM_PROCESSES; i++)
		oom__note(o, i + 1, i + 1, "x", false);
	oom__read(o, 1);
	assert_false(oom__is_due(o, 100));
	assert_true(oom__write(o, "/nonexistent/dir", "", 1) < 0);
	oom__free(o);
	oom__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_grew),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_clock_set_back),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
