/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_UNIT_H
#define PYPERF_AGENT_UNIT_H
/*
 * What systemd says of the agent's unit, for who checks a configuration outside of it. systemctl(1)
 * is asked, for two seconds at most; where there is none, or no such unit, nothing is said.
 */
#include "agent/config.h"

/*
 * Warns if the unit reads this configuration, which has destinations, and leaves the agent no
 * network. `path`: of the configuration.
 */
void unit__check_network(const struct config *c, const char *path);

#endif /* PYPERF_AGENT_UNIT_H */
