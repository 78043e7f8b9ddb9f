/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cpus__parse(const char *list, bool *online, int cap)
{
	while (*list) {
		char *end;
		long first = strtol(list, &end, 10), last = first;

		if (end == list)
			return;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (long cpu = first < 0 ? 0 : first; cpu <= last && cpu < cap; cpu++)
			online[cpu] = true;
		if (*end != ',')
			return;
		list = end + 1;
	}
}

int cpus__init(struct cpus *c, int cap)
{
	*c = (struct cpus){ .cap = cap, .fd = -1 };
	c->online = calloc((size_t)cap, sizeof(*c->online));
	c->came = calloc((size_t)cap, sizeof(*c->came));
	c->seen = calloc((size_t)cap, sizeof(*c->seen));
	if (!c->online || !c->came || !c->seen)
		return -ENOMEM;
	cpus__look(c);
	return 0;
}

void cpus__free(struct cpus *c)
{
	if (c->cap && c->fd >= 0)
		close(c->fd);
	free(c->online);
	free(c->came);
	free(c->seen);
	*c = (struct cpus){ 0 };
}

bool cpus__look(struct cpus *c)
{
	char text[sizeof(c->list)] = "";

	if (c->fd < 0)
		c->fd = open(CPUS_PATH, O_RDONLY | O_CLOEXEC);
	if (c->fd < 0 || pread(c->fd, text, sizeof(text) - 1, 0) <= 0 || !strcmp(text, c->list))
		return false;
	memcpy(c->list, text, sizeof(text));
	memcpy(c->came, c->online, (size_t)c->cap * sizeof(*c->came));
	memset(c->online, 0, (size_t)c->cap * sizeof(*c->online));
	cpus__parse(c->list, c->online, c->cap);
	for (int i = 0; i < c->cap; i++) {
		c->came[i] = c->online[i] && !c->came[i];
		c->seen[i] |= c->online[i];
	}
	return true;
}

void cpus__again(struct cpus *c)
{
	c->list[0] = '\0';
}

uint32_t cpus__seen(const struct cpus *c)
{
	uint32_t n = 0;

	for (int i = 0; i < c->cap; i++)
		n += c->seen[i];
	return n ? n : (uint32_t)c->cap;
}
