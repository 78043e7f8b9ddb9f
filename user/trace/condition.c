/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/condition.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define WIDE	 0xffff
#define WIDE_MAX (TRACE_VALUE_BYTES / 4) /* characters that are sent of a string with wider ones */

/* ---- parsing --------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *s)
{
	while (*s == ' ')
		s++;
	return s;
}

static const char *parse_name(struct condition *c, const char *s)
{
	size_t len = 0;

	while (isalnum((unsigned char)s[len]) || s[len] == '_' || (unsigned char)s[len] > 0x7f)
		len++;
	if (!len || len >= sizeof(c->name) || isdigit((unsigned char)*s))
		return NULL;
	memcpy(c->name, s, len);
	return skip_blanks(s + len);
}

static const char *parse_op(struct condition *c, const char *s)
{
	static const struct {
		const char *text;
		enum condition_op op;
	} ops[] = { { "==", CONDITION_EQ }, { "!=", CONDITION_NE }, { "<=", CONDITION_LE },
		    { ">=", CONDITION_GE }, { "<", CONDITION_LT },  { ">", CONDITION_GT } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		if (!str_starts_with(s, ops[i].text))
			continue;
		c->op = ops[i].op;
		return skip_blanks(s + strlen(ops[i].text));
	}
	return NULL;
}

/* A text between quotes of one kind, which are not in it. */
static const char *parse_text(struct condition *c, const char *s)
{
	const char *end = strchr(s + 1, *s);
	uint32_t most = 0;

	if (!end || end[1])
		return "the text must end with its quote";
	c->kind = CONDITION_TEXT;
	for (s++; s < end;) {
		if (c->text_len == CONDITION_TEXT_MAX)
			return "at most 32 characters are compared";
		s += utf8_next(s, (size_t)(end - s), &c->text[c->text_len]);
		if (c->text[c->text_len] > most)
			most = c->text[c->text_len];
		c->text_len++;
	}
	if (most > WIDE && c->text_len > WIDE_MAX)
		return "at most 16 characters are compared, if one is beyond U+FFFF";
	return NULL;
}

static const char *parse_constant(struct condition *c, const char *s)
{
	const char *digits = *s == '-' ? s + 1 : s;
	char *end;

	if (*s == '\'' || *s == '"')
		return parse_text(c, s);
	if (!strcmp(s, "None")) {
		c->kind = CONDITION_NONE;
		return NULL;
	}
	c->kind = CONDITION_NUMBER;
	c->number = !strcmp(s, "True");
	if (!strcmp(s, "True") || !strcmp(s, "False"))
		return NULL;
	/* No hexadecimal number, infinity or NaN, which strtold() would take. */
	if (!isdigit((unsigned char)*digits) || strspn(digits, "0123456789.e+-") != strlen(digits))
		return "must be compared with a number, 'text', None, True or False";
	/* As Python reads it. */
	c->number = strpbrk(s, ".e") ? (long double)strtod(s, &end) : strtold(s, &end);
	if (*end || fabsl(c->number) >= 0x1p64L)
		return "the number must be below 2^64";
	return NULL;
}

int condition__parse(struct condition *c, const char *s, const char **why)
{
	*c = (struct condition){ .op = CONDITION_EQ };
	*why = "must be like 'n > 5' or \"name == 'bob'\"";
	s = parse_name(c, skip_blanks(s));
	if (s)
		s = parse_op(c, s);
	if (!s || !*s)
		return -EINVAL;
	*why = parse_constant(c, s);
	if (!*why && c->kind != CONDITION_NUMBER && c->op > CONDITION_NE)
		*why = "text and None are compared by == and != only";
	return *why ? -EINVAL : 0;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static uint32_t digit(const struct trace_value *v, uint32_t i)
{
	uint32_t d;

	memcpy(&d, v->data + 4 * i, sizeof(d));
	return d;
}

/* The low bits of lv_tag are the sign: 2 is minus. */
bool trace_int(const struct trace_value *v, bool tagged, bool *negative, uint64_t *magnitude)
{
	uint32_t cnt = v->size / 4;

	*negative = tagged ? (v->number & 3) == 2 : (int64_t)v->number < 0;
	*magnitude = 0;
	if (cnt > 3 || v->sent < v->size || (cnt == 3 && digit(v, 2) > 15))
		return false;
	for (uint32_t i = cnt; i-- > 0;)
		*magnitude = *magnitude << DIGIT_BITS | digit(v, i);
	return true;
}

/* False: it is no number. */
static bool number_of(const struct trace_value *v, bool tagged, long double *out)
{
	uint64_t magnitude;
	bool negative;
	double d;

	switch (v->kind) {
	case VALUE_INT:
		*out = trace_int(v, tagged, &negative, &magnitude) ? (long double)magnitude
								   : HUGE_VALL;
		if (negative)
			*out = -*out;
		return true;
	case VALUE_WORD:
		*out = (int64_t)v->number;
		return true;
	case VALUE_FLOAT:
		memcpy(&d, &v->number, sizeof(d));
		*out = d;
		return true;
	case VALUE_TRUE:
	case VALUE_FALSE:
		*out = v->kind == VALUE_TRUE;
		return true;
	default:
		return false;
	}
}

static bool compares(long double a, enum condition_op op, long double b)
{
	switch (op) {
	case CONDITION_EQ:
		return a == b;
	case CONDITION_NE:
		return a != b;
	case CONDITION_LT:
		return a < b;
	case CONDITION_LE:
		return a <= b;
	case CONDITION_GT:
		return a > b;
	default:
		return a >= b;
	}
}

static bool is_text(const struct condition *c, const struct trace_value *v)
{
	uint32_t width = v->kind == VALUE_BYTES ? 1 : v->width;

	if (c->kind != CONDITION_TEXT || (v->kind != VALUE_STR && v->kind != VALUE_BYTES) ||
	    (width != 1 && width != 2 && width != 4) || v->sent > sizeof(v->data) ||
	    v->sent != v->size || v->size != c->text_len * width)
		return false;
	for (uint32_t i = 0; i < c->text_len; i++) {
		uint32_t letter = 0;

		memcpy(&letter, v->data + (size_t)i * width, width); /* little-endian */
		if (letter != c->text[i])
			return false;
	}
	return true;
}

bool condition__holds(const struct condition *c, const struct trace_value *v, bool tagged)
{
	bool is_number, equal;
	long double number;

	if (v->kind == VALUE_UNSET || v->kind >= VALUE_OTHER || v->kind == VALUE_CELL)
		return false;
	is_number = number_of(v, tagged, &number);
	if (c->kind == CONDITION_NUMBER && is_number)
		return compares(number, c->op, c->number);
	equal = c->kind == CONDITION_NONE ? v->kind == VALUE_NONE : is_text(c, v);
	return c->op == CONDITION_EQ ? equal : c->op == CONDITION_NE && !equal;
}
