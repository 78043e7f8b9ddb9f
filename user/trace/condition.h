/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CONDITION_H
#define PYPERF_CONDITION_H
/*
 * `trace --if`: an argument compared with a constant.
 *
 *	n > 5    name == 'bob'    discount != 0.5    coupon == None    dry_run == True
 *
 * A condition holds only for values that trace shows: numbers (with True and False), None, str and
 * bytes. Of an instance of any other type nothing is known, and it holds in no case.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/trace.h"

#define CONDITION_NAME_MAX 64
#define DIGIT_BITS	   30 /* of PyLongObject.ob_digit: Include/longintrepr.h */
#define CONDITION_TEXT_MAX 32 /* characters */

enum condition_op {
	CONDITION_EQ,
	CONDITION_NE,
	CONDITION_LT,
	CONDITION_LE,
	CONDITION_GT,
	CONDITION_GE,
};

enum condition_kind {
	CONDITION_NUMBER,
	CONDITION_NONE,
	CONDITION_TEXT,
};

struct condition {
	char name[CONDITION_NAME_MAX];
	enum condition_op op;
	enum condition_kind kind;
	long double number; /* has all 64 bits of an int */
	uint32_t text[CONDITION_TEXT_MAX];
	uint32_t text_len;
};

/* 0, or -EINVAL with a sentence in `*why`, a constant. */
int condition__parse(struct condition *c, const char *s, const char **why);
/* `tagged`: as in values.c: ints have lv_tag. */
bool condition__holds(const struct condition *c, const struct trace_value *v, bool tagged);

/* An int. False: it has more than 64 bits. */
bool trace_int(const struct trace_value *v, bool tagged, bool *negative, uint64_t *magnitude);

#endif /* PYPERF_CONDITION_H */
