/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_GUARD_H
#define PYPERF_AGENT_HTTP_GUARD_H
/*
 * Whether a request may be answered, from what it says: pure functions of its headers.
 */
#include <stdbool.h>
#include <stddef.h>

#define HTTP_TOKEN_MAX 256 /* characters */

/*
 * Against DNS rebinding: a page of another site whose name is made to resolve to this host is, for
 * the browser, of the same origin. Its requests carry that name. Good are addresses, "localhost"
 * and the names in `allowed` ("a,b", blanks ignored); with or without a port. NULL, from a client
 * of HTTP/1.0, is no browser.
 */
bool http_guard__host(const char *host, const char *allowed);

/*
 * What a browser says of where a request comes from (Sec-Fetch-Site, -Mode, -Dest; NULL: not said).
 * A page of another site may lead here by a link, and may do nothing else.
 */
bool http_guard__site(const char *site, const char *mode, const char *dest);

/*
 * "Bearer TOKEN", or "Basic " and base64 of "anyone:TOKEN", which is what browsers can send. The
 * time it takes tells nothing of the token but its length.
 */
bool http_guard__token(const char *authorization, const char *token);

#endif /* PYPERF_AGENT_HTTP_GUARD_H */
