/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* loopbook.c: what a thread did since the last window, from counts of the kernel half that wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "follow/object.h"
#include "sample/dump.h"

/* The kernel's table: one thread, or none. */
static struct {
	bool there;
	struct loop_thread l;
	struct shares shares;
} table;

static int fake_next(int fd, const void *key, void *next)
{
	(void)fd;
	memset(next, 1, sizeof(uint32_t));
	return key || !table.there ? -ENOENT : 0;
}

static int fake_lookup(int fd, const void *key, void *value)
{
	(void)fd, (void)key;
	memcpy(value, &table.l, sizeof(table.l));
	return 0;
}

static int fake_delete(int fd, const void *key)
{
	(void)fd, (void)key;
	table.there = false;
	return 0;
}

#define bpf_map_get_next_key(fd, key, next)    fake_next(fd, key, next)
#define bpf_map_lookup_elem(fd, key, value)    fake_lookup(fd, key, value)
#define bpf_map_delete_elem(fd, key)	       fake_delete(fd, key)
#define object__loops_fd(object)	       ((void)(object), 0)
#define object__loop_shares(object)	       ((void)(object), &table.shares)
#define dump__find_proc(procs, profile, space) ((void)(procs), (void)(profile), (void)(space), 0)
#include "../../user/sample/loopbook.c"

#define POLL 77 /* the key of the stack of its poll */

static struct loopbook *book;

static int begin(void **state)
{
	(void)state;
	book = loopbook__new(NULL);
	assert_non_null(book);
	memset(&table, 0, sizeof(table));
	table.there = true;
	table.l = (struct loop_thread){
		.poll_stack = POLL, .known_ns = 5, .space = 1, .tid = 2, .longest_cnt = 0
	};
	return 0;
}

static int end(void **state)
{
	(void)state;
	loopbook__free(book);
	return 0;
}

/* Iterations of a bucket and all, and how many of them were slow. */
static void did(uint32_t bucket, uint32_t cnt, uint32_t slow)
{
	table.l.cnt += cnt;
	table.l.hist[bucket] += cnt;
	table.l.slow_cnt += slow;
	table.l.busy_ns += 1000ULL * cnt;
	table.l.slow_ns += 500ULL * slow;
}

/* The next window has these of the bucket. */
static void expect(uint32_t bucket, uint32_t cnt, uint32_t slow)
{
	struct profile *p = profile__new();
	const struct profile_loop *l;

	assert_non_null(p);
	assert_int_equal(loopbook__note(book, POLL, 0), 0);
	loopbook__take(book, NULL, p);
	assert_int_equal(p->loop_cnt, cnt > 0);
	l = p->loops;
	if (cnt) {
		assert_int_equal(l->cnt, cnt);
		assert_int_equal(l->hist[bucket], cnt);
		assert_int_equal(l->slow_cnt, slow);
		assert_int_equal(l->busy_ns, 1000ULL * cnt);
		assert_int_equal(l->slow_ns, 500ULL * slow);
	}
	profile__free(p);
}

static void each_window_has_its_own(void **state)
{
	(void)state;
	did(3, 10, 2);
	expect(3, 10, 2);
	expect(3, 0, 0);
	did(4, 7, 7);
	expect(4, 7, 7);
}

/* After some days. */
static void counts_wrap(void **state)
{
	(void)state;
	did(3, UINT32_MAX - 5, 9);
	expect(3, UINT32_MAX - 5, 9);
	did(3, 20, 3);
	expect(3, 20, 3);
}

/* Nothing that it did before is taken off, however much it has done since. */
static void a_thread_begins_anew(void **state)
{
	(void)state;
	did(3, 10, 2);
	expect(3, 10, 2);
	memset(table.l.hist, 0, sizeof(table.l.hist));
	table.l.cnt = table.l.slow_cnt = 0;
	table.l.busy_ns = table.l.slow_ns = 0;
	table.l.known_ns = 6;
	did(3, 15, 4);
	expect(3, 15, 4);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_window_has_its_own),
		CASE(counts_wrap),
		CASE(a_thread_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
