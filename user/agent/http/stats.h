/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_STATS_H
#define PYPERF_AGENT_STATS_H
/* The agent's figures, as the agent hands them to its endpoint. */
#include <stdint.h>

#include "profile/profile.h"
#include "sample/session.h"
#include "threads/openwaits.h"

#define AGENT_USERS 8

/* As of the last second. Counts are since the start. */
struct agent_stats {
	/* Counters, CPU time of this program and of BPF, memory in the kernel. */
	struct profile_stats run;
	uint64_t up_ns;
	uint64_t samples_ns; /* CPU time of both for samples; the rest is for following processes */
	uint64_t rss_bytes;  /* now; `run` has the maximum */
	uint32_t fds;	     /* open, now */

	uint64_t periods;	   /* that have ended */
	uint64_t windows;	   /* made of them: one per service and period */
	uint64_t samples;	   /* in these windows */
	uint64_t periods_dropped;  /* the queue was full */
	uint64_t samples_dropped;  /* in these periods, and others that are in no window */
	uint64_t samples_left_out; /* by rules */
	uint64_t windows_failed;   /* that the store or a backend's spool did not take */
	uint32_t queued;	   /* periods that wait to be delivered */
	uint64_t period_end_ns;	   /* of the last one, since the epoch; 0: none yet */

	uint32_t services;		/* in the last period */
	uint32_t processes;		/* with Python, now */
	uint32_t frequency_hz;		/* now */
	uint32_t frequency_cfg;		/* as configured: higher when the CPU budget is short */
	uint32_t window_s;		/* now: more than configured when the CPU budget is short */
	uint32_t slowed;		/* sampling runs at 1 / this of frequency_hz */
	struct bill users[AGENT_USERS]; /* who cost most, at the last period's end */
	size_t user_cnt;
	uint64_t over_stacks;	 /* samples whose stack was left out: budget of stacks */
	uint64_t over_processes; /* samples that lost their process: budget of processes */
	uint64_t unlabelled;	 /* processes with samples that were gone */
	uint64_t clock_jumps, suspends;
	uint64_t reloads, reloads_failed; /* of the configuration */

	struct table_fill fill[SESSION_FILLS]; /* tables in the kernel */
	uint64_t drains, drains_failed;
	uint64_t drain_ns; /* all of them; the longest is run.drain_ns */
	struct openwaits_stats waits;
};

#define LOOP_SERVICES	  64   /* that are told apart; further ones count together */
#define LOOP_SERVICE_SIZE 1040 /* bytes of a name, with its end */

/* Iterations of the event loops of a service, since the start: see struct profile_loop. */
struct loop_figures {
	char service[LOOP_SERVICE_SIZE];
	uint64_t cnt, busy_ns;
	uint64_t slow_cnt, slow_ns;
	uint64_t hist[LOOP_BUCKETS];
};

#endif /* PYPERF_AGENT_STATS_H */
