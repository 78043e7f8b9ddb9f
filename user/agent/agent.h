/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_H
#define PYPERF_AGENT_H
/*
 * The run of the agent: it samples for months, in periods that end at multiples of their length
 * since the epoch. Each period gives one window (window.h) per service.
 *
 *	main thread	samples, names, and hands over each period
 *	delivery	makes windows of it for the store and the backends
 *	http		reads through the functions below; may be several threads
 *
 * The queue between the first two is bounded: if delivery is too slow, the oldest period is dropped
 * and counted. The main thread never waits for a disk or a network.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/http/stats.h"

struct agent;

struct agent_opts {
	const char *config_path;
	bool config_required; /* it is an error if the file does not exist */
	int verbosity;	      /* as in cmdline.h; added to log_level of the configuration */
};

/* Each reads the configuration as agent__run() would. 0 or negative errno, printed. */
int agent__check_config(const struct agent_opts *o);
/* Prints the address of the page, with the token. 0 or negative errno, printed. */
int agent__print_link(const struct agent_opts *o);
int agent__print_config(const struct agent_opts *o); /* to stdout */
int agent__remove_spools(const struct agent_opts *o);
/* From start to SIGTERM. 0 or negative errno, printed. */
int agent__run(const struct agent_opts *o);

/* The last snapshot. Any thread; never waits for sampling. */
void agent__stats(struct agent *a, struct agent_stats *out);

/*
 * Waits for `seconds` (1 to 600) and writes the samples of that time as pprof. Any thread but the
 * main one, up to AGENT_LIVE_PROFILES at once. The profile is shorter, and says so, if the agent
 * ends or changes its frequency. Ends within two seconds after the peer of the socket `client_fd`
 * (-1: none) has closed its side. 0; -EBUSY: too many; -EINVAL; -ECANCELED: the agent ends, or the
 * peer is gone; another negative errno of writing.
 */
#define AGENT_LIVE_PROFILES 8
int agent__profile(struct agent *a, unsigned seconds, int client_fd, FILE *f);

/* False: sampling or delivery stands still; `why` is a sentence, valid for ever. Any thread. */
bool agent__healthy(struct agent *a, const char **why);

#endif /* PYPERF_AGENT_H */
