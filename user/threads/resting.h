/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RESTING_H
#define PYPERF_RESTING_H
/*
 * Says of a profile without a sample which Python processes there are and what their threads wait
 * for, in the words of dump and of `-e off-cpu`. It goes into the profile, for the report:
 *
 *	4711 gunicorn shop:app, Python 3.11.2, 9 threads: 8 sleeping in futex (lock), 1 sleeping in
 *	epoll_wait
 */
#include "profile/profile.h"
#include "sample/session.h"

/*
 * Call before session__end(). Does nothing if something was sampled, or no time was asked for. A
 * failure is printed and costs only these lines.
 */
void resting__note(struct session *s, struct profile *p);

#endif /* PYPERF_RESTING_H */
