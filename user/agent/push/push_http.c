// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/push/push_http.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/push/push_retry.h"
#include "base/gzip.h"
#include "base/version.h"

#define SECRET_MAX  8192
#define WHY_MAX	    200 /* limit of characters of a backend's message */
#define GRPC_PREFIX 5	/* compressed or not, and the length */

/* ---- The answer ------------------------------------------------------------------------------ */

static size_t take_body(char *data, size_t size, size_t cnt, void *ctx)
{
	struct push_http *h = ctx;
	size_t len = size * cnt, room = PUSH_ANSWER_MAX - h->answer.len;

	strbuf__add(&h->answer, data, len < room ? len : room);
	return len; /* ignores the rest; the time for all of it is bounded */
}

static unsigned hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (unsigned)(at - digits) & 15 : 16;
}

/* gRPC, "Status-Message": %XX for anything but printable ASCII. */
static void take_message(struct strbuf *to, const char *s)
{
	strbuf__clear(to);
	while (*s) {
		unsigned high = *s == '%' ? hex_digit(s[1]) : 16;
		unsigned low = high < 16 ? hex_digit(s[2]) : 16;

		strbuf__addc(to, low < 16 ? (char)(high << 4 | low) : *s);
		s += low < 16 ? 3 : 1;
	}
}

static bool is_header(const char *line, const char *name, const char **value)
{
	size_t len = strlen(name);

	if (strncasecmp(line, name, len) || line[len] != ':')
		return false;
	*value = line + len + 1 + strspn(line + len + 1, " \t");
	return true;
}

/* Also called for trailers, which is where gRPC's status is. */
static size_t take_header(char *data, size_t size, size_t cnt, void *ctx)
{
	struct push_http *h = ctx;
	size_t len = size * cnt;
	char line[1024];
	const char *value;
	long long status;

	if (len >= sizeof(line))
		return size * cnt;
	memcpy(line, data, len);
	while (len && strchr(" \t\r\n", line[len - 1]))
		len--;
	line[len] = 0;
	if (is_header(line, "Retry-After", &value))
		h->retry_after_ms = push_retry_after(value, time(NULL));
	else if (is_header(line, "grpc-status", &value))
		h->grpc_status = parse_int(value, 0, 999, &status) ? 2 : (int)status;
	else if (is_header(line, "grpc-message", &value))
		take_message(&h->said, value);
	return size * cnt;
}

/* ---- Compression and framing ----------------------------------------------------------------- */

static int frame(struct strbuf *body, bool compressed)
{
	struct strbuf out = { 0 };
	const unsigned char prefix[GRPC_PREFIX] = {
		compressed,
		(unsigned char)(body->len >> 24),
		(unsigned char)(body->len >> 16),
		(unsigned char)(body->len >> 8),
		(unsigned char)body->len,
	};

	strbuf__add(&out, prefix, sizeof(prefix));
	strbuf__add(&out, body->s, body->len);
	strbuf__free(body);
	*body = out;
	return out.err;
}

static bool compressed(const struct push_config *c)
{
	return c->compression < 0 ? c->kind->gzip : c->compression;
}

static int wrap_body(struct push_http *h, const struct push_config *c)
{
	struct strbuf *body = &h->message.body;
	int err = body->err ? body->err : compressed(c) ? gzip__pack(body) : 0;

	return !err && c->kind->grpc ? frame(body, compressed(c)) : err;
}

/* ---- Headers --------------------------------------------------------------------------------- */

static int add_header(struct push_http *h, const char *line)
{
	struct curl_slist *list = line ? curl_slist_append(h->headers, line) : NULL;

	if (!list)
		return -ENOMEM;
	h->headers = list;
	return 0;
}

