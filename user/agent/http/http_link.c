/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/http/http_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/http/http_token.h"
#include "base/log.h"

#define LINK_USER "pyperf" /* any would do */

/* Appends the address for clients: 0.0.0.0:80 -> 127.0.0.1:80, [::]:80 -> [::1]:80. */
static void add_address(const struct http_config *c, struct strbuf *out)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&c->address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&c->address;

	if (c->address.ss_family == AF_INET && !in->sin_addr.s_addr)
		strbuf__addf(out, "127.0.0.1:%u", ntohs(in->sin_port));
	else if (c->address.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr))
		strbuf__addf(out, "[::1]:%u", ntohs(in6->sin6_port));
	else
		strbuf__addz(out, c->text);
}

void http_link__make(const struct http_config *c, const char *token, struct strbuf *out)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

	strbuf__addz(out, c->tls_cert[0] ? "https://" : "http://");
	if (*token)
		strbuf__addz(out, LINK_USER ":");
	for (const char *p = token; *p; p++) {
		if (strchr(plain, *p))
			strbuf__addc(out, *p);
		else
			strbuf__addf(out, "%%%02X", (unsigned char)*p);
	}
	if (*token)
		strbuf__addc(out, '@');
	add_address(c, out);
	strbuf__addc(out, '/');
}

static const char *socket_path(const struct http_config *c)
{
	return ((const struct sockaddr_un *)&c->address)->sun_path;
}

void http_link__say(const struct http_config *c)
{
	bool terminal = isatty(STDERR_FILENO);
	char token[HTTP_TOKEN_MAX + 1] = "";
	struct strbuf link = { 0 };

	if (c->off)
		return;
	if (c->address.ss_family == AF_UNIX) {
		log_info("the page is on the Unix socket %s", socket_path(c));
		return;
	}
	if (c->token_file[0] && terminal && http_token__read(c->token_file, token))
		return;
	http_link__make(c, token, &link);
	if (!link.err)
		log_info("the page: %s%s", link.s,
			 c->token_file[0] && !terminal
				 ? " ('pyperf-bpf agent --link' prints it with the token)"
				 : "");
	if (link.s)
		explicit_bzero(link.s, link.len);
	explicit_bzero(token, sizeof(token));
	strbuf__free(&link);
}

int http_link__print(const struct http_config *c)
{
	char token[HTTP_TOKEN_MAX + 1] = "";
	struct strbuf link = { 0 };
	int err = 0;

	if (c->off) {
		log_err("[http] listen is off: there is no page");
		return -ENOENT;
	}
	if (c->address.ss_family == AF_UNIX) {
		log_err("the page is on a Unix socket: curl --unix-socket %s http://agent/, or "
			"ssh -L 4041:%s HOST and http://127.0.0.1:4041/ in a browser",
			socket_path(c), socket_path(c));
		return -ENOTSUP;
	}
	if (c->token_file[0])
		err = http_token__read(c->token_file, token);
	if (err == -ENOENT && c->token_own)
		log_info("the agent makes it when it starts");
	if (err)
		return err;
	http_link__make(c, token, &link);
	err = link.err;
	if (!err)
		puts(link.s);
	strbuf__free(&link);
	return err;
}
