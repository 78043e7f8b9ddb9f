// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Sockets that a service manager hands over, and what tells that there is no network. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/given.h"
#include "base/log.h"
#include "base/network.h"

static char dir[] = "/tmp/pyperf-given-XXXXXX";

#include "tools.h"

/* ---- sockets --------------------------------------------------------------------------------- */

static char said[4096];

static void note(enum log_level level, const char *fmt, const char *text)
{
	(void)level, (void)fmt;
	strncat(said, text, sizeof(said) - strlen(said) - 1);
}

/* A socket at a free port of the loopback. */
static int tcp(int type, bool listens, unsigned *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, type, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	assert_true(!listens || !listen(fd, 1));
	return fd;
}

static int file_socket(const char *path, mode_t mode)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(chmod(path, mode), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* Puts it where a service manager would. */
static void place(int fd, int at)
{
	assert_int_equal(dup2(fd, at), at);
	if (fd != at)
		close(fd);
}

static void set(const char *pid, const char *fds, const char *names)
{
	char own[16];

	snprintf(own, sizeof(own), "%d", (int)getpid());
	setenv("LISTEN_PID", pid ? pid : own, 1);
	setenv("LISTEN_FDS", fds, 1);
	setenv("LISTEN_FDNAMES", names, 1);
}

static void find(const struct given *g, const char *listen, int expected)
{
	struct http_config c;
	const char *why;

	http_config__init(&c);
	assert_int_equal(http_config__set(&c, "listen", listen, &why), 0);
	said[0] = 0;
	assert_int_equal(given__find(g, &c), expected);
}

static void nothing_is_left_of_the_variables(void)
{
	assert_null(getenv("LISTEN_PID"));
	assert_null(getenv("LISTEN_FDS"));
	assert_null(getenv("LISTEN_FDNAMES"));
}

/* In a child: what is at descriptor 3 and above is the test's alone. */
static void in_child(void (*test)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		test();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void take_what_listens(void)
{
	char listen[64], path[64], as_file[80];
	struct given g;
	unsigned port, other;

	place(tcp(SOCK_STREAM, true, &port), 3);
	place(tcp(SOCK_STREAM, false, &other), 4);
	place(tcp(SOCK_DGRAM, false, &other), 5);
	place(open("/dev/null", O_RDONLY), 6);
	snprintf(path, sizeof(path), "%s/socket", dir);
	place(file_socket(path, 0660), 8); /* 7 is not open */
	set(NULL, "6", "a.socket:b\x1b[31m.socket");
	given__take(&g);
	nothing_is_left_of_the_variables();
	assert_int_equal(g.cnt, 2);
	assert_int_equal(g.list[0].fd, 3);
	assert_int_equal(g.list[1].fd, 8);
	assert_string_equal(g.list[0].name, "a.socket");
	for (size_t i = 0; i < g.cnt; i++) {
		assert_int_equal(fcntl(g.list[i].fd, F_GETFD), FD_CLOEXEC);
		assert_true(fcntl(g.list[i].fd, F_GETFL) & O_NONBLOCK);
	}
	for (int fd = 4; fd < 8; fd++)
		assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_null(strchr(said, 0x1b));
	assert_non_null(strstr(said, "descriptor 5, is not a stream socket that listens"));
	assert_non_null(strstr(said, "descriptor 6, is not a socket"));

	snprintf(listen, sizeof(listen), "127.0.0.1:%u", port);
	find(&g, listen, 3);
	snprintf(as_file, sizeof(as_file), "unix:%s", path);
	assert_non_null(strstr(said, as_file)); /* is not used */
	assert_null(strstr(said, "a.socket"));
	find(&g, as_file, 8);
	assert_non_null(strstr(said, listen)); /* nor is this one, of a unit that nobody needs */
	find(&g, "unix:/no/such/socket", -1);
	assert_non_null(strstr(said, "listen = unix:/no/such/socket: the socket at 127.0.0.1:"));
	assert_non_null(strstr(said, "(a.socket) of the service manager is not used"));
	assert_int_equal(chmod(path, 0666), 0);
	find(&g, as_file, -1);
	assert_non_null(strstr(said, "every user of this host"));
	/* `listen` wins: neither another port nor another address is meant. */
	find(&g, "127.0.0.1:1", -1);
	assert_non_null(strstr(said, listen));
	assert_non_null(strstr(said, "(a.socket) of the service manager is not used"));
	snprintf(listen, sizeof(listen), "0.0.0.0:%u", port);
	find(&g, listen, -1);
	snprintf(listen, sizeof(listen), "[::1]:%u", port);
	find(&g, listen, -1);
	find(&g, "off", -1);
	assert_non_null(strstr(said, "listen = off"));
	given__close(&g);
	assert_int_equal(fcntl(3, F_GETFD), -1);
	assert_int_equal(g.cnt, 0);
}

static void take_not_too_many(void)
{
	char huge[16];
	struct given g;
	unsigned port;

	for (int i = 0; i < GIVEN_MAX + 2; i++)
		place(tcp(SOCK_STREAM, true, &port), 3 + i);
	snprintf(huge, sizeof(huge), "%d", INT32_MAX - 3);
	set(NULL, huge, "");
	given__take(&g);
	assert_int_equal(g.cnt, GIVEN_MAX);
	assert_int_equal(fcntl(3 + GIVEN_MAX, F_GETFD), -1);
	assert_non_null(strstr(said, "is one too many"));
	given__close(&g);
}

static void take_none_of_another(void)
{
	static const struct {
		const char *pid, *fds;
	} cases[] = { { "1", "1" },	{ "x", "1" },	{ NULL, "-1" }, { NULL, "x" },
		      { NULL, "0" },	{ NULL, "" },	{ "", "1" },	{ NULL, "99999999999" },
		      { "99999", "1" }, { NULL, "1 2" } };
	struct given g;
	unsigned port;

	place(tcp(SOCK_STREAM, true, &port), 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set(cases[i].pid, cases[i].fds, "a");
		given__take(&g);
		assert_int_equal(g.cnt, 0);
		nothing_is_left_of_the_variables();
		assert_int_equal(fcntl(3, F_GETFD), 0);
	}
	given__take(&g); /* without variables */
	assert_int_equal(g.cnt, 0);
}

static void sockets_that_listen(void **state)
{
	(void)state;
	in_child(take_what_listens);
}

static void bounded(void **state)
{
	(void)state;
	in_child(take_not_too_many);
}

static void of_another_process(void **state)
{
	(void)state;
	in_child(take_none_of_another);
}

/* ---- the network ----------------------------------------------------------------------------- */

/* As RestrictAddressFamilies=AF_UNIX does. */
static void forbid_internet(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	filter[1].jt = 0;
	filter[1].jf = 3;
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void see_what_is_forbidden(void)
{
	const char *why;

	forbid_internet();
	assert_int_equal(socket(AF_INET, SOCK_STREAM, 0), -1);
	why = network__missing(NULL);
	assert_non_null(why);
	assert_non_null(strstr(why, "RestrictAddressFamilies="));
}

static void families(void **state)
{
	(void)state;
	in_child(see_what_is_forbidden);
}

static void see_another_network(void)
{
	if (unshare(CLONE_NEWNET)) {
		print_message("skip: no network of its own: %s\n", strerror(errno));
		return;
	}
	assert_non_null(network__missing(NULL));
	assert_non_null(strstr(network__missing(NULL), "PrivateNetwork="));
}

static void routes(void **state)
{
	static const char head[] =
		"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n";
	static const char lo[] =
		"00000000000000000000000000000001 80 00000000000000000000000000000000 00 "
		"00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo\n";
	static const char eth0[] =
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
		"fd000000000000000000000000000001 00000400 00000003 00000000 00000003     eth0\n";
	char text[512];

	(void)state;
	in_child(see_another_network);
	/* Where there is a route there is a network. */
	write_file("route", head);
	snprintf(text, sizeof(text), "%s%s", lo, eth0);
	write_file("ipv6_route", text);
	assert_null(network__missing(dir));
	write_file("ipv6_route", lo);
	snprintf(text, sizeof(text), "%seth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n", head);
	write_file("route", text);
	assert_null(network__missing(dir));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_that_listen),
		cmocka_unit_test(bounded),
		cmocka_unit_test(of_another_process),
		cmocka_unit_test(families),
		cmocka_unit_test(routes),
	};

	log_set_writer(note);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
