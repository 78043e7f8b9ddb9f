/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_GUARD_H
#define PYPERF_AGENT_GUARD_H
/*
 * One agent per state directory: it locks DIR/agent.lock, which holds its pid for people to read.
 * The kernel releases the lock when the agent ends, however it ends.
 */

/*
 * Makes the directory if its parent exists; refuses a directory in which other users can make
 * files. Returns a descriptor to keep open, or negative errno after a message.
 */
int guard__take(const char *dir);

#endif /* PYPERF_AGENT_GUARD_H */
