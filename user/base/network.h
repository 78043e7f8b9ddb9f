/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NETWORK_H
#define PYPERF_NETWORK_H
/*
 * Whether this process can reach a network at all. The agent's unit takes the network away
 * (packaging/systemd/pyperf-bpf-agent.service), and what then fails says little: a name that is not
 * found, an address family that is not supported.
 */

/* What to do about it, to follow a message with network__missing()'s reason. */
#define NETWORK_REMEDY                                                                             \
	"to allow it, copy push.conf from share/doc/pyperf-bpf/examples to "                       \
	"/etc/systemd/system/pyperf-bpf-agent.service.d/, then 'systemctl daemon-reload' and "     \
	"'systemctl restart pyperf-bpf-agent'"

/*
 * NULL: it can, as far as this shows; else why not, a literal. Nothing is sent. `tables`: a
 * directory with the tables of routes, which tests give; NULL: those of this process.
 */
const char *network__missing(const char *tables);

#endif /* PYPERF_NETWORK_H */
