/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/procfield.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

const char *procfield__find(const char *text, const char *name)
{
	size_t len = strlen(name);

	while (text && *text) {
		if (!strncmp(text, name, len) && text[len] == ':')
			return text + len + 1;
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return NULL;
}

bool procfield__ids(const char *value, struct proc_ids *ids)
{
	uint32_t *const all[] = { &ids->real, &ids->effective, &ids->saved, &ids->files };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		unsigned long long n;
		char *end;

		value += strspn(value, " \t");
		if (*value < '0' || *value > '9')
			return false;
		errno = 0;
		n = strtoull(value, &end, 10);
		if (errno || n >= UINT32_MAX)
			return false;
		*all[i] = (uint32_t)n;
		value = end;
	}
	return true;
}
