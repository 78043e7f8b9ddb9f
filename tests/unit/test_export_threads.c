/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Threads, as text and as JSON, from a profile built by hand. */
#include "threads/export_threads.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "profiles.h"

#define THREADS(array) .threads = array, .thread_cnt = sizeof(array) / sizeof(array[0])

static char *text(const struct dumped_process *d)
{
	char *buf = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&buf, &len);

	assert_int_equal(export_threads__text(f, d, false), 0);
	fclose(f);
	return buf;
}

static char *json(const struct dumped_process *d)
{
	char *buf = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&buf, &len);

	assert_int_equal(export_threads__json(f, d), 0);
	fclose(f);
	return buf;
}

static void check(char *got, const char *want)
{
	assert_string_equal(got, want);
	free(got);
}

/* The name is one that nobody should show as it is. */
static struct profile *app(const char *name)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 4711, "app", "/usr/bin/python3.11", "3.11.2", "", "");
	int libc = add_module(p, "/usr/lib/libc.so.6", "", 0, 0x1000);
	int start = native(p, "_start", libc, 0x10), anon = native(p, "", -1, 0x7f00);
	int nanosleep = native(p, "clock_nanosleep", libc, 0x20);
	int kernel = kern(p, "do_syscall_64", 0xffffffff81000000);
	int module = py(p, "<module>", "/srv/app.py", 40, 1);
	int worker = py(p, name, "/srv/app.py", 12, 10);

	p->procs[proc].title = profile__intern_z(p, "celery worker shop");
	STACK(p, proc, 4711, 1, start, module, worker, nanosleep, kernel);
	STACK(p, proc, 4712, 1, start, anon);
	STACK(p, proc, 4713, 1, start, module, nanosleep);
	symbolized(p);
	return p;
}

static void test_text(void **state)
{
	struct profile *p = app("worker");
	const str_id main = profile__intern_z(p, "main"), odd = profile__intern_z(p, "\033[1m\n");
	const struct dumped_thread threads[] = {
		{ 4711, main, DUMPED_SLEEPING, SYS_clock_nanosleep, GIL_HOLDS, 0, false, "sleep" },
		{ 4712, odd, DUMPED_BLOCKED, -1, GIL_UNKNOWN, 1, false, "page fault" },
		{ 4713, main, DUMPED_RUNNING, -1, GIL_NONE, 2, true, NULL },
		{ 4714, main, DUMPED_SLEEPING, SYS_futex, GIL_WAITS, -1, true, "GIL" },
		{ 4715, main, DUMPED_ENDED, -1, GIL_UNKNOWN, -1, false, NULL },
		{ 4716, main, DUMPED_STOPPED, 4095, GIL_NONE, -1, false, NULL },
	};
	struct dumped_process d = { .p = p, THREADS(threads) };

	(void)state;
	check(text(&d),
	      "Process 4711 (celery worker shop), Python 3.11.2, /usr/bin/python3.11\n"
	      "6 threads, most recent call first\n"
	      "\n"
	      "Thread 4711 \"main\": sleeping in clock_nanosleep (waits: sleep), holds the GIL\n"
	      "    worker (/srv/app.py:12)\n"
	      "    <module> (/srv/app.py:40)\n"
	      "\n"
	      "Thread 4712 \"\xef\xbf\xbd[1m\xef\xbf\xbd\": blocked in the kernel "
	      "(waits: page fault)\n"
	      "    in native code: _start [libc.so.6]\n"
	      "    (no Python frames)\n"
	      "\n"
	      "Thread 4713 \"main\": running, without the GIL (it ran while its stack was read, "
	      "which may be wrong)\n"
	      "    in native code: clock_nanosleep [libc.so.6]\n"
	      "    <module> (/srv/app.py:40)\n"
	      "\n"
	      "Thread 4714 \"main\": waiting for the GIL (it ran while its stack was read, which "
	      "may "
	      "be wrong)\n"
	      "    (its stack could not be read)\n"
	      "\n"
	      "Thread 4715 \"main\": has ended\n"
	      "\n"
	      "Thread 4716 \"main\": stopped in system call 4095\n"
	      "    (its stack could not be read)\n");
	d.native = true;
	d.thread_cnt = 2;
	check(text(&d),
	      "Process 4711 (celery worker shop), Python 3.11.2, /usr/bin/python3.11\n"
	      "2 threads, most recent call first\n"
	      "\n"
	      "Thread 4711 \"main\": sleeping in clock_nanosleep (waits: sleep), holds the GIL\n"
	      "    do_syscall_64 [kernel]\n"
	      "    clock_nanosleep (/usr/lib/libc.so.6)\n"
	      "    worker (/srv/app.py:12)\n"
	      "    <module> (/srv/app.py:40)\n"
	      "    _start (/usr/lib/libc.so.6)\n"
	      "\n"
	      "Thread 4712 \"\xef\xbf\xbd[1m\xef\xbf\xbd\": blocked in the kernel "
	      "(waits: page fault)\n"
	      "    0x7f00 ([anon])\n"
	      "    _start (/usr/lib/libc.so.6)\n");
	profile__free(p);
}

