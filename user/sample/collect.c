/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/collect.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/str.h"
#include "follow/perf.h"
#include "process/cgroup.h"
#include "process/pidns.h"
#include "pyperf.skel.h"
#include "sample/kernelbtf.h"
#include "sample/loader.h"

struct sampled_event {
	const struct source *source;
	uint64_t period; /* 0: as the frequency needs it */
	bool by_period;	 /* a clock whose rate was changed */
};

struct sampled_cpu {
	struct {
		int fd; /* of the perf event; -1: not sampled */
		struct bpf_link *link;
	} by[SAMPLED_MAX]; /* in the order of collect.by */
	bool seen;	   /* was sampled at some time */
	bool told;	   /* that it is online and cannot be */
};

/*
 * One libbpf object per ring, because a callback that ends the reading of one ends that of all in an object. One call
 * takes as much as the ring has room for, so all that was in it at first: where samples bring more than can be
 * taken, as with ever new stacks at 50 kHz, a ring is never found empty. What finds no room meanwhile is counted as lost.
 */
/* Of the kernel's log of a program, with -vv. */
#define LIBBPF_TEXT_MAX 8192U

enum { RING_EVENTS, RING_BLOBS, RING_MISSES, RING_CNT };
/* So often is the ring of events read before others have their turn. */
#define EVENT_ROUNDS 4

struct ring {
	struct ring_buffer *rb;
	size_t size;
};

struct cpu_cost {
	uint64_t delivered, timed, timed_ns, at_ns;
};

struct collect {
	struct loader *loader;
	struct pyperf_bpf *skel;
	struct pyperf_bpf__bss *bss; /* that of the skeleton is there when all is loaded */
	size_t bss_size;
	struct ring rings[RING_CNT];
	size_t untaken; /* bytes of the ring that is read */
	uint64_t events_taken;
	int epoll_fd; /* readable when one of the rings is */
	struct collect_sink sink;
	struct sampled_cpu *cpus;
	struct perf_events *events; /* borrowed; may be NULL */
	int cpu_cap;
	int (*output_fn)(void *ctx, int cpu); /* NULL: none */
	void *output_ctx;
	bool attached;
	struct sampled_event by[SAMPLED_MAX];
	uint32_t by_cnt;
	uint32_t frequency_hz;	/* 0: each has a period */
	uint32_t slowed;	/* sampled at 1 / this */
	struct cpu_cost *costs; /* by CPU, at the last look */
	int stats_fd;
	int online_fd;
	int btf_fd;	   /* the kernel's types, until the object is loaded; negative: none */
	char online[4096]; /* the list of CPUs that are, as the kernel writes it */
	__u64 *seen;
	size_t seen_size;
	struct mapping *mappings;
	size_t mappings_size;
	uint64_t map_bytes; /* 0: not asked for yet */
};

/* ---- why it cannot work ---------------------------------------------------------------------- */

/* The rights and features without which nothing works; each has a remedy. */
static int check_rights(void)
{
	for (const struct right *r = rights__needed; r->name; r++) {
		if (rights__has(r) ||
		    r->cap == CAP_SYSLOG) /* told when kernel names are asked for */
			continue;
		if (r->essential) {
			log_err("%s is missing: %s (%s)", r->name, r->without, RIGHTS_REMEDY);
			return -EPERM;
		}
		log_warn("%s is missing: %s", r->name, r->without);
	}
	if (rights__locked_down()) {
		log_err("kernel lockdown is in confidentiality mode, which forbids BPF to read memory (boot "
			"with lockdown=integrity)");
		return -EPERM;
	}
	if (access(BTF_PATH, R_OK)) {
		log_err("%s: %s (the kernel must be built with CONFIG_DEBUG_INFO_BTF=y)", BTF_PATH,
			strerror(errno));
		return -ENOTSUP;
	}
	return 0;
}

static void explain_load_failure(int err)
{
	if (err == -EPERM || err == -EACCES)
		log_err("loading the BPF programs: %s (CAP_BPF and CAP_PERFMON are needed; -vv shows the "
			"kernel's log)",
			strerror(-err));
	else
		log_err("loading the BPF programs: %s (kernel 5.15 or later is needed; -vv shows the kernel's "
			"log)",
			strerror(-err));
}

/*
 * libbpf's messages are one level lower than ours: what it calls a warning we explain ourselves. The
 * kernel's log of a program that it refuses is one message of up to megabytes, and says why at its end.
 */
static int on_libbpf_print(enum libbpf_print_level level, const char *fmt, va_list args)
{
	char *text;
	size_t len;

	if (log_get_level() <= LOG_LEVEL_DEBUG || level == LIBBPF_DEBUG)
		return 0; /* -vv */
	if (vasprintf(&text, fmt, args) < 0)
		return 0;
	len = strlen(text);
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	str_keep_end(text, LIBBPF_TEXT_MAX);
	log_debug("%s", text);
	free(text);
	return 0;
}

/* ---- configuration --------------------------------------------------------------------------- */

static int configure_cgroup(struct pyperf_cfg *cfg, const char *path)
{
	char why[256] = "";
	struct cgroup cg;
	int err = cgroup__resolve(path, &cg, why, sizeof(why));

	if (err) {
		log_err("-C %s: %s", path, why);
		return err;
	}
	cfg->cgroup_id = cg.id;
	cfg->cgroup_subsys = cg.subsys;
	cfg->flags |= CFG_CGROUP;
	return 0;
}

