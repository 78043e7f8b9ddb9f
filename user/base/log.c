/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static enum log_level level_max = LOG_LEVEL_INFO;
static void (*writer)(enum log_level level, const char *fmt, const char *text);

void log_set_writer(void (*fn)(enum log_level level, const char *fmt, const char *text))
{
	writer = fn;
}

void log_set_level(enum log_level level)
{
	level_max = level;
}

enum log_level log_get_level(void)
{
	return level_max;
}

/* Each line of `text` as a line of its own, so that a message of libbpf stays readable. */
static void add_lines(struct strbuf *out, const char *text)
{
	size_t len;

	for (;; text += len + 1) {
		len = strcspn(text, "\n");
		strbuf__addz(out, "pyperf-bpf: ");
		str_sanitise(out, text, len, 0);
		strbuf__addc(out, '\n');
		if (!text[len] || !text[len + 1])
			return;
	}
}

static void write_lines(const char *text)
{
	struct strbuf out = { 0 };

	if (text)
		add_lines(&out, text);
	if (text && !out.err)
		fwrite(out.s, 1, out.len, stderr); /* in one piece: others write there too */
	else
		fputs("pyperf-bpf: out of memory for a message\n", stderr);
	strbuf__free(&out);
}

int log_no_memory(void)
{
	log_err("out of memory");
	return -ENOMEM;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	char *text = NULL;
	va_list ap;

	if (level > level_max)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text && writer)
		writer(level, fmt, text);
	else
		write_lines(text);
	free(text);
	errno = saved;
}
