/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The tables that samples are counted in: no count is lost between windows, in a full table or in
 * NMI context without a word of it. Truth: sums of the maps, read key by key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>

#include "clock_fixture.h"
#include "follow/rings.h"
#include "object_fixture.h"
#include "waiting_child.h"

static volatile bool stop_spinning;

static uint32_t next_random(uint32_t *seed) /* xorshift32 */
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* One of two calls at each level, by the bits: as many different stacks as there are patterns. */
static __attribute__((noinline)) uint32_t branch(uint32_t bits, uint32_t depth)
{
	uint32_t sum;

	if (!depth) {
		for (volatile int i = 0; i < 2000; i++)
			;
		return bits;
	}
	if (bits & 1)
		sum = branch(bits >> 1 | bits << 31, depth - 1) + 1;
	else
		sum = branch(bits >> 1 | bits << 31, depth - 1) + 2;
	__asm__ volatile("" : "+r"(sum)); /* no tail call */
	return sum;
}

struct spinner {
	pthread_t thread;
	volatile pid_t tid;
};

static void *spin_stacks(void *arg)
{
	struct spinner *s = arg;
	uint32_t seed = (uint32_t)self_tid();

	s->tid = self_tid();
	while (!stop_spinning) {
		uint32_t bits = next_random(&seed) % 16; /* some thousand stacks: quickly drained */

		branch(bits, next_random(&seed) % 60);
	}
	return NULL;
}

static void start_spinners(struct spinner *s, size_t cnt)
{
	stop_spinning = false;
	for (size_t i = 0; i < cnt; i++) {
		s[i].tid = 0;
		assert_int_equal(pthread_create(&s[i].thread, NULL, spin_stacks, &s[i]), 0);
	}
	for (size_t i = 0; i < cnt; i++)
		RIG_WAIT(s[i].tid);
}

static void stop_spinners(struct spinner *s, size_t cnt)
{
	stop_spinning = true;
	for (size_t i = 0; i < cnt; i++)
		assert_int_equal(pthread_join(s[i].thread, NULL), 0);
}

static void sink_proc(void *ctx, const struct ev_proc *ev)
{
	(void)ctx;
	(void)ev;
}

static void sink_code(void *ctx, const struct ev_code *ev, size_t size)
{
	(void)ctx;
	(void)ev;
	(void)size;
}

static void sink_blob(void *ctx, const struct ev_blob *ev, size_t size)
{
	(void)ctx;
	(void)ev;
	(void)size;
}

static const struct ring_sink no_sink = { .proc = sink_proc, .code = sink_code, .blob = sink_blob };

static uint64_t drain_window(struct object *c, unsigned window)
{
	return drain_maps(object__counts_fd(c, window), object__chunks_fd(c, window), NULL, NULL);
}

/* After a flip no program touches the old window: emptied, it stays empty. */
static void check_empty(struct object *c, unsigned window)
{
	assert_int_equal(map_entries(object__counts_fd(c, window), sizeof(struct count_key)), 0);
	assert_int_equal(map_entries(object__chunks_fd(c, window), sizeof(uint64_t)), 0);
}

#define FLIPS 40

/* No count is lost between windows, and each window's stacks can be read. */
static void flipping_loses_nothing(void **state)
{
	const struct object_opts opts = { .flags = CFG_NATIVE | CFG_KERNEL | CFG_THREADS };
	const pid_t self = getpid();
	uint64_t c[CTR_CNT], drained = 0;
	struct process_maps maps;
	struct spinner s[2];
	struct rig r = { 0 };
	struct source_set clock = { .cnt = 0 };
	struct object *col;
	uint32_t seed = 1;

	(void)state;
	col = object__open(&opts);
	assert_non_null(col);
	object__process_maps(col, &maps);
	r.maps = maps;
	rig_analyse(&r, &self, 1);
	start_spinners(s, 2);
	start_clock(&clock, col, 20000);
	for (int i = 0; i < FLIPS; i++) {
		unsigned old;

		for (volatile uint32_t k = next_random(&seed) % 4000000; k; k--)
			;
		if (i)
			check_empty(col, !(i & 1)); /* drained by the last turn */
		old = object__flip(col);
		assert_int_equal(old, i & 1 ? 1 : 0);
		drained += drain_window(col, old);
	}
	stop_clock(&clock);
	stop_spinners(s, 2);
	drained += drain_window(col, 0) + drain_window(col, 1);
	object__counters(col, c);
	check_balance(c);
	assert_true(c[CTR_counted] > FLIPS);
	assert_int_equal(drained, c[CTR_counted]);
	process_table__free(r.pt);
	symbolizer__free(r.sym);
	object__close(col);
}