/*
 * User space is woken when half of a window's chunks are used; the other half has to last until it has
 * looked: half a second, in which each sample brings a new stack of 100 frames; or eight of the greatest
 * depth, which have max_frames chunks. 200 bytes a chunk, 72 a count, in two windows each.
 */
#define CHUNKS_MIN	  4096U
#define CHUNKS_MAX	  32768U
#define CHUNKS_PER_SAMPLE 7U

/* With a period nobody knows how many samples there will be. */
#define UNKNOWN_HZ	  10000U

static uint32_t tables_hz(const struct collect_opts *opts)
{
	return opts->frequency_hz ? opts->frequency_hz : UNKNOWN_HZ;
}

static void size_windows(struct collect *c, const struct collect_opts *opts)
{
	uint64_t want = (uint64_t)tables_hz(opts) * (uint32_t)c->cpu_cap * CHUNKS_PER_SAMPLE;
	uint32_t chunks = want < CHUNKS_MIN   ? CHUNKS_MIN
			  : want > CHUNKS_MAX ? CHUNKS_MAX
					      : (uint32_t)want;

	if (chunks < opts->max_frames)
		chunks = opts->max_frames;
	bpf_map__set_max_entries(c->skel->maps.chunks0, chunks);
	bpf_map__set_max_entries(c->skel->maps.chunks1, chunks);
	bpf_map__set_max_entries(c->skel->maps.counts0, chunks / 2);
	bpf_map__set_max_entries(c->skel->maps.counts1, chunks / 2);
}

/*
 * NMI: stacks go through `misses`, not into chunks. Half a second of new stacks of 100 frames of each CPU, as
 * above, and room for a few of the greatest depth.
 */
#define MISSES_MIN     (256U << 10)
#define MISSES_MAX     (4U << 20)
#define MISS_BYTES     832U
#define MISSES_DEEPEST 4U

static void size_misses(struct collect *c, const struct collect_opts *opts)
{
	uint64_t want = (uint64_t)tables_hz(opts) * (uint32_t)c->cpu_cap * MISS_BYTES / 2;
	uint64_t deepest = (uint64_t)MISSES_DEEPEST * 2 * sizeof(uint64_t) * opts->max_frames;
	uint32_t size = MISSES_MIN;

	while (size < MISSES_MAX && (size < want || size < deepest))
		size *= 2;
	bpf_map__set_max_entries(c->skel->maps.misses, size);
	bpf_map__set_max_entries(c->skel->maps.chunks0, 1);
	bpf_map__set_max_entries(c->skel->maps.chunks1, 1);
}

static void size_stacks(struct collect *c, struct pyperf_cfg *cfg, uint32_t max_frames)
{
	uint32_t depth = STACK_DEPTH_MIN;

	cfg->max_frames = max_frames ? max_frames : STACK_DEPTH_DEFAULT;
	while (depth < cfg->max_frames && depth < STACK_DEPTH_MAX)
		depth *= 2;
	cfg->depth = depth;
	bpf_map__set_value_size(c->skel->maps.deep, DEEP_WORDS(depth) * 8);
	bpf_map__set_max_entries(c->skel->maps.deep, (uint32_t)c->cpu_cap);
	bpf_map__set_max_entries(c->skel->maps.places, (uint32_t)c->cpu_cap);
}

/* For tests: tables that are full all the time. */
static void shrink_maps(struct collect *c, uint32_t entries)
{
	struct bpf_map *const maps[] = { c->skel->maps.counts0, c->skel->maps.counts1,
					 c->skel->maps.chunks0, c->skel->maps.chunks1,
					 c->skel->maps.threads, c->skel->maps.codes };

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		bpf_map__set_max_entries(maps[i], entries);
}

/* By number of the event. */
static struct bpf_program *sampler_of(const struct collect *c, uint32_t k)
{
	struct bpf_program *const progs[SAMPLED_MAX] = {
		c->skel->progs.on_cpu_sample,
		c->skel->progs.on_second_event,
		c->skel->progs.on_third_event,
		c->skel->progs.on_fourth_event,
	};

	return progs[k];
}

