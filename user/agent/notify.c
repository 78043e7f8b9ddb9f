/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"

/* "@name" is a name in the abstract namespace, which begins with a NUL. */
static socklen_t address(const char *name, struct sockaddr_un *a)
{
	size_t len = strlen(name);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if ((*name != '/' && *name != '@') || len < 2 || len >= sizeof(a->sun_path))
		return 0;
	memcpy(a->sun_path, name, len);
	if (*name == '@')
		a->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

void notify(const char *fmt, ...)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a;
	socklen_t len = name ? address(name, &a) : 0;
	const struct timeval patience = { .tv_usec = 200000 };
	char text[512];
	va_list ap;
	int fd;

	if (!len)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) /* the receiver may stand still, sampling must not */
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a, len) < 0)
		log_debug("%s: %s", name, strerror(errno));
	if (fd >= 0)
		close(fd);
}

uint64_t notify__watchdog_ns(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	long long us, who;

	if (!usec || parse_int(usec, 1, INT64_MAX / 1000, &us))
		return 0;
	if (pid && (parse_int(pid, 1, INT32_MAX, &who) || who != getpid()))
		return 0;
	return (uint64_t)us * 1000 / 2;
}
