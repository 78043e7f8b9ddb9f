/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The programs of waits, called with what the scheduler seldom or never gives them. They are
 * attached nowhere: each call is the test's own, made in its first thread, and the other thread
 * sleeps all the while. Root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tenant.h"
#include "bpf/pyperf.h"
#include "gil.skel.h"
#include "wait.skel.h"

#define SPACE  100
#define GAP_MS 30 /* a time that is seen in what is counted */

static struct rig {
	struct wait_bpf *x;
	int teller, told;   /* a program that puts the current task into a map, and the map */
	uint64_t us, other; /* addresses of the tasks */
	uint32_t other_tid;
	uint64_t begun_ns; /* the other thread had not */
	pthread_t thread;
	int ends[2]; /* a pipe that the other thread waits for */
} rig;

/* ---- whose task is where --------------------------------------------------------------------- */

#define INSN(op, dst, src, at, value)                                                              \
	(struct bpf_insn)                                                                          \
	{                                                                                          \
		.code = (op), .dst_reg = (dst), .src_reg = (src), .off = (at), .imm = (value)      \
	}
#define CALL(helper) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, helper)
#define ADDRESS(dst, at)                                                                           \
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, BPF_REG_10, 0, 0),                                  \
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, at)
#define SET(dst, value) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)

static int load_teller(int map)
{
	const struct bpf_insn insns[] = {
		CALL(BPF_FUNC_get_current_task),
		INSN(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, BPF_REG_0, -8, 0),
		INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -12, 0),
		INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		ADDRESS(BPF_REG_2, -12),
		ADDRESS(BPF_REG_3, -8),
		SET(BPF_REG_4, BPF_ANY),
		CALL(BPF_FUNC_map_update_elem),
		SET(BPF_REG_0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};

	return bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, "GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), NULL);
}

static uint64_t this_task(void)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	uint32_t zero = 0;
	uint64_t at = 0;

	assert_int_equal(bpf_prog_test_run_opts(rig.teller, &opts), 0);
	assert_int_equal(bpf_map_lookup_elem(rig.told, &zero, &at), 0);
	return at;
}

static void *sleep_on(void *begun)
{
	char byte;

	rig.other = this_task();
	rig.other_tid = (uint32_t)syscall(SYS_gettid);
	pthread_barrier_wait(begun);
	return read(rig.ends[0], &byte, 1) ? &rig : NULL;
}

/* ---- the programs ---------------------------------------------------------------------------- */

static void call(const struct bpf_program *program, const uint64_t args[5])
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = 5 * sizeof(*args));

	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(program), &opts), 0);
}

/* We leave the CPU, the other thread comes. */
static void switch_to_other(void)
{
	const uint64_t args[5] = { 0, rig.us, rig.other, 1 };

	call(rig.x->progs.on_switch, args);
}

/* Of the other thread. False: it is not in the table. */
static bool find_other(struct wait_thread *t)
{
	return !bpf_map_lookup_elem(bpf_map__fd(rig.x->maps.waits), &rig.other_tid, t);
}

static void read_shares(struct shares *s)
{
	uint32_t zero = 0;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(rig.x->maps.wait_shares), &zero, s), 0);
}

static void set_taken(uint32_t cnt)
{
	uint32_t zero = 0;
	struct shares s;

	read_shares(&s);
	s.taken = cnt;
	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(rig.x->maps.wait_shares), &zero, &s, BPF_ANY), 0);
}

static uint64_t refused_ns(uint32_t slot)
{
	uint64_t ns;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(rig.x->maps.refusals), &slot, &ns), 0);
	return ns;
}

static void load(void)
{
	const struct proc us = { .space = SPACE, .image = SPACE };
	const struct wait_state state = { .since_ns = 1, .step_ns = 1000 };
	uint32_t zero = 0, tgid = (uint32_t)getpid(), cpus = (uint32_t)libbpf_num_possible_cpus();

	rig.x = wait_bpf__open();
	assert_non_null(rig.x);
	bpf_map__set_max_entries(rig.x->maps.deep, cpus);
	bpf_map__set_max_entries(rig.x->maps.places, cpus);
	bpf_program__set_autoload(rig.x->progs.on_waited, false); /* takes stacks */
	assert_int_equal(wait_bpf__load(rig.x), 0);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(rig.x->maps.procs), &tgid, &us, BPF_ANY),
			 0);
	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(rig.x->maps.wait_states), &zero, &state, BPF_ANY),
		0);
}

