/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SPEC_H
#define PYPERF_SPEC_H
/*
 * What is to be sampled: plain data, which the command line or the agent's configuration fills in
 * and the sampler reads.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/pyperf.h"
#include "sources/sources.h"

#define FREQUENCY_MAX	  50000
#define FREQUENCY_DEFAULT 99
#define PERIOD_MAX	  1000000000000LL
#define MAP_ENTRIES_MAX	  (1 << 20)

struct sample_spec {
	struct source_spec sources[SAMPLED_MAX]; /* each once, in the order given */
	uint32_t source_cnt;			 /* targets__check() makes it 1 at least */
	uint32_t frequency_hz; /* 0: `period` was given, and no source is a clock */
	uint64_t period;       /* events per sample, but of clocks; 0: as the frequency needs it */
	pid_t *pids;	       /* owned; each once, in the order given */
	size_t pid_cnt;
	bool children;	    /* descendants of `pids`; those of a command always count */
	const char *cgroup; /* path as given, or NULL; borrowed from argv */
	const char *comm;   /* glob, or NULL; borrowed from argv */
	bool all;
	uint32_t map_entries; /* of each map that samples insert into, for tests; 0: as needed */
	bool nmi;	      /* handle samples as in NMI context, whatever the event */
};

#endif /* PYPERF_SPEC_H */