static int configure(struct collect *c, const struct collect_opts *opts)
{
	struct pyperf_cfg *cfg = (struct pyperf_cfg *)&c->skel->rodata->cfg;
	struct pidns ns;

	cfg->flags = opts->flags;
	for (uint32_t k = 0; k < c->by_cnt; k++)
		if (c->by[k].source->nmi)
			cfg->flags |= CFG_NMI;
	for (uint32_t k = 1; k < SAMPLED_MAX; k++)
		bpf_program__set_autoload(sampler_of(c, k), k < c->by_cnt);
	cfg->cpu_cnt = (uint32_t)c->cpu_cap;
	size_windows(c, opts);
	if (opts->map_entries)
		shrink_maps(c, opts->map_entries);
	size_stacks(c, cfg, opts->max_frames);
	cfg->chunks_wake = bpf_map__max_entries(c->skel->maps.chunks0) / 2;
	cfg->counts_wake = bpf_map__max_entries(c->skel->maps.counts0) / 2;
	if (cfg->flags & CFG_NMI)
		size_misses(c, opts);
	if (getrandom(&cfg->hash_seed, sizeof(cfg->hash_seed), 0) != sizeof(cfg->hash_seed))
		cfg->hash_seed = (uint64_t)getpid() << 32 | 1;
	if (opts->comm_glob) {
		cfg->flags |= CFG_COMM;
		snprintf(cfg->comm_glob, sizeof(cfg->comm_glob), "%s", opts->comm_glob);
	}
	if (!pidns__self(&ns) && !pidns__is_initial(&ns)) {
		cfg->flags |= CFG_PIDNS;
		cfg->pidns_inum = ns.inum;
		cfg->pidns_level = ns.level;
	}
	return opts->cgroup_path ? configure_cgroup(cfg, opts->cgroup_path) : 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* What a callback returns: negative ends the reading of its ring, behind this record. */
static int taken(struct collect *c, size_t size)
{
	size = (size + BPF_RINGBUF_HDR_SZ + 7) & ~(size_t)7;
	c->untaken -= size < c->untaken ? size : c->untaken;
	return c->untaken ? 0 : -EAGAIN;
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct collect *c = ctx;

	c->events_taken++;
	if (size >= sizeof(struct ev_proc)) /* or it was only to wake us */
		c->sink.proc(c->sink.ctx, data);
	return taken(c, size);
}

/*
 * What a sample in NMI may not insert, we do: the next sample finds it. A failure (the table is full, or another one
 * was first) costs another hand-over, no more.
 */
static void insert_code(const struct collect *c, const struct ev_code *ev)
{
	const struct code_key key = { .addr = ev->addr, .fingerprint = ev->fingerprint };
	const struct code_val val = { .id = ev->id };

	bpf_map_update_elem(bpf_map__fd(c->skel->maps.codes), &key, &val, BPF_NOEXIST);
}

static void take_stack(struct collect *c, const struct ev_stack *ev, size_t size)
{
	unsigned window = c->bss->active_window & 1;
	const struct count_val none = { 0 };

	if (!c->sink.stack)
		return;
	c->sink.stack(c->sink.ctx, window, ev, size);
	if (!bpf_map_update_elem(collect__counts_fd(c, window), &ev->key, &none, BPF_NOEXIST))
		c->bss->counts_added[window]++;
}

static int on_miss(void *ctx, void *data, size_t size)
{
	struct collect *c = ctx;
	const uint32_t *type = data;
	const struct ev_thread *ev = data;

	if (size >= sizeof(struct ev_stack) && *type == EV_STACK)
		take_stack(c, data, size);
	else if (size >= sizeof(*ev) && *type == EV_THREAD)
		bpf_map_update_elem(bpf_map__fd(c->skel->maps.threads), &ev->key, &ev->val,
				    BPF_ANY);
	return taken(c, size);
}

static bool is_nmi(const struct collect *c)
{
	const struct pyperf_cfg *cfg = (const struct pyperf_cfg *)&c->skel->rodata->cfg;

	return cfg->flags & CFG_NMI;
}

static int on_blob(void *ctx, void *data, size_t size)
{
	struct collect *c = ctx;
	const uint32_t *type = data;

	if (size >= sizeof(struct ev_code) && *type == EV_CODE) {
		if (is_nmi(c))
			insert_code(c, data);
		if (c->sink.code)
			c->sink.code(c->sink.ctx, data, size);
	}
	if (size >= offsetof(struct ev_blob, data) && *type == EV_BLOB && c->sink.blob)
		c->sink.blob(c->sink.ctx, data, size);
	return taken(c, size);
}

static int open_ring(struct collect *c, int ring, const struct bpf_map *map,
		     ring_buffer_sample_fn fn)
{
	struct epoll_event ev = { .events = EPOLLIN };

	c->rings[ring].size = bpf_map__max_entries(map);
	c->rings[ring].rb = ring_buffer__new(bpf_map__fd(map), fn, c, NULL);
	if (!c->rings[ring].rb ||
	    epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, ring_buffer__epoll_fd(c->rings[ring].rb), &ev))
		return -errno;
	return 0;
}

static int open_rings(struct collect *c)
{
	int err;

	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll_fd < 0)
		return -errno;
	err = open_ring(c, RING_EVENTS, c->skel->maps.events, on_event);
	if (!err)
		err = open_ring(c, RING_BLOBS, c->skel->maps.blobs, on_blob);
	return err ? err : open_ring(c, RING_MISSES, c->skel->maps.misses, on_miss);
}

/* An array map in our memory; NULL and errno. */
static void *map_array(const struct bpf_map *map, size_t *size)
{
	void *at;

	*size = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);
	at = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	return at == MAP_FAILED ? NULL : at;
}

