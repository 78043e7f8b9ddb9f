/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/procfield.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int procfield__read(const char *path, const char *name, char *value, size_t size)
{
	size_t name_len = strlen(name);
	FILE *f = fopen(path, "re");
	bool starts = true; /* what was read is the start of a line: "Groups:" may be a long one */
	char line[256];
	int err = f ? -ENOENT : -errno;

	value[0] = '\0';
	while (err == -ENOENT && f && fgets(line, sizeof(line), f)) {
		if (starts && !strncmp(line, name, name_len) && line[name_len] == ':') {
			line[strcspn(line, "\n")] = '\0';
			snprintf(value, size, "%s",
				 line + name_len + 1 + strspn(line + name_len + 1, " \t"));
			err = 0;
		}
		starts = strchr(line, '\n');
	}
	if (f)
		fclose(f);
	return err;
}
