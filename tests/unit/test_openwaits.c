/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * openwaits.c: both halves count a wait that goes on at the end of an interval. Whenever its thread
 * wakes up, and whether it ends, they have counted each moment once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/tenant.h"
#include "bpf/counted.bpf.h"
#include "follow/object.h"
#include "process/waitword.h"
#include "sample/session.h"
#include "threads/gil.h"
#include "threads/hostwalk.h"
#include "threads/threadlist.h"
#include "threads/waiter.h"

#define TID	 100
#define INTERVAL (10 * NS_PER_S)
#define FRAME	 0x1234 /* of its stack */

enum { THREADS_FD = 1, COUNTED_FD };

/* Where something may happen. */
enum { NEVER, BEFORE_TELL, BEHIND_TELL, BEHIND_LIST, BEHIND_TABLE, PLACES };

/* ---- the kernel: one thread ------------------------------------------------------------------ */

static struct {
	uint64_t now, since_ns;
	struct thread_now t;
	bool exists, follows; /* the thread, or another one of its number */
	bool known;	      /* to the kernel half */
	struct wait_thread k;
	struct wait_counted part;
	bool told; /* the part is there */
	uint64_t told_ns;
	uint64_t counted_ns; /* by the kernel half, of its waits */
	uint64_t slept_ns;   /* the truth */
	uint64_t intervals;  /* that have ended */
	int lists, tables;   /* that were read for the look at hand */
	void (*happens[PLACES])(void);
} kernel;

struct wait_counted *counted_part(uint32_t tid)
{
	return tid == TID && kernel.told ? &kernel.part : NULL;
}

static void falls_asleep(void)
{
	kernel.t.switches++;
	kernel.t.flags &= ~(uint32_t)THREAD_ON_CPU;
	kernel.k.out_ns = kernel.now;
}

/* As first_seen() and end_wait(). */
static void wakes_up(void)
{
	uint64_t until;

	if (!kernel.known)
		kernel.k =
			(struct wait_thread){ .tid = TID, .tgid = TID, .out_ns = kernel.since_ns };
	kernel.known = true;
	until = kernel.k.out_ns < kernel.told_ns ? take_part(TID, kernel.k.out_ns) : 0;
	kernel.counted_ns += kernel.now - (until ? until : kernel.k.out_ns);
	kernel.slept_ns += kernel.now - kernel.k.out_ns;
	kernel.k.out_ns = 0;
	kernel.t.flags |= THREAD_ON_CPU;
}

static void ends(void)
{
	wakes_up();
	kernel.known = kernel.exists = false;
}

/* Another thread has its number, which sleeps on and is not of those that count. */
static void ends_and_is_followed(void)
{
	ends();
	kernel.exists = kernel.follows = true;
	kernel.t.flags &= ~(uint32_t)THREAD_ON_CPU;
	kernel.t.start_ns = kernel.now;
}

static void naps(void)
{
	wakes_up();
	falls_asleep();
}

static void happen(int place)
{
	if (kernel.happens[place])
		kernel.happens[place]();
	kernel.happens[place] = NULL;
}

static int fake_lookup(int fd, const void *key, void *value)
{
	assert_int_equal(fd, COUNTED_FD);
	if (*(const uint32_t *)key != TID || !kernel.told)
		return -ENOENT;
	memcpy(value, &kernel.part, sizeof(kernel.part));
	return 0;
}

static int fake_update(int fd, const void *key, const void *value)
{
	assert_int_equal(fd, COUNTED_FD);
	assert_int_equal(*(const uint32_t *)key, TID);
	memcpy(&kernel.part, value, sizeof(kernel.part));
	kernel.told = true;
	return 0;
}

static int fake_delete(int fd)
{
	assert_int_equal(fd, COUNTED_FD);
	kernel.told = false;
	return 0;
}

static int fake_batch(int fd, struct wait_thread *threads, uint32_t *cnt)
{
	assert_int_equal(fd, THREADS_FD);
	*cnt = kernel.known;
	if (kernel.known)
		*threads = kernel.k;
	if (++kernel.tables == 2)
		happen(BEHIND_TABLE);
	return -ENOENT;
}

/* ---- lists of threads ------------------------------------------------------------------------ */

static struct {
	threadlist_fn wants;
	void *ctx;
	size_t cnt;
	struct thread_now t;
} list;

struct threadlist *threadlist__open(uint32_t tgid)
{
	(void)tgid;
	return (struct threadlist *)&list;
}

void threadlist__close(struct threadlist *l)
{
	(void)l;
}

