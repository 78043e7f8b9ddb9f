/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/descriptors.h"

#include <stdint.h>
#include <sys/resource.h>

size_t descriptors__allow(void)
{
	struct rlimit limit, before;

	if (getrlimit(RLIMIT_NOFILE, &before))
		return 0;
	limit = before;
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_cur != before.rlim_cur && setrlimit(RLIMIT_NOFILE, &limit))
		limit = before;
	return limit.rlim_cur < SIZE_MAX ? limit.rlim_cur : SIZE_MAX;
}
