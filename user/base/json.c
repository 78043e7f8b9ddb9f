/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/str.h"

/* Characters that stand for themselves, whatever surrounds the text. */
static bool is_plain(unsigned char c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

static void put_escaped(FILE *f, uint32_t c)
{
	if (c == '"' || c == '\\')
		fprintf(f, "\\%c", (int)c);
	else
		fprintf(f, "\\u%04" PRIx32, c);
}

/* One character at `s`; returns its bytes. */
static size_t put_char(FILE *f, const char *s, size_t len)
{
	uint32_t c;
	size_t n = utf8_next(s, len, &c);

	if (c < 0x80 || c == 0x2028 || c == 0x2029)
		put_escaped(f, c);
	else if (c == 0xfffd) /* itself, or bytes that are no character */
		fputs("\xef\xbf\xbd", f);
	else
		fwrite(s, 1, n, f);
	return n;
}

static void put_string(FILE *f, const char *s, size_t len)
{
	putc('"', f);
	for (size_t i = 0; i < len;) {
		size_t run = 0;

		while (i + run < len && is_plain((unsigned char)s[i + run]))
			run++;
		fwrite(s + i, 1, run, f);
		i += run;
		if (i < len)
			i += put_char(f, s + i, len - i);
	}
	putc('"', f);
}

static void begin_value(struct json *j, const char *key)
{
	if (j->comma)
		putc(',', j->f);
	j->comma = true;
	if (key) {
		put_string(j->f, key, strlen(key));
		putc(':', j->f);
	}
}

void json__object(struct json *j, const char *key)
{
	begin_value(j, key);
	putc('{', j->f);
	j->comma = false;
}

void json__array(struct json *j, const char *key)
{
	begin_value(j, key);
	putc('[', j->f);
	j->comma = false;
}

void json__end(struct json *j, char bracket)
{
	putc(bracket, j->f);
	j->comma = true;
}

void json__string(struct json *j, const char *key, const char *s, size_t len)
{
	begin_value(j, key);
	put_string(j->f, s, len);
}

void json__stringz(struct json *j, const char *key, const char *s)
{
	json__string(j, key, s, strlen(s));
}

void json__uint(struct json *j, const char *key, uint64_t n)
{
	begin_value(j, key);
	fprintf(j->f, "%" PRIu64, n);
}

void json__int(struct json *j, const char *key, int64_t n)
{
	begin_value(j, key);
	fprintf(j->f, "%" PRId64, n);
}

/* The decimal point is '.': the program does not call setlocale() for numbers. */
void json__double(struct json *j, const char *key, double d)
{
	if (!isfinite(d)) {
		json__null(j, key);
		return;
	}
	begin_value(j, key);
	fprintf(j->f, "%.15g", d);
}

void json__bool(struct json *j, const char *key, bool b)
{
	begin_value(j, key);
	fputs(b ? "true" : "false", j->f);
}

void json__null(struct json *j, const char *key)
{
	begin_value(j, key);
	fputs("null", j->f);
}

void json__newline(struct json *j)
{
	if (j->comma)
		putc(',', j->f);
	j->comma = false;
	putc('\n', j->f);
}
