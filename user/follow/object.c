/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/object_parts.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/loader.h"
#include "base/log.h"
#include "base/percpu.h"
#include "base/procfield.h"
#include "base/rights.h"
#include "base/str.h"
#include "follow/kernelbtf.h"

/* ---- why it cannot work ---------------------------------------------------------------------- */

/* The rights and features without which nothing works; each has a remedy. */
static int check_rights(void)
{
	for (const struct right *r = rights__needed; r->name; r++) {
		if (rights__has(r) ||
		    r->cap == CAP_SYSLOG) /* reported when kernel names are needed */
			continue;
		if (r->essential) {
			log_err("%s is missing: %s (%s)", r->name, r->without, RIGHTS_REMEDY);
			return -EPERM;
		}
		log_warn("%s is missing: %s", r->name, r->without);
	}
	if (rights__locked_down()) {
		log_err("kernel lockdown is in confidentiality mode, which forbids BPF to read "
			"memory (boot with lockdown=integrity)");
		return -EPERM;
	}
	if (access(BTF_PATH, R_OK)) {
		log_err("%s: %s (the kernel must be built with CONFIG_DEBUG_INFO_BTF=y)", BTF_PATH,
			strerror(errno));
		return -ENOTSUP;
	}
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* An array map in our memory; NULL and errno. */
static void *map_array(const struct bpf_map *map, size_t *size)
{
	void *at;

	*size = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);
	at = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	return at == MAP_FAILED ? NULL : at;
}

static int map_arrays(struct object *o)
{
	o->bss = map_array(o->skel->maps.bss, &o->bss_size);
	if (o->bss)
		o->mappings = map_array(o->skel->maps.mappings, &o->mappings_size);
	if (o->mappings)
		o->seen = map_array(o->skel->maps.seen, &o->seen_size);
	if (o->seen)
		o->proc_shares = map_array(o->skel->maps.proc_shares, &o->proc_shares_size);
	if (o->proc_shares)
		o->loop_shares = map_array(o->skel->maps.loop_shares, &o->loop_shares_size);
	return o->loop_shares ? 0 : -errno;
}

static struct object *object__alloc(const struct object_opts *opts)
{
	struct object *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->stats_fd = -1;
	o->sampler_cnt = opts->sampler_cnt ? opts->sampler_cnt : 1;
	return o;
}

/* The kernel writes as many values of a map as it has CPUs, however many we have room for. */
static int count_cpus(struct object *o)
{
	o->cpu_cap = libbpf_num_possible_cpus();
	if (o->cpu_cap > 0)
		return 0;
	log_err("number of CPUs: /sys/devices/system/cpu/possible: %s", strerror(-o->cpu_cap));
	return -EIO;
}

/*
 * With the kernel's types that it needs; where these cannot be copied, libbpf looks for them among
 * all.
 */
static struct pyperf_bpf *open_object(struct object *o)
{
	int btf_fd = kernelbtf__open(BTF_PATH);

	if (btf_fd < 0)
		log_debug("%s: %s", BTF_PATH, strerror(-btf_fd));
	o->loader = loader__new(btf_fd);
	return o->loader ? pyperf_bpf__open_opts(loader__opts(o->loader)) : NULL;
}

void object__say_unmapped(struct object *o, int err)
{
	int why = loader__wait(o->loader);

	if (why)
		loader__say_failed(why, "", LOAD_NEEDS_KERNEL);
	else
		log_err("mapping the BPF maps: %s", strerror(-err));
}

struct object *object__open(const struct object_opts *opts)
{
	struct object *o;
	int err;

	if (check_rights())
		return NULL;
	o = object__alloc(opts);
	if (!o) {
		log_no_memory();
		return NULL;
	}
	if (count_cpus(o))
		goto fail;
	o->skel = open_object(o);
	if (!o->skel) {
		log_err("the BPF object: %s", strerror(errno));
		goto fail;
	}
	if (object__configure(o, opts))
		goto fail;
	err = loader__start(o->loader, o->skel->skeleton, true);
	if (err) {
		loader__say_failed(err, "", LOAD_NEEDS_KERNEL);
		goto fail;
	}
	err = map_arrays(o);
	if (err) {
		object__say_unmapped(o, err);
		goto fail;
	}
	if (opts->bpf_stats)
		o->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	return o;
fail:
	object__close(o);
	return NULL;
}

