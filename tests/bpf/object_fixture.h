/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TESTS_OBJECT_FIXTURE_H
#define PYPERF_TESTS_OBJECT_FIXTURE_H
/*
 * The BPF object, configured as a test wants it, and its maps read in a plain way: key by key, not
 * in batches as dump.c does.
 *
 *	struct rig r;
 *
 *	rig_open(&r, CFG_NATIVE);	 ... change r.skel's maps, rig_cfg(&r) ...
 *	rig_load(&r);
 *	rig_sample(&r, tid, 100);	 until 100 samples were delivered
 *	rig_check_balance(&r);
 *	rig_drain(&r, fn, ctx);
 *	rig_close(&r);
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rights.h"
#include "follow/kernelbtf.h"
#include "follow/object.h"
#include "follow/rings.h"
#include "process/process.h"
#include "pyperf.skel.h"
#include "symbolize/symbolize.h"

#define RIG_EVENTS  65536
#define RIG_PERIOD  50000 /* ns between samples */
#define DEADLINE_MS 20000 /* what has not happened by then never will */

#define SPACE_SELF  100
#define SPACE_OTHER 101

struct rig {
	uint64_t handed_cnt;	     /* samples handed over, since the last rig_drain() */
	struct count_key handed_key; /* of the last one */
	struct pyperf_bpf *skel;
	struct ring_buffer *rings;
	struct process_maps maps;
	struct symbolizer *sym;
	struct process_table *pt;
	struct ev_proc *events;
	size_t event_cnt;
	ring_code_fn on_code;
	ring_blob_fn on_blob;
	void *ctx;
};

/* A stack as it was counted, innermost frame first. */
struct read_stack {
	struct count_key key;
	uint64_t count;
	uint32_t cnt;
	uint64_t words[MAX_FRAMES];
};

typedef void (*stack_fn)(void *ctx, const struct read_stack *s);

static inline void rig_deadline(uint64_t since_ms, const char *what)
{
	if (now_ms() - since_ms > DEADLINE_MS)
		fail_msg("%s: not within %d s", what, DEADLINE_MS / 1000);
}

/* Gives the CPU away between two looks at a condition; fails when it never comes true. */
static inline void rig_pause(uint64_t since_ms, const char *what)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	rig_deadline(since_ms, what);
	nanosleep(&ms, NULL);
}

