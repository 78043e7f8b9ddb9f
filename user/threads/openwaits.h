/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OPENWAITS_H
#define PYPERF_OPENWAITS_H
/*
 * Adds the waits that have not ended when a profile ends, or an interval of one that goes on (-e
 * off-cpu, -e wall). The kernel half counts a wait when it ends, so a worker that sleeps for ten
 * minutes would not be in a profile of 30 s. Such a thread counts with the time from when it fell
 * asleep, or the profile began, to the end. Its stack and its reason are read from outside, as dump
 * does, because the thread does not run.
 *
 * The end of a profile:
 *
 *	w = openwaits__begin(s);	the sleeping threads, right before session__stop()
 *	session__stop(s);
 *	session__drain(s, p);
 *	openwaits__end(w, s, p);	adds those that have slept all the while; frees w
 *
 * A thread that ran between the look at it and the end of the walk has another stack by now. It
 * counts as [stack-not-taken], with the reason it had.
 *
 * The ends of intervals:
 *
 *	w = openwaits__new(s);
 *	session__drain(s, p);
 *	openwaits__count(w, s, p, end_ns, share);	adds what was not counted yet
 *	...
 *	openwaits__free(w);
 *
 * The kernel half is told what is counted here, and leaves it out when the wait ends: no time
 * counts twice. A thread that ran meanwhile is left to it.
 *
 * Reading stacks is what costs. It takes no more than `share` of a CPU; stacks for which that does
 * not suffice are [stack-not-taken], those of users with few threads last (turns.h).
 */
#include <stdint.h>

#include "profile/profile.h"
#include "sample/session.h"

struct openwaits;

/* All since openwaits__new(). */
struct openwaits_stats {
	uint64_t parts;	   /* counted, of waits that went on */
	uint64_t unread;   /* threads whose stack was not read: it would have cost too much */
	uint64_t left_out; /* ... which were not looked at: there was no room for them */
	uint64_t cpu_ns;   /* of the caller's thread */
};

/* Both: NULL if no source counts waits, or it failed, which was printed. */
struct openwaits *openwaits__new(const struct session *s);
struct openwaits *openwaits__begin(const struct session *s);
/* A failure is printed and loses only these waits. `w` may be NULL. */
void openwaits__end(struct openwaits *w, struct session *s, struct profile *p);
/*
 * Adds the waits that go on at the end of an interval, which is past. 0 or negative errno, printed:
 * what was not counted is lost if the wait ends before the next look, and else counts then. `w` may
 * be NULL.
 */
int openwaits__count(struct openwaits *w, struct session *s, struct profile *p, uint64_t end_ns,
		     double share);
/*
 * A drain between two of these went into `p`: with --cgroup it tells whose threads count. 0 or
 * -ENOMEM. `w` may be NULL.
 */
int openwaits__note(struct openwaits *w, const struct profile *p);
/* `w` NULL: all are 0. */
void openwaits__stats(const struct openwaits *w, struct openwaits_stats *out);
void openwaits__free(struct openwaits *w);

#endif /* PYPERF_OPENWAITS_H */
