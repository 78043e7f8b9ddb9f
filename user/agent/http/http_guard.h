/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_GUARD_H
#define PYPERF_AGENT_HTTP_GUARD_H
/* Decides whether a request may be answered: pure functions of its headers. */
#include <stdbool.h>
#include <stddef.h>

#define HTTP_TOKEN_MAX 256 /* characters */

/*
 * Protects against DNS rebinding: if the name of another site is made to resolve to this host, the
 * browser takes its pages for the same origin, but their requests carry that name. Allowed are
 * addresses, "localhost" and the names in `allowed` ("a,b", blanks ignored), with or without a
 * port; and NULL, because a client of HTTP/1.0 without the header is not a browser.
 */
bool http_guard__host(const char *host, const char *allowed);

/*
 * Checks what a browser says about the origin of a request (Sec-Fetch-Site, -Mode, -Dest; NULL: no
 * such header). A page of another site may only link to here.
 */
bool http_guard__site(const char *site, const char *mode, const char *dest);

/*
 * Checks "Bearer TOKEN", or "Basic " and base64 of "anyone:TOKEN", which browsers can send. The
 * time that it takes reveals only the length of the token.
 */
bool http_guard__token(const char *authorization, const char *token);

#endif /* PYPERF_AGENT_HTTP_GUARD_H */
