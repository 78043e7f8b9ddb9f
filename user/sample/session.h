/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SESSION_H
#define PYPERF_SESSION_H
/*
 * A running sampling session: follows processes (follow.h) and counts in sources, windows and
 * rates. The caller decides when to wait, when to drain, and into which profile.
 *
 *	s = session__open(&opts);		loaded, running processes analysed; nothing sampled
 *	session__watch(s, signal_fd);
 *	session__start(s);
 *	while (...) {
 *		session__wait(s, until_ns);	sleeps, then handles the events
 *		if (session__wants_drain(s))
 *			session__drain(s, p);	moves the counts into a profile
 *	}
 *	session__stop(s);
 *	session__drain(s, p);			the rest
 *	session__name(s, p, &so);
 *	session__close(s);
 *
 * Each count is drained once. The caller owns the profiles; one may take all drains, or each its
 * own. A caller that samples for long says when profiles are finished, and checks whether the
 * session is worn:
 *
 *	session__drain(s, p); session__name(s, p, &so); ... export, profile__free(p);
 *	session__forget(s);
 *	if (session__worn(s)) ... close it and open another
 *
 * Times are those of now_ns() (clock.h). Every error is printed once, where it happens.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/bills.h"
#include "sample/dump.h"
#include "sample/spec.h"
#include "follow/object.h"
#include "follow/rings.h"
#include "process/process.h"
#include "profile/profile.h"
#include "symbolize/symbolize.h"

struct session;

enum session_loops {
	SESSION_LOOPS_NONE,
	SESSION_LOOPS_WHOLE, /* all drains go into one profile: session__loops() */
	SESSION_LOOPS_EACH,  /* each drain adds what threads did since the last one */
};

struct session_opts {
	const struct sample_spec *spec; /* borrowed until close */
	pid_t command;			/* sampled with its descendants; 0: none */
	/* the program that the command will execute; borrowed during open; or NULL */
	const char *program;
	/* limit of Python frames, and of native frames, per stack; 0: the default */
	uint32_t max_frames;
	/* memory for unwind tables, in the kernel; 0: the default */
	uint32_t table_mib;
	size_t names_budget;	    /* limit of bytes for Python names; 0: 64 KiB */
	bool threads;		    /* keep threads apart */
	bool titles;		    /* read the titles of processes */
	bool no_native, no_kernel;  /* frames to leave out */
	bool bpf_stats;		    /* have the kernel time the programs */
	bool timed;		    /* have the programs time themselves: follow_ns */
	bool curves;		    /* keep curves of memory, and its peak: session__curves() */
	enum session_loops loops;   /* iterations of event loops, of sources that count waits */
	uint32_t hang_shortened_ms; /* see readers__shorten() */
	bool realtime; /* look at new processes before anything else runs: see realtime.h */
	struct perf_events *events; /* opened before; borrowed until close. NULL: none */
	/* See struct process_opts. */
	void (*known)(void *ctx, const struct process *p, const struct process *parent);
	void *known_ctx;
};

/* Checks that the processes of -p exist. 0, or -ESRCH after a message. */
int session__check(const struct sample_spec *t);
/* Call after session__check() and after the command was started. NULL after a message. */
struct session *session__open(const struct session_opts *o);
void session__close(struct session *s);
/* Hands the readers over to the caller; call it right before the close. */
struct readers *session__take_readers(struct session *s);

/* Makes session__wait() also return when `fd` is readable. 0 or negative errno. */
int session__watch(struct session *s, int fd);
/* The caller has to be done with something at that time, see readers__due(). */
void session__due(struct session *s, uint64_t at_ns);
/* 0 or negative errno. */
int session__start(struct session *s);
void session__stop(struct session *s);
/* The command may have ended: right before it is reaped, while the kernel knows what it had. */
void session__before_reap(struct session *s);
/* Sampling runs at 1 / this of its frequency, see rate.h. */
uint32_t session__slowed(const struct session *s);
/*
 * Changes the frequency while sampling, without a gap. The tables keep the size for the targets'
 * frequency. 0 or negative errno.
 */