static void unmap(void *at, size_t size)
{
	if (at)
		munmap(at, size);
}

void object__unmap(struct object *o)
{
	unmap(o->bss, o->bss_size);
	unmap(o->mappings, o->mappings_size);
	unmap(o->seen, o->seen_size);
	unmap(o->proc_shares, o->proc_shares_size);
	unmap(o->loop_shares, o->loop_shares_size);
	o->bss = NULL;
	o->mappings = NULL;
	o->seen = NULL;
	o->proc_shares = NULL;
	o->loop_shares = NULL;
}

void object__close(struct object *o)
{
	if (!o)
		return;
	object__unmap(o);
	if (o->stats_fd >= 0)
		close(o->stats_fd);
	loader__free(o->loader);
	pyperf_bpf__destroy(o->skel);
	free(o);
}

void object__process_maps(const struct object *o, struct process_maps *maps)
{
	*maps = (struct process_maps){
		.procs_fd = bpf_map__fd(o->skel->maps.procs),
		.plain_exes_fd = bpf_map__fd(o->skel->maps.plain_exes),
		.images_fd = bpf_map__fd(o->skel->maps.images),
		.tables_fd = bpf_map__fd(o->skel->maps.tables),
		.interps_fd = bpf_map__fd(o->skel->maps.interps),
		.mappings = o->mappings,
		.draft = &o->bss->draft,
		.seen = o->seen,
		.proc_shares = o->proc_shares,
		.seen_cap = bpf_map__max_entries(o->skel->maps.seen),
		.mapping_cap = bpf_map__max_entries(o->skel->maps.mappings),
		.table_cap = bpf_map__max_entries(o->skel->maps.tables),
		.interp_cap = bpf_map__max_entries(o->skel->maps.interps),
	};
}

void object__world(const struct object *o, struct world *w)
{
	w->object = o->skel->obj;
	for (uint32_t i = 0; i < SAMPLED_MAX; i++)
		w->samplers[i] = object__sampler(o, i);
	w->active_window = &o->bss->active_window;
	w->clock_ns = (uint64_t *)o->bss->clock_ns;
	w->cpu_cap = o->cpu_cap;
	w->btf_path = loader__opts(o->loader)->btf_custom_path;
}

/* ---- attaching ------------------------------------------------------------------------------- */

int object__attach_lifecycle(struct object *o)
{
	struct bpf_program *const progs[] = { o->skel->progs.on_fork, o->skel->progs.on_exec,
					      o->skel->progs.on_exit };
	int err = loader__wait_early(o->loader);

	if (err) {
		loader__say_failed(err, "", LOAD_NEEDS_KERNEL);
		return err;
	}
	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		err = loader__attach(o->loader, progs[i]);
		if (err) {
			log_err("attach %s: %s", bpf_program__name(progs[i]), strerror(-err));
			return err;
		}
	}
	object__follow_areas(o, true);
	return 0;
}

void object__follow_areas(struct object *o, bool on)
{
	struct bpf_link **link = &o->skel->links.on_unmapped_area;

	if (on == (*link != NULL))
		return;
	if (!on) {
		bpf_link__destroy(*link);
		*link = NULL;
		return;
	}
	/*
	 * Without it, before Linux 5.7, a library may be named for one that had its addresses:
	 * docs/limits.md.
	 */
	*link = bpf_program__attach(o->skel->progs.on_unmapped_area);
	if (!*link)
		log_debug("attach on_unmapped_area: %s", strerror(errno));
}

/* The programs of further events go on in on_cpu_sample(). */
static int link_samplers(const struct object *o)
{
	uint32_t zero = 0;
	int fd = bpf_program__fd(o->skel->progs.on_cpu_sample);

	if (o->sampler_cnt < 2)
		return 0;
	return bpf_map_update_elem(bpf_map__fd(o->skel->maps.samplers), &zero, &fd, BPF_ANY);
}

