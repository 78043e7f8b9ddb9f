/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_CONFINE_H
#define PYPERF_AGENT_CONFINE_H
/*
 * The agent keeps the capabilities of rights.h and no others, for good: bounding and ambient set,
 * too, and no_new_privs. Whoever it runs as, it may read what a profiler has to read, and write
 * what its user may write. Before the first thread: capabilities are a thread's own.
 */

/* 0 or negative errno, printed. */
int confine(void);

#endif /* PYPERF_AGENT_CONFINE_H */
