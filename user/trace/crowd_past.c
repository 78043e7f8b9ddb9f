/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/crowd.h"

struct crowd_process *crowd__process_at(struct crowd_process *const *all, size_t cnt, pid_t pid,
					uint64_t ns)
{
	while (cnt-- > 0)
		if (all[cnt]->pid == pid && all[cnt]->found_ns <= ns)
			return all[cnt];
	return NULL;
}
