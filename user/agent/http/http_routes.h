/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_ROUTES_H
#define PYPERF_AGENT_HTTP_ROUTES_H
/*
 * What is at which path, without the protocol: arguments in, status and body out.
 *
 * Paths are compared whole with a table: none is ever part of a file's name.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/http/http.h"

#define HTTP_TEXT  "text/plain; charset=utf-8"
#define HTTP_HTML  "text/html; charset=utf-8"
#define HTTP_JSON  "application/json"
/* The policy of what is no page: it can do nothing, should a browser take it for one. */
#define HTTP_INERT "default-src 'none'; frame-ancestors 'none'; sandbox"

/*
 * The arguments that mean something; others are ignored. Texts as the client sent them, "" when it
 * did not.
 */
struct http_args {
	int client_fd; /* whose they are: to see whether it is still there, and for nothing else */
	char seconds[16];
	char service[1024];
	char from[32], to[32];
	char base_from[32], base_to[32];
	char buckets[16];
	char value[64];
};

struct http_answer {
	unsigned status;
	const char *type;   /* Content-Type, a literal */
	const char *policy; /* Content-Security-Policy, a literal */
	const char *file;   /* name to save it under, a literal; NULL: it is to be looked at */
	char *body;	    /* owned */
	size_t size;
};

enum http_cost {
	HTTP_QUICK,  /* answered by the thread that serves all */
	HTTP_QUERY,  /* by a worker */
	HTTP_FIGURE, /* by a worker that is kept for it */
	HTTP_SAMPLE, /* by a worker, for as long as the client said */
};

struct http_route {
	const char *path;
	enum http_cost cost;
	bool open; /* needs no token */
	/*
	 * tells of no program: needs the token of the configuration, not that of the agent's own
	 * making
	 */
	bool figures;
	bool posts; /* POST as well as GET and HEAD; what a body says is not looked at */
	/* Fills in `a`, which is all zero. */
	void (*answer)(const struct http_backend *b, const struct http_args *args,
		       struct http_answer *a);
};

/* NULL: there is nothing. */
const struct http_route *http_route__find(const char *path);

/* Where the argument of this name belongs in `args`, and its size; NULL: it means nothing. */
char *http_args__field(struct http_args *args, const char *name, size_t *size);

/* A line of text; `text` has no line break. */
void http_answer__text(struct http_answer *a, unsigned status, const char *text);
void http_answer__free(struct http_answer *a);

#endif /* PYPERF_AGENT_HTTP_ROUTES_H */
