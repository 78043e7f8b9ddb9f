/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROBE_PRICE_H
#define PYPERF_PROBE_PRICE_H
/*
 * Judges what the hits of probes cost each process: counts them for a while, and refuses a rate
 * that slows a process down too much.
 *
 *	price = probe_price__begin(&opts);
 *	... PRICE_MEASURE_MS, in which BPF notes the hits of each process in `costs_fd` ...
 *	err = probe_price__judge(price);
 *	probe_price__free(price);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/pyperf.h"
#include "follow/uprobe.h"

struct probe_price;

struct probe_price_opts {
	pid_t pid;	     /* whose probes they are; -1: of all processes */
	double max_slowdown; /* percent */
	int costs_fd;	     /* the map probe_costs, by the numbers of our namespace; emptied */
	struct uprobe_prices prices;
	const char *advice; /* how to pay less; borrowed */
	bool again;	    /* it was judged before, and has become too expensive since */
};

/* What `probe_namespace` is to be, so that BPF numbers processes as we do. */
struct probe_namespace probe_price__namespace(void);
/* Copies `o`, but for the descriptor. NULL if there is no memory. */
struct probe_price *probe_price__begin(const struct probe_price_opts *o);
/* Other breakpoints in the process of `pid` have cost it so much more. */
void probe_price__add(struct probe_price *p, double ns);
/* 0; -EBUSY after a message: some process would be slowed down too much; or negative errno. */
int probe_price__judge(struct probe_price *p);
void probe_price__free(struct probe_price *p);

#endif /* PYPERF_PROBE_PRICE_H */
