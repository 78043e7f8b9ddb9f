/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SESSION_PARTS_H
#define PYPERF_SESSION_PARTS_H
/*
 * What session.c and session_result.c share. session.c opens, runs and closes the session and owns
 * all of it; session_result.c only reads it, but for what session__forget() resets.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "process/starved.h"
#include "sample/awaited.h"
#include "sample/bills.h"
#include "sample/dump.h"
#include "sample/nmi_stacks.h"
#include "sample/loopbook.h"
#include "sample/rate.h"
#include "sample/session.h"
#include "sample/overhead.h"
#include "sample/threadbook.h"
#include "sample/realtime.h"
#include "sample/source_set.h"

struct session {
	struct session_opts o;
	struct follow *follow;
	struct object *object; /* of `follow`, as the next one */
	struct process_table *procs;
	struct source_set sources;
	struct overhead overhead;
	struct bills bills;
	pid_t *pids; /* sampled; none: all */
	bool *cpus;  /* by number: those to sample; NULL: all */
	size_t pid_cnt;
	struct dump_opts dump;
	struct dump_late late;
	struct nmi_stacks nmi_stacks[2]; /* of each window */
	int epoll_fd;
	uint64_t start_ns, start_unix_ns, cpu_start_ns; /* start_ns 0: not started */
	uint64_t end_ns, cpu_end_ns;			/* end_ns 0: not stopped */
	struct starved starved_then, starved_now;	/* of the only process of -p */
	uint32_t frequency_hz;
	double due;	   /* samples of the clock up to due_ns, at the rates that it had */
	uint64_t due_ns;   /* the last change of the rate, or tick */
	uint32_t rate_cnt; /* changes of the rate */
	uint64_t drained_ns, tick_ns;
	uint64_t drain_ns; /* the longest that reading a window took */
	struct rate rate;
	uint32_t window_slowed; /* the slowest rate in the current window */
	uint32_t window_cut;	/* the same of the users that are cut; 1: none was */
	uint32_t slowest;	/* ... since the start */
	long kernel_rate;	/* kernel.perf_event_max_sample_rate at the last look */
	uint64_t rate_lowered, kernel_rate_lowered; /* how often */
	uint64_t throttled_seen;		    /* up to the last tick */
	bool look_for_exits;			    /* an exit without an event may be found */
	bool drained;				    /* since session__forget() */
	bool has_peak;				    /* its value type is there, the last */
	struct awaited awaited;
	struct realtime realtime;
	struct threadbook *names; /* NULL: threads are not kept apart */
	struct loopbook *loops;	  /* NULL: they are not wanted, or no source sees them */
};

/* Samples of the clock that are due from due_ns to now_ns. */
double session_due(const struct session *s, uint64_t now_ns);
/* CPU time of this process. */
uint64_t session_self_cpu_ns(void);
/* Its samples are no periods of a clock. */
bool session_is_no_clock(const struct source *s);

#endif /* PYPERF_SESSION_PARTS_H */
