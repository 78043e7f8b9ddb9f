/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RECORD_H
#define PYPERF_RECORD_H
/*
 * The default command: samples for a while, then reports. Calls the stages in the order of a run.
 * Exit status: 0 done, 1 failed, else that of the command behind "--".
 */
#include "cmd/options.h"

/* Opens, writes and closes opts->outputs. */
int record(struct options *opts);

#endif /* PYPERF_RECORD_H */