/* A deep stack that never changes: the sampler runs for long, and hits the same few counts. */
static __attribute__((noinline)) uint32_t deep_spin(uint32_t depth)
{
	uint32_t sum = 0;

	if (depth)
		sum = deep_spin(depth - 1);
	else
		while (!stop_spinning)
			;
	__asm__ volatile("" : "+r"(sum));
	return sum;
}

static void *spin_deep(void *arg)
{
	struct spinner *s = arg;

	s->tid = self_tid();
	deep_spin(500);
	return NULL;
}

#define HOT_MAX 4

/* Up to HOT_MAX keys with the highest counts: those that a sample hits next. */
static size_t hot_keys(int fd, struct count_key *out)
{
	uint64_t counts[HOT_MAX] = { 0 };
	struct count_val val;
	struct count_key key, *prev = NULL, at;
	size_t n = 0;

	while (!bpf_map_get_next_key(fd, prev, &key)) {
		size_t low = 0;

		assert_int_equal(bpf_map_lookup_elem(fd, &key, &val), 0);
		for (size_t i = 1; i < HOT_MAX; i++)
			low = counts[i] < counts[low] ? i : low;
		if (val.samples > counts[low]) {
			counts[low] = val.samples;
			out[low] = key;
		}
		n++;
		at = key;
		prev = &at;
	}
	return n < HOT_MAX ? n : HOT_MAX;
}

/* By key: a search for the next one takes longer than the programs that are to be caught. */
static uint64_t sum_hot(int fd, const struct count_key *keys, size_t cnt)
{
	struct count_val val;
	uint64_t sum = 0;

	for (size_t i = 0; i < cnt; i++)
		if (!bpf_map_lookup_elem(fd, &keys[i], &val))
			sum += val.samples;
	return sum;
}

/* Forks once, while the events are read: what comes of that is read in the same round. */
static void fork_while_reading(void *ctx, const struct ev_proc *ev)
{
	bool *did = ctx;
	struct waiting w;

	(void)ev;
	if (*did)
		return;
	*did = true;
	start_waiting(&w, wait_for_end);
	stop_waiting(&w);
}

static bool fork_is_told(const struct rings *rings)
{
	struct pollfd fd = { .fd = rings__fd(rings), .events = POLLIN };
	struct waiting w;
	int n;

	poll(&fd, 1, 0); /* a wake-up for what was read already ends here */
	start_waiting(&w, wait_for_end);
	n = poll(&fd, 1, DEADLINE_MS);
	stop_waiting(&w);
	return n > 0;
}

/*
 * Events that come while others are read wake as well, and are read before the wake-up arrives. Who
 * sleeps after that is woken for the next ones all the same.
 */
static void what_comes_while_reading_wakes_later(void **state)
{
	const struct object_opts opts = { .flags = CFG_NATIVE | CFG_TARGETS | CFG_CHILDREN };
	const struct proc self = { .space = SPACE_SELF, .image = SPACE_SELF, .flags = PROC_TARGET };
	bool did = false;
	struct ring_sink sink = no_sink;
	uint32_t tgid = (uint32_t)getpid();
	struct process_maps maps;
	struct rings *rings;
	struct object *c;

	(void)state;
	sink.ctx = &did;
	sink.proc = fork_while_reading;
	c = object__open(&opts);
	assert_non_null(c);
	rings = rings__open(c, &sink);
	assert_non_null(rings);
	object__process_maps(c, &maps);
	assert_int_equal(bpf_map_update_elem(maps.procs_fd, &tgid, &self, 0), 0);
	assert_int_equal(object__attach_lifecycle(c), 0);
	assert_true(fork_is_told(rings));
	while (rings__consume(rings) > 0)
		;
	assert_true(did);
	assert_true(fork_is_told(rings));
	rings__close(rings);
	object__close(c);
}

/*
 * When a flip returns, no program that runs will add to the old window any more. A program reads
 * which window is active about a microsecond before it adds, so a flip that does not wait is caught
 * by chance only: surely when the hash between the two is made 30 times as long, rarely as it is.
 */
