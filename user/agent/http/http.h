/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_H
#define PYPERF_AGENT_HTTP_H
/*
 * The agent's HTTP endpoint: figures for Prometheus, health, profiles and a web page. It only
 * reads.
 *
 *	one thread	accepts, reads requests, answers what is quick
 *	up to HTTP_WORKERS	one for each request that takes time: profiles, queries of the store
 *	one more		/metrics, so that no number of clients keeps it out
 *
 * Who may ask is decided in this order: where it listens; the Host header, against DNS rebinding;
 * the browser's Sec-Fetch-Site, against other sites' pages; the token (http_guard.h).
 *
 * Memory and time are bounded whatever clients do: HTTP_CONNECTIONS at once with HTTP_REQUEST_SIZE
 * each, a connection carries one request and ends after HTTP_READ_MS without one, and a request
 * that takes time keeps its worker until its answer is taken or HTTP_WRITE_MS are over.
 *
 *	struct http_config c;
 *
 *	http_config__init(&c);
 *	err = http_config__set(&c, "listen", "127.0.0.1:4041", &why);
 *	err = err ?: http_config__check(&c, &why);
 *	h = http__start(&c, &backend);
 *	...
 *	http__stop(h);
 */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include "agent/http/stats.h"
#include "agent/push/push.h"

#define HTTP_CONNECTIONS  64
#define HTTP_WORKERS	  4
#define HTTP_REQUEST_SIZE (32 << 10) /* bytes of a request's line and headers */
#define HTTP_BODY_SIZE	  (4 << 20)  /* bytes of a body, where there may be one; none is kept */
#define HTTP_READ_MS	  5000
#define HTTP_WRITE_MS	  60000
#define HTTP_NAMES_SIZE	  512

/* The section [http] of the configuration. Plain data; keys are those of http_config__set(). */
struct http_config {
	bool off; /* listen = off */
	struct sockaddr_storage address;
	socklen_t address_len;
	char text[128]; /* the address as written, for messages */
	unsigned socket_mode;
	bool allow_remote;
	char allow_host[HTTP_NAMES_SIZE];				  /* "a,b" */
	char token_file[PATH_MAX], tls_cert[PATH_MAX], tls_key[PATH_MAX]; /* "": none */
	bool token_none; /* token-file = none: whoever can connect may ask */
	bool token_own;	 /* token_file is made by the agent when it is not there */
};

void http_config__init(struct http_config *c);
/*
 * One key. 0; -ENOENT: no such key; -EINVAL: the value, and *why is what is wanted, a literal.
 *
 *	listen		127.0.0.1:4041 (default), [::1]:4041, unix:/run/pyperf-bpf/agent.sock, off
 *	socket-mode	permissions of the Unix socket, octal (default 0660)
 *	token-file	what its first line says has to be sent by clients; read again when it
 *			changes; none
 *	tls-cert, tls-key	files in PEM format; read again when they change
 *	allow-remote	yes: listen on other addresses without TLS, or with no token-file of their
 *			own
 *	allow-host	names, with commas between, by which clients may call this host
 */
int http_config__set(struct http_config *c, const char *key, const char *value, const char **why);
/* What single keys do not tell. 0 or -EINVAL and *why, a sentence. Touches no file. */
int http_config__check(const struct http_config *c, const char **why);

/*
 * Where the configuration names no token, and every user of the host could ask: the file "token" in
 * the state directory, which http__start() makes.
 */
void http_config__place_token(struct http_config *c, const char *state_dir);

/* What the endpoint asks of the agent. Any of its threads may call; `ctx` is handed back. */
struct http_backend {
	void *ctx;
	void (*stats)(void *ctx, struct agent_stats *out);
	/* As agent__profile() and agent__healthy(). */
	int (*profile)(void *ctx, unsigned seconds, int client_fd, FILE *out);
	bool (*healthy)(void *ctx, const char **why);
	/* Figures of up to `cap` destinations, and how many; NULL: there are none. */
	size_t (*push)(void *ctx, struct push_stats *out, size_t cap);
	const char *store_path; /* NULL: no store, and nothing to look at on the page */
	const char *const *
		/*
		 * names of the value types that are sampled, NULL-terminated; NULL: none are told
		 */
		values;
};

struct http;

/*
 * Listens and serves until http__stop(). NULL and errno after a message; NULL and errno 0 when it
 * is off. `c` is copied; `backend` has to stay.
 */
struct http *http__start(const struct http_config *c, const struct http_backend *backend);
/* Waits for requests that run: what lets backend->profile() return early has to be done before. */
void http__stop(struct http *h);

#endif /* PYPERF_AGENT_HTTP_H */
