/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/network.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A filter of system calls answers so in place of the kernel (RestrictAddressFamilies). */
static bool is_refused(int family)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno == EAFNOSUPPORT || errno == EPERM || errno == EACCES;
	close(fd);
	return false;
}

/* Does each line of a table of routes end in the loopback's name? */
static bool leads_nowhere(const char *dir, const char *table, bool has_head)
{
	char path[256], line[512];
	bool nowhere = true;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, table);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT; /* this kernel has no such protocol */
	if (has_head && !fgets(line, sizeof(line), f))
		line[0] = 0; /* where no interface is up, the head is missing, too */
	while (nowhere && fgets(line, sizeof(line), f)) {
		size_t len = strcspn(line, "\n");

		while (len && line[len - 1] == ' ')
			len--;
		nowhere = len > 3 && !strncmp(line + len - 3, " lo", 3);
	}
	fclose(f);
	return nowhere;
}

/*
 * A machine without a network has no route either, and may send to itself by its loopback. Who
 * cannot see what init has is no privileged agent.
 */
static bool is_another_than_init_has(void)
{
	struct stat own, init;

	if (stat("/proc/self/ns/net", &own))
		return false;
	return stat("/proc/1/ns/net", &init) || own.st_ino != init.st_ino ||
	       own.st_dev != init.st_dev;
}

const char *network__missing(const char *tables)
{
	if (is_refused(AF_INET) && is_refused(AF_INET6))
		return "it may open no socket of the Internet (RestrictAddressFamilies= of its "
		       "unit)";
	if (!tables)
		tables = "/proc/self/net";
	if (is_another_than_init_has() && leads_nowhere(tables, "route", true) &&
	    leads_nowhere(tables, "ipv6_route", false))
		return "it is in a network of its own, which leads nowhere (PrivateNetwork= of its "
		       "unit)";
	return NULL;
}