static int map_arrays(struct collect *c)
{
	c->bss = map_array(c->skel->maps.bss, &c->bss_size);
	if (c->bss)
		c->mappings = map_array(c->skel->maps.mappings, &c->mappings_size);
	if (c->mappings)
		c->seen = map_array(c->skel->maps.seen, &c->seen_size);
	return c->seen ? 0 : -errno;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct collect *collect__alloc(void)
{
	struct collect *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->stats_fd = c->online_fd = c->epoll_fd = c->btf_fd = -1;
	c->cpu_cap = libbpf_num_possible_cpus();
	if (c->cpu_cap < 1)
		c->cpu_cap = 1;
	c->by[0].source = source__of_event(EVENT_CPU_CLOCK);
	c->by_cnt = 1;
	c->slowed = 1;
	c->cpus = calloc((size_t)c->cpu_cap, sizeof(*c->cpus));
	c->costs = calloc((size_t)c->cpu_cap, sizeof(*c->costs));
	if (!c->cpus || !c->costs) {
		free(c->costs);
		free(c->cpus);
		free(c);
		return NULL;
	}
	for (int i = 0; i < c->cpu_cap; i++)
		for (uint32_t k = 0; k < SAMPLED_MAX; k++)
			c->cpus[i].by[k].fd = -1;
	return c;
}

static void set_events(struct collect *c, const struct collect_opts *opts)
{
	for (uint32_t k = 0; k < opts->by_cnt; k++)
		c->by[k] = (struct sampled_event){ .source = opts->by[k].source,
						   .period = opts->by[k].period };
	if (opts->by_cnt)
		c->by_cnt = opts->by_cnt;
}

static int load(void *skel)
{
	return pyperf_bpf__load(skel);
}

static void close_btf(struct collect *c)
{
	if (c->btf_fd >= 0)
		close(c->btf_fd);
	c->btf_fd = -1;
}

/* With the kernel's types that it needs; where these cannot be copied, libbpf looks for them among all. */
static struct pyperf_bpf *open_object(struct collect *c)
{
	char path[64];
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = path);

	c->btf_fd = kernelbtf__open(BTF_PATH);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", c->btf_fd);
	if (c->btf_fd >= 0)
		return pyperf_bpf__open_opts(&opts);
	log_debug("%s: %s", BTF_PATH, strerror(-c->btf_fd));
	return pyperf_bpf__open();
}

struct collect *collect__open(const struct collect_opts *opts, const struct collect_sink *sink)
{
	struct collect *c;
	int err;

	if (check_rights())
		return NULL;
	libbpf_set_print(on_libbpf_print);
	c = collect__alloc();
	if (!c) {
		log_err("out of memory");
		return NULL;
	}
	c->sink = *sink;
	set_events(c, opts);
	c->events = opts->events;
	c->loader = loader__new();
	c->skel = c->loader ? open_object(c) : NULL;
	if (!c->skel) {
		log_err("the BPF object: %s", strerror(errno));
		goto fail;
	}
	if (configure(c, opts))
		goto fail;
	err = loader__start(c->loader, c->skel->obj, load, c->skel);
	if (err) {
		explain_load_failure(err);
		goto fail;
	}
	err = map_arrays(c);
	if (!err)
		err = open_rings(c);
	if (err) {
		log_err("mapping the BPF maps: %s", strerror(-err));
		goto fail;
	}
	if (opts->bpf_stats)
		c->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	return c;
fail:
	collect__close(c);
	return NULL;
}

static void unmap(void *at, size_t size)
{
	if (at)
		munmap(at, size);
}

void collect__unmap(struct collect *c)
{
	for (int i = 0; i < RING_CNT; i++) {
		ring_buffer__free(c->rings[i].rb);
		c->rings[i].rb = NULL;
	}
	unmap(c->bss, c->bss_size);
	unmap(c->mappings, c->mappings_size);
	unmap(c->seen, c->seen_size);
	c->bss = NULL;
	c->mappings = NULL;
	c->seen = NULL;
}

void collect__close(struct collect *c)
{
	if (!c)
		return;
	collect__detach_sampler(c);
	collect__unmap(c);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	if (c->stats_fd >= 0)
		close(c->stats_fd);
	if (c->online_fd >= 0)
		close(c->online_fd);
	if (c->loader)
		loader__wait(c->loader);
	pyperf_bpf__destroy(c->skel);
	close_btf(c);
	loader__free(c->loader);
	free(c->costs);
	free(c->cpus);
	free(c);
}

void collect__process_maps(const struct collect *c, struct process_maps *maps)
{
	*maps = (struct process_maps){
		.procs_fd = bpf_map__fd(c->skel->maps.procs),
		.plain_exes_fd = bpf_map__fd(c->skel->maps.plain_exes),
		.images_fd = bpf_map__fd(c->skel->maps.images),
		.tables_fd = bpf_map__fd(c->skel->maps.tables),
		.interps_fd = bpf_map__fd(c->skel->maps.interps),
		.mappings = c->mappings,
		.draft = &c->bss->draft,
		.seen = c->seen,
		.seen_cap = bpf_map__max_entries(c->skel->maps.seen),
		.mapping_cap = bpf_map__max_entries(c->skel->maps.mappings),
		.table_cap = bpf_map__max_entries(c->skel->maps.tables),
		.interp_cap = bpf_map__max_entries(c->skel->maps.interps),
	};
}

/* ---- attaching ------------------------------------------------------------------------------- */

