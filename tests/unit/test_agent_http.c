// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Who may ask, where it listens, what is at a path. The protocol is in
 * tests/e2e/test_agent_http.py.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/http/http.h"
#include "agent/http/http_guard.h"
#include "agent/http/http_link.h"
#include "agent/http/http_routes.h"
#include "agent/http/http_token.h"

#define CNT(a) (sizeof(a) / sizeof((a)[0]))

static int set(struct http_config *c, const char *key, const char *value)
{
	const char *why = NULL;
	int err = http_config__set(c, key, value, &why);

	assert_true(err != -EINVAL || why);
	return err;
}

static void where_it_listens(void **state)
{
	static const char *const good[] = { "127.0.0.1:0", "0.0.0.0:65535", "[::1]:4041",
					    "[fe80::1]:1", "unix:/run/x.s", "off" };
	static const char *const bad[] = {
		"",	    "4041",    ":4041",		"localhost:80", "127.0.0.1",
		"::1:4041", "[::1]",   "1.2.3.4:65536", "1.2.3.4:-1",	"unix:x",
		"unix:",    "[::1:80", "[1.2.3.4]:1",	"1.2.3.4: 1",	"1.2.3.4:1 "
	};
	char longest[200] = "unix:/";
	struct http_config c;

	(void)state;
	http_config__init(&c);
	assert_int_equal(c.address.ss_family, AF_INET);
	assert_int_equal(((struct sockaddr_in *)&c.address)->sin_port, htons(4041));
	for (size_t i = 0; i < CNT(good); i++)
		assert_int_equal(set(&c, "listen", good[i]), 0);
	assert_true(c.off);
	for (size_t i = 0; i < CNT(bad); i++)
		assert_int_equal(set(&c, "listen", bad[i]), -EINVAL);
	memset(longest + 6, 'x', sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
	assert_int_equal(set(&c, "listen", longest), -EINVAL);
	longest[5 + sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1] = 0;
	assert_int_equal(set(&c, "listen", longest), 0);
}

static void other_keys(void **state)
{
	char path[PATH_MAX + 1];
	struct http_config c;

	(void)state;
	http_config__init(&c);
	assert_int_equal(c.socket_mode, 0660);
	assert_int_equal(set(&c, "socket-mode", "0600"), 0);
	assert_int_equal(c.socket_mode, 0600);
	assert_int_equal(set(&c, "socket-mode", "1777"), -EINVAL);
	assert_int_equal(set(&c, "socket-mode", "8"), -EINVAL);
	assert_int_equal(set(&c, "socket-mode", ""), -EINVAL);
	assert_int_equal(set(&c, "allow-remote", "true"), -EINVAL);
	assert_int_equal(set(&c, "allow-host", "a.example, b"), 0);
	assert_int_equal(set(&c, "allow-host", "a/b"), -EINVAL);
	assert_int_equal(set(&c, "colour", "red"), -ENOENT);
	memset(path, 'x', PATH_MAX);
	path[PATH_MAX] = 0;
	assert_int_equal(set(&c, "token-file", path), -EINVAL);
	path[PATH_MAX - 1] = 0;
	assert_int_equal(set(&c, "token-file", path), 0);
}

static int check(const char *const *pairs)
{
	const char *why = NULL;
	struct http_config c;
	int err;

	http_config__init(&c);
	for (; *pairs; pairs += 2)
		assert_int_equal(set(&c, pairs[0], pairs[1]), 0);
	err = http_config__check(&c, &why);
	assert_true(!err || why);
	return err;
}

#define CHECK(...) check((const char *const[]){ __VA_ARGS__, NULL })

static void others_may_not_listen_in(void **state)
{
	(void)state;
	assert_int_equal(CHECK("listen", "127.8.9.1:1"), 0);
	assert_int_equal(CHECK("listen", "[::1]:1"), 0);
	assert_int_equal(CHECK("listen", "unix:/run/x"), 0);
	assert_int_equal(CHECK("listen", "0.0.0.0:1"), -EINVAL);
	assert_int_equal(CHECK("listen", "[::]:1"), -EINVAL);
	assert_int_equal(CHECK("listen", "[::ffff:127.0.0.1]:1"), -EINVAL);
	assert_int_equal(CHECK("listen", "0.0.0.0:1", "token-file", "t"), -EINVAL);
	assert_int_equal(CHECK("listen", "0.0.0.0:1", "tls-cert", "c", "tls-key", "k"), -EINVAL);
	assert_int_equal(
		CHECK("listen", "0.0.0.0:1", "token-file", "t", "tls-cert", "c", "tls-key", "k"),
		0);
	assert_int_equal(CHECK("listen", "0.0.0.0:1", "allow-remote", "yes"), 0);
	assert_int_equal(CHECK("tls-cert", "c"), -EINVAL);
	assert_int_equal(CHECK("tls-key", "k"), -EINVAL);
	assert_int_equal(CHECK("listen", "unix:/x", "tls-cert", "c", "tls-key", "k"), -EINVAL);
	assert_int_equal(CHECK("listen", "off", "tls-cert", "c"), 0);
}

/* Where every user of the host can connect, unless the configuration says otherwise. */
static void a_token_of_the_agents_own(void **state)
{
	static const struct {
		const char *key, *value;
		const char *file;
	} cases[] = {
		{ "listen", "127.0.0.1:1", "/state/token" },
		{ "listen", "0.0.0.0:1", "/state/token" },
		{ "listen", "[::1]:1", "/state/token" },
		{ "listen", "unix:/run/x", "" },
		{ "listen", "off", "" },
		{ "token-file", "none", "" },
		{ "token-file", "/etc/token", "/etc/token" },
		{ "token-file", "", "/state/token" },
	};

	(void)state;
	for (size_t i = 0; i < CNT(cases); i++) {
		struct http_config c;

		http_config__init(&c);
		assert_int_equal(set(&c, cases[i].key, cases[i].value), 0);
		http_config__place_token(&c, "/before");
		http_config__place_token(&c, "/state");
		assert_string_equal(c.token_file, cases[i].file);
		assert_int_equal(c.token_own, !strcmp(cases[i].file, "/state/token"));
	}
}

static void the_token_is_made_once(void **state)
{
	char dir[] = "/tmp/pyperf-http-XXXXXX", path[64], token[HTTP_TOKEN_MAX + 1],
	     again[sizeof(token)];
	mode_t before = umask(0);
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/token", dir);
	assert_int_equal(http_token__read(path, token), -ENOENT);
	assert_int_equal(http_token__make(path), 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(http_token__read(path, token), 0);
	assert_int_equal(strlen(token), 32);
	assert_int_equal(strspn(token, "0123456789abcdef"), 32);
	assert_int_equal(http_token__make(path), 0);
	assert_int_equal(http_token__read(path, again), 0);
	assert_string_equal(token, again);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(http_token__make(path), 0);
	assert_int_equal(http_token__read(path, again), 0);
	assert_string_not_equal(token, again);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(http_token__make(path), -ENOENT);
	umask(before);
}

static void tokens_of_files(void **state)
{
	static const struct {
		size_t len;
		const char *behind;
		int err;
	} cases[] = {
		{ 1, "", 0 },
		{ 6, "\r\nmore\n", 0 },
		{ HTTP_TOKEN_MAX, "\r\n", 0 },
		{ HTTP_TOKEN_MAX, "", 0 },
		{ 0, "", -EINVAL },
		{ 0, "\nx", -EINVAL },
		{ HTTP_TOKEN_MAX + 1, "", -EINVAL },
		{ 100000, "\n", -EINVAL },
	};
	char path[] = "/tmp/pyperf-http-XXXXXX", token[HTTP_TOKEN_MAX + 1];
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	for (size_t i = 0; i < CNT(cases); i++) {
		FILE *f = fopen(path, "w");

		for (size_t n = 0; n < cases[i].len; n++)
			fputc('x', f);
		fputs(cases[i].behind, f);
		fclose(f);
		assert_int_equal(http_token__read(path, token), cases[i].err);
		assert_int_equal(strlen(token), cases[i].err ? 0 : cases[i].len);
	}
	assert_int_equal(unlink(path), 0);
}

static void links(void **state)
{
	static const struct {
		const char *listen, *cert, *token, *link;
	} cases[] = {
		{ "127.0.0.1:4041", "", "", "http://127.0.0.1:4041/" },
		{ "127.0.0.1:4041", "", "a-1", "http://pyperf:a-1@127.0.0.1:4041/" },
		{ "0.0.0.0:80", "", "x", "http://pyperf:x@127.0.0.1:80/" },
		{ "[::]:80", "", "x", "http://pyperf:x@[::1]:80/" },
		{ "[fe80::1]:80", "c", "x", "https://pyperf:x@[fe80::1]:80/" },
		{ "10.0.0.1:1", "", "a@b/c:%\xff", "http://pyperf:a%40b%2Fc%3A%25%FF@10.0.0.1:1/" },
	};

	(void)state;
	for (size_t i = 0; i < CNT(cases); i++) {
		struct strbuf out = { 0 };
		struct http_config c;

		http_config__init(&c);
		assert_int_equal(set(&c, "listen", cases[i].listen), 0);
		assert_int_equal(set(&c, "tls-cert", cases[i].cert), 0);
		http_link__make(&c, cases[i].token, &out);
		assert_string_equal(out.s, cases[i].link);
		strbuf__free(&out);
	}
}

static void names_that_can_be_rebound(void **state)
{
	static const char *const good[] = { "localhost",     "LOCALHOST:80", "127.0.0.1",
					    "10.1.2.3:4041", "[::1]:4041",   "[::1]",
					    "perf.example",  "Two:1" };
	static const char *const bad[] = { "",
					   "evil.example",
					   "evil.example:4041",
					   "localhost.evil",
					   "127.0.0.1.evil",
					   "127.0.0.1evil:1",
					   "perf.example.",
					   "perf",
					   "[::1",
					   "[]",
					   ":80",
					   "[1.2.3.4]",
					   "localhost:80x",
					   "perf.example,two" };

	(void)state;
	for (size_t i = 0; i < CNT(good); i++)
		assert_true(http_guard__host(good[i], " perf.example, two,"));
	for (size_t i = 0; i < CNT(bad); i++)
		assert_false(http_guard__host(bad[i], "perf.example, two"));
	assert_true(http_guard__host(NULL, ""));
	assert_false(http_guard__host("perf.example", ""));
}

static void pages_of_other_sites(void **state)
{
	(void)state;
	assert_true(http_guard__site(NULL, NULL, NULL));
	assert_true(http_guard__site("none", "navigate", "document"));
	assert_true(http_guard__site("same-origin", "cors", "empty"));
	assert_true(http_guard__site("cross-site", "navigate", "document"));
	assert_false(http_guard__site("cross-site", "navigate", "iframe"));
	assert_false(http_guard__site("cross-site", "no-cors", "image"));
	assert_false(http_guard__site("same-site", "cors", "empty"));
	assert_false(http_guard__site("cross-site", NULL, NULL));
}

static void tokens(void **state)
{
	(void)state;
	assert_true(http_guard__token("Bearer s3cret", "s3cret"));
	assert_true(http_guard__token("bearer  s3cret", "s3cret"));
	assert_true(http_guard__token("Basic YW55OnMzY3JldA==", "s3cret")); /* any:s3cret */
	assert_true(http_guard__token("Basic OnMzY3JldA==", "s3cret"));	    /* :s3cret */
	assert_false(http_guard__token(NULL, "s3cret"));
	assert_false(http_guard__token("", "s3cret"));
	assert_false(http_guard__token("Bearer ", "s3cret"));
	assert_false(http_guard__token("Bearer", "s3cret"));
	assert_false(http_guard__token("Bearer s3cre", "s3cret"));
	assert_false(http_guard__token("Bearer s3crets3cret", "s3cret"));
	assert_false(http_guard__token("Bearer x", ""));
	assert_false(http_guard__token("Bearer ", ""));
	assert_false(http_guard__token("Digest s3cret", "s3cret"));
	assert_false(http_guard__token("Basic czNjcmV0", "s3cret")); /* no colon */
	assert_false(http_guard__token("Basic !!!!", "s3cret"));
	assert_false(http_guard__token("Basic YW55OnMzY3JldA==YQ", "s3cret"));
}

static void a_long_password(void **state)
{
	char header[6 + 4 * HTTP_TOKEN_MAX] = "Basic ";

	(void)state;
	memset(header + 6, 'O', sizeof(header) - 7);
	header[sizeof(header) - 1] = 0;
	assert_false(http_guard__token(header, "8"));
}

static void paths_are_whole(void **state)
{
	(void)state;
	assert_non_null(http_route__find("/metrics"));
	assert_null(http_route__find("/metrics/"));
	assert_null(http_route__find("/../metrics"));
	assert_null(http_route__find("metrics"));
	assert_null(http_route__find(""));
}

/* The mode of a Unix socket's file in its first moment. */
static mode_t first_mode;

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
	long err = syscall(SYS_bind, fd, address, len);
	struct stat st;

	if (!err && address->sa_family == AF_UNIX &&
	    !lstat(((const struct sockaddr_un *)address)->sun_path, &st))
		first_mode = st.st_mode;
	return (int)err;
}

static void nobody_else_may_connect_at_any_time(void **state)
{
	static const mode_t masks[] = { 0, 022, 077, 0777 };
	static const char *const modes[] = { "0660", "0600", "0666", "0620", "0200" };
	const struct http_backend backend = { 0 };
	char dir[] = "/tmp/pyperf-http-XXXXXX", path[64], address[80];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/socket", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
	for (size_t i = 0; i < CNT(masks) * CNT(modes); i++) {
		const char *mode = modes[i % CNT(modes)];
		mode_t mask = masks[i / CNT(modes)], before = umask(mask);
		struct http_config c;
		struct http *h;
		struct stat st;

		http_config__init(&c);
		assert_int_equal(set(&c, "listen", address), 0);
		assert_int_equal(set(&c, "socket-mode", mode), 0);
		h = http__start(&c, -1, &backend);
		assert_non_null(h);
		assert_int_equal(umask(before), mask);
		assert_int_equal(first_mode & 0777, strtoul(mode, NULL, 8));
		assert_int_equal(lstat(path, &st), 0);
		assert_int_equal(st.st_mode, first_mode);
		http__stop(h);
		assert_int_equal(access(path, F_OK), -1);
	}
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_it_listens),
		cmocka_unit_test(other_keys),
		cmocka_unit_test(others_may_not_listen_in),
		cmocka_unit_test(a_token_of_the_agents_own),
		cmocka_unit_test(the_token_is_made_once),
		cmocka_unit_test(tokens_of_files),
		cmocka_unit_test(links),
		cmocka_unit_test(names_that_can_be_rebound),
		cmocka_unit_test(pages_of_other_sites),
		cmocka_unit_test(tokens),
		cmocka_unit_test(a_long_password),
		cmocka_unit_test(paths_are_whole),
		cmocka_unit_test(nobody_else_may_connect_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
