// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The sections [push.NAME] of the configuration. */
#include "agent/push/push.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/push/push_kind.h"
#include "agent/push/push_put.h"
#include "base/clock.h"
#include "base/str.h"

#define VALUE_MAX 4096
#define MIB	  (1ULL << 20)

static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
/* RFC 9110, 5.6.2: the characters of a token. */
static const char token[] =
	"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static const struct push_kind *const kinds[] = {
	&push_put, &push_pyroscope, &push_pyroscope_ingest, &push_parca, &push_otlp, &push_otlp_grpc
};

const struct push_kind *push_kind__find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i]->name, name))
			return kinds[i];
	return NULL;
}

int push_config__init(struct push_config *c, const char *name)
{
	size_t len = strlen(name);

	*c = (struct push_config){
		.compression = -1,
		.connect_timeout_ms = 5000,
		.timeout_ms = 30000,
		.retry_min_ms = 1000,
		.retry_max_ms = 60000,
		.spread_ms = 2000,
		.max_in_flight = 1,
		.max_windows = PUSH_WINDOWS_MAX,
		.spool = { .max_bytes = 256 * MIB, .max_age_ns = 86400 * NS_PER_S },
	};
	if (!len || len > PUSH_NAME_MAX || strspn(name, lower) != len || *name == '-')
		return -EINVAL;
	strcpy(c->name, name);
	return 0;
}

/* ---- Values ---------------------------------------------------------------------------------- */

enum value_type {
	VALUE_KIND,
	VALUE_URL,
	VALUE_TEXT,
	VALUE_FILE,
	VALUE_PROXY,
	VALUE_HEADER,
	VALUE_HEADER_FILE,
	VALUE_YES_NO,
	VALUE_COMPRESSION,
	VALUE_TIME,
	VALUE_SPREAD,
	VALUE_AGE,
	VALUE_SIZE,
	VALUE_COUNT,
};

static const char *const wanted[] = {
	[VALUE_KIND] = "put, pyroscope, pyroscope-ingest, parca, otlp or otlp-grpc",
	[VALUE_URL] = "http://HOST... or https://HOST..., without user or password in it",
	[VALUE_TEXT] = "1 to 4095 printable characters",
	[VALUE_FILE] = "an absolute path",
	[VALUE_PROXY] = "http://HOST:PORT, socks5h://HOST:PORT, env or none",
	[VALUE_HEADER] = "Name: value, at most 16 of them",
	[VALUE_HEADER_FILE] = "Name: /path of a file with the value, at most 16 of them",
	[VALUE_YES_NO] = "yes or no",
	[VALUE_COMPRESSION] = "gzip or none",
	[VALUE_TIME] = "a time from 1s to 1h",
	[VALUE_SPREAD] = "a time from 0s to 1h",
	[VALUE_AGE] = "a time from 1m to 3650d, like 12h",
	[VALUE_SIZE] = "a size from 1MiB to 1024GiB, like 256MiB",
	[VALUE_COUNT] = "1 to 16",
};

static const struct {
	const char *name;
	enum value_type type;
	size_t at; /* in struct push_config */
} keys[] = {
#define KEY(name, type, member)                                                                    \
	{                                                                                          \
		name, type, offsetof(struct push_config, member)                                   \
	}
	KEY("kind", VALUE_KIND, kind),
	KEY("url", VALUE_URL, url),
	KEY("header", VALUE_HEADER, headers),
	KEY("header-file", VALUE_HEADER_FILE, header_files),
	KEY("bearer-token-file", VALUE_FILE, bearer_token_file),
	KEY("username", VALUE_TEXT, username),
	KEY("password-file", VALUE_FILE, password_file),
	KEY("tenant", VALUE_TEXT, tenant),
	KEY("ca-file", VALUE_FILE, ca_file),
	KEY("cert-file", VALUE_FILE, cert_file),
	KEY("key-file", VALUE_FILE, key_file),
	KEY("insecure-skip-verify", VALUE_YES_NO, insecure_skip_verify),
	KEY("proxy", VALUE_PROXY, proxy),
	KEY("compression", VALUE_COMPRESSION, compression),
	KEY("connect-timeout", VALUE_TIME, connect_timeout_ms),
	KEY("timeout", VALUE_TIME, timeout_ms),
	KEY("retry-min", VALUE_TIME, retry_min_ms),
	KEY("retry-max", VALUE_TIME, retry_max_ms),
	KEY("spread", VALUE_SPREAD, spread_ms),
	KEY("max-in-flight", VALUE_COUNT, max_in_flight),
	KEY("max-windows", VALUE_COUNT, max_windows),
	KEY("spool-max-size", VALUE_SIZE, spool.max_bytes),
	KEY("spool-max-age", VALUE_AGE, spool.max_age_ns),
#undef KEY
};

static int replace(char **member, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*member);
	*member = copy;
	return 0;
}

static bool is_text(const char *s)
{
	size_t len = strlen(s);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return false;
	return len && len < VALUE_MAX;
}

/* The part of an address behind "scheme://", up to the path: where a user would stand. */
static bool is_url(const char *s)
{
	const char *host = !strncmp(s, "http://", 7)	? s + 7
			   : !strncmp(s, "https://", 8) ? s + 8
							: NULL;
	size_t len = host ? strcspn(host, "/?#") : 0;

	return len && is_text(s) && !strpbrk(s, " #\\\"<>^`") && !memchr(host, '@', len);
}

static int set_proxy(char **member, const char *value)
{
	if (!strcmp(value, "none")) {
		free(*member);
		*member = NULL;
		return 0;
	}
	if (strcmp(value, "env") &&
	    (!is_text(value) || strchr(value, '@') || !strstr(value, "://")))
		return -EINVAL;
	return replace(member, value);
}

