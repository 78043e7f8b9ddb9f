/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PARTS_H
#define PYPERF_AGENT_PARTS_H
/*
 * What agent.c and agent_status.c share. agent.c owns all of it, and its main thread is the only
 * one that changes it, but for what has a lock or is atomic.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/budget.h"
#include "agent/config.h"
#include "agent/deliver.h"
#include "agent/given.h"
#include "agent/http/http.h"
#include "agent/label_cache.h"
#include "agent/loopstats.h"
#include "agent/oom.h"
#include "agent/period.h"
#include "agent/schedule.h"
#include "agent/sinks.h"
#include "agent/stall_watch.h"
#include "agent/live_profiles.h"
#include "base/rate_limit.h"
#include "follow/perf.h"
#include "sample/session.h"
#include "threads/openwaits.h"

struct agent {
	const struct agent_opts *o;
	bool config_required;
	struct config *config;
	struct config *first; /* into which `spec` points */
	struct sample_spec spec;
	struct session *session;
	struct label_cache *labels; /* labels by process */
	struct sinks *sinks;	    /* owned by the delivery thread once it runs */
	_Atomic(struct deliver *) deliver;
	struct live_profiles *live;
	struct loopstats *loops; /* NULL: no event counts waits */
	struct openwaits *waits; /* that go on; NULL: they do not count */
	struct http_backend backend;
	const char *values[SAMPLED_MAX + 1]; /* names of the sampled value types */
	struct given given;		     /* sockets of the service manager */
	struct http *http;		     /* NULL: none */
	struct config *http_config; /* with which it was, or should have been, started; held */
	uint64_t http_ns;	    /* when that was tried */
	struct schedule schedule;
	struct period *period;
	struct budget budget;
	uint64_t used_ns;    /* by the agent and BPF, until the last period's end */
	uint64_t samples_ns; /* ... for samples */
	uint64_t sampler_ns; /* ... of these in the kernel */
	uint64_t follow_ns;  /* ... in the kernel, to follow processes */
	uint64_t own_ns;     /* ... by this thread, until now */
	uint64_t border_ns;  /* when the last period ended */
	uint64_t forgot_ns;  /* the last session__forget() */
	uint64_t tick_ns, watchdog_ns, watched_ns;
	unsigned failed_drains; /* in a row */
	uint64_t events_lost;	/* by the kernel, and already reported */
	struct rate_limit said_lost;
	uint64_t lost_samples; /* counted, but never handed to delivery */
	/* Counted, of events after the first, which do not count as samples of a window. */
	uint64_t other_samples;
	uint64_t lost_periods;
	struct perf_events *events;
	int guard_fd, signal_fd, wake_fd;
	struct oom *oom;		 /* NULL: no memory for it */
	struct stall_watch *stall_watch; /* takes the signals */
	_Atomic(const char *) doing;	 /* the main thread, for messages: a literal */
	_Atomic uint64_t moved_ns;	 /* since when it does that */
	bool stop;

	struct agent_stats stats; /* the main thread's */
	pthread_mutex_t lock;	  /* of what follows */
	struct agent_stats published;
	uint64_t alive_ns; /* when it was published; 0: not yet */
};

/* agent.c */

/* Finds names in a profile: `ctx` is the agent. 0 or negative errno. */
int agent__name(void *ctx, struct profile *p);
/* Memory of this process alone, not shared with files or the kernel. */
uint64_t agent__own_memory(void);

/* agent_status.c */

void agent__publish(struct agent *a);
/* 0, also if none is configured; or negative errno after a message. */
int agent__start_http(struct agent *a);
/* Running requests are answered with what there is: they would wait for this thread. */
void agent__stop_http(struct agent *a);
/* Opens it again if its configuration has changed, or it could not be opened. */
void agent__restart_http(struct agent *a);
/* True if an endpoint is configured. */
bool agent__http_is_missing(const struct agent *a);

#endif /* PYPERF_AGENT_PARTS_H */