int collect__attach_lifecycle(struct collect *c)
{
	struct bpf_program *const progs[] = { c->skel->progs.on_fork, c->skel->progs.on_exec,
					      c->skel->progs.on_exit };
	struct bpf_link **const links[] = { &c->skel->links.on_fork, &c->skel->links.on_exec,
					    &c->skel->links.on_exit };

	int err = loader__wait_early(c->loader);

	if (err) {
		explain_load_failure(err);
		return err;
	}
	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		*links[i] = bpf_program__attach(progs[i]);
		if (!*links[i]) {
			log_err("attach %s: %s", bpf_program__name(progs[i]), strerror(errno));
			return -errno;
		}
	}
	collect__follow_areas(c, true);
	return 0;
}

void collect__follow_areas(struct collect *c, bool on)
{
	struct bpf_link **link = &c->skel->links.on_unmapped_area;

	if (on == (*link != NULL))
		return;
	if (!on) {
		bpf_link__destroy(*link);
		*link = NULL;
		return;
	}
	/* Without it, before Linux 5.7, a library may be named for one that had its addresses: docs/limits.md. */
	*link = bpf_program__attach(c->skel->progs.on_unmapped_area);
	if (!*link)
		log_debug("attach on_unmapped_area: %s", strerror(errno));
}

/* By CPU, to be freed; NULL: no memory. */
static struct counters *read_counters(const struct collect *c)
{
	struct counters *per_cpu = calloc((size_t)c->cpu_cap, sizeof(*per_cpu));
	uint32_t zero = 0;

	if (per_cpu)
		bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.counters), &zero, per_cpu);
	return per_cpu;
}

/* What samples took of one CPU, 0 to 1, since the last time that this was known; negative: not known yet. */
static double cpu_share(struct cpu_cost *last, const struct cpu_cost *now)
{
	double samples = (double)(now->delivered - last->delivered), share = -1;
	uint64_t timed = now->timed - last->timed;

	if (last->at_ns && TIMED_EVERY * timed < COLLECT_SHARE_SAMPLES)
		return share;
	if (last->at_ns)
		share = samples * (double)(now->timed_ns - last->timed_ns) / (double)timed /
			(double)(now->at_ns - last->at_ns);
	*last = *now;
	return share;
}

double collect__busiest_share(struct collect *c)
{
	struct counters *per_cpu = read_counters(c);
	uint64_t now = now_ns();
	double busiest = -1;

	for (int cpu = 0; per_cpu && cpu < c->cpu_cap; cpu++) {
		const uint64_t *n = (const uint64_t *)per_cpu[cpu].n;
		struct cpu_cost cost = { n[CTR_delivered], n[CTR_timed_samples], n[CTR_timed_ns],
					 now };
		double share = cpu_share(&c->costs[cpu], &cost);

		busiest = share > busiest ? share : busiest;
	}
	free(per_cpu);
	return busiest;
}

/* Discard measurements taken at the old rate. */
static void measure_anew(struct collect *c)
{
	memset(c->costs, 0, (size_t)c->cpu_cap * sizeof(*c->costs));
	collect__busiest_share(c);
}

/* Of clocks, ns. */
static uint64_t clock_period(const struct collect *c)
{
	return (uint64_t)(NS_PER_S / c->frequency_hz) * c->slowed;
}

/*
 * A clock that is slowed down gets the period that it has at full rate, times `slowed`: so counts of both rates are
 * multiples of one number. At first the kernel makes the period (perf_swevent_init_hrtimer()), after it has compared the
 * frequency with what it allows; that may be less by the time that the rate is changed.
 */
static int perf_open(const struct collect *c, uint32_t k, int cpu)
{
	const struct sampled_event *by = &c->by[k];
	uint32_t hz = c->frequency_hz / c->slowed;
	uint64_t period = by->by_period ? clock_period(c) : by->period * c->slowed;

	return perf__open(by->source->kind, by->source->config, cpu, hz ? hz : 1, period);
}

/* No counter: where the kernel has none of this kind, or a hypervisor keeps it. */
static bool is_missing(int err)
{
	return err == -ENOENT || err == -EOPNOTSUPP || err == -ENXIO;
}

static void explain_perf_failure(const struct collect *c, uint32_t k, int cpu, int err)
{
	const struct source *source = c->by[k].source;
	long max = rights__sysctl("kernel/perf_event_max_sample_rate");
	char what[64];

	if (err == -EINVAL && max >= 0 && !c->by[k].period && (long)c->frequency_hz > max)
		log_err("sampling at %" PRIu32
			" Hz: the kernel allows %ld (lower -F, or raise sysctl "
			"kernel.perf_event_max_sample_rate)",
			c->frequency_hz, max);
	else if (source->nmi && is_missing(err))
		log_err("-e %s: this machine has no counter for it: %s (virtual machines often have none; "
			"-e cpu-clock works everywhere)",
			source__name(source), strerror(-err));
	else {
		snprintf(what, sizeof(what), "sampling %s on CPU %d", source__name(source), cpu);
		perf__explain(what, err);
	}
}

static void stop_event(struct sampled_cpu *s, uint32_t k)
{
	if (s->by[k].fd < 0)
		return;
	bpf_link__destroy(s->by[k].link); /* closes the perf event as well */
	s->by[k].link = NULL;
	s->by[k].fd = -1;
}

