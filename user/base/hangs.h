/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HANGS_H
#define PYPERF_HANGS_H
/*
 * Limits what is logged about processes whose memory or files do not answer. A user may have
 * thousands of them, so each kind of message comes at most once an hour for each user, with the
 * number of processes that it stands for.
 *
 *	if (hangs__note(&h, uid, tgid, stops, now_ns(), &processes))
 *		log_warn(...);
 *
 * Invariant: the memory is that of this struct, whatever users do. If there are more users than
 * places, the one whose last message is oldest loses its place. Valid when all zero. No lock.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/rate_limit.h"

#define HANGS_SPAN_NS	    (60 * RATE_LIMIT_MINUTE)
#define HANGS_USERS_MAX	    64
#define HANGS_PROCESSES_MAX 32 /* that are told apart; more count as so many */

struct hang_note {
	uint32_t uid;
	bool stops;
	struct rate_limit said;
	uint32_t tgids[HANGS_PROCESSES_MAX]; /* since the last message */
	unsigned int tgid_cnt;
};

struct hang_notes {
	struct hang_note notes[HANGS_USERS_MAX];
	unsigned int cnt;
};

/*
 * A process of a user let a read hang. `stops`: nothing of the user is read any more, which is a
 * message of its own. True: log it; *processes: of so many of the user since the last such message,
 * this one included. `tgid` 0: not known.
 */
bool hangs__note(struct hang_notes *h, uint32_t uid, uint32_t tgid, bool stops, uint64_t now_ns,
		 unsigned int *processes);

#endif /* PYPERF_HANGS_H */
