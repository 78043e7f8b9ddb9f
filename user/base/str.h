/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STR_H
#define PYPERF_STR_H
/*
 * Strings: a growing buffer, a table of interned strings, checked number parsing, and functions
 * that make foreign text safe.
 *
 * A strbuf is valid when all zero. After a failed allocation `err` is -ENOMEM and further additions
 * do nothing, so a caller checks once, at the end.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf {
	char *s; /* NUL-terminated when len > 0; NULL while empty */
	size_t len;
	size_t cap;
	int err;
};

void strbuf__free(struct strbuf *b);
void strbuf__clear(struct strbuf *b);		/* keeps the memory and clears err */
void strbuf__cut(struct strbuf *b, size_t len); /* keeps at most the first `len` bytes */
void strbuf__add(struct strbuf *b, const void *s, size_t len);
void strbuf__addz(struct strbuf *b, const char *s);
void strbuf__addc(struct strbuf *b, char c);
void strbuf__addf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Interned strings. Id 0 is the empty string. Pointers to strings stay valid until free. */
struct strtab;
struct strtab *strtab__new(void);
void strtab__free(struct strtab *t);
uint32_t strtab__add(struct strtab *t, const char *s, size_t len); /* 0 when out of memory */
/* The id of a string that was added, or 0. */
uint32_t strtab__find(const struct strtab *t, const char *s, size_t len);
/* NUL-terminated; `len` may be NULL. "" for an id that strtab__add() did not give. */
const char *strtab__get(const struct strtab *t, uint32_t id, size_t *len);
size_t strtab__count(const struct strtab *t);

/* Does the text end, or begin, with that one? Every text does with the empty one. */
bool str_ends_with(const char *s, size_t len, const char *end);
bool str_starts_with(const char *s, const char *start);

/*
 * Decodes the character at `s` and returns how many bytes it takes; at least one of the `len` bytes
 * must be there. Bytes that are not UTF-8 (overlong forms and surrogates among them) give U+FFFD,
 * once for each maximal part of a sequence (The Unicode Standard, 3.9, "U+FFFD Substitution of
 * Maximal Subparts").
 */
size_t utf8_next(const char *s, size_t len, uint32_t *c);
/* Appends a character as UTF-8; U+FFFD for a number that is not a character. */
void utf8_add(struct strbuf *b, uint32_t c);

/*
 * Parse a whole string: no sign unless `min` is negative, no blanks, nothing behind the number.
 * 0, -EINVAL (not a number) or -ERANGE (outside [min, max]).
 */
/* Decimal. */
int parse_int(const char *s, long long min, long long max, long long *out);
/* Digits with at most one decimal point, whatever the locale says; no exponent. */
int parse_double(const char *s, double min, double max, double *out);
/*
 * Bytes: "4096", "500MB", "2GiB"; K, M, G, T are powers of 1024 with and without "iB", of 1000 with
 * "B".
 */
int parse_bytes(const char *s, uint64_t min, uint64_t max, uint64_t *out);
/*
 * Seconds, from numbers with units: "90s", "7d", "1h30m"; s, m, h, d, w, each once and the largest
 * first.
 */
int parse_period(const char *s, uint64_t min, uint64_t max, uint64_t *out);

/*
 * Appends `s` in a form that cannot control a terminal or break a line: control characters (C0,
 * DEL, C1), invalid UTF-8, line and paragraph separators and bidirectional controls become U+FFFD.
 * Cuts after `max` characters and adds U+2026 then; 0: no limit.
 */
void str_sanitise(struct strbuf *b, const char *s, size_t len, size_t max);

/*
 * Cuts a long text, in place, to its first line and its last lines, at most `max` bytes. A line
 * between them says how many lines are missing.
 */
void str_keep_end(char *s, size_t max);

/* Shell-style match of the whole string with * ? [a-z] [!a]; a `[` that is not closed is itself. */
bool glob_match(const char *pattern, const char *s);

#endif /* PYPERF_STR_H */