#define RIG_WAIT(condition)                                                                        \
	do {                                                                                       \
		uint64_t since_ = now_ms();                                                        \
		while (!(condition))                                                               \
			rig_pause(since_, #condition);                                             \
	} while (0)

/* ---- life ----------------------------------------------------------------------------------- */

static inline struct pyperf_cfg *rig_cfg(struct rig *r)
{
	return (struct pyperf_cfg *)&r->skel->rodata->cfg;
}

/*
 * As object.c opens it, but with types that are copied once: test_loader.c compares what comes of
 * both.
 */
static inline struct pyperf_bpf *rig_open_object(void)
{
	static char path[64];
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = path);
	int fd;

	if (!path[0]) {
		fd = kernelbtf__open(BTF_PATH); /* open as long as this program runs */
		if (fd < 0)
			return pyperf_bpf__open();
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	return pyperf_bpf__open_opts(&opts);
}

/* Maps are small, so that a hundred configurations load quickly. */
static inline void rig_open(struct rig *r, uint32_t flags)
{
	*r = (struct rig){ 0 };
	r->skel = rig_open_object();
	assert_non_null(r->skel);
	r->events = calloc(RIG_EVENTS, sizeof(*r->events));
	assert_non_null(r->events);
	bpf_map__set_max_entries(r->skel->maps.procs, 1024);
	bpf_map__set_max_entries(r->skel->maps.images, 1024);
	bpf_map__set_max_entries(r->skel->maps.counts0, 4096);
	bpf_map__set_max_entries(r->skel->maps.counts1, 4096);
	bpf_map__set_max_entries(r->skel->maps.chunks0, 4096);
	bpf_map__set_max_entries(r->skel->maps.chunks1, 4096);
	bpf_map__set_max_entries(r->skel->maps.threads, 1024);
	bpf_map__set_max_entries(r->skel->maps.codes, 1024);
	if (flags & CFG_NMI)
		bpf_map__set_max_entries(r->skel->maps.misses, 4 << 20);
	rig_cfg(r)->flags = flags;
	bpf_map__set_max_entries(r->skel->maps.deep, (uint32_t)libbpf_num_possible_cpus());
	bpf_map__set_max_entries(r->skel->maps.places, (uint32_t)libbpf_num_possible_cpus());
	rig_cfg(r)->cpu_cnt = (uint32_t)libbpf_num_possible_cpus();
	rig_cfg(r)->hash_seed = 1;
}

static inline int rig_on_event(void *ctx, void *data, size_t size)
{
	struct rig *r = ctx;

	if (size == sizeof(uint64_t)) /* it was only to wake us */
		return 0;
	assert_int_equal(size, sizeof(struct ev_proc));
	assert_true(r->event_cnt < RIG_EVENTS);
	memcpy(&r->events[r->event_cnt++], data, size);
	return 0;
}

/* Stacks that samples in NMI hand over: well-formed, whoever they are of. */
static inline int rig_on_miss(void *ctx, void *data, size_t size)
{
	struct rig *r = ctx;
	const struct ev_stack *ev = data;
	const uint64_t *words = (const uint64_t *)(ev + 1);

	if (ev->type == EV_THREAD) {
		assert_int_equal(size, sizeof(struct ev_thread));
		return 0;
	}
	assert_int_equal(ev->type, EV_STACK);
	assert_true(ev->cnt > 0 && ev->cnt <= MAX_FRAMES);
	assert_int_equal(size, sizeof(*ev) + ev->cnt * sizeof(*words));
	assert_true(ev->key.space && ev->key.stack && ev->value);
	for (uint32_t i = 0; i < ev->cnt; i++)
		assert_true(FRAME_TAG(words[i]) >= FRAME_NATIVE &&
			    FRAME_TAG(words[i]) <= FRAME_ANON);
	r->handed_key = ev->key;
	r->handed_cnt++;
	return 0;
}

static inline int rig_on_blob(void *ctx, void *data, size_t size)
{
	struct rig *r = ctx;
	uint32_t type;

	memcpy(&type, data, sizeof(type));
	assert_true(type == EV_CODE || type == EV_BLOB);
	if (type == EV_CODE && r->on_code)
		r->on_code(r->ctx, data, size);
	else if (type == EV_BLOB && r->on_blob)
		r->on_blob(r->ctx, data, size);
	return 0;
}

static inline void rig_load(struct rig *r)
{
	struct pyperf_bpf *s = r->skel;
	uint32_t cap = bpf_map__max_entries(s->maps.mappings);
	void *at;

	assert_int_equal(pyperf_bpf__load(s), 0);
	at = mmap(NULL, cap * sizeof(struct mapping), PROT_READ | PROT_WRITE, MAP_SHARED,
		  bpf_map__fd(s->maps.mappings), 0);
	assert_true(at != MAP_FAILED);
	r->maps = (struct process_maps){
		.procs_fd = bpf_map__fd(s->maps.procs),
		.plain_exes_fd = bpf_map__fd(s->maps.plain_exes),
		.images_fd = bpf_map__fd(s->maps.images),
		.tables_fd = bpf_map__fd(s->maps.tables),
		.interps_fd = bpf_map__fd(s->maps.interps),
		.mappings = at,
		.draft = &s->bss->draft,
		.mapping_cap = cap,
		.table_cap = bpf_map__max_entries(s->maps.tables),
		.interp_cap = bpf_map__max_entries(s->maps.interps),
	};
	r->rings = ring_buffer__new(bpf_map__fd(s->maps.events), rig_on_event, r, NULL);
	assert_non_null(r->rings);
	assert_int_equal(ring_buffer__add(r->rings, bpf_map__fd(s->maps.blobs), rig_on_blob, r), 0);
	assert_int_equal(ring_buffer__add(r->rings, bpf_map__fd(s->maps.misses), rig_on_miss, r),
			 0);
}

static inline void rig_close(struct rig *r)
{
	symbolizer__free(r->sym);
	process_table__free(r->pt);
	ring_buffer__free(r->rings);
	if (r->maps.mappings)
		munmap(r->maps.mappings, r->maps.mapping_cap * sizeof(struct mapping));
	pyperf_bpf__destroy(r->skel);
	free(r->events);
	*r = (struct rig){ 0 };
}

static inline void rig_attach_lifecycle(struct rig *r)
{
	struct pyperf_bpf *s = r->skel;

	s->links.on_fork = bpf_program__attach(s->progs.on_fork);
	s->links.on_exec = bpf_program__attach(s->progs.on_exec);
	s->links.on_exit = bpf_program__attach(s->progs.on_exit);
	s->links.on_unmapped_area = bpf_program__attach(s->progs.on_unmapped_area);
	assert_true(s->links.on_fork && s->links.on_exec && s->links.on_exit);
}

/* No lifecycle program runs any more when it returns. */
static inline void rig_detach_lifecycle(struct rig *r)
{
	struct pyperf_bpf *s = r->skel;

	bpf_link__destroy(s->links.on_fork);
	bpf_link__destroy(s->links.on_exec);
	bpf_link__destroy(s->links.on_exit);
	bpf_link__destroy(s->links.on_unmapped_area);
	s->links.on_fork = s->links.on_exec = s->links.on_exit = s->links.on_unmapped_area = NULL;
	assert_int_equal(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0), 0);
}

