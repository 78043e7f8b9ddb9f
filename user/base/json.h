/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_JSON_H
#define PYPERF_JSON_H
/*
 * Writes JSON (RFC 8259) to a stream, value by value, and sets the commas and escapes.
 *
 * A string may hold any bytes. Invalid UTF-8 becomes U+FFFD. Control characters (C0, DEL) are
 * escaped, and so are '<', '>', '&', U+2028 and U+2029, so that the text can stand inside a
 * <script> element. NaN and infinities, which JSON does not have, become null.
 *
 * A value inside an object has a key, which must be a literal that needs no escape; in an array and
 * at the top the key is NULL.
 *
 *	struct json j = { .f = f };
 *	json__object(&j, NULL);
 *	json__string(&j, "name", name, len);
 *	json__array(&j, "lines");
 *	json__uint(&j, NULL, 12);
 *	json__end(&j, ']');
 *	json__end(&j, '}');
 *
 * Errors are those of the stream: ferror() at the end.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *f;
	bool comma; /* the next value needs a comma before it */
};

void json__object(struct json *j, const char *key);
void json__array(struct json *j, const char *key);
void json__end(struct json *j, char bracket); /* '}' or ']' */
void json__string(struct json *j, const char *key, const char *s, size_t len);
void json__stringz(struct json *j, const char *key, const char *s);
void json__uint(struct json *j, const char *key, uint64_t n);
void json__int(struct json *j, const char *key, int64_t n);
void json__double(struct json *j, const char *key, double d);
void json__bool(struct json *j, const char *key, bool b);
void json__null(struct json *j, const char *key);
/* Begins the next value on a new line, for files that people read. */
void json__newline(struct json *j);

#endif /* PYPERF_JSON_H */
