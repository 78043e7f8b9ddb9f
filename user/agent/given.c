/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/given.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"

#define FIRST_FD     3 /* SD_LISTEN_FDS_START */

/* The longest is a path of a Unix socket. */
#define ADDRESS_SIZE (sizeof(((struct sockaddr_un *)NULL)->sun_path) + 64)

/* ---- taking them ----------------------------------------------------------------------------- */

/* How many there are for this process. */
static size_t count(void)
{
	const char *pid = getenv("LISTEN_PID"), *cnt = getenv("LISTEN_FDS");
	long long who, n;

	if (!pid || !cnt || parse_int(pid, 1, INT32_MAX, &who) || who != getpid())
		return 0;
	if (!parse_int(cnt, 0, INT_MAX - FIRST_FD, &n))
		return (size_t)n;
	log_warn("LISTEN_FDS is not a number: sockets of the service manager are not used");
	return 0;
}

/* Cuts the first name off. */
static void next_name(const char **names, char *name, size_t size)
{
	const char *from = *names ? *names : "";
	size_t len = strcspn(from, ":");
	struct strbuf safe = { 0 };

	str_sanitise(&safe, from, len, size - 1);
	snprintf(name, size, "%s", safe.len && !safe.err ? safe.s : "socket");
	strbuf__free(&safe);
	*names = from[len] ? from + len + 1 : NULL;
}

/* NULL: it is a stream socket that listens; else what is wrong with it. */
static const char *check(int fd)
{
	int type = 0, listens = 0;
	socklen_t len = sizeof(type);

	if (fcntl(fd, F_GETFD) < 0)
		return "is not open";
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len))
		return "is not a socket";
	len = sizeof(listens);
	if (type != SOCK_STREAM || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) ||
	    !listens)
		return "is not a stream socket that listens";
	return NULL;
}

static void take(struct given *g, int fd, const char *name)
{
	struct given_socket *s = &g->list[g->cnt];
	socklen_t len = sizeof(s->address);
	const char *wrong = g->cnt < GIVEN_MAX ? check(fd) : "is one too many";

	if (!wrong) {
		memset(s, 0, sizeof(*s));
		/* Who accepts must not wait for a client that has left meanwhile. */
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) ||
		    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ||
		    getsockname(fd, (struct sockaddr *)&s->address, &len))
			wrong = strerror(errno);
	}
	if (wrong) {
		log_warn("%s, handed over by the service manager as descriptor %d, %s: not used",
			 name, fd, wrong);
		close(fd);
		return;
	}
	s->fd = fd;
	snprintf(s->name, sizeof(s->name), "%s", name);
	g->cnt++;
}

void given__take(struct given *g)
{
	const char *names = getenv("LISTEN_FDNAMES");
	size_t cnt = count();

	g->cnt = 0;
	for (size_t i = 0; i < cnt; i++) {
		char name[sizeof(g->list[0].name)];
		int fd = FIRST_FD + (int)i;

		next_name(&names, name, sizeof(name));
		if (fcntl(fd, F_GETFD) < 0 && i >= GIVEN_MAX)
			break; /* LISTEN_FDS is larger than what there is */
		take(g, fd, name);
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
}

void given__close(struct given *g)
{
	for (size_t i = 0; i < g->cnt; i++)
		close(g->list[i].fd);
	g->cnt = 0;
}

/* ---- choosing one ---------------------------------------------------------------------------- */

static bool is_at(const struct given_socket *s, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&s->address;
	const struct sockaddr_in *in_wanted = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&s->address;
	const struct sockaddr_in6 *in6_wanted = (const struct sockaddr_in6 *)address;

	if (s->address.ss_family != address->ss_family)
		return false;
	switch (address->ss_family) {
	case AF_INET:
		return in->sin_port == in_wanted->sin_port &&
		       in->sin_addr.s_addr == in_wanted->sin_addr.s_addr;
	case AF_INET6:
		return in6->sin6_port == in6_wanted->sin6_port &&
		       IN6_ARE_ADDR_EQUAL(&in6->sin6_addr, &in6_wanted->sin6_addr);
	case AF_UNIX:
		return !strcmp(((const struct sockaddr_un *)&s->address)->sun_path,
			       ((const struct sockaddr_un *)address)->sun_path);
	default:
		return false;
	}
}

/* As `listen` has it. */
static void print_address(const struct given_socket *s, char *text, size_t size)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&s->address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&s->address;
	const struct sockaddr_un *un = (const struct sockaddr_un *)&s->address;
	char host[INET6_ADDRSTRLEN] = "?";

	switch (s->address.ss_family) {
	case AF_INET:
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(text, size, "%s:%u", host, ntohs(in->sin_port));
		break;
	case AF_INET6:
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(text, size, "[%s]:%u", host, ntohs(in6->sin6_port));
		break;
	case AF_UNIX:
		snprintf(text, size, "unix:%.*s", (int)sizeof(un->sun_path), un->sun_path);
		break;
	default:
		snprintf(text, size, "address family %d", s->address.ss_family);
	}
}

/* May every user connect? Also if that cannot be seen. */
static bool is_open_to_all(const struct given_socket *s)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)&s->address;
	struct stat st;

	return s->address.ss_family == AF_UNIX && (stat(un->sun_path, &st) || st.st_mode & S_IWOTH);
}

int given__find(const struct given *g, const struct http_config *c)
{
	int found = -1;

	for (size_t i = 0; i < g->cnt; i++) {
		const struct given_socket *s = &g->list[i];
		char at[ADDRESS_SIZE];

		print_address(s, at, sizeof(at));
		if (c->off || !is_at(s, &c->address))
			log_warn("[http] listen = %s: the socket at %s (%s) of the service manager "
				 "is not used; for a page there, listen = %s",
				 c->text, at, s->name, at);
		else if (found >= 0)
			log_warn("a second socket at %s (%s) is not used", at, s->name);
		else if (is_open_to_all(s))
			log_warn("every user of this host may connect to the socket at %s (%s): "
				 "not used; SocketMode=0660 in its unit",
				 at, s->name);
		else
			found = s->fd;
	}
	return found;
}