static void stop_cpu(struct sampled_cpu *s)
{
	for (uint32_t k = 0; k < SAMPLED_MAX; k++)
		stop_event(s, k);
}

void collect__set_output(struct collect *c, int (*fn)(void *ctx, int cpu), void *ctx)
{
	c->output_fn = fn;
	c->output_ctx = ctx;
}

/* Without it throttling goes unnoticed; no reason not to sample. */
static void set_output(const struct collect *c, int fd, int cpu)
{
	int to = c->output_fn ? c->output_fn(c->output_ctx, cpu) : -1;

	if (to >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, to))
		log_debug("CPU %d: throttling will not be seen: %s", cpu, strerror(errno));
}

/* A CPU that is sampled by it goes over to a new event. -ENODEV: the CPU is offline. */
static int sample_event(struct collect *c, uint32_t k, int cpu)
{
	struct sampled_cpu *s = &c->cpus[cpu];
	int fd = k ? -1 : perf_events__take_clock(c->events, cpu);
	struct bpf_link *link;

	if (fd < 0)
		fd = perf_open(c, k, cpu);
	if (fd < 0)
		return fd;
	link = bpf_program__attach_perf_event(sampler_of(c, k), fd);
	if (!link) {
		int err = -errno;

		close(fd);
		return err;
	}
	set_output(c, fd, cpu);
	stop_event(s, k);
	s->by[k].fd = fd;
	s->by[k].link = link;
	s->seen = true;
	s->told = false;
	return 0;
}

/* By all events, or by none. *failed: the one that could not be had. */
static int sample_cpu(struct collect *c, int cpu, uint32_t *failed)
{
	int err = 0;

	for (uint32_t k = 0; k < c->by_cnt && !err; k++) {
		err = sample_event(c, k, cpu);
		*failed = k;
	}
	if (err)
		stop_cpu(&c->cpus[cpu]);
	return err;
}

/* The programs of further events go on in on_cpu_sample(). */
static int link_samplers(const struct collect *c)
{
	uint32_t zero = 0;
	int fd = bpf_program__fd(c->skel->progs.on_cpu_sample);

	if (c->by_cnt < 2)
		return 0;
	return bpf_map_update_elem(bpf_map__fd(c->skel->maps.samplers), &zero, &fd, BPF_ANY);
}

int collect__wait_loaded(struct collect *c)
{
	int err = loader__wait(c->loader);

	close_btf(c);
	if (err)
		explain_load_failure(err);
	return err;
}

int collect__attach_sampler(struct collect *c, uint32_t frequency_hz)
{
	int sampled = 0, err = collect__wait_loaded(c);
	uint32_t failed;

	if (!err)
		err = link_samplers(c);
	if (err)
		return err;
	c->frequency_hz = frequency_hz;
	c->attached = true;
	measure_anew(c);
	for (int cpu = 0; cpu < c->cpu_cap; cpu++) {
		err = sample_cpu(c, cpu, &failed);
		if (!err)
			sampled++;
		if (err && err != -ENODEV) {
			explain_perf_failure(c, failed, cpu, err);
			collect__detach_sampler(c);
			return err;
		}
	}
	if (!sampled)
		log_err("sampling: no CPU is online");
	return sampled ? 0 : -ENODEV;
}

/* Returns when every program that was running has ended (an RCU grace period). */
static void wait_for_programs(void)
{
	/* membarrier(2): the global command waits for all CPUs; it fails only with nohz_full. */
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		usleep(20000); /* far longer than any program runs */
}

void collect__detach_sampler(struct collect *c)
{
	if (!c->attached)
		return;
	for (int cpu = 0; cpu < c->cpu_cap; cpu++)
		stop_cpu(&c->cpus[cpu]);
	c->attached = false;
	wait_for_programs();
}

/*
 * The kernel has made a period of a clock's frequency (perf_swevent_init_hrtimer()), so that is what the call changes. But
 * what a sample is said to be worth stays as it was at the start (hw.last_period: perf_swevent_hrtimer(),
 * kernel/events/core.c), so BPF is told.
 */
static int set_period(struct collect *c, uint32_t k, int cpu)
{
	uint64_t period = clock_period(c);

	if (ioctl(c->cpus[cpu].by[k].fd, PERF_EVENT_IOC_PERIOD, &period))
		return -errno;
	__atomic_store_n(&c->bss->clock_ns[k], period, __ATOMIC_RELAXED);
	return 0;
}

/* Where a rate could not be set. */
struct rate_failure {
	uint32_t event; /* its number */
	int cpu;
};

/* The rate that `c` has now, on each CPU that is sampled. 0, or the first error. */
static int apply_rate(struct collect *c, struct rate_failure *failed)
{
	int err, first = 0;

	for (int i = 0; i < c->cpu_cap * (int)c->by_cnt; i++) {
		uint32_t k = (uint32_t)i % c->by_cnt;
		int cpu = i / (int)c->by_cnt;

		if (c->cpus[cpu].by[k].fd < 0)
			continue;
		err = value_type__is_clock(&c->by[k].source->type) ? set_period(c, k, cpu)
								   : sample_event(c, k, cpu);
		if (first || !err || err == -ENODEV) /* it has just gone offline */
			continue;
		first = err;
		*failed = (struct rate_failure){ k, cpu };
	}
	return first;
}