static void flip_waits_for_programs(void **state)
{
	const struct object_opts opts = { .flags = CFG_NATIVE };
	struct rig r = { 0 };
	struct spinner s[2] = { 0 };
	struct count_key hot[HOT_MAX];
	size_t hot_cnt;
	struct source_set clock = { .cnt = 0 };
	struct object *c = object__open(&opts);

	(void)state;
	assert_non_null(c);
	object__process_maps(c, &r.maps);
	rig_analyse(&r, &(pid_t){ getpid() }, 1);
	stop_spinning = false;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&s[i].thread, NULL, spin_deep, &s[i]), 0);
	for (int i = 0; i < 2; i++)
		RIG_WAIT(s[i].tid);
	start_clock(&clock, c, 10000);
	RIG_WAIT((hot_cnt = hot_keys(object__counts_fd(c, 0), hot)) > 0);
	for (int i = 0; i < FLIPS; i++) {
		int fd = object__counts_fd(c, object__flip(c));
		uint64_t sum = sum_hot(fd, hot, hot_cnt);

		assert_int_equal(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0), 0);
		assert_int_equal(sum_hot(fd, hot, hot_cnt), sum);
	}
	stop_clock(&clock);
	stop_spinners(s, 2);
	process_table__free(r.pt);
	symbolizer__free(r.sym);
	object__close(c);
}

/* All CPUs, whoever runs there, in configurations that take different paths: the sum is exact. */
static void whole_machine_is_balanced(void **state)
{
	const uint32_t flags[] = { CFG_NATIVE | CFG_KERNEL,
				   CFG_KERNEL,
				   CFG_NATIVE,
				   0,
				   CFG_NATIVE | CFG_THREADS,
				   CFG_NATIVE | CFG_KERNEL | CFG_PYTHON_ONLY,
				   CFG_NATIVE | CFG_KERNEL | CFG_TARGETS | CFG_CHILDREN,
				   CFG_NATIVE | CFG_KERNEL | CFG_NMI };
	const pid_t self = getpid();
	struct spinner s[2];

	(void)state;
	start_spinners(s, 2);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct bpf_link *links[64] = { 0 };
		int cpus = libbpf_num_possible_cpus();
		struct rig r;

		rig_open(&r, flags[i]);
		rig_load(&r);
		rig_analyse(&r, &self, 1);
		rig_attach_lifecycle(&r);
		for (int cpu = 0; cpu < cpus && cpu < 64; cpu++)
			links[cpu] = rig_attach(&r, -1, cpu);
		RIG_WAIT(rig_counter(&r, CTR_delivered) > 500);
		for (int cpu = 0; cpu < cpus && cpu < 64; cpu++)
			bpf_link__destroy(links[cpu]);
		rig_check_balance(&r);
		check_drained(&r, NULL, NULL);
		rig_close(&r);
	}
	stop_spinners(s, 2);
}

/* A rig that samples a thread with ever new stacks, until `counter` is not 0. */
static void sample_until_counted(struct rig *r, enum pyperf_counter counter)
{
	const pid_t self = getpid();
	struct bpf_link *link;
	struct spinner s;

	rig_load(r);
	rig_analyse(r, &self, 1);
	start_spinners(&s, 1);
	link = rig_attach(r, s.tid, -1);
	RIG_WAIT(rig_counter(r, counter) > 0 && rig_counter(r, CTR_delivered) > 500);
	bpf_link__destroy(link);
	stop_spinners(&s, 1);
	rig_check_balance(r);
	assert_true(rig_counter(r, CTR_counted) > 0);
	check_drained(r, NULL, NULL);
}

/* A table that is full loses samples by name, and what it holds can still be read. */
static void full_tables_are_counted(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, CFG_NATIVE);
	bpf_map__set_max_entries(r.skel->maps.chunks0, 12);
	sample_until_counted(&r, CTR_lost_chunks_full);
	assert_int_equal(rig_counter(&r, CTR_lost_counts_full), 0);
	rig_close(&r);

	rig_open(&r, CFG_NATIVE);
	bpf_map__set_max_entries(r.skel->maps.counts0, 4);
	sample_until_counted(&r, CTR_lost_counts_full);
	assert_int_equal(rig_counter(&r, CTR_lost_chunks_full), 0);
	rig_close(&r);
}

static size_t drains_asked(struct rig *r)
{
	size_t n = 0;

	assert_true(ring_buffer__consume(r->rings) >= 0);
	for (size_t i = 0; i < r->event_cnt; i++)
		n += r->events[i].type == EV_DRAIN;
	return n;
}

/* User space is woken once for each window that is getting full. */
static void full_window_asks_for_a_drain(void **state)
{
	const pid_t self = getpid();
	struct bpf_link *link;
	struct spinner s;
	struct rig r;

	(void)state;
	rig_open(&r, CFG_NATIVE);
	rig_cfg(&r)->chunks_wake = 40;
	rig_load(&r);
	rig_analyse(&r, &self, 1);
	start_spinners(&s, 1);
	for (uint32_t window = 0; window < 2; window++) {
		r.skel->bss->chunks_added[window] = 0;
		r.skel->bss->active_window = window;
		link = rig_attach(&r, s.tid, -1);
		RIG_WAIT(r.skel->bss->chunks_added[window] > 60);
		bpf_link__destroy(link);
		assert_int_equal(drains_asked(&r), window + 1);
	}
	stop_spinners(&s, 1);
	rig_check_balance(&r);
	check_drained(&r, NULL, NULL);
	rig_close(&r);
}

