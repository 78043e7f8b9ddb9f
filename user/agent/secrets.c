/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/secrets.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"

/* `path`: NULL or "" is none. */
static void check(const char *section, const char *key, const char *path)
{
	struct stat st;

	if (!path || !*path || stat(path, &st) || !(st.st_mode & S_IROTH))
		return;
	log_warn("[%s] %s: every user of this host can read %s (mode %04o): chmod 600 %s", section,
		 key, path, st.st_mode & 07777, path);
}

/* "Name: /path" */
static const char *path_of(const char *header_file)
{
	return strchr(header_file, '/');
}

/*
 * "Name: value", by words that names of headers with credentials have: Authorization, X-Api-Key,
 * X-Vault-Token, Cookie...
 */
static bool is_secret(const char *header)
{
	static const char *const words[] = { "auth", "key", "token", "secret", "passw", "cookie" };
	const char *end = header + strcspn(header, ":"), *at;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		at = strcasestr(header, words[i]);
		if (at && at < end)
			return true;
	}
	return false;
}

static void check_push(const struct push_config *c, const char *path)
{
	char section[sizeof("push.") + PUSH_NAME_MAX];

	snprintf(section, sizeof(section), "push.%s", c->name);
	for (size_t i = 0; i < PUSH_HEADERS_MAX && c->headers[i]; i++) {
		if (!is_secret(c->headers[i]))
			continue;
		check(section, "header", path);
		break; /* one warning is enough */
	}
	for (size_t i = 0; i < PUSH_HEADERS_MAX && c->header_files[i]; i++)
		check(section, "header-file", path_of(c->header_files[i]));
	check(section, "bearer-token-file", c->bearer_token_file);
	check(section, "password-file", c->password_file);
	check(section, "key-file", c->key_file);
}

void secrets__check(const struct config *c, const char *path)
{
	for (size_t i = 0; i < c->push_cnt; i++)
		check_push(&c->push[i], path);
	if (c->http.off)
		return;
	check("http", "token-file", c->http.token_file);
	check("http", "tls-key", c->http.tls_key);
}
