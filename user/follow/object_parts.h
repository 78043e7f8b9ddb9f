/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OBJECT_PARTS_H
#define PYPERF_OBJECT_PARTS_H
/*
 * The parts of struct object, for the files that implement it: object.c, object_config.c,
 * windows.c, rings.c.
 */
#include "follow/object.h"
#include "pyperf.skel.h"

struct loader;

struct object {
	struct loader *loader;
	struct pyperf_bpf *skel;
	struct pyperf_bpf__bss *bss; /* mapped by us: the skeleton has it only when all is loaded */
	size_t bss_size;
	int cpu_cap;
	uint32_t sampler_cnt;
	int stats_fd;
	__u64 *seen;
	size_t seen_size;
	struct shares *proc_shares;
	size_t proc_shares_size;
	struct shares *loop_shares;
	size_t loop_shares_size;
	struct mapping *mappings;
	size_t mappings_size;
	uint64_t map_bytes; /* 0: not asked for yet */
};

/*
 * Sets the constants of the programs and the sizes of the maps by the options. 0 or negative errno,
 * printed.
 */
int object__configure(struct object *o, const struct object_opts *opts);
/* The sampler of a value type, by its number. */
struct bpf_program *object__sampler(const struct object *o, uint32_t type);

#endif /* PYPERF_OBJECT_PARTS_H */
