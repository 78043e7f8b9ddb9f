/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WORLD_H
#define PYPERF_WORLD_H
/*
 * What sources may use of struct follow. All of it is borrowed, and available before the BPF object
 * is loaded; until then only descriptors of maps may be asked for. How others share its maps:
 * sources/side_object.h.
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
struct readers;
struct side_shared;

struct world {
	const struct bpf_object *object;
	/* The samplers, by number of the value type; as many as were asked for. */
	struct bpf_program *samplers[SAMPLED_MAX];
	const uint32_t *active_window; /* which programs write to; its lowest bit counts */
	/* The weight of a sample of a clock, likewise, in ns; 0: no clock, which BPF counts. */
	uint64_t *clock_ns;
	struct perf_events *events;    /* opened before; NULL: none */
	const struct mmapwatch *watch; /* NULL: none */
	int cpu_cap;		       /* possible CPUs */
	/* The kernel's types, for libbpf; NULL: libbpf looks for them. */
	const char *btf_path;
	const pid_t *pids; /* sampled; none: all */
	size_t pid_cnt;
	bool children;			 /* and their descendants */
	bool curves;			 /* sources of memory keep them: see sources/tracker.h */
	struct readers *readers;	 /* the helpers that read what processes own; or NULL */
	const bool *cpus;		 /* by number: those to sample; NULL: all */
	struct side_shared *probes;	 /* the object of all probes; see sources/side_object.h */
	struct side_shared *tracepoints; /* likewise, of all tracepoints */
};

#endif /* PYPERF_WORLD_H */