void threadlist__filter(struct threadlist *l, threadlist_fn wants, void *ctx)
{
	(void)l;
	list.wants = wants;
	list.ctx = ctx;
}

int threadlist__read(struct threadlist *l)
{
	(void)l;
	list.t = kernel.t;
	list.cnt = kernel.exists && list.wants(list.ctx, &list.t);
	if (++kernel.lists == 2)
		happen(BEHIND_LIST);
	return 0;
}

void threadlist__forget(struct threadlist *l)
{
	(void)l;
	list.cnt = 0;
}

size_t threadlist__cnt(const struct threadlist *l)
{
	(void)l;
	return list.cnt;
}

const struct thread_now *threadlist__at(const struct threadlist *l, size_t i)
{
	(void)l, (void)i;
	return &list.t;
}

const struct thread_now *threadlist__find(const struct threadlist *l, uint32_t tid)
{
	(void)l;
	return list.cnt && tid == TID ? &list.t : NULL;
}

/* ---- the session, and a profile -------------------------------------------------------------- */

static const struct source source = { .type = { .event = EVENT_OFF_CPU }, .asleep = (void *)1 };
static const struct sample_spec spec = { .source_cnt = 1,
					 .sources = { { .source = &source } },
					 .all = true };
static const struct session_opts opts = { .spec = &spec };
static const struct process process = { .tgid = TID, .space = 7 };

static struct {
	uint64_t counted_ns;
	bool held; /* the last one has its stack */
} profile;

const struct session_opts *session__opts(const struct session *s)
{
	(void)s;
	return &opts;
}

static bool fake_asleep(struct source_asleep *out)
{
	*out = (struct source_asleep){ .threads_fd = THREADS_FD,
				       .counted_fd = COUNTED_FD,
				       .since_ns = kernel.since_ns,
				       .step_ns = NS_PER_MS };
	return true;
}

static int fake_tell(uint64_t until_ns)
{
	happen(BEFORE_TELL);
	kernel.told_ns = until_ns;
	return 0;
}

static int fake_add(const struct dump_stack *stacks, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		profile.counted_ns += stacks[i].value;
		profile.held = stacks[i].cnt > 1 && stacks[i].words[0] == FRAME;
	}
	return 0;
}

static void fake_walk(struct hoststack *st)
{
	static const __u64 frame = FRAME;

	*st = (struct hoststack){ .frames = &frame, .cnt = 1 };
}

#define bpf_map_lookup_elem(fd, key, value)	   fake_lookup(fd, key, value)
#define bpf_map_update_elem(fd, key, value, flags) fake_update(fd, key, value)
#define bpf_map_delete_elem(fd, key)		   ((void)(key), fake_delete(fd))
#define bpf_map_lookup_batch(fd, in, out, keys, vals, n, o)                                        \
	((void)(in), (void)(out), (void)(keys), fake_batch(fd, vals, n))
#define wait_for_programs()		      happen(BEHIND_TELL)
#define session__procs(s)		      ((void)(s), (struct process_table *)NULL)
#define session__maps(s, maps)		      ((void)(s), (void)(maps))
#define session__sink(s, sink)		      ((void)(s), (void)(sink))
#define session__bills(s)		      ((struct bills *)NULL)
#define session__counters(s, counters)	      ((void)(s), (void)(counters))
#define session__asleep(s, out)		      ((void)(s), fake_asleep(out))
#define session__tell(s, until_ns)	      ((void)(s), fake_tell(until_ns))
#define session__add(s, p, stacks, cnt)	      ((void)(s), (void)(p), fake_add(stacks, cnt))
#define bills__note_read(bills, payer)	      ((void)(payer))
#define process_table__find_tgid(procs, tgid) ((void)(procs), (void)(tgid), &process)
#define process__python_ns(p)		      ((void)(p), 0UL)
#define waiter__is_chosen(s, maps, t, p)      ((void)(t), (void)(p), true)
#define wait_word_of_sleeper(t)		      ((void)(t), 0UL)
#define hostwalk__new(procs, maps, sink)      ((void)(maps), (void)(sink), (struct hostwalk *)&list)
#define hostwalk__free(h)		      ((void)(h))
#define hostwalk__dealt_codes(h)	      ((void)(h), 0UL)
#define hostwalk__skip_codes(h, cnt)	      ((void)(h), (void)(cnt))
#define hostwalk__begin(h, p)		      ((void)(h), (void)(p), 0)
#define hostwalk__walk(h, t, st)	      ((void)(h), (void)(t), fake_walk(st))
#define gil__look(h, t, st, gil)	      memset(gil, 0, sizeof(*(gil)))
#include "../../user/threads/openwaits.c"