/* Appends the first line of a file. A file that would break a header is refused. */
static int read_secret(struct push_http *h, struct strbuf *to, const char *path)
{
	char text[SECRET_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	int err = n < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	if (!err) {
		text[n] = 0;
		text[strcspn(text, "\r\n")] = 0;
		if (!*text || n == sizeof(text) - 1)
			err = -EINVAL;
		for (const char *s = text; *s && !err; s++)
			if ((unsigned char)*s < ' ' || *s == 0x7f)
				err = -EINVAL;
	}
	if (!err)
		strbuf__addz(to, text);
	else
		strbuf__addf(&h->why, "%s: %s", path,
			     err == -EINVAL ? "one line of printable text is wanted"
					    : strerror(-err));
	explicit_bzero(text, sizeof(text));
	return err ? err : to->err;
}

/* "prefix" and the content of the file as a header. */
static int add_secret_header(struct push_http *h, const char *prefix, size_t len, const char *path)
{
	struct strbuf line = { 0 };
	int err;

	strbuf__add(&line, prefix, len);
	strbuf__addc(&line, ' ');
	err = read_secret(h, &line, path);
	if (!err)
		err = add_header(h, line.s);
	if (line.s)
		explicit_bzero(line.s, line.len);
	strbuf__free(&line);
	return err;
}

static int add_configured(struct push_http *h, const struct push_config *c)
{
	int err = 0;

	for (size_t i = 0; i < PUSH_HEADERS_MAX && c->headers[i] && !err; i++)
		err = add_header(h, c->headers[i]);
	for (size_t i = 0; i < PUSH_HEADERS_MAX && c->header_files[i] && !err; i++) {
		const char *colon = strchr(c->header_files[i], ':') + 1;

		err = add_secret_header(h, c->header_files[i], (size_t)(colon - c->header_files[i]),
					colon + strspn(colon, " "));
	}
	if (!err && c->bearer_token_file)
		err = add_secret_header(h, "Authorization: Bearer", 21, c->bearer_token_file);
	return err;
}

static int add_headerf(struct push_http *h, const char *name, const char *value)
{
	struct strbuf line = { 0 };
	int err;

	strbuf__addf(&line, "%s: %s", name, value);
	err = line.err ? line.err : add_header(h, line.s);
	strbuf__free(&line);
	return err;
}

static int add_headers(struct push_http *h, const struct push_config *c, const char *id)
{
	const struct push_kind *k = c->kind;
	char quoted[WINDOW_ID_LEN + 3] = "";
	int err = add_headerf(h, "Content-Type", k->content_type);

	/* An empty Expect: without, curl waits a second for "100 Continue" before a large body. */
	err = err ? err : add_header(h, "Expect:");
	if (!err && compressed(c))
		err = add_headerf(h, k->grpc ? "grpc-encoding" : "Content-Encoding", "gzip");
	if (!err && k->grpc)
		err = add_header(h, "TE: trailers");
	strcat(strcat(strcat(quoted, "\""), id), "\"");
	err = err ? err : add_headerf(h, "Idempotency-Key", quoted);
	if (!err && c->tenant)
		err = add_headerf(h, "X-Scope-OrgID", c->tenant);
	return err ? err : add_configured(h, c);
}

/* ---- The request ----------------------------------------------------------------------------- */

static int set_login(struct push_http *h, const struct push_config *c)
{
	struct strbuf password = { 0 };
	int err;

	if (!c->username)
		return 0;
	err = read_secret(h, &password, c->password_file);
	if (!err && (curl_easy_setopt(h->easy, CURLOPT_USERNAME, c->username) ||
		     curl_easy_setopt(h->easy, CURLOPT_PASSWORD, password.s)))
		err = -ENOMEM;
	if (password.s)
		explicit_bzero(password.s, password.len);
	strbuf__free(&password);
	return err;
}

static long http_version(const struct push_config *c)
{
	if (!c->kind->grpc)
		return CURL_HTTP_VERSION_1_1;
	return strncmp(c->url, "https:", 6) ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE
					    : CURL_HTTP_VERSION_2TLS;
}

static CURLcode set_tls(CURL *e, const struct push_config *c)
{
	CURLcode code = CURLE_OK;

	if (c->ca_file)
		code = curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file);
	if (!code && c->cert_file)
		code = curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert_file);
	if (!code && c->key_file)
		code = curl_easy_setopt(e, CURLOPT_SSLKEY, c->key_file);
	if (!code && c->insecure_skip_verify) {
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	return code;
}

/*
 * libcurl 7.88 cannot use a connection of HTTP/2 without TLS twice:
 * https://github.com/curl/curl/issues/10634
 */
static bool must_not_reuse(const struct push_config *c)
{
	unsigned version = curl_version_info(CURLVERSION_NOW)->version_num;

	return http_version(c) == CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE && version >> 8 == 0x0758;
}

static CURLcode set_network(CURL *e, const struct push_config *c)
{
	const char *proxy = c->proxy ? c->proxy : "";

	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	/* A request that is given up does not wait for its name to be looked up. */
#if LIBCURL_VERSION_NUM >= 0x075700
	curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, http_version(c));
	curl_easy_setopt(e, CURLOPT_FORBID_REUSE, (long)must_not_reuse(c));
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)c->connect_timeout_ms);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)c->timeout_ms);
	/* "" is none; NULL is what the environment says. */
	return curl_easy_setopt(e, CURLOPT_PROXY, strcmp(proxy, "env") ? proxy : NULL);
}

