/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/realtime.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/reader.h"

static int raise_priority(void)
{
	const struct sched_param lowest = { sched_get_priority_min(SCHED_FIFO) };

	return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) ? -errno : 0;
}

/*
 * The nice value is as it was before. Who may be real-time by RLIMIT_RTPRIO only cannot take the
 * flag back.
 */
static int restore_priority(void)
{
	const struct sched_param none = { 0 };

	if (sched_setscheduler(0, SCHED_OTHER, &none) &&
	    sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none))
		return -errno;
	return 0;
}

void realtime__init(struct realtime *u)
{
	int err = raise_priority();

	u->permitted = !err;
	if (err)
		log_debug("real-time priority: %s", strerror(-err));
	else
		restore_priority();
}

void realtime__earn(struct realtime *u, uint64_t now)
{
	uint64_t earned = u->credited_ns && now > u->credited_ns
				  ? (now - u->credited_ns) / REALTIME_SHARE
				  : 0;

	u->credit_ns = u->credited_ns ? u->credit_ns + earned : REALTIME_CREDIT_NS;
	if (u->credit_ns > REALTIME_CREDIT_NS)
		u->credit_ns = REALTIME_CREDIT_NS;
	u->credited_ns = now;
}

void realtime__spend(struct realtime *u, uint64_t now)
{
	uint64_t spent = u->woken_ns && now > u->woken_ns ? now - u->woken_ns : 0;

	u->credit_ns -= spent < u->credit_ns ? spent : u->credit_ns;
	u->woken_ns = 0;
}

void realtime__begin(struct realtime *u)
{
	uint64_t now = now_ns();

	if (!u->permitted)
		return;
	realtime__earn(u, now);
	realtime__spend(u, now);
	if (u->credit_ns < REALTIME_LEAST_NS)
		realtime__end(u);
	else if (!u->on)
		u->on = !raise_priority();
	readers__hurry(u->readers, u->on);
}

void realtime__woken(struct realtime *u)
{
	if (u->on)
		u->woken_ns = now_ns();
}

void realtime__end(struct realtime *u)
{
	if (!u->on)
		return;
	realtime__spend(u, now_ns());
	u->on = restore_priority() != 0;
	readers__hurry(u->readers, false);
}