/* ---- cases ----------------------------------------------------------------------------------- */

static struct openwaits *w;

static void begin(bool known)
{
	uint64_t now = now_ns();

	memset(&kernel, 0, sizeof(kernel));
	memset(&profile, 0, sizeof(profile));
	kernel.now = kernel.since_ns = now;
	kernel.exists = true;
	kernel.t = (struct thread_now){ .tid = TID,
					.tgid = TID,
					.start_ns = now - 1,
					.state = THREAD_SLEEPING,
					.flags = THREAD_REGS };
	if (known) {
		kernel.known = true;
		kernel.k = (struct wait_thread){ .tid = TID, .tgid = TID, .out_ns = now };
	}
	w = openwaits__new(NULL);
	assert_non_null(w);
}

static int end(void **state)
{
	(void)state;
	openwaits__free(w);
	w = NULL;
	return 0;
}

/* An interval ends. The look at it comes a moment later. */
static void look(void)
{
	uint64_t end = kernel.since_ns + ++kernel.intervals * INTERVAL;

	kernel.now = end + NS_PER_MS;
	kernel.lists = kernel.tables = 0;
	assert_int_equal(openwaits__count(w, NULL, NULL, end, 1), 0);
	for (int i = 0; i < PLACES; i++)
		assert_null(kernel.happens[i]);
}

/* Whatever sleeps ends. */
static void check_sums(void)
{
	kernel.now += INTERVAL;
	if (kernel.exists && !kernel.follows && !(kernel.t.flags & THREAD_ON_CPU))
		ends();
	assert_int_equal(profile.counted_ns + kernel.counted_ns, kernel.slept_ns);
	end(NULL);
}

/* `what` happens at the end of the second interval. */
static void in_the_second(bool known, int place, void (*what)(void))
{
	begin(known);
	look();
	assert_int_equal(profile.counted_ns, INTERVAL);
	kernel.happens[place] = what;
	look();
}

static void in_the_first(bool known, int place, void (*what)(void))
{
	begin(known);
	kernel.happens[place] = what;
	look();
}

static void a_thread_that_sleeps_counts_in_each_interval(void **state)
{
	(void)state;
	for (int known = 0; known < 2; known++) {
		in_the_second(known, NEVER, NULL);
		assert_int_equal(profile.counted_ns, 2 * INTERVAL);
		assert_true(profile.held);
		check_sums();
		assert_int_equal(kernel.counted_ns, NS_PER_MS + INTERVAL);
	}
}

/* The kernel half has counted it when user space tells what it wants to count. */
static void what_ends_before_the_kernel_is_told(void **state)
{
	(void)state;
	for (int known = 0; known < 2; known++) {
		in_the_first(known, BEFORE_TELL, ends);
		assert_int_equal(profile.counted_ns, 0);
		check_sums();
		in_the_second(known, BEFORE_TELL, ends);
		assert_int_equal(profile.counted_ns, INTERVAL);
		check_sums();
	}
}

/* The kernel half has left it out. Its stack was read while it slept. */
static void what_ends_when_the_kernel_was_told(void **state)
{
	(void)state;
	for (int known = 0; known < 2; known++) {
		in_the_first(known, BEHIND_TELL, ends);
		assert_int_equal(profile.counted_ns, INTERVAL);
		assert_true(profile.held);
		check_sums();
		in_the_second(known, BEHIND_TELL, ends);
		assert_int_equal(profile.counted_ns, 2 * INTERVAL);
		check_sums();
	}
}

static void whatever_happens_at_any_place(void **state)
{
	static void (*const what[])(void) = { ends, wakes_up, naps, ends_and_is_followed };

	(void)state;
	for (size_t i = 0; i < 4 * sizeof(what) / sizeof(what[0]); i++)
		for (int place = BEFORE_TELL; place < PLACES; place++) {
			bool known = i & 1, second = i & 2;

			(second ? in_the_second : in_the_first)(known, place, what[i / 4]);
			check_sums();
		}
}

static void another_thread_of_its_number(void **state)
{
	(void)state;
	for (int known = 0; known < 2; known++) {
		in_the_second(known, BEFORE_TELL, ends_and_is_followed);
		assert_int_equal(profile.counted_ns, INTERVAL);
		check_sums();
	}
}

#define CASE(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_thread_that_sleeps_counts_in_each_interval),
		CASE(what_ends_before_the_kernel_is_told),
		CASE(what_ends_when_the_kernel_was_told),
		CASE(whatever_happens_at_any_place),
		CASE(another_thread_of_its_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
