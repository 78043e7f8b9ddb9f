/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WORLD_H
#define PYPERF_WORLD_H
/*
 * What sources have of what is followed. All is borrowed, from before the BPF object is loaded:
 * until then only descriptors of maps may be asked for. Programs of another object share its maps:
 * bpf_map__reuse_fd() with bpf_object__find_map_fd_by_name(world->object, "procs").
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/pyperf.h"

struct bpf_object;
struct bpf_program;
struct mmapwatch;
struct perf_events;
struct probe_object;

struct world {
	const struct bpf_object *object;
	struct bpf_program
		*samplers[SAMPLED_MAX]; /* by number of the value type; as many as were asked for */
	uint64_t *
		/*
		 * likewise: what a sample of a clock is worth; 0: the period that the kernel tells
		 */
		clock_ns;
	struct perf_events *events;    /* opened before; NULL: none */
	const struct mmapwatch *watch; /* NULL: none */
	int cpu_cap;		       /* possible CPUs */
	const char
		*btf_path; /* types of the kernel, as libbpf wants them; NULL: it looks for them */
	const pid_t *pids; /* sampled; none: all */
	size_t pid_cnt;
	bool children;		      /* and their descendants */
	struct probe_object **probes; /* of all probes: the first one that is opened makes it */
};

#endif /* PYPERF_WORLD_H */
