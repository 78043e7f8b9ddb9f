/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_WINDOWDIR_H
#define PYPERF_AGENT_WINDOWDIR_H
/*
 * A sink: windows as files of a directory, SERVICE-START-ID.pb.gz, and next to each its labels, one
 * NAME=VALUE a line, in .labels. For inspection of what the agent makes; it never removes
 * files. Only their owner may read them (0600).
 */
#include "store/window.h"

/* `directory` is a string. 0 or negative errno, printed. */
int windowdir__put(void *directory, const struct window *w);

#endif /* PYPERF_AGENT_WINDOWDIR_H */
