// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The HTTP endpoint alone, with an agent behind it that is made up: tests/e2e/test_agent_http.py.
 *
 * Usage: http_server [KEY=VALUE ...]
 *
 * KEY is of the section [http], `store`, or `own-token`: the state directory for the token that the
 * agent makes itself. Prints "ready" when it listens, and ends when its stdin
 * does.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/http/http.h"
#include "base/log.h"

/* libmicrohttpd 0.9.75 forgets what it has read when a certificate is none. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libgnutls\nleak:libtasn1\nleak:gnutls_x509_crt_init\n";
}

static bool sick;

static void on_sick(int sig)
{
	(void)sig;
	sick = !sick;
}

static void stats(void *ctx, struct agent_stats *out)
{
	(void)ctx;
	memset(out, 0, sizeof(*out));
	out->run.counters[CTR_delivered] = 1000;
	out->run.counters[CTR_counted] = 700;
	out->run.counters[CTR_filtered_idle] = 295;
	out->run.counters[CTR_lost_counts_full] = 5;
	out->run.start_unix_ns = 1700000000123456789ULL;
	out->rss_bytes = 20 << 20;
	out->drain_ns = 1500000000;
	out->drains = 3;
}

static size_t push(void *ctx, struct push_stats *out, size_t cap)
{
	(void)ctx;
	assert(cap >= 2);
	memset(out, 0, 2 * sizeof(*out));
	out[0].name = "central";
	out[0].requests = 4;
	out[0].latency_sum_ns = 250000000;
	out[0].spool.put = 10;
	out[0].spool.sent = 3;
	out[0].spool.windows = 7;
	out[0].failing = true;
	out[1].name = "s3";
	return 2;
}

static size_t loops(void *ctx, struct loop_figures *out, size_t cap)
{
	(void)ctx;
	assert(cap >= 2);
	memset(out, 0, 2 * sizeof(*out));
	out[0] = (struct loop_figures){ "shop", 7, 1500000000, 2, 1250000000, { 0 } };
	out[0].hist[9] = 4;
	out[0].hist[10] = 1;
	out[0].hist[17] = 1;
	out[0].hist[LOOP_BUCKETS - 1] = 1;
	out[1] = (struct loop_figures){ "a \"b\" \\", 0, 0, 0, 0, { 0 } };
	return 2;
}

/* Not a profile: `seconds` says what happens. */
static int profile(void *ctx, unsigned seconds, int client_fd, FILE *f)
{
	(void)ctx;
	(void)client_fd;
	if (seconds == 16)
		return -EBUSY;
	if (seconds == 500)
		return -EIO;
	if (seconds == 2)
		sleep(2);
	fprintf(f, "%u seconds", seconds);
	return 0;
}

static bool healthy(void *ctx, const char **why)
{
	(void)ctx;
	*why = "sampling stands still";
	return !sick;
}

int main(int argc, char **argv)
{
	static const char *const values[] = { "cpu-clock", "page-faults", NULL };
	struct http_backend backend = { .stats = stats,
					.profile = profile,
					.healthy = healthy,
					.push = push,
					.loops = loops,
					.values = values };
	struct http_config config;
	const char *why = NULL, *own = NULL;
	struct http *http;
	char c;

	log_set_level(LOG_LEVEL_DEBUG);
	signal(SIGUSR1, on_sick);
	http_config__init(&config);
	for (int i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		int err;

		if (!value)
			return 2;
		*value++ = 0;
		if (!strcmp(argv[i], "store")) {
			backend.store_path = value;
			continue;
		}
		if (!strcmp(argv[i], "own-token")) {
			own = value;
			continue;
		}
		err = http_config__set(&config, argv[i], value, &why);
		if (err) {
			log_err("%s: %s", argv[i], err == -ENOENT ? "no such key" : why);
			return 2;
		}
	}
	if (own)
		http_config__place_token(&config, own);
	if (http_config__check(&config, &why)) {
		log_err("%s", why);
		return 2;
	}
	http = http__start(&config, -1, &backend);
	if (!http)
		return 1;
	printf("ready\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0 || errno == EINTR)
		;
	http__stop(http);
	return 0;
}
