/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_PACE_H
#define PYPERF_HEAP_PACE_H
/*
 * Sets the priority of a reading. It begins at the lowest one. On a machine without an idle CPU
 * that could take minutes, and numbers from different minutes do not belong together. So when it
 * has had hardly any CPU time for a second, it continues at the priority with which the command was
 * started.
 *
 *	pace__begin(&p, readers);	each reading
 *	pace__look(&p);			often
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/reader.h"

struct pace {
	struct readers *readers; /* borrowed */
	int own;		 /* the priority that the command was started with */
	bool known, hurries;
	uint64_t start_ns, cpu_ns;
};

void pace__begin(struct pace *p, struct readers *readers);
void pace__look(struct pace *p);

#endif /* PYPERF_HEAP_PACE_H */
