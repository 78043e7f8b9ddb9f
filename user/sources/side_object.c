/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sources/side_object.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/percpu.h"

/* Sizes of the sampler's tables below this are a test's. */
#define LEAST_ENTRIES 1024

/*
 * The maps that programs write while they hold the scratch, and the map that says which of them
 * holds it.
 */
static const char *const own_maps[] = {
	"places",   "known_codes", "counts0",	"counts1", "chunks0", "chunks1",
	"counters", "samplers",	   "scratches", "outs",	   "deep",    "blobs",
};

/* ---- maps ------------------------------------------------------------------------------------ */

static bool is_own(const char *name)
{
	for (size_t i = 0; i < sizeof(own_maps) / sizeof(own_maps[0]); i++)
		if (!strcmp(name, own_maps[i]))
			return true;
	return false;
}

/*
 * How many stacks there will be nobody knows. In NMI the sampler has no use for chunks; and in
 * tests it has less than the least of its own.
 */
static uint32_t window_entries(const struct bpf_map *ours, const struct bpf_map *theirs)
{
	uint32_t least = bpf_map__max_entries(theirs);

	return least > 1 && least < LEAST_ENTRIES ? least : bpf_map__max_entries(ours);
}

static int set_size(struct bpf_map *map, const struct bpf_map *theirs)
{
	bool counted = strstr(bpf_map__name(map), "counts") || strstr(bpf_map__name(map), "chunks");
	int err = bpf_map__set_max_entries(map, counted ? window_entries(map, theirs)
							: bpf_map__max_entries(theirs));

	if (!err && bpf_map__value_size(map) != bpf_map__value_size(theirs))
		err = bpf_map__set_value_size(map, bpf_map__value_size(theirs));
	return err;
}

/* A map that the sampler does not have is of this object alone. */
static int share_map(struct bpf_map *map, const struct bpf_object *sampler)
{
	const struct bpf_map *theirs = bpf_object__find_map_by_name(
		sampler, bpf_map__is_internal(map) ? ".bss" : bpf_map__name(map));

	if (!theirs)
		return 0;
	if (is_own(bpf_map__name(map)))
		return set_size(map, theirs);
	return bpf_map__reuse_fd(map, bpf_map__fd(theirs));
}

/* NULL: it is not as we know it. */
static const struct pyperf_cfg *sampler_cfg(const struct bpf_object *sampler)
{
	const struct bpf_map *map = bpf_object__find_map_by_name(sampler, ".rodata");
	const struct pyperf_cfg *theirs;
	size_t size;

	theirs = map ? bpf_map__initial_value((struct bpf_map *)map, &size) : NULL;
	return theirs && size == sizeof(*theirs) ? theirs : NULL;
}

static int configure(struct pyperf_cfg *cfg, const struct side_object *o, uint32_t number)
{
	const struct pyperf_cfg *theirs = sampler_cfg(o->sampler);
	const uint32_t of_perf = CFG_NMI | CFG_RECALL | CFG_TIMED | (o->kernel ? 0 : CFG_KERNEL);

	if (!theirs)
		return -EINVAL;
	memcpy(cfg, theirs, sizeof(*cfg));
	cfg->flags &= ~of_perf;
	cfg->object = number;
	return 0;
}

static int share(const struct side_object *o, struct pyperf_cfg *cfg, uint32_t number)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, o->obj)
	{
		if (!err && !(bpf_map__map_flags(map) & BPF_F_RDONLY_PROG)) /* its configuration */
			err = share_map(map, o->sampler);
	}
	return err ? err : configure(cfg, o, number);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The sampler may be loaded, and close its own types, before this one is. */
const struct bpf_object_open_opts *side_object__begin(struct side_object *o, const struct world *w)
{
	int btf_fd = w->btf_path ? open(w->btf_path, O_RDONLY | O_CLOEXEC) : -1;

	*o = (struct side_object){ .loader = loader__new(btf_fd),
				   .sampler = w->object,
				   .active_window = w->active_window };
	return o->loader ? loader__opts(o->loader) : NULL;
}

int side_object__load(struct side_object *o, struct bpf_object_skeleton *skel,
		      struct pyperf_cfg *cfg, uint32_t number)
{
	int err;

	if (!o->loader)
		return -ENOMEM;
	o->obj = *skel->obj;
	err = share(o, cfg, number);
	return err ? err : loader__start(o->loader, skel, false);
}

