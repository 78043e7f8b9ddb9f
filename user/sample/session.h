/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SESSION_H
#define PYPERF_SESSION_H
/*
 * Sampling while it goes on: the world (follow.h), and what is counted in it: sources, windows,
 * rates. Whoever samples says when to wait, when to drain, and into which profile.
 *
 *	s = session__open(&opts);		loaded, running processes analysed; nothing sampled
 *	session__watch(s, signal_fd);
 *	session__start(s);
 *	while (...) {
 *		session__wait(s, until_ns);	sleeps, then looks at what has happened
 *		if (session__wants_drain(s))
 *			session__drain(s, p);	what was counted, into a profile
 *	}
 *	session__stop(s);
 *	session__drain(s, p);			the rest
 *	session__name(s, p, &so);
 *	session__close(s);
 *
 * Each count is drained once. Profiles are the caller's; one may take all drains, or each its own.
 * Who samples for long tells when profiles are finished, and looks whether the session is worn:
 *
 *	session__drain(s, p); session__name(s, p, &so); ... export, profile__free(p);
 *	session__forget(s);
 *	if (session__worn(s)) ... close it and open another
 *
 * Times are those of now_ns() (clock.h). Every error is printed where it happens, once.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/spec.h"
#include "follow/object.h"
#include "process/process.h"
#include "profile/profile.h"
#include "symbolize/symbolize.h"

struct session;

struct session_opts {
	const struct sample_spec *targets; /* borrowed until close */
	pid_t command;			   /* sampled with its descendants; 0: none */
	const char *program;		   /* that it will execute; only for open; or NULL */
	uint32_t max_frames;		   /* Python, and native ones, of a stack; 0: the default */
	uint32_t table_mib;		   /* for unwind tables, in the kernel; 0: the default */
	size_t names_budget;		   /* bytes of names that Python may have; 0: 64 KiB */
	bool threads;			   /* keep them apart */
	bool no_native, no_kernel;	   /* frames to leave out */
	bool bpf_stats;			   /* have the kernel time the programs */
	bool timed;			   /* have them time themselves: follow_ns */
	bool urgent; /* look at new processes before anything else runs: see urgent.h */
	struct perf_events *events; /* opened before; borrowed until close. NULL: none */
	/* See struct process_opts. */
	void (*known)(void *ctx, const struct process *p, const struct process *parent);
	void *known_ctx;
};

/* The processes of -p exist. 0, or -ESRCH after a message. */
int session__check(const struct sample_spec *t);
/* NULL after a message. session__check() comes first, and the command has been started. */
struct session *session__open(const struct session_opts *o);
void session__close(struct session *s);

/* session__wait() returns, too, when `fd` is readable. 0 or negative errno. */
int session__watch(struct session *s, int fd);
/* 0 or negative errno. */
int session__start(struct session *s);
void session__stop(struct session *s);
/* Sampling goes on at 1 / this of its frequency, see rate.h. */
uint32_t session__slowed(const struct session *s);
/*
 * While sampling, without a gap. The tables stay as large as the targets' frequency made them. 0 or
 * negative errno.
 */
int session__set_frequency(struct session *s, uint32_t frequency_hz);

/*
 * Until something has happened, at most until `until_ns`; returns at least once a second, with -p
 * every ten. 0 or negative errno.
 */
int session__wait(struct session *s, uint64_t until_ns);
/*
 * The tables in the kernel are getting full, or were not read for five seconds in which something
 * happened that waits for it, or for thirty.
 */
bool session__wants_drain(const struct session *s);
int session__drain(struct session *s, struct profile *p); /* 0 or negative errno */
/* With -p: none of the processes is left, nor of those that they started under --children. */
bool session__targets_ended(struct session *s);

/*
 * After the last drain and the statistics: gives back memory. Then only session__name() and
 * session__close().
 */
void session__end(struct session *s);
/* Modules and names of what was drained into `p`. 0 or negative errno. */
int session__name(struct session *s, struct profile *p, const struct symbolize_opts *so);
/*
 * All profiles that were drained into are named for the last time: what only they needed is
 * released. That is files that no process maps, names of code objects that BPF has forgotten, and
 * names of generated code. Without it all of this grows with what comes and goes.
 */
void session__forget(struct session *s);
/*
 * Numbers of processes, files or code objects, which are given once, are half used up: after some
 * 10^9 processes, 10^7 files or 10^10 code objects, divided by the CPUs if one CPU makes all. When
 * all are used, what is new is not followed, or has no names; it is counted.
 */
bool session__worn(const struct session *s);

/* All of it; after session__stop() as it was then, but for what the last drain has found. */
void session__stats(struct session *s, struct profile_stats *out);
/* How full the tables are whose overflow loses samples or frames. */
#define SESSION_FILLS (OBJECT_FILLS + 2)
void session__fill(const struct session *s, struct table_fill out[SESSION_FILLS]);
/* Counters only, without those of tables and files; cheaper. */
void session__counters(struct session *s, uint64_t counters[CTR_CNT]);

/* Borrowed until close. */
const struct process_table *session__procs(const struct session *s);
void session__maps(const struct session *s, struct process_maps *maps);

#endif /* PYPERF_SESSION_H */