/* Parts of one text: the process stands above the first one only, with all its threads. */
static void test_parts(void **state)
{
	struct profile *p = app("worker");
	const struct dumped_thread threads[] = { { 4712, 0, DUMPED_RUNNING, -1, GIL_NONE, 0, false,
						   NULL } };
	struct dumped_process d = { .p = p, THREADS(threads), .all_cnt = 900 };
	char *first = text(&d), *next;

	(void)state;
	assert_non_null(strstr(first, "\n900 threads, most recent call first\n\nThread 4712"));
	d.is_continued = true;
	next = text(&d);
	assert_int_equal(strncmp(next, "\nThread 4712", 12), 0);
	assert_string_equal(next, strstr(first, "\nThread 4712"));
	free(first);
	free(next);
	profile__free(p);
}

static void test_json(void **state)
{
	struct profile *p = app("a\"\033\n</script>");
	const struct dumped_thread threads[] = {
		{ 4711, 0, DUMPED_SLEEPING, SYS_futex, GIL_WAITS, 0, false, "lock" },
		{ 4712, 0, DUMPED_RUNNING, -1, GIL_UNKNOWN, 1, true, NULL },
	};
	struct dumped_process d = { .p = p, THREADS(threads) };
	char want[2048];

	(void)state;
	snprintf(want, sizeof(want),
		 "{\"pid\":4711,\"comm\":\"app\",\"title\":\"celery worker shop\","
		 "\"exe\":\"/usr/bin/python3.11\","
		 "\"python\":\"3.11.2\","
		 "\"native_only\":null,\"container\":null,\"threads\":[\n"
		 "{\"tid\":4711,\"name\":null,\"state\":\"sleeping\",\"syscall_number\":%d,"
		 "\"syscall\":\"futex\",\"waits_for\":\"lock\",\"gil\":\"waits\","
		 "\"consistent\":true,\"frames\":[\n"
		 "{\"kind\":\"python\",\"function\":\"a\\\"\\u001b\\u000a\\u003c/script\\u003e\","
		 "\"file\":\"/srv/app.py\",\"line\":12,\"module\":null,\"address\":null},\n"
		 "{\"kind\":\"python\",\"function\":\"\\u003cmodule\\u003e\","
		 "\"file\":\"/srv/app.py\",\"line\":40,\"module\":null,\"address\":null}]},\n"
		 "{\"tid\":4712,\"name\":null,\"state\":\"running\",\"syscall_number\":null,"
		 "\"syscall\":null,\"waits_for\":null,\"gil\":null,"
		 "\"consistent\":false,\"frames\":[]}]}\n",
		 SYS_futex);
	check(json(&d), want);
	profile__free(p);
}

static void test_stream_error(void **state)
{
	struct profile *p = app("worker");
	const struct dumped_thread threads[] = { { 4711, 0, DUMPED_RUNNING, -1, GIL_NONE, 0, false,
						   NULL } };
	const struct dumped_process d = { .p = p, THREADS(threads) };
	FILE *f = fopen("/dev/full", "we");

	(void)state;
	errno = EBADF; /* of something else */
	assert_int_equal(export_threads__json(f, &d), -ENOSPC);
	fclose(f);
	f = fopen("/dev/full", "we");
	errno = EBADF;
	assert_int_equal(export_threads__text(f, &d, true), -ENOSPC);
	fclose(f);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_stream_error),
	};

	return cmocka_run_group_tests_name("export_threads", tests, NULL, NULL);
}
