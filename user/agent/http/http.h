/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_HTTP_H
#define PYPERF_AGENT_HTTP_H
/*
 * The agent's HTTP endpoint: metrics for Prometheus, health, profiles and a web page. It only
 * reads.
 *
 *	one thread	accepts, reads requests, and answers quick requests
 *	up to HTTP_WORKERS	one for each slow request: profiles, queries of the store
 *	one more		/metrics, so that no number of clients keeps it out
 *
 * Access is decided in this order: the address that it listens on; the Host header, against DNS
 * rebinding; the browser's Sec-Fetch-Site, against other sites' pages; the token (http_guard.h).
 *
 * Memory and time are bounded whatever clients do: HTTP_CONNECTIONS at once with HTTP_REQUEST_SIZE
 * each. A connection carries one request and ends after HTTP_READ_MS without one. A slow request
 * keeps its worker until its answer is taken or HTTP_WRITE_MS are over.
 *
 *	struct http_config c;
 *
 *	http_config__init(&c);
 *	err = http_config__set(&c, "listen", "127.0.0.1:4041", &why);
 *	err = err ?: http_config__check(&c, &why);
 *	h = http__start(&c, -1, &backend);
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
/* limit of bytes of a body, where one is allowed; bodies are not kept */
#define HTTP_BODY_SIZE	  (4 << 20)
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
	bool token_none; /* token-file = none: every client may ask */
	bool token_own;	 /* the agent creates token_file if it does not exist */
};

void http_config__init(struct http_config *c);
/*
 * One key. 0; -ENOENT: no such key; -EINVAL: the value, and *why is what is wanted, a literal.
 *
 *	listen		127.0.0.1:4041 (default), [::1]:4041, unix:/run/pyperf-bpf/agent.sock, off
 *	socket-mode	permissions of the Unix socket, octal (default 0660)
 *	token-file	clients must send its first line; read again when it changes; none
 *	tls-cert, tls-key	files in PEM format; read again when they change
 *	allow-remote	yes: listen on other addresses without TLS, or with no token-file of their
 *			own
 *	allow-host	names, separated by commas, by which clients may address this host
 */
int http_config__set(struct http_config *c, const char *key, const char *value, const char **why);
/* Checks what concerns several keys. 0 or -EINVAL and *why, a sentence. Touches no file. */
int http_config__check(const struct http_config *c, const char **why);

/*
 * If the configuration names no token although every user of the host could connect, uses the file
 * "token" in the state directory, which http__start() creates.
 */
void http_config__place_token(struct http_config *c, const char *state_dir);

/*
 * The functions by which the endpoint asks the agent. Any of its threads may call them; `ctx` is
 * passed back.
 */
struct http_backend {
	void *ctx;
	void (*stats)(void *ctx, struct agent_stats *out);
	/* As agent__profile() and agent__healthy(). */
	int (*profile)(void *ctx, unsigned seconds, int client_fd, FILE *out);
	bool (*healthy)(void *ctx, const char **why);
	/* Figures of up to `cap` destinations, and how many; NULL: there are none. */
	size_t (*push)(void *ctx, struct push_stats *out, size_t cap);
	/* Figures of up to `cap` services, and how many; NULL: none are taken. */
	size_t (*loops)(void *ctx, struct loop_figures *out, size_t cap);
	const char *store_path; /* NULL: no store, and the page has nothing to show */
	/* Names of the sampled value types, NULL-terminated; NULL: not told. */
	const char *const *values;
};

struct http;

/*
 * Listens and serves until http__stop(). NULL and errno after a message; NULL and errno 0 when it
 * is off. `c` is copied; `backend` has to stay. `given_fd` is a socket that already listens at the
 * address of `c`, and goes on after http__stop(); borrowed until this returns. -1: there is none.
 */
struct http *http__start(const struct http_config *c, int given_fd,
			 const struct http_backend *backend);
/* Stops the endpoint. Waits for running requests: make backend->profile() return early before. */
void http__stop(struct http *h);

#endif /* PYPERF_AGENT_HTTP_H */
