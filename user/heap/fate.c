/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/fate.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STAT_MAX   2048
#define FIELD_LAST 47

/* Fields of /proc/PID/stat, proc_pid_stat(5). The kernel shows 0 for a process without memory. */
static const unsigned fields[HEAP_LIFE_WORDS] = { 26, 28, FIELD_LAST };

/* False: there is no such process any more, or it is a zombie. */
static bool read_life(struct heap_life *l, int proc_fd)
{
	char text[STAT_MAX];
	const char *at;
	int fd = openat(proc_fd, "stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	unsigned found = 0;

	*l = (struct heap_life){ { 0 } };
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strrchr(text, ')'); /* the name before it may hold anything */
	for (unsigned field = 3; at && (at = strchr(at, ' ')) && field <= FIELD_LAST; field++) {
		at++;
		if (field == 3 && (*at == 'Z' || *at == 'X'))
			return false;
		if (field == fields[found])
			l->words[found++] = strtoull(at, NULL, 10);
	}
	return true;
}

void heap_life__note(struct heap_life *l, int proc_fd)
{
	read_life(l, proc_fd);
}

enum heap_fate heap_life__fate(const struct heap_life *l, int proc_fd)
{
	static const struct heap_life none;
	struct heap_life now;

	if (!read_life(&now, proc_fd))
		return HEAP_ENDED;
	if (!memcmp(&now, l, sizeof(now)))
		return HEAP_RUNS;
	return memcmp(&now, &none, sizeof(now)) ? HEAP_EXECED : HEAP_ENDED;
}

int heap_life__watch(int pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}
