/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_GUARD_H
#define PYPERF_AGENT_GUARD_H
/*
 * One agent per state directory: a lock on DIR/agent.lock, which holds the pid of its owner for
 * people. The kernel takes it back when the owner ends, however it ends.
 */

/*
 * Makes the directory if its parent is there; refuses one in which other users can make files. A
 * descriptor to keep open; or negative errno after a message.
 */
int guard__take(const char *dir);

#endif /* PYPERF_AGENT_GUARD_H */
