/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AWAITED_H
#define PYPERF_AWAITED_H
/*
 * Processes that were chosen (-p, or a command) and are not Python yet: a shell that will start
 * Python or become it by exec, a wrapper, a supervisor. They are followed; if none of them has
 * become Python at the end, the user is told.
 *
 *	err = awaited__begin(&a, targets, procs, command);	after the scan
 *	awaited__look(&a);					after each look at processes
 *	err = awaited__end(&a, NULL);
 */
#include <stdbool.h>

#include "process/process.h"
#include "sample/spec.h"

struct awaited {
	const struct sample_spec *spec; /* borrowed, as the next one */
	const struct process_table *procs;
	bool open; /* none of the chosen processes is Python, or has been */
};

/*
 * Says which processes of -p are not Python. 0; -EINVAL: none of them is of use, nor can be.
 * `command`: one was started, too, which counts with Python or without.
 */
int awaited__begin(struct awaited *a, const struct sample_spec *t,
		   const struct process_table *procs, bool command);
void awaited__look(struct awaited *a);
/*
 * Says that nothing became Python. 0; or -ESRCH, then there is nothing to report. Of a command
 * (its name; else NULL) there may be.
 */
int awaited__end(const struct awaited *a, const char *command);

#endif /* PYPERF_AWAITED_H */
