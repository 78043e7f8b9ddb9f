/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_PAGE_H
#define PYPERF_AGENT_HTTP_PAGE_H
/*
 * The web page, user/web/agent.html: services, a time range, and in a frame the flame graph that
 * http_store.h serves. It is the same for every client but for the host's name, and requests the
 * data that it shows.
 */
#include "agent/http/http_routes.h"

void http_page__answer(const struct http_backend *b, const struct http_args *args,
		       struct http_answer *a);

#endif /* PYPERF_AGENT_HTTP_PAGE_H */