/* ---- NMI ------------------------------------------------------------------------------------ */

/* Two objects on one set of tables: what the first one has counted, the second one finds. */
static void share_map(struct bpf_map *to, const struct bpf_map *from)
{
	assert_int_equal(bpf_map__reuse_fd(to, bpf_map__fd(from)), 0);
}

static size_t tables_used(struct rig *r)
{
	struct pyperf_bpf *s = r->skel;

	return map_entries(bpf_map__fd(s->maps.counts0), sizeof(struct count_key)) +
	       map_entries(bpf_map__fd(s->maps.counts1), sizeof(struct count_key)) +
	       map_entries(bpf_map__fd(s->maps.chunks0), sizeof(uint64_t)) +
	       map_entries(bpf_map__fd(s->maps.chunks1), sizeof(uint64_t));
}

/*
 * In NMI context a hit counts, a miss goes to user space once for each sample; nothing is inserted.
 */
static void nmi_hands_over_what_it_may_not_insert(void **state)
{
	const struct count_val none = { 0 };
	uint64_t counted, handed;
	struct rig r, nmi;
	struct waiting w;
	size_t used;

	(void)state;
	rig_open(&r, 0); /* without native frames each process has one stack: hits for sure */
	rig_load(&r);
	rig_open(&nmi, CFG_NMI);
	share_map(nmi.skel->maps.procs, r.skel->maps.procs);
	share_map(nmi.skel->maps.images, r.skel->maps.images);
	share_map(nmi.skel->maps.counts0, r.skel->maps.counts0);
	share_map(nmi.skel->maps.chunks0, r.skel->maps.chunks0);
	rig_load(&nmi);
	start_waiting(&w, spin_for_ever);
	await_byte(&w);
	rig_add_proc(&r, getpid(), SPACE_SELF, 0);
	rig_add_image(&r, SPACE_SELF, 0);
	rig_add_proc(&r, w.pid, SPACE_OTHER, 0);
	rig_add_image(&r, SPACE_OTHER, 0);
	expect_outcome(&r, self_tid(), CTR_counted);
	used = tables_used(&r);

	expect_outcome(&nmi, self_tid(), CTR_counted);
	assert_int_equal(rig_counter(&nmi, CTR_note_handed_over), 0);
	expect_outcome(&nmi, w.pid, CTR_counted);
	handed = rig_counter(&nmi, CTR_note_handed_over);
	assert_true(handed > 0);
	assert_int_equal(tables_used(&r), used);
	assert_int_equal(tables_used(&nmi), used);
	assert_true(ring_buffer__consume(nmi.rings) >= 0);
	assert_int_equal(nmi.handed_cnt, handed);
	assert_int_equal(nmi.handed_key.space, SPACE_OTHER);

	/* As collect.c does: from there on the stack is a hit. */
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(nmi.skel->maps.counts0), &nmi.handed_key,
					     &none, BPF_NOEXIST),
			 0);
	expect_outcome(&nmi, w.pid, CTR_counted);
	assert_int_equal(rig_counter(&nmi, CTR_note_handed_over), handed);
	assert_int_equal(bpf_map_delete_elem(bpf_map__fd(nmi.skel->maps.counts0), &nmi.handed_key),
			 0); /* it has no chunks */
	counted = rig_counter(&r, CTR_counted);
	kill_waiting(&w);
	assert_true(rig_drain(&r, NULL, NULL) >= counted);
	rig_close(&nmi);
	rig_close(&r);
}

/* Nobody reads the ring: what finds no room is lost by name, and the sum is exact. */
static void nmi_full_ring_is_counted(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, CFG_NATIVE | CFG_KERNEL | CFG_NMI);
	bpf_map__set_max_entries(r.skel->maps.misses, 4096);
	sample_until_counted(&r, CTR_lost_nmi_miss);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flipping_loses_nothing),
		cmocka_unit_test(what_comes_while_reading_wakes_later),
		cmocka_unit_test(flip_waits_for_programs),
		cmocka_unit_test(whole_machine_is_balanced),
		cmocka_unit_test(full_tables_are_counted),
		cmocka_unit_test(full_window_asks_for_a_drain),
		cmocka_unit_test(nmi_hands_over_what_it_may_not_insert),
		cmocka_unit_test(nmi_full_ring_is_counted),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
