/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ENDING_H
#define PYPERF_ENDING_H
/*
 * Keeps the promise that a run ends soon after SIGTERM, whatever other processes do. The thread
 * that takes the signals keeps the state, and waits for nothing else.
 *
 *	ending__begin();			 at the signal
 *	while (!ending__stands_still())		 every ENDING_TICK_MS from then on
 *		...
 *
 * While one of our threads computes or waits for a CPU, the program does not stand still: on a
 * loaded machine the run still delivers its profile. Every other thread asks ending__late() before
 * it waits for a tenant's file or memory or for a server, and before it computes something that the
 * result can do without.
 */
#include <stdbool.h>

#define ENDING_TICK_MS 50

/* Somebody wants the end, be it by Ctrl-C, which promises nothing. */
void ending__ask(void);
bool ending__asked(void);
/* It was the end of something else, such as a command: from now on nobody has asked yet. */
void ending__forget(void);

/* Call before a fork() whose child has to see later changes of this state. */
void ending__share(void);
void ending__begin(void);
bool ending__begun(void);
/* Since ending__begin() the process has waited, or used a CPU, for 1 s. */
bool ending__late(void);
/*
 * For the thread of the signals only. Since ending__begin() the process has waited for 2 s without
 * computing.
 */
bool ending__stands_still(void);

#endif /* PYPERF_ENDING_H */