void side_object__end(struct side_object *o)
{
	loader__free(o->loader);
	o->loader = NULL;
	if (o->shares)
		munmap(o->shares, sizeof(*o->shares));
	o->shares = NULL;
}

/* ---- what it has ----------------------------------------------------------------------------- */

int side_object__map_fd(const struct side_object *o, const char *name)
{
	return bpf_object__find_map_fd_by_name(o->obj, name);
}

int side_object__go_on_in(const struct side_object *o, const struct bpf_program *program)
{
	uint32_t zero = 0;
	int fd = bpf_program__fd(program);

	return bpf_map_update_elem(side_object__map_fd(o, "samplers"), &zero, &fd, BPF_ANY);
}

int side_object__ready(struct side_object *o, const struct bpf_program *program, const char *what)
{
	int err = loader__wait(o->loader);
	char of[64];

	if (!err)
		return side_object__go_on_in(o, program);
	snprintf(of, sizeof(of), " of %s", what);
	loader__say_failed(err, of, "");
	return err;
}

uint32_t side_object__active_window(const struct side_object *o)
{
	return *(const volatile uint32_t *)o->active_window & 1;
}

void side_object__tables(const struct side_object *o, uint32_t active_window,
			 struct source_tables *out)
{
	bool second = !(active_window & 1);

	out->counts_fd = side_object__map_fd(o, second ? "counts1" : "counts0");
	out->chunks_fd = side_object__map_fd(o, second ? "chunks1" : "chunks0");
}

void side_object__counters(const struct side_object *o, uint64_t counters[CTR_CNT])
{
	struct counters sum = { 0 };

	percpu__add(side_object__map_fd(o, "counters"), 0, &sum, sizeof(sum));
	for (uint32_t i = 0; i < CTR_CNT; i++)
		counters[i] += sum.n[i];
}

/* ---- of a source ----------------------------------------------------------------------------- */

int side_source__blobs(const struct source_use *u)
{
	return u->side ? side_object__map_fd(u->side, "blobs") : -ENOENT;
}

int side_source__window(struct source_use *u, struct source_tables *out)
{
	*out = (struct source_tables){ -1, -1 };
	if (u->side)
		side_object__tables(u->side, side_object__active_window(u->side), out);
	return 0;
}

void side_source__counters(const struct source_use *u, uint64_t counters[CTR_CNT])
{
	if (u->side)
		side_object__counters(u->side, counters);
}

/* ---- the room that its users take ------------------------------------------------------------ */

int side_object__map_shares(struct side_object *o, const char *name)
{
	void *at = mmap(NULL, sizeof(*o->shares), PROT_READ | PROT_WRITE, MAP_SHARED,
			side_object__map_fd(o, name), 0);

	if (at == MAP_FAILED)
		return -errno;
	o->shares = at;
	return 0;
}

void side_object__take_out(const struct side_object *o, int fd, const void *key, uint32_t slot)
{
	struct shares *s = o->shares;

	if (bpf_map_delete_elem(fd, key) || !s)
		return;
	__atomic_fetch_sub(&s->taken, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&s->of[slot % SHARE_SLOTS], 1, __ATOMIC_RELAXED);
}

void side_object__say_refused(const struct side_object *o, const char *source, const char *what,
			      const char *as)
{
	uint64_t counters[CTR_CNT] = { 0 };

	side_object__counters(o, counters);
	if (counters[CTR_note_memory_full])
		log_warn("%s: %" PRIu64 " sampled %s found no room: they count as %s. A larger -c "
			 "samples fewer",
			 source, counters[CTR_note_memory_full], what, as);
}

/* ---- shared by several sources ------------------------------------------------------------- */

int side_use__open(struct source_use *u, struct side_use *use, const struct side_kind *kind,
		   struct side_shared *shared, const struct world *w)
{
	int err = 0;

	*use = (struct side_use){ kind, shared };
	u->side = shared->user_cnt ? NULL : &shared->side;
	if (!shared->user_cnt++)
		err = kind->open(&shared->side, w);
	if (err)
		log_err("the BPF object of %s: %s", kind->name, strerror(-err));
	return err;
}

void side_use__close(struct side_use *use)
{
	struct side_shared *shared = use->shared;

	if (shared && !--shared->user_cnt) {
		side_object__end(&shared->side);
		use->kind->destroy(shared->side.skel);
		*shared = (struct side_shared){ .user_cnt = 0 };
	}
	*use = (struct side_use){ .shared = NULL };
}
