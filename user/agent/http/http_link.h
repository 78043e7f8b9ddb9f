/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_LINK_H
#define PYPERF_AGENT_HTTP_LINK_H
/*
 * Makes the address of the page. The link holds the token as a password, which browsers, curl and
 * go tool pprof send only to that address and port (a cookie goes to all ports of a host):
 *
 *	http://pyperf:0f4c...@127.0.0.1:4041/
 */
#include "agent/http/http.h"
#include "base/str.h"

/*
 * Appends the address of the page, with the token unless that is "". If the agent listens on all
 * addresses, the loopback address. Not for Unix sockets. Out of memory: out->err.
 */
void http_link__make(const struct http_config *c, const char *token, struct strbuf *out);
/*
 * Logs the address at the start. Includes the token only if the log is a terminal, because logs
 * have other readers than the token's file.
 */
void http_link__say(const struct http_config *c);
/*
 * Prints the address on standard output, for `pyperf-bpf agent --link`. 0 or negative errno,
 * printed.
 */
int http_link__print(const struct http_config *c);

#endif /* PYPERF_AGENT_HTTP_LINK_H */
