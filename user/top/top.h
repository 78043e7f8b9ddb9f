/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TOP_H
#define PYPERF_TOP_H
/*
 * Samples and shows the results meanwhile: session -> one profile per interval -> topmodel ->
 * topview -> screen. Calls these in the order of a run.
 */
#include <stdbool.h>

#include "sample/spec.h"

#define INTERVAL_MIN_S	   0.1
#define INTERVAL_MAX_S	   3600
#define INTERVAL_DEFAULT_S 1

struct top_opts {
	struct sample_spec targets; /* owned */
	double interval_s;
	double duration_s; /* 0: until the user quits */
	bool native;	   /* show functions of all kinds at first */
};

/*
 * Runs until the user quits, or for the duration: then what is shown stays on the terminal. 0, or
 * negative errno after a message.
 */
int top(const struct top_opts *o);

#endif /* PYPERF_TOP_H */
