/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SPOOL_LEFT_H
#define PYPERF_AGENT_SPOOL_LEFT_H
/*
 * Spools of destinations that the configuration does not have any more: what waits in them is sent
 * by nobody, and takes its room for ever.
 */
#include "agent/config.h"

/* Names each of them in the log, with what is in it and the remedy. */
void spool_left__say(const struct config *c);
/*
 * Removes them, but for files in them that are not of a spool, and one that another process uses. 0
 * or the first error, printed.
 */
int spool_left__remove(const struct config *c);

#endif /* PYPERF_AGENT_SPOOL_LEFT_H */
