/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SPEC_H
#define PYPERF_SPEC_H
/*
 * What to sample: plain data, which the command line or the agent's configuration fills in and the
 * sampler reads.
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
	/* events per sample, except for clocks; 0: chosen by the frequency */
	uint64_t period;
	pid_t *pids; /* owned; each once, in the order given */
	size_t pid_cnt;
	bool children;	    /* descendants of `pids`; those of a command always count */
	bool children_said; /* `children` was given, else targets__check() decides */
	const char *name;   /* regular expression, or NULL: see chosen.h; borrowed from argv */
	bool by_user;
	uint32_t uid;		 /* with by_user: only processes of this user */
	uint32_t tids[TIDS_MAX]; /* only these threads */
	uint32_t tid_cnt;
	const char *cpus;      /* "0-3,8", or NULL: all; borrowed from argv */
	const char *cgroup;    /* path as given or found, or NULL; borrowed from argv or `group` */
	const char *pod;       /* "NAMESPACE/NAME", or NULL; borrowed from argv */
	const char *container; /* name or id, or NULL; borrowed from argv */
	char *group;	       /* owned: the path of the group of `pod` or `container`, or NULL */
	const char *comm;      /* glob, or NULL; borrowed from argv */
	bool all;
	uint64_t wait_min_ns; /* shorter waits do not count */
	uint32_t map_entries; /* of each map that samples insert into, for tests; 0: as needed */
	bool nmi;	      /* handle samples as in NMI context, whatever the event */
};

#endif /* PYPERF_SPEC_H */
