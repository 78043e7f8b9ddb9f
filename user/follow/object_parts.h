/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OBJECT_PARTS_H
#define PYPERF_OBJECT_PARTS_H
/*
 * What a struct object consists of. For the files that it is made of: object.c, object_config.c,
 * windows.c, rings.c.
 */
#include "follow/object.h"
#include "pyperf.skel.h"

struct loader;

struct object {
	struct loader *loader;
	struct pyperf_bpf *skel;
	struct pyperf_bpf__bss *bss; /* that of the skeleton is there when all is loaded */
	size_t bss_size;
	int cpu_cap;
	uint32_t sampler_cnt;
	int stats_fd;
	int btf_fd;	   /* the kernel's types, until the object is loaded; negative: none */
	char btf_path[32]; /* ... by this name */
	__u64 *seen;
	size_t seen_size;
	struct mapping *mappings;
	size_t mappings_size;
	uint64_t map_bytes; /* 0: not asked for yet */
};

/* Options into constants of the programs and sizes of the maps. 0 or negative errno, printed. */
int object__configure(struct object *o, const struct object_opts *opts);
/* By number of the value type. */
struct bpf_program *object__sampler(const struct object *o, uint32_t type);

#endif /* PYPERF_OBJECT_PARTS_H */
