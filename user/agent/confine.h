/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_CONFINE_H
#define PYPERF_AGENT_CONFINE_H
/*
 * The agent keeps only the capabilities of rights.h, for good, also in the bounding and ambient
 * sets, and sets no_new_privs. As any user it may then read what a profiler must read, and write
 * what its user may write. Call it before the first thread: each thread has capabilities of its
 * own.
 */

/* 0 or negative errno, printed. */
int confine(void);

#endif /* PYPERF_AGENT_CONFINE_H */
