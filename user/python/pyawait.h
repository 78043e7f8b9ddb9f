/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYAWAIT_H
#define PYPERF_PYAWAIT_H
/*
 * Reads futures and tasks of asyncio's C module, and which tasks await one. See pytasks.h.
 *
 *	child task -- callback --> future of gather() -- callback --> task that awaits it
 */
#include <stdbool.h>
#include <stdint.h>

#include "python/pyobject.h"

struct pytasks_debug;

/* Offsets in a FutureObj and a TaskObj, Modules/_asynciomodule.c; 0: there is no such field. */
struct pyawait_layout {
	const struct pytasks_debug *debug; /* NULL: awaiters are found by the callbacks */
	uint16_t task_fut_waiter, task_coro, task_name, task_state;
	uint16_t size; /* bytes of a task that hold these fields */
};

void pyawait__layout(struct pyawait_layout *out, uint32_t version,
		     const struct pytasks_debug *debug);

/* Checks the type of the object and its base types. */
bool pyawait__is_future(struct pymem *m, uint64_t obj); /* tasks are futures, too */
bool pyawait__is_task(struct pymem *m, uint64_t obj);

/*
 * Finds the tasks that await a task, each once: at most `*cnt`, which becomes their number. 0, or
 * -E2BIG: there are more.
 */
int pyawait__awaiters(struct pymem *m, const struct pyawait_layout *lay, uint64_t task,
		      uint64_t *awaiters, uint32_t *cnt);

#endif /* PYPERF_PYAWAIT_H */