/* ---- processes ------------------------------------------------------------------------------ */

/* A process that is known and has no image: its samples count, without a walk. */
static inline struct proc rig_add_proc(struct rig *r, pid_t pid, uint32_t space, uint32_t flags)
{
	struct proc p = { .space = space, .image = space, .flags = flags };
	uint32_t tgid = (uint32_t)pid;

	assert_int_equal(bpf_map_update_elem(r->maps.procs_fd, &tgid, &p, BPF_ANY), 0);
	return p;
}

static inline void rig_add_image(struct rig *r, uint32_t space, uint32_t flags)
{
	struct image im = { .flags = flags };

	assert_int_equal(bpf_map_update_elem(r->maps.images_fd, &space, &im, BPF_ANY), 0);
}

static inline bool rig_proc(struct rig *r, pid_t pid, struct proc *out)
{
	uint32_t tgid = (uint32_t)pid;

	return !bpf_map_lookup_elem(r->maps.procs_fd, &tgid, out);
}

/* The processes `pids`, analysed as a run would. */
static inline void rig_analyse(struct rig *r, const pid_t *pids, size_t cnt)
{
	const struct process_opts opts = { .all = true, .pids = pids, .pid_cnt = cnt };

	r->sym = symbolizer__new(NULL);
	assert_non_null(r->sym);
	r->pt = process_table__new(&r->maps, symbolizer__sink(r->sym), &opts);
	assert_non_null(r->pt);
	assert_int_equal(process_table__scan(r->pt), 0);
}

static inline void lifecycle_rig(struct rig *r, uint32_t flags)
{
	rig_open(r, flags);
	rig_load(r);
	rig_add_proc(r, getpid(), SPACE_SELF, PROC_TARGET);
	rig_attach_lifecycle(r);
}

/* What one process did since the start, but for its mappings; all others are dropped. */
static inline size_t events_of(struct rig *r, pid_t pid, const struct ev_proc *out[16])
{
	size_t n = 0;

	assert_true(ring_buffer__consume(r->rings) >= 0);
	for (size_t i = 0; i < r->event_cnt; i++)
		if (r->events[i].tgid == (uint32_t)pid && r->events[i].type != EV_AREA && n < 16)
			out[n++] = &r->events[i];
	return n;
}

/* ---- counters ------------------------------------------------------------------------------- */

static const char *const counter_names[] = {
#define X(name, text) #name,
	PYPERF_COUNTERS(X)
#undef X
};

