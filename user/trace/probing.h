/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROBING_H
#define PYPERF_PROBING_H
/*
 * `trace -e`: how often probes are hit, and what an argument was, by powers of two. No stacks are
 * taken, and no Python is needed.
 *
 *	uprobe:libc.so.6:malloc hist arg1: 1,043 hits in 2.0 s, 12,345,678 in all, 11,836 on average
 *
 *	           FROM - TO                      HITS
 *	             16 - 31                       402 |@@@@@@@@@@@@@@@@        |
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "bpf/pyperf.h"
#include "follow/probe_place.h"
#include "trace/counting.h"

struct probing_opts {
	struct probe_place places[SAMPLED_MAX];
	size_t cnt;
	pid_t pid;				/* -1: every process that maps the file */
	const struct counting_command *command; /* `pid` is it; NULL: none */
	double duration_s;			/* 0: until it is stopped, or the process ends */
	double interval_s;			/* between two pictures; 0: only one, at the end */
	bool json;				/* one object a line */
	/* Percent: if hits slow a process down by more, at first or later, that is the end ... */
	double max_slowdown;
	bool force; /* ... unless */
};

/* "uprobe:..." or "usdt:...": one more. 0 or negative errno after one line. */
int probing__add(struct probing_opts *o, const char *event);
/* Writes to stdout. The exit status: 0; 1 after a message. */
int probing__run(const struct probing_opts *o);

#endif /* PYPERF_PROBING_H */
