/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "collect.h"

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
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cgroup.h"
#include "loader.h"
#include "log.h"
#include "pidns.h"
#include "pyperf.skel.h"
#include "rights.h"

struct sampled_cpu {
	int fd; /* of the perf event; -1: not sampled */
	struct bpf_link *link;
	bool seen; /* was sampled at some time */
};

struct collect {
	struct loader *loader;
	struct pyperf_bpf *skel;
	struct pyperf_bpf__bss *bss; /* that of the skeleton is there when all is loaded */
	size_t bss_size;
	struct ring_buffer *rings;
	struct collect_sink sink;
	struct sampled_cpu *cpus;
	int cpu_cap;
	uint32_t frequency_hz; /* 0: the sampler is not attached */
	int stats_fd;
	int online_fd;
	char online[4096]; /* the list of CPUs that are, as the kernel writes it */
	__u64 *seen;
	size_t seen_size;
	struct mapping *mappings;
	size_t mappings_size;
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

/* libbpf's messages are one level lower than ours: what it calls a warning we explain ourselves. */
static int on_libbpf_print(enum libbpf_print_level level, const char *fmt, va_list args)
{
	char line[4096];
	size_t len;

	if (log_get_level() <= LOG_LEVEL_DEBUG || level == LIBBPF_DEBUG)
		return 0; /* -vv */
	vsnprintf(line, sizeof(line), fmt, args);
	len = strlen(line);
	while (len && line[len - 1] == '\n')
		line[--len] = '\0';
	log_debug("%s", line);
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

static void size_windows(struct collect *c, const struct collect_opts *opts)
{
	uint64_t want = (uint64_t)opts->frequency_hz * (uint32_t)c->cpu_cap * CHUNKS_PER_SAMPLE;
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

static int configure(struct collect *c, const struct collect_opts *opts)
{
	struct pyperf_cfg *cfg = (struct pyperf_cfg *)&c->skel->rodata->cfg;
	struct pidns ns;

	cfg->flags = opts->flags;
	cfg->cpu_cnt = (uint32_t)c->cpu_cap;
	size_windows(c, opts);
	size_stacks(c, cfg, opts->max_frames);
	cfg->chunks_wake = bpf_map__max_entries(c->skel->maps.chunks0) / 2;
	cfg->counts_wake = bpf_map__max_entries(c->skel->maps.counts0) / 2;
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

static int on_event(void *ctx, void *data, size_t size)
{
	struct collect *c = ctx;

	if (size >= sizeof(struct ev_proc))
		c->sink.proc(c->sink.ctx, data);
	return 0;
}

static int on_blob(void *ctx, void *data, size_t size)
{
	struct collect *c = ctx;
	const uint32_t *type = data;

	if (size >= sizeof(struct ev_code) && *type == EV_CODE && c->sink.code)
		c->sink.code(c->sink.ctx, data, size);
	if (size >= offsetof(struct ev_blob, data) && *type == EV_BLOB && c->sink.blob)
		c->sink.blob(c->sink.ctx, data, size);
	return 0;
}

static int open_rings(struct collect *c)
{
	c->rings = ring_buffer__new(bpf_map__fd(c->skel->maps.events), on_event, c, NULL);
	if (!c->rings)
		return -errno;
	return ring_buffer__add(c->rings, bpf_map__fd(c->skel->maps.blobs), on_blob, c);
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
	c->stats_fd = c->online_fd = -1;
	c->cpu_cap = libbpf_num_possible_cpus();
	if (c->cpu_cap < 1)
		c->cpu_cap = 1;
	c->cpus = calloc((size_t)c->cpu_cap, sizeof(*c->cpus));
	if (!c->cpus) {
		free(c);
		return NULL;
	}
	for (int i = 0; i < c->cpu_cap; i++)
		c->cpus[i].fd = -1;
	return c;
}

static int load(void *skel)
{
	return pyperf_bpf__load(skel);
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
	c->loader = loader__new();
	c->skel = c->loader ? pyperf_bpf__open() : NULL;
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

void collect__close(struct collect *c)
{
	if (!c)
		return;
	collect__detach_sampler(c);
	ring_buffer__free(c->rings);
	if (c->bss)
		munmap(c->bss, c->bss_size);
	if (c->mappings)
		munmap(c->mappings, c->mappings_size);
	if (c->seen)
		munmap(c->seen, c->seen_size);
	if (c->stats_fd >= 0)
		close(c->stats_fd);
	if (c->online_fd >= 0)
		close(c->online_fd);
	if (c->loader)
		loader__wait(c->loader);
	pyperf_bpf__destroy(c->skel);
	loader__free(c->loader);
	free(c->cpus);
	free(c);
}

void collect__process_maps(const struct collect *c, struct process_maps *maps)
{
	*maps = (struct process_maps){
		.procs_fd = bpf_map__fd(c->skel->maps.procs),
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
	/* Without it, before Linux 5.7, a library may be named for one that had its addresses: docs/limits.md. */
	c->skel->links.on_unmapped_area = bpf_program__attach(c->skel->progs.on_unmapped_area);
	if (!c->skel->links.on_unmapped_area)
		log_debug("attach on_unmapped_area: %s", strerror(errno));
	return 0;
}

static int perf_open(int cpu, uint32_t frequency_hz)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = frequency_hz,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static void explain_perf_failure(int cpu, uint32_t frequency_hz, int err)
{
	long max = rights__sysctl("kernel/perf_event_max_sample_rate");
	long paranoid = rights__sysctl("kernel/perf_event_paranoid");

	if (err == -EINVAL && max >= 0 && (long)frequency_hz > max)
		log_err("sampling at %" PRIu32
			" Hz: the kernel allows %ld (lower -F, or raise sysctl "
			"kernel.perf_event_max_sample_rate)",
			frequency_hz, max);
	else if (err == -EACCES || err == -EPERM)
		log_err("sampling on CPU %d: %s (needs CAP_PERFMON; kernel.perf_event_paranoid is %ld)",
			cpu, strerror(-err), paranoid);
	else
		log_err("sampling on CPU %d: %s", cpu, strerror(-err));
}

static void stop_cpu(struct sampled_cpu *s)
{
	if (s->fd < 0)
		return;
	bpf_link__destroy(s->link); /* closes the perf event as well */
	s->link = NULL;
	s->fd = -1;
}

/* -ENODEV: the CPU is offline. */
static int sample_cpu(struct collect *c, int cpu)
{
	struct sampled_cpu *s = &c->cpus[cpu];
	int fd = perf_open(cpu, c->frequency_hz);

	if (fd < 0)
		return fd;
	s->link = bpf_program__attach_perf_event(c->skel->progs.on_cpu_sample, fd);
	if (!s->link) {
		int err = -errno;

		close(fd);
		return err;
	}
	s->fd = fd;
	s->seen = true;
	return 0;
}

int collect__wait_loaded(struct collect *c)
{
	int err = loader__wait(c->loader);

	if (err)
		explain_load_failure(err);
	return err;
}

int collect__attach_sampler(struct collect *c, uint32_t frequency_hz)
{
	int sampled = 0, err = collect__wait_loaded(c);

	if (err)
		return err;
	c->frequency_hz = frequency_hz;
	for (int cpu = 0; cpu < c->cpu_cap; cpu++) {
		err = sample_cpu(c, cpu);
		if (!err)
			sampled++;
		if (err && err != -ENODEV) {
			explain_perf_failure(cpu, frequency_hz, err);
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
	if (!c->frequency_hz)
		return;
	for (int cpu = 0; cpu < c->cpu_cap; cpu++)
		stop_cpu(&c->cpus[cpu]);
	c->frequency_hz = 0;
	wait_for_programs();
}

/*
 * For the CPU clock the kernel makes a period of the frequency once, at the start (perf_swevent_init_hrtimer(),
 * kernel/events/core.c), and it is the period in nanoseconds that can be changed.
 */
int collect__set_frequency(struct collect *c, uint32_t frequency_hz)
{
	uint64_t period_ns = 1000000000ULL / frequency_hz;

	for (int cpu = 0; cpu < c->cpu_cap; cpu++) {
		int fd = c->cpus[cpu].fd;

		if (fd < 0 || !ioctl(fd, PERF_EVENT_IOC_PERIOD, &period_ns))
			continue;
		if (errno == ENODEV) /* it has just gone offline */
			continue;
		log_err("sampling on CPU %d at %" PRIu32 " Hz: %s", cpu, frequency_hz,
			strerror(errno));
		return -errno;
	}
	c->frequency_hz = frequency_hz;
	return 0;
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

void collect__follow_cpus(struct collect *c, void (*fn)(void *ctx, int cpu), void *ctx)
{
	bool *online;

	if (!c->frequency_hz || !online_changed(c))
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
		else if (c->cpus[cpu].fd < 0 && !sample_cpu(c, cpu))
			fn(ctx, cpu);
		else if (c->cpus[cpu].fd < 0)
			c->online[0] = '\0'; /* once more, the next time */
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
	return ring_buffer__epoll_fd(c->rings);
}

int collect__consume(struct collect *c)
{
	int n = ring_buffer__consume(c->rings);

	return n < 0 ? n : 0;
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

/* Those of the caches of all CPUs, behind the others. 0 or negative errno. */
static int add_known_codes(const struct collect *c, uint64_t *ids, size_t *cnt)
{
	struct known_code *slot = calloc((size_t)c->cpu_cap, sizeof(*slot));
	int fd = bpf_map__fd(c->skel->maps.known_codes), err = slot ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < CODE_SLOTS && !err; i++) {
		err = bpf_map_lookup_elem(fd, &i, slot) ? -errno : 0;
		for (int cpu = 0; cpu < c->cpu_cap && !err; cpu++) {
			if (slot[cpu].id)
				ids[(*cnt)++] = slot[cpu].id;
		}
	}
	free(slot);
	return err;
}

int collect__code_ids(const struct collect *c, bool (*keep)(void *ctx, uint64_t id), void *ctx,
		      uint64_t **ids, size_t *cnt)
{
	int fd = bpf_map__fd(c->skel->maps.codes), err = 0;
	uint32_t cap = bpf_map__max_entries(c->skel->maps.codes), token, n;
	struct code_key *keys = calloc(cap, sizeof(*keys));
	struct code_val *vals = calloc(cap, sizeof(*vals));
	bool first = true;

	*cnt = 0;
	*ids = calloc(2 * (size_t)cap + (size_t)c->cpu_cap * CODE_SLOTS, sizeof(**ids));
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
	/* Last: an id may get from `codes` into a cache, but not back. */
	return add_known_codes(c, *ids, cnt);
}

void collect__counters(const struct collect *c, uint64_t counters[CTR_CNT])
{
	struct counters *per_cpu = calloc((size_t)c->cpu_cap, sizeof(*per_cpu));
	uint32_t zero = 0;

	memset(counters, 0, CTR_CNT * sizeof(*counters));
	if (!per_cpu)
		return;
	if (!bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.counters), &zero, per_cpu)) {
		for (int cpu = 0; cpu < c->cpu_cap; cpu++)
			for (uint32_t i = 0; i < CTR_CNT; i++)
				counters[i] += per_cpu[cpu].n[i];
	}
	free(per_cpu);
}

uint64_t collect__counter(const struct collect *c, enum pyperf_counter counter)
{
	uint64_t counters[CTR_CNT];

	collect__counters(c, counters);
	return counters[counter];
}

void collect__run_time(const struct collect *c, uint64_t *ns, uint64_t *runs)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	*ns = *runs = 0;
	if (bpf_obj_get_info_by_fd(bpf_program__fd(c->skel->progs.on_cpu_sample), &info, &size))
		return;
	*ns = info.run_time_ns;
	*runs = info.run_cnt;
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
	       2ULL * bpf_map__max_entries(c->skel->maps.blobs);
}

uint64_t collect__map_bytes(const struct collect *c)
{
	const struct bpf_map *map;
	uint64_t bytes = 0;

	bpf_object__for_each_map(map, c->skel->obj) bytes += map_memory(bpf_map__fd(map));
	return bytes;
}