static inline void rig_counters(struct rig *r, uint64_t out[CTR_CNT])
{
	int fd = bpf_map__fd(r->skel->maps.counters), cpus = libbpf_num_possible_cpus();
	struct counters *per_cpu = calloc((size_t)cpus, sizeof(*per_cpu));
	uint32_t zero = 0;

	assert_non_null(per_cpu);
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, per_cpu), 0);
	memset(out, 0, CTR_CNT * sizeof(*out));
	for (int cpu = 0; cpu < cpus; cpu++)
		for (uint32_t i = 0; i < CTR_CNT; i++)
			out[i] += per_cpu[cpu].n[i];
	free(per_cpu);
}

static inline uint64_t rig_counter(struct rig *r, enum pyperf_counter which)
{
	uint64_t c[CTR_CNT];

	rig_counters(r, c);
	return c[which];
}

/* delivered = counted + filtered_* + lost_*, by the names of the counters. */
static inline void check_balance(const uint64_t c[CTR_CNT])
{
	uint64_t sum = c[CTR_counted];

	for (size_t i = 0; i < CTR_CNT; i++)
		if (!strncmp(counter_names[i], "filtered_", 9) ||
		    !strncmp(counter_names[i], "lost_", 5))
			sum += c[i];
	assert_int_equal(sum, c[CTR_delivered]);
	assert_int_equal(c[CTR_lost_internal], 0);
	assert_true(c[CTR_complete] <= c[CTR_user_stacks]);
	assert_true(c[CTR_complete] + c[CTR_note_pending] <= c[CTR_user_stacks]);
	assert_true(c[CTR_user_stacks] <= c[CTR_counted]);
}

static inline void rig_check_balance(struct rig *r)
{
	uint64_t c[CTR_CNT];

	rig_counters(r, c);
	check_balance(c);
}

/* ---- sampling ------------------------------------------------------------------------------- */

static inline struct bpf_link *rig_attach_event(struct rig *r, int fd)
{
	struct bpf_link *link;

	assert_true(fd >= 0);
	link = bpf_program__attach_perf_event(r->skel->progs.on_cpu_sample, fd);
	assert_non_null(link);
	return link; /* owns the event, which it has enabled */
}

