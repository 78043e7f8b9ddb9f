// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "store/window.h"

#include <string.h>

#define NAME_MAX_LEN 128

const char *window__label(const struct window *w, const char *name)
{
	for (size_t i = 0; i < w->label_cnt; i++)
		if (!strcmp(w->labels[i].name, name))
			return w->labels[i].value;
	return NULL;
}

int window_label__valid(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	static const char later[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	size_t len = strlen(name);

	return len && len <= NAME_MAX_LEN && strspn(name, first) && strspn(name, later) == len;
}
