/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SECRETS_H
#define PYPERF_AGENT_SECRETS_H
/*
 * The files of the configuration that hold a secret: tokens, passwords, headers, keys of TLS, and
 * the configuration itself if a `header` in it looks like one by its name. Warns of each that every
 * user of the host can read, by its mode, with the remedy. One that cannot be looked at is left to
 * whoever reads it.
 */
#include "agent/config.h"

/* `path`: of the configuration; it need not exist. */
void secrets__check(const struct config *c, const char *path);

#endif /* PYPERF_AGENT_SECRETS_H */
