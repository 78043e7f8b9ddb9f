/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_LINK_H
#define PYPERF_AGENT_HTTP_LINK_H
/*
 * Where a person finds the page. A link holds the token as a password, which browsers, curl and go
 * tool pprof send to that address and port alone (a cookie goes to all ports of a host):
 *
 *	http://pyperf:0f4c...@127.0.0.1:4041/
 */
#include "agent/http/http.h"
#include "base/str.h"

/*
 * The address of the page, with the token unless that is "". Where the agent listens on all
 * addresses, the loopback's. Not for Unix sockets. Out of memory: out->err.
 */
void http_link__make(const struct http_config *c, const char *token, struct strbuf *out);
/*
 * Logs it, at the start: with the token only to a terminal, for logs have other readers than the
 * token's file.
 */
void http_link__say(const struct http_config *c);
/* On standard output, for `pyperf-bpf agent --link`. 0 or negative errno, printed. */
int http_link__print(const struct http_config *c);

#endif /* PYPERF_AGENT_HTTP_LINK_H */
