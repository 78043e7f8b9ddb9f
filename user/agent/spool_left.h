/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SPOOL_LEFT_H
#define PYPERF_AGENT_SPOOL_LEFT_H
/*
 * Spools of destinations that are not in the configuration any more: nobody sends their windows,
 * which take space for ever.
 */
#include "agent/config.h"

/* Logs each of them, with its content and the remedy. */
void spool_left__say(const struct config *c);
/*
 * Removes them, except files that do not belong to a spool, and spools that another process uses. 0
 * or the first error, printed.
 */
int spool_left__remove(const struct config *c);

#endif /* PYPERF_AGENT_SPOOL_LEFT_H */
