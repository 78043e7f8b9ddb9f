/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/libbpf_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

#define LIBBPF_TEXT_MAX 8192U

int libbpf_text(enum libbpf_print_level level, const char *fmt, va_list args)
{
	char *text;
	size_t len;

	if (log_get_level() <= LOG_LEVEL_DEBUG || level == LIBBPF_DEBUG)
		return 0; /* -vv */
	if (vasprintf(&text, fmt, args) < 0)
		return 0;
	len = strlen(text);
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	str_keep_end(text, LIBBPF_TEXT_MAX);
	log_debug("%s", text);
	free(text);
	return 0;
}