static int begin(void **state)
{
	pthread_barrier_t begun;

	(void)state;
	rig.told = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, 4, 8, 1, NULL);
	rig.teller = load_teller(rig.told);
	assert_true(rig.told >= 0 && rig.teller >= 0);
	load();
	rig.us = this_task();
	assert_int_equal(pipe(rig.ends), 0);
	pthread_barrier_init(&begun, NULL, 2);
	rig.begun_ns = now_ns();
	assert_int_equal(pthread_create(&rig.thread, NULL, sleep_on, &begun), 0);
	pthread_barrier_wait(&begun);
	pthread_barrier_destroy(&begun);
	poll(NULL, 0, GAP_MS);
	return 0;
}

static int end(void **state)
{
	(void)state;
	close(rig.ends[1]);
	pthread_join(rig.thread, NULL);
	close(rig.ends[0]);
	wait_bpf__destroy(rig.x);
	close(rig.teller);
	close(rig.told);
	return 0;
}

/* ---- the GIL --------------------------------------------------------------------------------- */

#define GIL 0x7000ULL

static struct gil_bpf *gil;

static const struct gil_key *gil_key(void)
{
	static struct gil_key key = { .gil = GIL };

	key.tgid = (uint32_t)getpid();
	return &key;
}

static int begin_gil(void **state)
{
	uint32_t cpus = (uint32_t)libbpf_num_possible_cpus();

	gil = gil_bpf__open();
	assert_non_null(gil);
	bpf_map__set_max_entries(gil->maps.deep, cpus);
	bpf_map__set_max_entries(gil->maps.places, cpus);
	bpf_program__set_autoload(gil->progs.on_waited, false);
	bpf_program__set_autoload(gil->progs.on_clock, false);
	assert_int_equal(gil_bpf__load(gil), 0);
	return begin(state);
}

static int end_gil(void **state)
{
	gil_bpf__destroy(gil);
	return end(state);
}

static void put_state(uint64_t made_ns, uint32_t threads)
{
	const struct gil_state s = { .key = *gil_key(), .made_ns = made_ns, .threads = threads };

	assert_int_equal(bpf_map_update_elem(bpf_map__fd(gil->maps.gils), gil_key(), &s, BPF_ANY),
			 0);
}

static bool find_state(struct gil_state *s)
{
	return !bpf_map_lookup_elem(bpf_map__fd(gil->maps.gils), gil_key(), s);
}

static void put_thread(uint32_t tid, uint64_t made_ns, bool waits)
{
	const struct gil_thread t = { .gil = GIL,
				      .made_ns = made_ns,
				      .tgid = (uint32_t)getpid(),
				      .out_ns = waits,
				      .waits = waits };

	assert_int_equal(bpf_map_update_elem(bpf_map__fd(gil->maps.gil_threads), &tid, &t, BPF_ANY),
			 0);
}

static bool has_thread(uint32_t tid)
{
	struct gil_thread t;

	return !bpf_map_lookup_elem(bpf_map__fd(gil->maps.gil_threads), &tid, &t);
}

static void wake_other(void)
{
	const uint64_t args[5] = { rig.other };

	call(gil->progs.on_waking, args);
}

/* Else a holder would be charged with all the time since the machine was started. */
static void a_wait_ends_in_the_state_in_which_it_began(void **state)
{
	struct gil_state s;

	(void)state;
	put_state(2, 1);
	put_thread(rig.other_tid, 1, true);
	wake_other();
	assert_true(find_state(&s));
	assert_int_equal(s.waiters, 0);
	put_thread(rig.other_tid, 2, true);
	wake_other();
	assert_true(find_state(&s));
	assert_int_not_equal(s.waiters, 0);
}

static void exit_thread(uint64_t made_ns)
{
	const uint64_t args[5] = { rig.us };
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	put_thread(tid, made_ns, false);
	call(gil->progs.on_thread_exit, args);
	assert_false(has_thread(tid));
}