int collect__set_rate(struct collect *c, uint32_t frequency_hz, uint32_t slowed)
{
	uint32_t old_hz = c->frequency_hz, old_slowed = c->slowed;
	struct rate_failure failed, ignored;
	int err;

	for (uint32_t k = 0; k < c->by_cnt; k++)
		c->by[k].by_period = value_type__is_clock(&c->by[k].source->type);
	c->frequency_hz = frequency_hz;
	c->slowed = slowed;
	err = apply_rate(c, &failed);
	if (!err) {
		measure_anew(c);
		return 0;
	}
	explain_perf_failure(c, failed.event, failed.cpu, err);
	c->frequency_hz = old_hz;
	c->slowed = old_slowed;
	apply_rate(c, &ignored); /* those that were changed already */
	return err;
}

/* ---- CPUs that come and go ------------------------------------------------------------------- */

/* Marks the CPUs of a list like "0-3,5". */
static void parse_cpu_list(const char *s, bool *online, int cap)
{
	while (*s) {
		char *end;
		long first = strtol(s, &end, 10), last = first;

		if (end == s)
			return;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (long cpu = first; cpu <= last && cpu < cap; cpu++)
			if (cpu >= 0)
				online[cpu] = true;
		if (*end != ',')
			return;
		s = end + 1;
	}
}

/* Which CPUs are online is another list than at the last call: c->online is the new one. */
static bool online_changed(struct collect *c)
{
	char text[sizeof(c->online)] = "";

	if (c->online_fd < 0)
		c->online_fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
	if (c->online_fd < 0 || pread(c->online_fd, text, sizeof(text) - 1, 0) <= 0 ||
	    !strcmp(text, c->online))
		return false;
	memcpy(c->online, text, sizeof(text));
	return true;
}

/* Sampled from now on? If not, it is tried again, the next time. */
static bool follow_cpu(struct collect *c, int cpu)
{
	uint32_t failed;
	int err = sample_cpu(c, cpu, &failed);

	if (err)
		c->online[0] = '\0';
	if (err && err != -ENODEV && !c->cpus[cpu].told)
		explain_perf_failure(c, failed, cpu, err);
	c->cpus[cpu].told = err && err != -ENODEV;
	return !err;
}

void collect__follow_cpus(struct collect *c, void (*fn)(void *ctx, int cpu), void *ctx)
{
	bool *online;

	if (!c->attached || !online_changed(c))
		return;
	online = calloc((size_t)c->cpu_cap, sizeof(*online));
	if (!online) {
		c->online[0] = '\0'; /* once more, the next time */
		return;
	}
	parse_cpu_list(c->online, online, c->cpu_cap);
	for (int cpu = 0; cpu < c->cpu_cap; cpu++) {
		/* The kernel takes the events of a CPU that goes offline away for good. */
		if (!online[cpu])
			stop_cpu(&c->cpus[cpu]);
		else if (c->cpus[cpu].by[0].fd < 0 && follow_cpu(c, cpu))
			fn(ctx, cpu);
	}
	free(online);
}

uint32_t collect__cpu_cnt(const struct collect *c)
{
	uint32_t n = 0;

	for (int cpu = 0; cpu < c->cpu_cap; cpu++)
		n += c->cpus[cpu].seen;
	return n;
}

/* ---- reading --------------------------------------------------------------------------------- */

int collect__fd(const struct collect *c)
{
	return c->epoll_fd;
}

/* 1: there is more, for now it is enough. */
static int consume_ring(struct collect *c, int ring)
{
	int n;

	c->untaken = c->rings[ring].size;
	n = ring_buffer__consume(c->rings[ring].rb);
	return n == -EAGAIN ? 1 : n < 0 ? n : 0;
}

/*
 * `told` is cleared before the ring is read: what comes meanwhile wakes again. A program that sets it after that, and
 * whose record is read in the same round, may have woken us for nothing. So we may sleep after a round without records
 * only. See wake_user() in bpf/lifecycle.bpf.h.
 */
static int consume_events(struct collect *c)
{
	for (int round = 0; round < EVENT_ROUNDS; round++) {
		uint64_t taken = c->events_taken;
		int err;

		__atomic_store_n(&c->bss->told, 0, __ATOMIC_SEQ_CST);
		err = consume_ring(c, RING_EVENTS);
		if (err || c->events_taken == taken)
			return err;
	}
	return 1;
}

int collect__consume(struct collect *c)
{
	int more = 0;

	for (int i = 0; i < RING_CNT; i++) {
		int err = i == RING_EVENTS ? consume_events(c) : consume_ring(c, i);

		if (err < 0)
			return err;
		more |= err;
	}
	return more;
}

unsigned collect__flip(struct collect *c)
{
	unsigned old = c->bss->active_window & 1;

	c->bss->chunks_added[!old] = 0;
	c->bss->counts_added[!old] = 0;
	__atomic_store_n(&c->bss->active_window, !old, __ATOMIC_SEQ_CST);
	wait_for_programs();
	return old;
}

