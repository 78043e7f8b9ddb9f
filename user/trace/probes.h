/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROBES_H
#define PYPERF_PROBES_H
/*
 * Prints what can be traced in a target, how, and the cost of a hit: calls of Python functions by
 * breakpoints in the eval loop (points.h), and static probes (usdt.h).
 */
#include <stdbool.h>
#include <stdio.h>

#include "trace/target.h"

/* `python`: the target is an interpreter. 0 or the error of the stream. */
int probes__print(FILE *f, const struct target *t, bool python, bool json);

#endif /* PYPERF_PROBES_H */