/* "Name: value"; the names that libcurl or we write ourselves are not for the configuration. */
static bool is_header(const char *s, bool file)
{
	static const char *const ours[] = { "Host",	    "Content-Length",	"Transfer-Encoding",
					    "Content-Type", "Content-Encoding", "TE" };
	size_t name = strspn(s, token);
	const char *value = s[name] ? s + name + 1 + strspn(s + name + 1, " ") : s;

	if (!name || s[name] != ':' || !is_text(s) || !*value || (file && *value != '/'))
		return false;
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (strlen(ours[i]) == name && !strncasecmp(ours[i], s, name))
			return false;
	return true;
}

static int add_header(char **list, const char *value, bool file)
{
	size_t i = 0;

	while (i < PUSH_HEADERS_MAX && list[i])
		i++;
	if (i == PUSH_HEADERS_MAX || !is_header(value, file))
		return -EINVAL;
	return replace(&list[i], value);
}

static int set_kind(const struct push_kind **member, const char *value)
{
	const struct push_kind *kind = push_kind__find(value);

	if (!kind)
		return -EINVAL;
	*member = kind;
	return 0;
}

static int set_word(const char *value, const char *yes, const char *no)
{
	if (!strcmp(value, yes))
		return 1;
	return strcmp(value, no) ? -EINVAL : 0;
}

static int set_period(uint64_t *member, const char *value, uint64_t min_s, uint64_t max_s,
		      uint64_t unit)
{
	uint64_t seconds;

	if (parse_period(value, min_s, max_s, &seconds))
		return -EINVAL;
	*member = seconds * unit;
	return 0;
}

static int set_number(void *member, enum value_type type, const char *value)
{
	long long cnt;
	int is;

	switch (type) {
	case VALUE_YES_NO:
		is = set_word(value, "yes", "no");
		*(bool *)member = is < 0 ? *(bool *)member : is;
		return is < 0 ? is : 0;
	case VALUE_COMPRESSION:
		is = set_word(value, "gzip", "none");
		*(int *)member = is < 0 ? *(int *)member : is;
		return is < 0 ? is : 0;
	case VALUE_TIME:
		return set_period(member, value, 1, 3600, 1000);
	case VALUE_SPREAD:
		return set_period(member, value, 0, 3600, 1000);
	case VALUE_AGE:
		return set_period(member, value, 60, 3650 * 86400ULL, NS_PER_S);
	case VALUE_SIZE:
		return parse_bytes(value, MIB, MIB << 20, member) ? -EINVAL : 0;
	default:
		if (parse_int(value, 1, PUSH_IN_FLIGHT_MAX, &cnt))
			return -EINVAL;
		*(unsigned *)member = (unsigned)cnt;
		return 0;
	}
}

static int set_member(void *member, enum value_type type, const char *value)
{
	switch (type) {
	case VALUE_KIND:
		return set_kind(member, value);
	case VALUE_URL:
		return is_url(value) ? replace(member, value) : -EINVAL;
	case VALUE_TEXT:
		return is_text(value) ? replace(member, value) : -EINVAL;
	case VALUE_FILE:
		return is_text(value) && *value == '/' ? replace(member, value) : -EINVAL;
	case VALUE_PROXY:
		return set_proxy(member, value);
	case VALUE_HEADER:
		return add_header(member, value, false);
	case VALUE_HEADER_FILE:
		return add_header(member, value, true);
	default:
		return set_number(member, type, value);
	}
}

int push_config__set(struct push_config *c, const char *key, const char *value, const char **why)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i].name, key))
			continue;
		*why = wanted[keys[i].type];
		return set_member((char *)c + keys[i].at, keys[i].type, value);
	}
	return -ENOENT;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int check_template(const char *url)
{
	static const struct window w = { .id = "0" };
	struct strbuf out = { 0 };
	int err = push_template(&out, url, &w);

	strbuf__free(&out);
	return err;
}

static bool is_readable(const char *path)
{
	return !path || !access(path, R_OK);
}

static const char *find_fault(const struct push_config *c)
{
	if (!c->kind)
		return "it has no kind";
	if (!c->url)
		return "it has no url";
	if (!c->kind->path && check_template(c->url))
		return "url: the names in braces are {service} {host} {label:NAME} {id} {start} "
		       "{date} {hour} {seconds}";
	if (c->kind->path && strpbrk(c->url, "?{}"))
		return "url: the address of the backend without a query; the rest is known";
	if (!c->username != !c->password_file)
		return "username and password-file go together";
	if (c->username && c->bearer_token_file)
		return "username and bearer-token-file exclude each other";
	if (!c->cert_file != !c->key_file)
		return "cert-file and key-file go together";
	if (c->retry_max_ms < c->retry_min_ms)
		return "retry-max is below retry-min";
	if (!is_readable(c->ca_file))
		return "ca-file cannot be read";
	if (!is_readable(c->cert_file) || !is_readable(c->key_file))
		return "cert-file or key-file cannot be read";
	return NULL;
}

int push_config__check(const struct push_config *c, const char **why)
{
	*why = find_fault(c);
	return *why ? -EINVAL : 0;
}

void push_config__free(struct push_config *c)
{
	for (size_t i = 0; i < PUSH_HEADERS_MAX; i++) {
		free(c->headers[i]);
		free(c->header_files[i]);
	}
	free(c->url);
	free(c->bearer_token_file);
	free(c->username);
	free(c->password_file);
	free(c->tenant);
	free(c->ca_file);
	free(c->cert_file);
	free(c->key_file);
	free(c->proxy);
	*c = (struct push_config){ .compression = -1 };
}
