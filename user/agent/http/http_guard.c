// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/http/http_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 255

static bool same_name(const char *a, size_t len, const char *b)
{
	return strlen(b) == len && !strncasecmp(a, b, len);
}

static bool is_listed(const char *host, size_t len, const char *allowed)
{
	while (*allowed) {
		size_t n;

		allowed += strspn(allowed, ", ");
		n = strcspn(allowed, ", ");
		if (n == len && n && !strncasecmp(host, allowed, len))
			return true;
		allowed += n;
	}
	return false;
}

static bool is_address(const char *host, size_t len)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr out;
	bool six = len > 2 && host[0] == '[' && host[len - 1] == ']';

	if (six) {
		host++;
		len -= 2;
	}
	if (len >= sizeof(text))
		return false;
	memcpy(text, host, len);
	text[len] = 0;
	return inet_pton(six ? AF_INET6 : AF_INET, text, &out) == 1;
}

bool http_guard__host(const char *host, const char *allowed)
{
	const char *end;
	size_t len;

	if (!host)
		return true;
	end = strrchr(host, ':');
	if (end && strspn(end + 1, "0123456789") == strlen(end + 1))
		len = (size_t)(end - host);
	else
		len = strlen(host);
	return len <= HOST_MAX && (same_name(host, len, "localhost") || is_address(host, len) ||
				   is_listed(host, len, allowed));
}

bool http_guard__site(const char *site, const char *mode, const char *dest)
{
	if (!site || !strcmp(site, "same-origin") || !strcmp(site, "none"))
		return true;
	return mode && dest && !strcmp(mode, "navigate") && !strcmp(dest, "document");
}

/* Equal, in a time that depends on the lengths alone. */
static bool equal(const char *a, size_t a_len, const char *b, size_t b_len)
{
	volatile unsigned char differs = a_len != b_len;

	for (size_t i = 0; i < a_len && b_len; i++)
		differs |= (unsigned char)(a[i] ^ b[i % b_len]);
	return !differs;
}

/* The bytes, at most `cap`; 0 when it is no base64. */
static size_t decode_base64(const char *s, char *out, size_t cap)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t word = 0;
	unsigned bits = 0;
	size_t n = 0;

	for (; *s && *s != '='; s++) {
		const char *digit = strchr(digits, *s);

		if (!digit)
			return 0;
		word = word << 6 | (uint32_t)(digit - digits);
		bits += 6;
		if (bits < 8)
			continue;
		bits -= 8;
		if (n == cap)
			return 0;
		out[n++] = (char)(word >> bits);
	}
	return s[strspn(s, "=")] ? 0 : n;
}

bool http_guard__token(const char *authorization, const char *token)
{
	char pair[2 * HTTP_TOKEN_MAX];
	const char *colon;
	size_t len;

	if (!authorization || !*token)
		return false;
	if (!strncasecmp(authorization, "Bearer ", 7)) {
		authorization += 7 + strspn(authorization + 7, " ");
		return equal(authorization, strlen(authorization), token, strlen(token));
	}
	if (strncasecmp(authorization, "Basic ", 6))
		return false;
	len = decode_base64(authorization + 6 + strspn(authorization + 6, " "), pair, sizeof(pair));
	colon = memchr(pair, ':', len);
	if (!colon)
		return false;
	colon++;
	return equal(colon, len - (size_t)(colon - pair), token, strlen(token));
}
