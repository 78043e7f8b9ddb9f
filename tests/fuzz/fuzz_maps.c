/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Everything that /proc and perf hand us about other processes: maps, cgroup, records. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "process/cgroup.h"
#include "process/maps_parse.h"
#include "process/mmapwatch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_maps(const char *text, size_t len)
{
	char path[64], id[CONTAINER_ID_LEN + 1];
	const char *line;
	size_t line_len;

	if (!cgroup__container(text, len, id) && strlen(id) != CONTAINER_ID_LEN)
		abort();
	while (maps__next(&text, &len, &line, &line_len)) {
		struct map_line l;
		int n;

		if (map_line__parse(&l, line, line_len))
			continue;
		if (l.start >= l.end || l.name_len > line_len || l.name < line ||
		    l.name + l.name_len != line + line_len)
			abort();
		n = map_line__path(&l, path, sizeof(path));
		if (n >= (int)sizeof(path) || (n >= 0 && (path[n] || path[0] != '/')))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + !size);
	struct mmap_event ev;

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	read_maps((const char *)copy, size);
	if (mmap_event__parse(&ev, copy, (uint32_t)size) && ev.comm[TASK_COMM_LEN - 1])
		abort();
	free(copy);
	return 0;
}
