/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PUSH_H
#define PYPERF_AGENT_PUSH_H
/*
 * Sends windows to backends. Each destination has a spool (spool.h) and a thread that sends from
 * it, so push__put() waits for the disk but never for a network.
 *
 *	struct push_config c;			[push.NAME] of the configuration
 *
 *	push_config__init(&c, "central");
 *	push_config__set(&c, "kind", "pyroscope", &why);
 *	push_config__set(&c, "url", "https://profiles.example", &why);
 *	push_config__check(&c, &why);
 *	p = push__open(&c, 1, "/var/spool/pyperf-bpf");	-> /var/spool/pyperf-bpf/central/
 *	push__put(p, window);
 *	push__close(p, 5000);
 *
 * At least once, in order: a window leaves the spool when the backend has confirmed it. If the
 * answer is lost, the window is sent again with the same id, in the place where the backend looks
 * for it (docs/push.md). With max-in-flight above 1, windows may overtake each other.
 *
 * Secrets are not logged: neither headers nor contents of files; a url with a password in it is
 * refused.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/push/spool.h"
#include "store/window.h"

#define PUSH_NAME_MAX	   64
#define PUSH_HEADERS_MAX   16
#define PUSH_IN_FLIGHT_MAX 16
#define PUSH_WINDOWS_MAX   16

struct push_kind;

/* One destination. Strings are owned; NULL: not set. */
struct push_config {
	char name[PUSH_NAME_MAX + 1];
	const struct push_kind *kind;
	char *url;
	char *headers[PUSH_HEADERS_MAX];      /* "Name: value" */
	char *header_files[PUSH_HEADERS_MAX]; /* "Name: /path" */
	char *bearer_token_file, *username, *password_file;
	char *tenant;
	char *ca_file, *cert_file, *key_file;
	char *proxy; /* a url, "env", or NULL: none */
	bool insecure_skip_verify;
	int compression; /* 1: gzip, 0: none, -1: as the kind has it */
	uint64_t connect_timeout_ms, timeout_ms;
	uint64_t retry_min_ms, retry_max_ms;
	uint64_t spread_ms; /* a window waits up to that long: not the whole fleet at once */
	unsigned max_in_flight;
	unsigned max_windows; /* of one request, where the kind can take several */
	struct spool_limits spool;
};

/*
 * 0, or -EINVAL: not a name: 1 to 64 of a-z 0-9 _ -, not - at first. It is a directory, and a label
 * of metrics.
 */
int push_config__init(struct push_config *c, const char *name);
/*
 * One key (docs/push.md lists them). `header` and `header-file` may come several times. 0; -ENOENT:
 * no such key; -EINVAL: *why says what is wanted; -ENOMEM. Changes nothing unless 0.
 */
int push_config__set(struct push_config *c, const char *key, const char *value, const char **why);
/* The whole: 0, or -EINVAL and *why, a sentence. */
int push_config__check(const struct push_config *c, const char **why);
void push_config__free(struct push_config *c);

struct push;

/*
 * Begins to send. Configurations have been checked and are borrowed until push__close(). spool_dir
 * is made if need be (not its parents). A destination whose spool cannot be opened is tried again
 * once a minute, after a message each time; until then its windows are lost, and counted (`disk`).
 * NULL: out of memory, after a message.
 */
struct push *push__open(const struct push_config *c, size_t n, const char *spool_dir);
/*
 * 0: in the spool of every destination, see spool.h. Else the first error: at least one has it in
 * memory only, or lost it (counted, after a message). From one thread at a time.
 */
int push__put(struct push *p, const struct window *w);
/* Sends what it can in that time; the rest stays in the spools. NULL is fine. */
void push__close(struct push *p, uint64_t deadline_ms);

struct push_stats {
	const char *name, *kind;  /* borrowed from the configuration */
	struct spool_stats spool; /* put, sent, dropped by reason, waiting, bytes, age */
	uint64_t requests;	  /* that have ended, however */
	uint64_t retries;	  /* that follow a failed one of the same window */
	uint64_t failures;	  /* without an answer, or with one that is no success */
	uint64_t sent_bytes;	  /* of the bodies that were taken */
	uint64_t latency_sum_ns, latency_max_ns; /* of all requests */
	int last_status;			 /* HTTP; 0: no answer. gRPC's are translated */
	uint64_t last_sent_unix_ns;		 /* 0: none yet */
	bool failing;				 /* since the last success */
};

size_t push__count(const struct push *p);
/* Of destination i, as it is now. Any thread. */
void push__stats(struct push *p, size_t i, struct push_stats *out);

#endif /* PYPERF_AGENT_PUSH_H */
