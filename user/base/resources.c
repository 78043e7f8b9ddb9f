/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/resources.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

#define NICE_HURRY (-10)

int resources__set_nice(pid_t pid, int nice)
{
	return setpriority(PRIO_PROCESS, (id_t)pid, nice) ? -errno : 0;
}

void resources__hurry(void)
{
	int err = resources__set_nice(0, NICE_HURRY);

	if (err)
		log_debug("priority: %s", strerror(-err));
}

void resources__limit(int what, rlim_t value)
{
	struct rlimit now;

	if (getrlimit(what, &now))
		return;
	if (now.rlim_cur > value)
		now.rlim_cur = value;
	if (now.rlim_max > value)
		now.rlim_max = value;
	setrlimit(what, &now);
}
