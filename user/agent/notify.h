/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_NOTIFY_H
#define PYPERF_AGENT_NOTIFY_H
/*
 * Tells systemd about the agent (sd_notify(3)): one datagram to the socket that $NOTIFY_SOCKET
 * names. Does nothing without that variable.
 */
#include <stdint.h>

/* "READY=1\nSTATUS=sampling" */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The longest time between two WATCHDOG=1: half of what systemd waits; 0: it does not watch. */
uint64_t notify__watchdog_ns(void);

#endif /* PYPERF_AGENT_NOTIFY_H */