static CURLcode set_request(struct push_http *h, const struct push_config *c)
{
	CURL *e = h->easy;
	CURLcode code = curl_easy_setopt(e, CURLOPT_URL, h->message.url.s);

	curl_easy_setopt(e, CURLOPT_POST, 1L);
	curl_easy_setopt(e, CURLOPT_POSTFIELDS, h->message.body.s);
	curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)h->message.body.len);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, h->headers);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, h);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, h);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->error);
	curl_easy_setopt(e, CURLOPT_PRIVATE, h);
	if (!code && c->kind->put)
		code = curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "PUT");
	return code ? code : curl_easy_setopt(e, CURLOPT_USERAGENT, "pyperf-bpf/" PYPERF_VERSION);
}

static void begin(struct push_http *h)
{
	curl_easy_reset(h->easy); /* keeps connections and sessions */
	curl_slist_free_all(h->headers);
	h->headers = NULL;
	strbuf__clear(&h->answer);
	strbuf__clear(&h->said);
	strbuf__clear(&h->why);
	h->grpc_status = -1;
	h->error[0] = 0;
	h->status = 0;
	h->retry_after_ms = 0;
}

int push_http__prepare(struct push_http *h, const struct push_config *c, const char *id)
{
	int err;

	begin(h);
	err = h->message.url.err ? h->message.url.err : wrap_body(h, c);
	err = err ? err : add_headers(h, c, id);
	err = err ? err : set_login(h, c);
	if (!err && (set_network(h->easy, c) || set_tls(h->easy, c) || set_request(h, c)))
		err = -ENOMEM;
	return err;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Takes the first line of the answer as the reason. */
static void explain_answer(struct push_http *h)
{
	const struct strbuf *said = h->said.len ? &h->said : &h->answer;
	const char *s = said->s;
	size_t len = said->len;

	while (len && (unsigned char)*s <= ' ') {
		s++;
		len--;
	}
	for (size_t i = 0; i < len; i++)
		if (s[i] == '\n' || s[i] == '\r')
			len = i;
	if (len) {
		strbuf__addz(&h->why, ": ");
		str_sanitise(&h->why, s, len, WHY_MAX);
	}
}

static void explain_failure(struct push_http *h, CURLcode code)
{
	const char *text = *h->error ? h->error : curl_easy_strerror(code);

	str_sanitise(&h->why, text, strlen(text), WHY_MAX);
}

/* A success may hold the sentence that it is none. */
static void look_inside(struct push_http *h, const struct push_config *c)
{
	size_t skip = c->kind->grpc ? GRPC_PREFIX : 0;
	struct strbuf why = { 0 };

	if (!c->kind->check || h->answer.err || h->answer.len < skip ||
	    h->answer.len >= PUSH_ANSWER_MAX || (skip && h->answer.s[0]))
		return;
	if (c->kind->check(h->answer.s + skip, h->answer.len - skip, &why)) {
		h->status = 422;
		strbuf__clear(&h->said);
		strbuf__add(&h->said, why.s, why.len);
	}
	strbuf__free(&why);
}

static void read_status(struct push_http *h, const struct push_config *c)
{
	long status = 0;

	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
	h->status = (int)status;
	if (c->kind->grpc && status == 200) {
		h->status = h->grpc_status < 0 ? 502 : push_grpc_status((unsigned)h->grpc_status);
		if (h->grpc_status < 0)
			strbuf__addz(&h->said, "no gRPC status in the answer");
	}
	if (push_judge(h->status) == PUSH_SENT)
		look_inside(h, c);
	if (push_judge(h->status) == PUSH_SENT)
		return;
	strbuf__addf(&h->why, "status %d", h->status);
	explain_answer(h);
}

void push_http__finish(struct push_http *h, const struct push_config *c, CURLcode code)
{
	curl_off_t us = 0;

	curl_easy_getinfo(h->easy, CURLINFO_TOTAL_TIME_T, &us);
	h->latency_ns = (uint64_t)us * 1000;
	if (code == CURLE_OK)
		read_status(h, c);
	else
		explain_failure(h, code);
}

int push_http__init(struct push_http *h)
{
	*h = (struct push_http){ .easy = curl_easy_init() };
	return h->easy ? 0 : -ENOMEM;
}

void push_http__free(struct push_http *h)
{
	curl_easy_cleanup(h->easy);
	curl_slist_free_all(h->headers);
	strbuf__free(&h->message.url);
	strbuf__free(&h->message.body);
	strbuf__free(&h->answer);
	strbuf__free(&h->said);
	strbuf__free(&h->why);
}
