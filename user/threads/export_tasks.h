/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_TASKS_H
#define PYPERF_EXPORT_TASKS_H
/*
 * The asyncio tasks of one process, as text and as JSON.
 *
 *	402 tasks in 1 event loop; 400 wait in fetch (app.py:31) -> sleep (asyncio/tasks.py:605)
 *	Process 4711 (python3), Python 3.11.2, /usr/bin/python3.11; most recent call first
 *
 *	Event loop of thread 4711: 402 tasks
 *
 *	Task "Task-1": waiting
 *	    main (/srv/app.py:40)
 *	    awaits 400 tasks, waiting: "fetch-0", "fetch-1", "fetch-2" and 397 more
 *	        sleep (/usr/lib/python3.11/asyncio/tasks.py:605)
 *	        fetch (/srv/app.py:31)
 *
 * Tasks below one parent that are in the same state at the same place, and so are all below them,
 * are one block. All names are foreign, and made safe here.
 */
#include <stdbool.h>
#include <stdio.h>

#include "threads/tasks.h"

/* `all`: shows each task by itself. 0, -ENOMEM, or the error of the stream. */
int export_tasks__text(FILE *f, const struct task_forest *forest, bool all, bool color);
/* One object; docs/tasks.schema.json says what is in it. */
int export_tasks__json(FILE *f, const struct task_forest *forest);

#endif /* PYPERF_EXPORT_TASKS_H */
