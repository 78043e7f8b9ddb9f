/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/jsonread.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 64 /* characters of a number */

void jsonread__free(struct jsonread *j)
{
	strbuf__free(&j->str);
}

static void bad(struct jsonread *j)
{
	j->bad = true;
	j->s = j->end;
}

static char next(struct jsonread *j)
{
	while (j->s < j->end && memchr(" \t\r\n", *j->s, 4))
		j->s++;
	return j->s < j->end ? *j->s : '\0';
}

char jsonread__peek(struct jsonread *j)
{
	return next(j);
}

bool jsonread__enter(struct jsonread *j, char bracket)
{
	if (next(j) != bracket) {
		bad(j);
		return false;
	}
	j->s++;
	j->inside = true;
	return true;
}

/* Before an element: takes the comma. False: takes the closing bracket. */
static bool more(struct jsonread *j, char bracket)
{
	bool first = j->inside;
	char c = next(j);

	j->inside = false;
	if (c == bracket) {
		j->s++;
		return false;
	}
	if (!first) {
		if (c != ',') {
			bad(j);
			return false;
		}
		j->s++;
		c = next(j);
	}
	if (!c)
		bad(j);
	return !j->bad;
}

bool jsonread__element(struct jsonread *j)
{
	return more(j, ']');
}

/* ---- Strings ---- */

/* Four hexadecimal digits behind "\u"; UINT32_MAX after a mistake. */
static uint32_t hex4(struct jsonread *j)
{
	uint32_t n = 0;

	if (j->end - j->s < 4) {
		bad(j);
		return UINT32_MAX;
	}
	for (int i = 0; i < 4; i++) {
		static const char digits[] = "0123456789abcdef";
		char c = *j->s++;
		const char *at = memchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c, 16);

		if (!at) {
			bad(j);
			return UINT32_MAX;
		}
		n = n << 4 | (uint32_t)(at - digits);
	}
	return n;
}

static void add_unicode(struct jsonread *j)
{
	uint32_t c = hex4(j), low;

	/* Two halves of a character above U+FFFF (UTF-16's surrogates) */
	if (c >= 0xd800 && c < 0xdc00 && j->end - j->s >= 2 && j->s[0] == '\\' && j->s[1] == 'u') {
		j->s += 2;
		low = hex4(j);
		c = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
						  : UINT32_MAX;
	}
	if (!j->bad)
		utf8_add(&j->str, c);
}

static void add_escape(struct jsonread *j)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;
	char c = j->s < j->end ? *j->s++ : '\0';

	if (c == 'u') {
		add_unicode(j);
		return;
	}
	at = c ? strchr(from, c) : NULL;
	if (at)
		strbuf__addc(&j->str, to[at - from]);
	else
		bad(j);
}

static bool is_plain(char c)
{
	return c != '"' && c != '\\';
}

/* Behind the opening quote. */
static bool take_string(struct jsonread *j)
{
	strbuf__clear(&j->str);
	while (j->s < j->end && *j->s != '"') {
		const char *start = j->s;

		while (j->s < j->end && is_plain(*j->s))
			j->s++;
		strbuf__add(&j->str, start, (size_t)(j->s - start));
		if (j->s < j->end && *j->s == '\\') {
			j->s++;
			add_escape(j);
		}
	}
	if (j->s == j->end) {
		bad(j);
		return false;
	}
	j->s++;
	return !j->str.err;
}

bool jsonread__key(struct jsonread *j)
{
	if (!more(j, '}'))
		return false;
	if (next(j) != '"') {
		bad(j);
		return false;
	}
	j->s++;
	if (!take_string(j))
		return false;
	if (next(j) != ':') {
		bad(j);
		return false;
	}
	j->s++;
	return true;
}

bool jsonread__is(const struct jsonread *j, const char *s)
{
	return j->str.len == strlen(s) && !memcmp(j->str.len ? j->str.s : "", s, j->str.len);
}

bool jsonread__string(struct jsonread *j)
{
	if (next(j) != '"') {
		jsonread__skip(j);
		strbuf__clear(&j->str);
		return false;
	}
	j->s++;
	return take_string(j);
}

/* ---- Other values ---- */

static size_t word_len(const struct jsonread *j)
{
	size_t len = 0;

	while (j->s + len < j->end && !memchr(",]} \t\r\n", j->s[len], 7))
		len++;
	return len;
}

double jsonread__number(struct jsonread *j)
{
	char text[NUMBER_MAX + 1], *end, c = next(j);
	size_t len = word_len(j);
	double d;

	if (c != '-' && (c < '0' || c > '9')) {
		jsonread__skip(j);
		return 0;
	}
	if (len > NUMBER_MAX) {
		bad(j);
		return 0;
	}
	memcpy(text, j->s, len);
	text[len] = '\0';
	d = strtod(text, &end);
	if (*end || strspn(text, "+-.0123456789eE") != len) {
		bad(j);
		return 0;
	}
	j->s += len;
	return d;
}

static void skip_string(struct jsonread *j)
{
	for (j->s++; j->s < j->end && *j->s != '"'; j->s++)
		if (*j->s == '\\' && j->s + 1 < j->end)
			j->s++;
	if (j->s == j->end)
		bad(j);
	else
		j->s++;
}

/* Counts brackets, whatever they are: a value that nobody reads may be nested at any depth. */
void jsonread__skip(struct jsonread *j)
{
	size_t depth = 0;

	do {
		char c = next(j);
		size_t len;

		if (c == '"') {
			skip_string(j);
		} else if (c == '{' || c == '[') {
			depth++;
			j->s++;
		} else if (depth && (c == '}' || c == ']')) {
			depth--;
			j->s++;
		} else if (depth && (c == ',' || c == ':')) {
			j->s++;
		} else {
			len = word_len(j);
			if (!len)
				bad(j);
			j->s += len;
		}
	} while (depth && !j->bad);
	j->inside = false;
}
