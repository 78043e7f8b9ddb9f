/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PUSH_HTTP_H
#define PYPERF_AGENT_PUSH_HTTP_H
/*
 * Makes a request to a backend with libcurl, and reads its answer: TLS, headers, secrets from files
 * (read for each request, so that a new token is used at once), compression, gRPC's framing. A
 * backend is not trusted: at most PUSH_ANSWER_MAX bytes of its answer are kept, and its time is
 * bounded.
 *
 *	push_http__prepare(h, config, &message)		then curl_multi_add_handle(multi, h->easy)
 *	push_http__finish(h, code)			after CURLMSG_DONE; sets the status
 */
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/push/push.h"
#include "agent/push/push_kind.h"
#include "base/str.h"

#define PUSH_ANSWER_MAX 65536

struct push_http {
	CURL *easy; /* kept for the next request */
	struct curl_slist *headers;
	struct push_message message;
	struct strbuf answer; /* its body, as far as it is kept */
	struct strbuf said;   /* what grpc-message says */
	int grpc_status;      /* -1: none came */
	char error[CURL_ERROR_SIZE];

	/* After push_http__finish(): */
	int status; /* HTTP, or what gRPC's means; 0: no whole answer */
	uint64_t retry_after_ms;
	uint64_t latency_ns;
	struct strbuf why; /* why it is no success, for people; already safe */
};

/* 0 or -ENOMEM. */
int push_http__init(struct push_http *h);
void push_http__free(struct push_http *h);
/*
 * Sets up the request for h->message, which the caller has filled. 0; -ENOMEM; or another errno
 * with h->why: a file of the configuration cannot be read.
 */
int push_http__prepare(struct push_http *h, const struct push_config *c, const char *id);
void push_http__finish(struct push_http *h, const struct push_config *c, CURLcode code);

#endif /* PYPERF_AGENT_PUSH_HTTP_H */