/* Samples one thread (cpu -1), or all of a CPU (tid -1), from now on. */
static inline struct bpf_link *rig_attach(struct rig *r, pid_t tid, int cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = RIG_PERIOD,
		.disabled = 1,
	};

	return rig_attach_event(
		r, (int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

/* Samples one thread each time it comes to this instruction. NULL: no hardware breakpoints here. */
static inline struct bpf_link *rig_attach_at(struct rig *r, pid_t tid, uint64_t addr)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = addr,
		.bp_len = sizeof(long),
		.sample_period = 1,
		.exclude_kernel = 1,
		.disabled = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? NULL : rig_attach_event(r, fd);
}

/* Samples one thread until `cnt` more samples were delivered. */
static inline void rig_sample(struct rig *r, pid_t tid, uint64_t cnt)
{
	uint64_t until = rig_counter(r, CTR_delivered) + cnt, since = now_ms();
	struct bpf_link *link = rig_attach(r, tid, -1);

	while (rig_counter(r, CTR_delivered) < until) {
		if (tid == (pid_t)syscall(SYS_gettid))
			rig_deadline(since, "samples"); /* a thread that pauses is not sampled */
		else
			rig_pause(since, "samples");
	}
	bpf_link__destroy(link);
}

/* ---- stacks --------------------------------------------------------------------------------- */

/* Follows the chain of chunks: each is there, and is not empty. */
static inline void read_chain(int chunks_fd, struct read_stack *s)
{
	uint64_t hash = s->key.stack;
	struct chunk c;

	s->cnt = 0;
	for (int n = 0; hash; n++) {
		assert_true(n < MAX_CHUNKS);
		assert_int_equal(bpf_map_lookup_elem(chunks_fd, &hash, &c), 0);
		assert_true(c.cnt > 0 && c.cnt <= CHUNK_FRAMES);
		assert_true(n == 0 || c.cnt == CHUNK_FRAMES);
		for (uint32_t i = c.cnt; i > 0; i--)
			s->words[s->cnt++] = c.frames[i - 1];
		hash = c.parent;
	}
	assert_true(s->cnt > 0);
	for (uint32_t i = 0; i < s->cnt; i++)
		assert_true(FRAME_TAG(s->words[i]) >= FRAME_NATIVE &&
			    FRAME_TAG(s->words[i]) <= FRAME_ANON);
}

static inline size_t map_entries(int fd, size_t key_size)
{
	char key[64], next[64];
	size_t n = 0;

	assert_true(key_size <= sizeof(key));
	for (void *prev = NULL; !bpf_map_get_next_key(fd, prev, next); prev = key, n++)
		memcpy(key, next, key_size);
	return n;
}

static inline void empty_map(int fd, size_t key_size)
{
	char key[64], next[64];
	bool more = !bpf_map_get_next_key(fd, NULL, key);

	assert_true(key_size <= sizeof(key));
	while (more) { /* the next one first: from the start each time would be quadratic */
		more = !bpf_map_get_next_key(fd, key, next);
		assert_int_equal(bpf_map_delete_elem(fd, key), 0);
		memcpy(key, next, key_size);
	}
}

/* Reads all stacks of a window that nobody writes to, and empties it. The sum of the counts. */
static inline uint64_t drain_maps(int counts_fd, int chunks_fd, stack_fn fn, void *ctx)
{
	static struct read_stack s;
	struct count_key *prev = NULL, at;
	struct count_val val;
	uint64_t sum = 0;

	while (!bpf_map_get_next_key(counts_fd, prev, &s.key)) {
		assert_int_equal(bpf_map_lookup_elem(counts_fd, &s.key, &val), 0);
		s.count = val.samples;
		assert_true(s.count > 0);
		read_chain(chunks_fd, &s);
		if (fn)
			fn(ctx, &s);
		sum += s.count;
		at = s.key;
		prev = &at;
	}
	empty_map(counts_fd, sizeof(at));
	empty_map(chunks_fd, sizeof(uint64_t));
	return sum;
}

/*
 * Both windows of a rig whose sampler is detached; and what was handed over, whose stacks `fn` does
 * not see.
 */
static inline uint64_t rig_drain(struct rig *r, stack_fn fn, void *ctx)
{
	struct pyperf_bpf *s = r->skel;
	uint64_t handed;

	assert_true(ring_buffer__consume(r->rings) >= 0);
	handed = r->handed_cnt;
	r->handed_cnt = 0;
	return handed +
	       drain_maps(bpf_map__fd(s->maps.counts0), bpf_map__fd(s->maps.chunks0), fn, ctx) +
	       drain_maps(bpf_map__fd(s->maps.counts1), bpf_map__fd(s->maps.chunks1), fn, ctx);
}

/* ---- outcomes ------------------------------------------------------------------------------- */

static inline pid_t self_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* Samples a thread: every single sample must have had this one outcome. */
static inline void expect_outcome(struct rig *r, pid_t tid, enum pyperf_counter outcome)
{
	uint64_t before[CTR_CNT], after[CTR_CNT];

	rig_counters(r, before);
	rig_sample(r, tid, 20);
	rig_counters(r, after);
	check_balance(after);
	if (after[outcome] - before[outcome] != after[CTR_delivered] - before[CTR_delivered])
		fail_msg("%llu samples, %llu of them %s",
			 (unsigned long long)(after[CTR_delivered] - before[CTR_delivered]),
			 (unsigned long long)(after[outcome] - before[outcome]),
			 counter_names[outcome]);
}

/* What was counted is in the maps, and nothing else. */
static inline void check_drained(struct rig *r, stack_fn fn, void *ctx)
{
	assert_int_equal(rig_drain(r, fn, ctx), rig_counter(r, CTR_counted));
}

#endif /* PYPERF_TESTS_OBJECT_FIXTURE_H */