static void the_last_thread_takes_the_state_with_it(void **state)
{
	struct gil_state s;

	(void)state;
	put_state(2, 2);
	exit_thread(2);
	assert_true(find_state(&s));
	assert_int_equal(s.threads, 1);
	exit_thread(1); /* it counted in an earlier one */
	assert_true(find_state(&s));
	assert_int_equal(s.threads, 1);
	exit_thread(2);
	assert_false(find_state(&s));
	/* one too few was counted */
	put_state(2, 0);
	exit_thread(2);
	assert_false(find_state(&s));
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Some kernels name the state of the thread that leaves before both threads. */
static void the_next_thread_is_found_in_each_order(void **state)
{
	const uint64_t args[5] = { 0, 1, rig.us, rig.other };
	struct wait_thread t, again;

	(void)state;
	switch_to_other();
	assert_true(find_other(&t));
	assert_int_equal(t.tid, rig.other_tid);
	assert_int_equal(bpf_map_delete_elem(bpf_map__fd(rig.x->maps.waits), &rig.other_tid), 0);
	call(rig.x->progs.on_switch, args);
	assert_true(find_other(&again));
	assert_true(again.in_ns > t.in_ns);
}

static void a_thread_that_slept_counts_from_its_start(void **state)
{
	struct wait_thread t;
	uint64_t before = now_ns();

	(void)state;
	switch_to_other();
	assert_true(find_other(&t));
	assert_true(t.queued_ns >= GAP_MS * NS_PER_MS - NS_PER_MS);
	assert_true(t.queued_ns <= now_ns() - rig.begun_ns);
	assert_true(t.in_ns >= before && !t.out_ns && !t.waited_ns);
}

/* It ran when it was refused, and what it did before nobody knows. */
static void a_refused_thread_counts_from_then_on(void **state)
{
	struct wait_thread t;
	uint64_t before;

	(void)state;
	set_taken(WAIT_THREADS);
	before = now_ns();
	switch_to_other();
	assert_false(find_other(&t));
	set_taken(0);
	switch_to_other();
	assert_true(find_other(&t));
	assert_true(t.queued_ns <= now_ns() - before);
}

static void refusals_are_of_one_user(void **state)
{
	uint32_t ours = tenant__slot((uint32_t)getpid());
	uint64_t before = now_ns();

	(void)state;
	set_taken(WAIT_THREADS);
	switch_to_other();
	assert_true(refused_ns(ours) >= before && refused_ns(ours) <= now_ns());
	for (uint32_t i = 0; i < SHARE_SLOTS; i++)
		assert_true(i == ours || !refused_ns(i));
}

/* Its entry could not be deleted when it ended; the next thread of its number is another one. */
static void what_an_ended_thread_left_is_no_ones(void **state)
{
	uint32_t ours = tenant__slot((uint32_t)getpid()), another = ours == 3 ? 4 : 3;
	const struct wait_thread left = {
		.out_ns = 1, .in_ns = 1, .waited_ns = 7, .slot = another, .tid = rig.other_tid
	};
	struct wait_thread t;
	struct shares s;

	(void)state;
	read_shares(&s);
	s.taken = s.of[another] = 1;
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(rig.x->maps.wait_shares), &(uint32_t){ 0 },
					     &s, BPF_ANY),
			 0);
	assert_int_equal(
		bpf_map_update_elem(bpf_map__fd(rig.x->maps.waits), &rig.other_tid, &left, BPF_ANY),
		0);
	switch_to_other();
	assert_true(find_other(&t));
	assert_int_equal(t.tgid, getpid());
	assert_true(!t.waited_ns && t.queued_ns <= now_ns() - rig.begun_ns);
	read_shares(&s);
	assert_int_equal(s.of[another], 0);
	assert_int_equal(s.taken, 2); /* the other one's and ours */
}

#define CASE(f)	    cmocka_unit_test_setup_teardown(f, begin, end)
#define GIL_CASE(f) cmocka_unit_test_setup_teardown(f, begin_gil, end_gil)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_next_thread_is_found_in_each_order),
		CASE(a_thread_that_slept_counts_from_its_start),
		CASE(a_refused_thread_counts_from_then_on),
		CASE(refusals_are_of_one_user),
		CASE(what_an_ended_thread_left_is_no_ones),
		GIL_CASE(a_wait_ends_in_the_state_in_which_it_began),
		GIL_CASE(the_last_thread_takes_the_state_with_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
