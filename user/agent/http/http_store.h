/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_STORE_H
#define PYPERF_AGENT_HTTP_STORE_H
/*
 * The routes that look into the store, for the page and for scripts. Each request opens it anew, to
 * read: the writer is never waited for. Arguments are those of struct http_args; `from` and `to`
 * are as in when.h, and without them it is the last quarter of an hour.
 *
 *	services	GET api/services?from=&to=[&service=][&buckets=]
 *			{"from": s, "to": s, "step": s, "services": [{"name", "samples", "windows",
 *			"last": s,
 *			 "series": [samples of each step]}], "more": bool, "values": [name]}
 *			by samples; `values` are the events that are sampled; `buckets` is how many
 *			steps there are at most, a step is a number of whole minutes
 *	labels		GET api/labels?service=&from=&to=	{"labels": [{"name", "value"}]}
 *	profile		GET api/profile?service=&from=&to=[&value=]	pprof
 *	flame		GET flame?service=&from=&to=[&base-from=&base-to=][&value=]	a page of
 *											one event;
 *											with a base
 *											what differs
 */
#include "agent/http/http_routes.h"

void http_store__services(const struct http_backend *b, const struct http_args *args,
			  struct http_answer *a);
void http_store__labels(const struct http_backend *b, const struct http_args *args,
			struct http_answer *a);
void http_store__profile(const struct http_backend *b, const struct http_args *args,
			 struct http_answer *a);
void http_store__flame(const struct http_backend *b, const struct http_args *args,
		       struct http_answer *a);

#endif /* PYPERF_AGENT_HTTP_STORE_H */
