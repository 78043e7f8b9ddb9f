/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_TOKEN_H
#define PYPERF_AGENT_HTTP_TOKEN_H
/*
 * The token that clients have to send: read from the file that the configuration names, or made by
 * the agent.
 *
 * Every user of a host can connect to a port of the loopback, but the store is for its owner alone.
 * So without a token-file in the configuration the agent makes one in its state directory, once,
 * with mode 0600.
 */
#include "agent/http/http_guard.h"

/* Creates the file with a new token, unless it exists. 0 or negative errno after a message. */
int http_token__make(const char *path);
/* Reads the first line of the file. 0 or negative errno after a message; then `token` is "". */
int http_token__read(const char *path, char token[HTTP_TOKEN_MAX + 1]);

#endif /* PYPERF_AGENT_HTTP_TOKEN_H */
