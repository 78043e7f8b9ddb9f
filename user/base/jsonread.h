/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_JSONREAD_H
#define PYPERF_JSONREAD_H
/*
 * Reads JSON (RFC 8259) in place, value by value. Builds no tree, and skips unwanted values without
 * recursion.
 *
 * After a syntax error `bad` is set, and every function answers as at the end of the text, so loops
 * end. Lack of memory sets `str.err` instead. Valid when all is zero but `s` and `end`. The caller
 * owns the text.
 *
 *	struct jsonread j = { .s = text, .end = text + size };
 *	if (jsonread__enter(&j, '{'))
 *		while (jsonread__key(&j))
 *			if (jsonread__is(&j, "name"))
 *				jsonread__string(&j);
 *			else
 *				jsonread__skip(&j);
 *	if (j.bad) ...
 *	jsonread__free(&j);
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct jsonread {
	const char *s, *end; /* what is left to read; borrowed */
	bool bad;
	bool inside;	   /* just behind a '{' or '[': no comma comes before the next value */
	struct strbuf str; /* the last key or string */
};

void jsonread__free(struct jsonread *j);

/* The first character of the next value: '{' '[' '"' '-' a digit, t f n; 0: none. */
char jsonread__peek(struct jsonread *j);
/* Enters an object '{' or an array '['. False: the next value is of another kind; sets `bad`. */
bool jsonread__enter(struct jsonread *j, char bracket);
/* The next key of an object, in `str`. False: behind its end. */
bool jsonread__key(struct jsonread *j);
/* Is there another element of the array? False: behind its end. */
bool jsonread__element(struct jsonread *j);
/* Does `str` equal `s`? */
bool jsonread__is(const struct jsonread *j, const char *s);
/* Decodes a string into `str`. Skips a value of another kind and returns false. */
bool jsonread__string(struct jsonread *j);
/* Returns a number. Skips a value of another kind and returns 0. */
double jsonread__number(struct jsonread *j);
void jsonread__skip(struct jsonread *j);

#endif /* PYPERF_JSONREAD_H */
