/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_OPENWAITS_H
#define PYPERF_OPENWAITS_H
/*
 * Adds the waits that have not ended when a profile ends (-e off-cpu, -e wall). The kernel half
 * counts a wait when it ends, so a worker that sleeps for ten minutes would not be in a profile of
 * 30 s. Such a thread counts with the time from when it fell asleep, or the profile began, to the
 * end. Its stack and its reason are read from outside, as dump does, because the thread does not
 * run.
 *
 *	w = openwaits__begin(s);	the sleeping threads, right before session__stop()
 *	session__stop(s);
 *	session__drain(s, p);
 *	openwaits__end(w, s, p);	adds those that have slept all the while; frees w
 *
 * A thread that ran between the look at it and the end of the walk has another stack by now. It
 * counts as [stack-not-taken], with the reason it had.
 */
#include "profile/profile.h"
#include "sample/session.h"

struct openwaits;

/* NULL: no source counts waits, or it failed, which was printed. */
struct openwaits *openwaits__begin(const struct session *s);
/* A failure is printed and loses only these waits. `w` may be NULL. */
void openwaits__end(struct openwaits *w, struct session *s, struct profile *p);
void openwaits__free(struct openwaits *w);

#endif /* PYPERF_OPENWAITS_H */