int session__set_frequency(struct session *s, uint32_t frequency_hz);

/*
 * The costs of users, while programs time themselves: see bills.h. The caller charges them.
 * Borrowed until close.
 */
struct bills *session__bills(struct session *s);
/* bills__cut(), at any time. */
int session__cut_user(struct session *s, uint32_t uid, uint32_t one_of);

/*
 * Waits for an event, at most until `until_ns`; returns at least once a second, with -p every ten
 * seconds. 0 or negative errno.
 */
int session__wait(struct session *s, uint64_t until_ns);
/*
 * True: the tables in the kernel are getting full, or were not read for five seconds although
 * something waits for that, or not for thirty.
 */
bool session__wants_drain(const struct session *s);
int session__drain(struct session *s, struct profile *p); /* 0 or negative errno */
/*
 * The threads that still wait, as the source that counts waits knows them. False: no source counts
 * waits.
 */
bool session__asleep(const struct session *s, struct source_asleep *out);
/*
 * Waits that began before `until_ns` may be counted in part: struct wait_counted. 0 or negative
 * errno.
 */
int session__tell(struct session *s, uint64_t until_ns);
/*
 * Adds stacks that the kernel has not counted; call it after a drain. 0 or negative errno, printed.
 */
int session__add(struct session *s, struct profile *p, const struct dump_stack *stacks, size_t cnt);
/*
 * After the last drain: what was in use over time goes into p->curves, and what was in use at the
 * peak becomes one more value type. Nothing, if no source kept it. 0 or negative errno, printed.
 */
int session__curves(struct session *s, struct profile *p);
/*
 * After the last drain and session__add(): the threads that wait in polls, and what they did
 * between, into the profile of all drains (SESSION_LOOPS_WHOLE). 0 or negative errno, printed.
 */
int session__loops(struct session *s, struct profile *p);
/* At the end: see awaited__end(). */
int session__check_python(const struct session *s, const char *command);
/* With -p: all of the processes have ended, and with --children those that they started. */
bool session__targets_ended(struct session *s);

/*
 * Gives back memory; call it after the last drain and the statistics. After that only
 * session__name() and session__close() may be called.
 */
void session__end(struct session *s);
/* Adds modules and names to a profile that was drained into. 0 or negative errno. */
int session__name(struct session *s, struct profile *p, const struct symbolize_opts *so);
/*
 * Call when all profiles that were drained into have their names. Releases what only they needed:
 * files that no process maps, names of code objects that BPF has forgotten, and names of generated
 * code. Without it all of this grows without a bound.
 */
void session__forget(struct session *s);
/*
 * Half of the numbers of processes, files or code objects, which are never given twice, are used
 * up: after some 10^9 processes, 10^7 files or 10^9 code objects, divided by the number of CPUs if
 * one CPU makes all. When all are used up, new processes are not followed and new files and code
 * objects have no names; counters say so.
 */
bool session__worn(const struct session *s);

/*
 * Fills in the statistics. After session__stop(): as they were then, plus the results of the last
 * drain.
 */
void session__stats(struct session *s, struct profile_stats *out);
/* The fill levels of the tables whose overflow loses samples or frames. */
#define SESSION_FILLS (OBJECT_FILLS + 2)
void session__fill(const struct session *s, struct table_fill out[SESSION_FILLS]);
/* Counters only, without those of tables and files; cheaper. */
void session__counters(struct session *s, uint64_t counters[CTR_CNT]);

/* Fills in the sink for announcements of code objects, for stacks that user space takes. */
void session__sink(const struct session *s, struct ring_sink *sink);
const struct session_opts *session__opts(const struct session *s);
/* Borrowed until close. */
const struct process_table *session__procs(const struct session *s);
void session__maps(const struct session *s, struct process_maps *maps);

#endif /* PYPERF_SESSION_H */
