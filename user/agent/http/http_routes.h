/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_ROUTES_H
#define PYPERF_AGENT_HTTP_ROUTES_H
/*
 * Maps paths to answers, without the protocol: arguments in, status and body out. Paths are
 * compared whole with a table; no path is ever part of a file's name.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/http/http.h"

#define HTTP_TEXT  "text/plain; charset=utf-8"
#define HTTP_HTML  "text/html; charset=utf-8"
#define HTTP_JSON  "application/json"
/*
 * The policy for answers that are not pages: they can do nothing if a browser takes one for a page.
 */
#define HTTP_INERT "default-src 'none'; frame-ancestors 'none'; sandbox"

/*
 * The known arguments; others are ignored. Texts are as the client sent them, "" when it did not.
 */
struct http_args {
	int client_fd; /* the client's socket, only to see whether the client is still there */
	bool trusted;  /* who asks has the token, or needs none for anything */
	char seconds[16];
	char service[1024];
	char all[2]; /* "1": all services */
	char from[32], to[32];
	char base_from[32], base_to[32];
	char buckets[16];
	char value[64];
};

struct http_answer {
	unsigned status;
	const char *type;   /* Content-Type, a literal */
	const char *policy; /* Content-Security-Policy, a literal */
	const char *file;   /* file name to save it under, a literal; NULL: show it */
	char *body;	    /* owned */
	size_t size;
};

enum http_cost {
	HTTP_QUICK,  /* answered by the thread that serves all */
	HTTP_QUERY,  /* by a worker */
	HTTP_FIGURE, /* by a worker that is reserved for it */
	HTTP_SAMPLE, /* by a worker, for the time that the client asked for */
};

struct http_route {
	const char *path;
	enum http_cost cost;
	bool open; /* needs no token */
	/*
	 * reveals nothing about programs to who is not `trusted`: needs the token only if the
	 * configuration names one, not the token that the agent made itself
	 */
	bool figures;
	bool posts; /* POST as well as GET and HEAD; ignores the body */
	/* Fills in `a`, which is all zero. */
	void (*answer)(const struct http_backend *b, const struct http_args *args,
		       struct http_answer *a);
};

/* The route of a path. NULL: there is none. */
const struct http_route *http_route__find(const char *path);

/* The field of this argument in `args`, and its size; NULL: an unknown argument. */
char *http_args__field(struct http_args *args, const char *name, size_t *size);

/* Answers with a line of text; `text` has no line break. */
void http_answer__text(struct http_answer *a, unsigned status, const char *text);
void http_answer__free(struct http_answer *a);

#endif /* PYPERF_AGENT_HTTP_ROUTES_H */
