/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The configuration in effect, as a configuration. */
#include "agent/config.h"

#include <inttypes.h>
#include <string.h>

#include "agent/push/push_kind.h"
#include "base/clock.h"

static void put_text(FILE *f, const char *key, const char *value)
{
	if (value && *value)
		fprintf(f, "%s = %s\n", key, value);
}

static void put_bool(FILE *f, const char *key, bool value)
{
	fprintf(f, "%s = %s\n", key, value ? "yes" : "no");
}

/* In the largest unit that divides it. */
static void put_bytes(FILE *f, const char *key, uint64_t bytes)
{
	static const char *const units[] = { "", "KiB", "MiB", "GiB" };
	size_t unit = 0;

	while (bytes && bytes % 1024 == 0 && unit < 3) {
		bytes /= 1024;
		unit++;
	}
	fprintf(f, "%s = %" PRIu64 "%s\n", key, bytes, units[unit]);
}

static void put_time(FILE *f, const char *key, uint64_t seconds)
{
	static const struct {
		char name;
		uint64_t seconds;
	} units[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
	size_t unit = 0;

	while (seconds % units[unit].seconds)
		unit++;
	if (!seconds)
		unit = 3;
	fprintf(f, "%s = %" PRIu64 "%c\n", key, seconds / units[unit].seconds, units[unit].name);
}

/* "key = a, b"; each with a prefix if its `prefixed` says so, which may be NULL. */
static void put_words(FILE *f, const char *key, char *const *words, size_t max, const char *prefix,
		      const bool *prefixed)
{
	fprintf(f, "%s = ", key);
	for (size_t i = 0; words && i < max && words[i]; i++)
		fprintf(f, "%s%s%s", i ? ", " : "", prefixed && prefixed[i] ? prefix : "",
			words[i]);
	fputc('\n', f);
}

static void put_agent(const struct agent_config *c, FILE *f)
{
	static const char *const levels[] = { "error", "warning", "info", "debug" };

	fputs("[agent]\nevents = ", f);
	for (uint32_t i = 0; i < c->event_cnt; i++)
		if (!c->events[i]->of) /* it comes with another one, and cannot be named */
			fprintf(f, "%s%s", i ? ", " : "", source__name(c->events[i]));
	fprintf(f, "\nfrequency = %" PRIu32 "Hz\nwindow = %" PRIu32 "s\n", c->frequency_hz,
		c->window_s);
	put_words(f, "group", c->group, GROUP_WORDS, "attribute.", c->group_attribute);
	fprintf(f, "small = %" PRIu32 "\n", c->small);
	put_text(f, "state-dir", c->state_dir);
	put_text(f, "comm", c->comm);
	put_text(f, "cgroup", c->cgroup);
	put_bool(f, "native", c->native);
	put_bool(f, "kernel", c->kernel);
	put_bool(f, "lines", c->lines);
	fprintf(f, "table-memory = %" PRIu32 "MiB\n", c->table_mib);
	put_text(f, "log-level", levels[c->log_level]);
	put_text(f, "log-format", c->log_json ? "json" : "text");
	put_text(f, "directory", c->directory);
}

static void put_labels(const struct labels_config *c, FILE *f)
{
	fprintf(f, "\n[labels]\nhost = %s\n", c->host.s);
	put_words(f, "environment", c->environment, SIZE_MAX, NULL, NULL);
	put_bool(f, "command-line", c->command_line);
	for (size_t i = 0; i < c->fixed_cnt; i++)
		fprintf(f, "add.%s = %s\n", c->fixed[i].name, c->fixed[i].value);
}

static void put_budget(const struct budget_config *c, FILE *f)
{
	fprintf(f,
		"\n[budget]\ncpu = %.10g%%\nmemory = %" PRIu32 "MiB\nprocesses = %" PRIu32
		"\nstacks = %" PRIu32 "\n",
		c->cpu_percent, c->memory_mib, c->processes, c->stacks);
}

static void put_store(const struct config *c, FILE *f)
{
	fputs("\n[store]\n", f);
	put_bool(f, "enabled", c->store_enabled);
	put_text(f, "path", c->store.path);
	put_time(f, "max-age", c->store.max_age_s);
	put_bytes(f, "max-size", c->store.max_bytes);
	put_bytes(f, "keep-free", c->store.keep_free);
}

static void put_http(const struct http_config *c, FILE *f)
{
	fputs("\n[http]\n", f);
	put_text(f, "listen", c->text);
	fprintf(f, "socket-mode = %04o\n", c->socket_mode);
	if (c->token_own) /* printed as a token-file, it would have to exist already */
		fprintf(f, "# token-file = %s, which the agent makes\n", c->token_file);
	else
		put_text(f, "token-file", c->token_none ? "none" : c->token_file);
	put_text(f, "tls-cert", c->tls_cert);
	put_text(f, "tls-key", c->tls_key);
	put_bool(f, "allow-remote", c->allow_remote);
	put_text(f, "allow-host", c->allow_host);
}

/* ---- destinations ---------------------------------------------------------------------------- */

/* The query may contain a signature that allows to write there. */
static void put_url(const char *url, FILE *f)
{
	size_t len = strcspn(url, "?");

	fprintf(f, "url = %.*s%s\n", (int)len, url, url[len] ? "?" CONFIG_MASK : "");
}

static void put_headers(const struct push_config *c, FILE *f)
{
	for (size_t i = 0; i < PUSH_HEADERS_MAX && c->headers[i]; i++)
		fprintf(f, "header = %.*s: " CONFIG_MASK "\n", (int)strcspn(c->headers[i], ":"),
			c->headers[i]);
	for (size_t i = 0; i < PUSH_HEADERS_MAX && c->header_files[i]; i++)
		put_text(f, "header-file", c->header_files[i]);
}

static void put_push(const struct push_config *c, FILE *f)
{
	fprintf(f, "\n[push.%s]\n", c->name);
	put_text(f, "kind", c->kind->name);
	put_url(c->url, f);
	put_headers(c, f);
	put_text(f, "bearer-token-file", c->bearer_token_file);
	put_text(f, "username", c->username);
	put_text(f, "password-file", c->password_file);
	put_text(f, "tenant", c->tenant);
	put_text(f, "ca-file", c->ca_file);
	put_text(f, "cert-file", c->cert_file);
	put_text(f, "key-file", c->key_file);
	put_text(f, "proxy", c->proxy ? c->proxy : "none");
	put_bool(f, "insecure-skip-verify", c->insecure_skip_verify);
	if (c->compression >= 0)
		put_text(f, "compression", c->compression ? "gzip" : "none");
	put_time(f, "connect-timeout", c->connect_timeout_ms / 1000);
	put_time(f, "timeout", c->timeout_ms / 1000);
	put_time(f, "retry-min", c->retry_min_ms / 1000);
	put_time(f, "retry-max", c->retry_max_ms / 1000);
	put_time(f, "spread", c->spread_ms / 1000);
	fprintf(f, "max-in-flight = %u\nmax-windows = %u\n", c->max_in_flight, c->max_windows);
	put_bytes(f, "spool-max-size", c->spool.max_bytes);
	put_time(f, "spool-max-age", c->spool.max_age_ns / NS_PER_S);
}

void config__print(const struct config *c, FILE *f)
{
	put_agent(&c->agent, f);
	put_labels(&c->labels, f);
	put_budget(&c->budget, f);
	put_store(c, f);
	put_http(&c->http, f);
	for (size_t i = 0; i < c->labels.rule_cnt; i++)
		rule__print(&c->labels.rules[i], f);
	for (size_t i = 0; i < c->push_cnt; i++)
		put_push(&c->push[i], f);
}
