/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SECRETS_H
#define PYPERF_AGENT_SECRETS_H
/*
 * Warns of files with secrets whose mode lets every user of the host read them, with the remedy:
 * tokens, passwords, headers, TLS keys, and the configuration itself if the name of a `header` in
 * it suggests a secret. Whoever reads a file reports one that cannot be read.
 */
#include "agent/config.h"

/* `path`: of the configuration; it need not exist. */
void secrets__check(const struct config *c, const char *path);

#endif /* PYPERF_AGENT_SECRETS_H */
