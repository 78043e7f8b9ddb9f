// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The section [http] of the configuration. */
#include "agent/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/str.h"

#define UNIX_PREFIX    "unix:"
#define DEFAULT_LISTEN "127.0.0.1:4041"

static int copy(char *to, size_t size, const char *from, const char **why)
{
	if (strlen(from) >= size) {
		*why = "less than 4096 characters";
		return -EINVAL;
	}
	strcpy(to, from);
	return 0;
}

static int listen_unix(struct http_config *c, const char *path)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&c->address;

	if (*path != '/' || strlen(path) >= sizeof(un->sun_path))
		return -EINVAL;
	un->sun_family = AF_UNIX;
	strcpy(un->sun_path, path);
	c->address_len = sizeof(*un);
	return 0;
}

/* ADDRESS:PORT or [ADDRESS]:PORT; names would be one more thing that can be otherwise tomorrow. */
static int listen_tcp(struct http_config *c, const char *text)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&c->address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&c->address;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	long long port;
	size_t len;

	if (!colon || parse_int(colon + 1, 0, 65535, &port))
		return -EINVAL;
	len = (size_t)(colon - text);
	if (len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = 0;
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		c->address_len = sizeof(*in);
		return 0;
	}
	if (len < 2 || host[0] != '[' || host[len - 1] != ']')
		return -EINVAL;
	host[len - 1] = 0;
	if (inet_pton(AF_INET6, host + 1, &in6->sin6_addr) != 1)
		return -EINVAL;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons((uint16_t)port);
	c->address_len = sizeof(*in6);
	return 0;
}

static int set_listen(struct http_config *c, const char *value, const char **why)
{
	int err;

	*why = "ADDRESS:PORT, [ADDRESS]:PORT, unix:/PATH or off";
	if (strlen(value) >= sizeof(c->text))
		return -EINVAL;
	c->off = !strcmp(value, "off");
	memset(&c->address, 0, sizeof(c->address));
	c->address_len = 0;
	strcpy(c->text, value);
	if (c->off)
		return 0;
	if (!strncmp(value, UNIX_PREFIX, strlen(UNIX_PREFIX)))
		err = listen_unix(c, value + strlen(UNIX_PREFIX));
	else
		err = listen_tcp(c, value);
	return err;
}

static int set_mode(struct http_config *c, const char *value, const char **why)
{
	size_t len = strlen(value);

	*why = "an octal mode such as 0660";
	if (!len || len > 4 || strspn(value, "01234567") != len)
		return -EINVAL;
	c->socket_mode = (unsigned)strtoul(value, NULL, 8);
	return c->socket_mode > 0777 ? -EINVAL : 0;
}

static int set_bool(bool *b, const char *value, const char **why)
{
	*why = "yes or no";
	*b = !strcmp(value, "yes");
	return *b || !strcmp(value, "no") ? 0 : -EINVAL;
}

static int set_hosts(struct http_config *c, const char *value, const char **why)
{
	*why = "host names with commas between";
	for (const char *s = value; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_, ",
			    *s))
			return -EINVAL;
	return copy(c->allow_host, sizeof(c->allow_host), value, why);
}

static int set_token(struct http_config *c, const char *value, const char **why)
{
	c->token_none = !strcmp(value, "none");
	return copy(c->token_file, sizeof(c->token_file), c->token_none ? "" : value, why);
}

void http_config__init(struct http_config *c)
{
	const char *why;

	memset(c, 0, sizeof(*c));
	c->socket_mode = 0660;
	set_listen(c, DEFAULT_LISTEN, &why);
}

int http_config__set(struct http_config *c, const char *key, const char *value, const char **why)
{
	if (!strcmp(key, "listen"))
		return set_listen(c, value, why);
	if (!strcmp(key, "socket-mode"))
		return set_mode(c, value, why);
	if (!strcmp(key, "token-file"))
		return set_token(c, value, why);
	if (!strcmp(key, "tls-cert"))
		return copy(c->tls_cert, sizeof(c->tls_cert), value, why);
	if (!strcmp(key, "tls-key"))
		return copy(c->tls_key, sizeof(c->tls_key), value, why);
	if (!strcmp(key, "allow-remote"))
		return set_bool(&c->allow_remote, value, why);
	if (!strcmp(key, "allow-host"))
		return set_hosts(c, value, why);
	return -ENOENT;
}

void http_config__place_token(struct http_config *c, const char *state_dir)
{
	if (c->token_file[0] && !c->token_own)
		return;
	c->token_own = !c->off && !c->token_none && c->address.ss_family != AF_UNIX;
	memset(c->token_file, 0, sizeof(c->token_file)); /* compared as bytes after a reload */
	if (!c->token_own)
		return;
	/* A path that is cut is that of no file, so the agent does not start. */
	snprintf(c->token_file, sizeof(c->token_file), "%s/token", state_dir);
}

static bool is_local(const struct http_config *c)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&c->address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&c->address;

	switch (c->address.ss_family) {
	case AF_UNIX:
		return true;
	case AF_INET:
		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	default:
		return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
	}
}

int http_config__check(const struct http_config *c, const char **why)
{
	bool tls = c->tls_cert[0];

	if (c->off)
		return 0;
	if (!c->tls_cert[0] != !c->tls_key[0]) {
		*why = "tls-cert and tls-key go together";
		return -EINVAL;
	}
	if (tls && c->address.ss_family == AF_UNIX) {
		*why = "a Unix socket has no TLS: leave out tls-cert and tls-key";
		return -EINVAL;
	}
	if (!is_local(c) && !(tls && c->token_file[0]) && !c->allow_remote) {
		*why = "others could read profiles of this host: give token-file, tls-cert and "
		       "tls-key, or allow-remote = yes";
		return -EINVAL;
	}
	return 0;
}
