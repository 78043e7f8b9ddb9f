/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/object_parts.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "process/cgroup.h"
#include "process/pidns.h"

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

/* -u and -t */
static void configure_owner(struct pyperf_cfg *cfg, const struct object_opts *opts)
{
	if (opts->by_user) {
		cfg->flags |= CFG_USER;
		cfg->uid = opts->uid;
	}
	if (!opts->tid_cnt)
		return;
	cfg->flags |= CFG_TIDS;
	cfg->tid_cnt = opts->tid_cnt;
	memcpy(cfg->tids, opts->tids, opts->tid_cnt * sizeof(*opts->tids));
}

/*
 * User space is woken when half of a window's chunks are used; the other half has to last until it
 * has looked: half a second, in which each sample brings a new stack of 100 frames; or eight of the
 * greatest depth, which have max_frames chunks. 200 bytes a chunk, 72 a count, in two windows each.
 */
#define CHUNKS_MIN	  4096U
#define CHUNKS_MAX	  32768U
#define CHUNKS_PER_SAMPLE 7U

/* With a period nobody knows how many samples there will be. */
#define UNKNOWN_HZ	  10000U

static uint32_t tables_hz(const struct object_opts *opts)
{
	return opts->frequency_hz ? opts->frequency_hz : UNKNOWN_HZ;
}

static void size_windows(struct object *o, const struct object_opts *opts)
{
	uint64_t want = (uint64_t)tables_hz(opts) * (uint32_t)o->cpu_cap * CHUNKS_PER_SAMPLE;
	uint32_t chunks = want < CHUNKS_MIN   ? CHUNKS_MIN
			  : want > CHUNKS_MAX ? CHUNKS_MAX
					      : (uint32_t)want;

	if (chunks < opts->max_frames)
		chunks = opts->max_frames;
	bpf_map__set_max_entries(o->skel->maps.chunks0, chunks);
	bpf_map__set_max_entries(o->skel->maps.chunks1, chunks);
	bpf_map__set_max_entries(o->skel->maps.counts0, chunks / 2);
	bpf_map__set_max_entries(o->skel->maps.counts1, chunks / 2);
}

/*
 * NMI: stacks go through `misses`, not into chunks. Half a second of new stacks of 100 frames of
 * each CPU, as above, and room for a few of the greatest depth.
 */
#define MISSES_MIN     (256U << 10)
#define MISSES_MAX     (4U << 20)
#define MISS_BYTES     832U
#define MISSES_DEEPEST 4U

static void size_misses(struct object *o, const struct object_opts *opts)
{
	uint64_t want = (uint64_t)tables_hz(opts) * (uint32_t)o->cpu_cap * MISS_BYTES / 2;
	uint64_t deepest = (uint64_t)MISSES_DEEPEST * 2 * sizeof(uint64_t) * opts->max_frames;
	uint32_t size = MISSES_MIN;

	while (size < MISSES_MAX && (size < want || size < deepest))
		size *= 2;
	bpf_map__set_max_entries(o->skel->maps.misses, size);
	bpf_map__set_max_entries(o->skel->maps.chunks0, 1);
	bpf_map__set_max_entries(o->skel->maps.chunks1, 1);
}

static void size_stacks(struct object *o, struct pyperf_cfg *cfg, uint32_t max_frames)
{
	uint32_t depth = STACK_DEPTH_MIN;

	cfg->max_frames = max_frames ? max_frames : STACK_DEPTH_DEFAULT;
	while (depth < cfg->max_frames && depth < STACK_DEPTH_MAX)
		depth *= 2;
	cfg->depth = depth;
	bpf_map__set_value_size(o->skel->maps.deep, DEEP_WORDS(depth) * 8);
	bpf_map__set_max_entries(o->skel->maps.deep, (uint32_t)o->cpu_cap);
	bpf_map__set_max_entries(o->skel->maps.places, (uint32_t)o->cpu_cap);
}

/*
 * A code object that was evicted from the table by later samples is announced again. So a low rate
 * needs a smaller table: 88 bytes each.
 */
#define CODES_MIN	 16384U
#define CODES_PER_SAMPLE 32U

static void size_codes(struct object *o, const struct object_opts *opts)
{
	uint64_t want = (uint64_t)tables_hz(opts) * (uint32_t)o->cpu_cap * CODES_PER_SAMPLE;

	if (want < CODES_MIN)
		want = CODES_MIN;
	if (want < bpf_map__max_entries(o->skel->maps.codes))
		bpf_map__set_max_entries(o->skel->maps.codes, (uint32_t)want);
}

/* For tests: tables that are full all the time. */
static void shrink_maps(struct object *o, uint32_t entries)
{
	struct bpf_map *const maps[] = { o->skel->maps.counts0, o->skel->maps.counts1,
					 o->skel->maps.chunks0, o->skel->maps.chunks1,
					 o->skel->maps.threads, o->skel->maps.codes };

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		bpf_map__set_max_entries(maps[i], entries);
}

struct bpf_program *object__sampler(const struct object *o, uint32_t type)
{
	struct bpf_program *const progs[SAMPLED_MAX] = {
		o->skel->progs.on_cpu_sample,
		o->skel->progs.on_second_event,
		o->skel->progs.on_third_event,
		o->skel->progs.on_fourth_event,
	};

	return progs[type];
}

int object__configure(struct object *o, const struct object_opts *opts)
{
	struct pyperf_cfg *cfg = (struct pyperf_cfg *)&o->skel->rodata->cfg;
	struct pidns ns;

	cfg->flags = opts->flags;
	for (uint32_t k = 1; k < SAMPLED_MAX; k++)
		bpf_program__set_autoload(object__sampler(o, k), k < o->sampler_cnt);
	cfg->cpu_cnt = (uint32_t)o->cpu_cap;
	size_windows(o, opts);
	size_codes(o, opts);
	if (opts->map_entries)
		shrink_maps(o, opts->map_entries);
	size_stacks(o, cfg, opts->max_frames);
	cfg->chunks_wake = bpf_map__max_entries(o->skel->maps.chunks0) / 2;
	cfg->counts_wake = bpf_map__max_entries(o->skel->maps.counts0) / 2;
	if (cfg->flags & CFG_NMI)
		size_misses(o, opts);
	if (getrandom(&cfg->hash_seed, sizeof(cfg->hash_seed), 0) != sizeof(cfg->hash_seed))
		cfg->hash_seed = (uint64_t)getpid() << 32 | 1;
	if (opts->comm_glob) {
		cfg->flags |= CFG_COMM;
		snprintf(cfg->comm_glob, sizeof(cfg->comm_glob), "%s", opts->comm_glob);
	}
	configure_owner(cfg, opts);
	cfg->loop_types = opts->loop_types;
	if (cfg->loop_types)
		bpf_map__set_max_entries(o->skel->maps.loops, LOOP_THREADS);
	if (!pidns__self(&ns) && !pidns__is_initial(&ns)) {
		cfg->flags |= CFG_PIDNS;
		cfg->pidns_inum = ns.inum;
		cfg->pidns_level = ns.level;
	}
	return opts->cgroup_path ? configure_cgroup(cfg, opts->cgroup_path) : 0;
}