bool collect__wants_flip(const struct collect *c)
{
	const struct pyperf_cfg *cfg = (const struct pyperf_cfg *)&c->skel->rodata->cfg;
	unsigned window = c->bss->active_window & 1;

	return c->bss->chunks_added[window] >= cfg->chunks_wake ||
	       c->bss->counts_added[window] >= cfg->counts_wake;
}

void collect__fill(const struct collect *c, uint64_t processes,
		   struct table_fill out[COLLECT_FILLS])
{
	unsigned window = c->bss->active_window & 1;

	out[0] = (struct table_fill){ "counts", c->bss->counts_added[window],
				      bpf_map__max_entries(c->skel->maps.counts0) };
	out[1] = (struct table_fill){ "chunks", c->bss->chunks_added[window],
				      bpf_map__max_entries(c->skel->maps.chunks0) };
	out[2] = (struct table_fill){ "procs", processes,
				      bpf_map__max_entries(c->skel->maps.procs) };
}

int collect__counts_fd(const struct collect *c, unsigned window)
{
	return bpf_map__fd(window ? c->skel->maps.counts1 : c->skel->maps.counts0);
}

int collect__chunks_fd(const struct collect *c, unsigned window)
{
	return bpf_map__fd(window ? c->skel->maps.chunks1 : c->skel->maps.chunks0);
}

int collect__code_ids(struct collect *c, bool (*keep)(void *ctx, uint64_t id), void *ctx,
		      uint64_t **ids, size_t *cnt)
{
	int fd = bpf_map__fd(c->skel->maps.codes), err = 0;
	uint32_t cap = bpf_map__max_entries(c->skel->maps.codes), token, n;
	struct code_key *keys = calloc(cap, sizeof(*keys));
	struct code_val *vals = calloc(cap, sizeof(*vals));
	bool first = true;

	*cnt = 0;
	*ids = calloc(2 * (size_t)cap, sizeof(**ids));
	if (!keys || !vals || !*ids)
		err = -ENOMEM;
	while (!err && *cnt <= cap) { /* what moves meanwhile may be found twice */
		n = cap;
		err = bpf_map_lookup_batch(fd, first ? NULL : &token, &token, keys, vals, &n, NULL);
		first = false;
		for (uint32_t i = 0; i < n && (!err || err == -ENOENT); i++) {
			if (keep(ctx, vals[i].id) || bpf_map_delete_elem(fd, &keys[i]))
				(*ids)[(*cnt)++] = vals[i].id;
		}
	}
	free(keys);
	free(vals);
	if (err && err != -ENOENT)
		return err;
	/* A program that has found what is deleted now puts it into its CPU's cache, by the epoch in which it began. */
	wait_for_programs();
	__atomic_add_fetch(&c->bss->code_epoch, 1, __ATOMIC_SEQ_CST);
	return 0;
}

void collect__counters(const struct collect *c, uint64_t counters[CTR_CNT])
{
	struct counters *per_cpu = read_counters(c);

	memset(counters, 0, CTR_CNT * sizeof(*counters));
	for (int cpu = 0; per_cpu && cpu < c->cpu_cap; cpu++)
		for (uint32_t i = 0; i < CTR_CNT; i++)
			counters[i] += per_cpu[cpu].n[i];
	free(per_cpu);
}

uint64_t collect__events_lost(const struct collect *c)
{
	return __atomic_load_n(&c->bss->events_lost, __ATOMIC_RELAXED);
}

static void add_run_time(const struct bpf_program *prog, uint64_t *ns, uint64_t *runs)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size))
		return;
	*ns += info.run_time_ns;
	*runs += info.run_cnt;
}

void collect__run_time(const struct collect *c, uint64_t *ns, uint64_t *runs)
{
	*ns = *runs = 0;
	add_run_time(c->skel->progs.on_cpu_sample, ns, runs);
}

uint64_t collect__follow_time(const struct collect *c)
{
	uint64_t ns = 0, runs = 0;

	add_run_time(c->skel->progs.on_fork, &ns, &runs);
	add_run_time(c->skel->progs.on_exec, &ns, &runs);
	add_run_time(c->skel->progs.on_exit, &ns, &runs);
	add_run_time(c->skel->progs.on_unmapped_area, &ns, &runs);
	return ns;
}

/* "memlock:" of a map's fdinfo: its memory since 6.4 (90a5527d7686), an estimate before. */
static uint64_t map_memory(int fd)
{
	char path[64], line[128];
	uint64_t bytes = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "memlock: %" SCNu64, &bytes) == 1)
			break;
	fclose(f);
	return bytes;
}

uint64_t collect__mapped_bytes(const struct collect *c)
{
	/* libbpf maps the data of a ring buffer twice in a row, as the kernel lays it out. */
	return c->mappings_size + c->seen_size + 2ULL * bpf_map__max_entries(c->skel->maps.events) +
	       2ULL * bpf_map__max_entries(c->skel->maps.blobs) +
	       2ULL * bpf_map__max_entries(c->skel->maps.misses);
}

/* Four system calls for each of them, and all are of one size for ever: so it is asked once. */
uint64_t collect__map_bytes(struct collect *c)
{
	const struct bpf_map *map;

	if (c->map_bytes)
		return c->map_bytes;
	bpf_object__for_each_map(map, c->skel->obj) c->map_bytes += map_memory(bpf_map__fd(map));
	return c->map_bytes;
}