int object__wait_loaded(struct object *o)
{
	int err = loader__wait(o->loader);

	if (err) {
		loader__say_failed(err, "", LOAD_NEEDS_KERNEL);
		return err;
	}
	err = link_samplers(o);
	if (err)
		log_err("the samplers of further events: %s", strerror(-err));
	return err;
}

/* ---- users ----------------------------------------------------------------------------------- */

bool object__next_user(const struct object *o, const uint32_t *after, uint32_t *uid,
		       struct user_cost *cost)
{
	int fd = bpf_map__fd(o->skel->maps.users);
	uint32_t next;

	while (!bpf_map_get_next_key(fd, after, &next)) {
		*uid = next;
		if (!bpf_map_lookup_elem(fd, uid, cost))
			return true;
		after = uid;
	}
	return false;
}

/* Costs that BPF adds between the two calls are not charged: a few microseconds, seldom. */
int object__set_user(struct object *o, uint32_t uid, uint32_t one_of)
{
	int fd = bpf_map__fd(o->skel->maps.users);
	struct user_cost cost = { 0 };

	bpf_map_lookup_elem(fd, &uid, &cost);
	cost.one_of = one_of;
	return bpf_map_update_elem(fd, &uid, &cost, BPF_ANY);
}

void object__forget_user(struct object *o, uint32_t uid)
{
	bpf_map_delete_elem(bpf_map__fd(o->skel->maps.users), &uid);
}

void object__cut_users(struct object *o, uint32_t cnt)
{
	__atomic_store_n(&o->bss->users_cut, cnt, __ATOMIC_RELEASE);
}

/* ---- figures --------------------------------------------------------------------------------- */

int object__cpu_cap(const struct object *o)
{
	return o->cpu_cap;
}

struct counters *object__cpu_counters(const struct object *o)
{
	struct counters *per_cpu = calloc((size_t)o->cpu_cap, sizeof(*per_cpu));
	uint32_t zero = 0;

	if (per_cpu)
		bpf_map_lookup_elem(bpf_map__fd(o->skel->maps.counters), &zero, per_cpu);
	return per_cpu;
}

void object__counters(const struct object *o, uint64_t counters[CTR_CNT])
{
	struct counters sum = { 0 };

	percpu__add(bpf_map__fd(o->skel->maps.counters), 0, &sum, sizeof(sum));
	memcpy(counters, sum.n, CTR_CNT * sizeof(*counters));
}

uint64_t object__events_lost(const struct object *o)
{
	return __atomic_load_n(&o->bss->events_lost, __ATOMIC_RELAXED);
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

void object__run_time(const struct object *o, uint64_t *ns, uint64_t *runs)
{
	*ns = *runs = 0;
	add_run_time(o->skel->progs.on_cpu_sample, ns, runs);
}

uint64_t object__follow_time(const struct object *o)
{
	uint64_t ns = 0, runs = 0;

	add_run_time(o->skel->progs.on_fork, &ns, &runs);
	add_run_time(o->skel->progs.on_exec, &ns, &runs);
	add_run_time(o->skel->progs.on_exit, &ns, &runs);
	add_run_time(o->skel->progs.on_unmapped_area, &ns, &runs);
	return ns;
}

/* "memlock:" of a map's fdinfo: its memory since 6.4 (90a5527d7686), an estimate before. */
static uint64_t map_memory(int fd)
{
	char path[64], bytes[32];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	procfield__read(path, "memlock", bytes, sizeof(bytes));
	return strtoull(bytes, NULL, 10);
}

uint64_t object__mapped_bytes(const struct object *o)
{
	/* libbpf maps the data of a ring buffer twice in a row, as the kernel lays it out. */
	return o->mappings_size + o->seen_size + 2ULL * bpf_map__max_entries(o->skel->maps.events) +
	       2ULL * bpf_map__max_entries(o->skel->maps.blobs) +
	       2ULL * bpf_map__max_entries(o->skel->maps.misses);
}

/* Four system calls for each of them, and all are of one size for ever: so it is asked once. */
uint64_t object__map_bytes(struct object *o)
{
	const struct bpf_map *map;

	if (o->map_bytes)
		return o->map_bytes;
	bpf_object__for_each_map(map, o->skel->obj) o->map_bytes += map_memory(bpf_map__fd(map));
	return o->map_bytes;
}
